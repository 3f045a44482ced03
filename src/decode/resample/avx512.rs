//! The resize of levels of 8 bits with AVX-512: four weights at a time, of 16 bits as two halves of 8.
//!
//! A row of the result is made down first, of whole rows of the source, and then across. For that, each 16 bytes of it have
//! a [`Lane`]: bytes of the row in between, and what each is multiplied by. The order of pixels is that of the lanes, so a
//! mirrored row costs nothing.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::depth::Depth;
use super::super::geometry::{Mirror, Rect};
use super::super::spec::Size;
use super::source::Source;
use super::weights::{TAPS, Weights};
use super::{Decoded, Part};

/// Rows that are made at a time, for which lanes are loaded once.
const ROWS: usize = 4;
/// Bytes of a register, and of two.
const REGISTER: usize = 64;
const TWO_REGISTERS: usize = 128;
/// Bytes after a row in between: what a lane loads beyond it, of three channels.
const SLACK: usize = MOST_FOURS * TAPS * 3 + TWO_REGISTERS;
/// Bytes of the result that a register has sums of.
const SUMS: usize = 16;
/// Most fours of weights that a pixel may have along an axis: for a scale of more than 7.
const MOST_FOURS: usize = 4;
/// The largest weight whose upper half fits 8 bits with a sign.
const LARGEST_WEIGHT: i16 = 0x7F7F;

/// How to make 16 bytes of a row of the result of four weights each.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lane {
    /// Where the bytes come from, after `base`.
    indices: [[u8; TAPS]; SUMS],
    /// The weights: in units of 256, and the rest.
    upper: [[i8; TAPS]; SUMS],
    lower: [[i8; TAPS]; SUMS],
    base: usize,
}

/// The state of a thread.
#[derive(Default)]
pub(super) struct Avx512 {
    across: Weights,
    down: Weights,
    lanes: Vec<Lane>,
    /// Rows between the two steps.
    rows: Vec<u8>,
}

/// Whether this machine has all that it needs.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni")
}

impl Avx512 {
    /// Stretches a part of a view to the target. Returns whether it did: not all scales are done here, nor a plain copy.
    pub(super) fn resize(
        &mut self,
        decoded: Decoded<'_>,
        (view, part): (Rect, Part),
        (size, mirror): (Size, Mirror),
        target: &mut [u8],
    ) -> bool {
        if part.is_copied(size) || decoded.depth != Depth::Eight || !is_here() {
            return false;
        }
        // SAFETY: the machine has the features.
        unsafe { self.resize_512(decoded, (view, part), (size, mirror), target) }.is_some()
    }

    /// Bytes that it takes beside weights and as many rows as a library would: for a target of so many bytes in a row.
    pub(super) const fn lane_bytes(row: u64) -> u64 {
        (row / SUMS as u64 + 1) * (MOST_FOURS * size_of::<Lane>()) as u64 + (ROWS * SLACK) as u64
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let lanes = self.lanes.capacity() * size_of::<Lane>();
        self.across.bytes() + self.down.bytes() + (lanes + self.rows.capacity()) as u64
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
    fn resize_512(
        &mut self,
        decoded: Decoded<'_>,
        (view, part): (Rect, Part),
        (size, mirror): (Size, Mirror),
        target: &mut [u8],
    ) -> Option<()> {
        let channels = decoded.channels;
        let Avx512 { across, down, lanes, rows } = self;
        across.set(view.width, (part.left, part.width), size.width)?;
        down.set(view.height, (part.top, part.height), size.height)?;
        (across.fours.max(down.fours) <= MOST_FOURS).then_some(())?;
        let largest = across.values.as_flattened().iter().chain(down.values.as_flattened()).max()?;
        (*largest <= LARGEST_WEIGHT).then_some(())?;
        let source = Source::of(decoded, view)?;
        let reach = set_lanes(lanes, across, channels, mirror.across);
        let pitch = source.bytes.next_multiple_of(REGISTER) + SLACK;
        if rows.len() < pitch * ROWS {
            *rows = vec![0; pitch * ROWS];
        }
        let rows = &mut rows[..pitch * ROWS];
        let row = size.width as usize * channels;
        for (at, some) in target[..row * size.height as usize].chunks_mut(row * ROWS).enumerate() {
            let count = some.len() / row;
            for (to, y) in rows.chunks_exact_mut(pitch).zip(at * ROWS..).take(count) {
                let y = if mirror.down { size.height as usize - 1 - y } else { y };
                source_row(source, down, y, to)?;
            }
            let (fours, precision) = (across.fours, across.precision);
            if reach <= REGISTER {
                write_rows::<false>(lanes, (fours, precision), rows, some, row)?;
            } else if reach <= TWO_REGISTERS {
                write_rows::<true>(lanes, (fours, precision), rows, some, row)?;
            } else {
                return None;
            }
        }
        Some(())
    }
}

/// Sets the lanes of a row of the result. Returns the most bytes that one reads.
fn set_lanes(lanes: &mut Vec<Lane>, across: &Weights, channels: usize, mirrored: bool) -> usize {
    let (width, fours) = (across.firsts.len(), across.fours);
    let empty = Lane {
        indices: [[0; TAPS]; SUMS],
        upper: [[0; TAPS]; SUMS],
        lower: [[0; TAPS]; SUMS],
        base: usize::MAX,
    };
    lanes.clear();
    lanes.resize((width * channels).div_ceil(SUMS) * fours, empty);
    let spacing: [u8; TAPS] = std::array::from_fn(|tap| (tap * channels) as u8);
    let mut reach = 0;
    for (group, lanes) in lanes.chunks_exact_mut(fours).enumerate() {
        let bytes = group * SUMS..((group + 1) * SUMS).min(width * channels);
        let pixel = |byte: usize| if mirrored { width - 1 - byte / channels } else { byte / channels };
        let ends = [bytes.start, bytes.end - 1].map(|byte| across.firsts[pixel(byte)] as usize * channels);
        let base = ends[0].min(ends[1]);
        reach = reach.max(ends[0].max(ends[1]) - base + TAPS * channels);
        for (at, byte) in bytes.enumerate() {
            let (pixel, channel) = (pixel(byte), byte % channels);
            // More than 8 bits are refused by their reach.
            let offset = (across.firsts[pixel] as usize * channels + channel - base) as u8;
            for (lane, weights) in lanes.iter_mut().zip(across.of(pixel)) {
                lane.indices[at] = spacing.map(|tap| tap.wrapping_add(offset));
                lane.lower[at] = weights.map(|weight| weight as i8);
                lane.upper[at] = weights.map(upper_half);
            }
        }
        for (four, lane) in lanes.iter_mut().enumerate() {
            lane.base = base + four * TAPS * channels;
        }
    }
    reach
}

/// Four rows of the source, and what they are multiplied by.
#[derive(Clone, Copy)]
struct Step<'a> {
    rows: [&'a [u8]; TAPS],
    upper: __m512i,
    lower: __m512i,
}

/// Makes one row of the result of those of the source: in its height, and of the view's width.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
fn source_row(source: Source<'_>, down: &Weights, y: usize, to: &mut [u8]) -> Option<()> {
    let Source { pixels, pitch, bytes, last } = source;
    let first = *down.firsts.get(y)? as usize;
    let none = Step { rows: [&[]; TAPS], upper: _mm512_setzero_si512(), lower: _mm512_setzero_si512() };
    let mut steps = [none; MOST_FOURS];
    for (four, (step, weights)) in steps.iter_mut().zip(down.of(y)).enumerate() {
        for (tap, row) in step.rows.iter_mut().enumerate() {
            let from = (first + four * TAPS + tap).min(last) * pitch;
            *row = pixels.get(from..from + bytes)?;
        }
        step.upper = _mm512_set1_epi32(i32::from_le_bytes(weights.map(|weight| upper_half(weight) as u8)));
        step.lower = _mm512_set1_epi32(i32::from_le_bytes(weights.map(|weight| weight as u8)));
    }
    let steps = steps.get(..down.fours)?;
    let half = _mm512_set1_epi32((1 << down.precision) >> 1);
    let precision = _mm_cvtsi32_si128(down.precision as i32);
    for (block, to) in to.as_chunks_mut::<REGISTER>().0.iter_mut().enumerate().take(bytes.div_ceil(REGISTER))
    {
        let at = block * REGISTER;
        let count = (bytes - at).min(REGISTER);
        let mask = u64::MAX >> (REGISTER - count);
        let (mut upper, mut lower) = ([_mm512_setzero_si512(); 4], [half; 4]);
        for step in steps {
            let mut rows = [_mm512_setzero_si512(); TAPS];
            for (row, from) in rows.iter_mut().zip(step.rows) {
                let from = from.get(at..at + count)?;
                // SAFETY: as many bytes are loaded as there are.
                *row = unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) };
            }
            let [a, b, c, d] = rows;
            let [low, high] = [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)];
            let [below, above] = [_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d)];
            let levels = [
                _mm512_unpacklo_epi16(low, below),
                _mm512_unpackhi_epi16(low, below),
                _mm512_unpacklo_epi16(high, above),
                _mm512_unpackhi_epi16(high, above),
            ];
            for ((upper, lower), levels) in upper.iter_mut().zip(&mut lower).zip(levels) {
                *upper = _mm512_dpbusd_epi32(*upper, levels, step.upper);
                *lower = _mm512_dpbusd_epi32(*lower, levels, step.lower);
            }
        }
        for (upper, lower) in upper.iter_mut().zip(lower) {
            *upper = _mm512_sra_epi32(_mm512_add_epi32(_mm512_slli_epi32::<8>(*upper), lower), precision);
        }
        let sums = upper;
        let words = [_mm512_packs_epi32(sums[0], sums[1]), _mm512_packs_epi32(sums[2], sums[3])];
        // SAFETY: 64 bytes are stored to as many.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_packus_epi16(words[0], words[1])) };
    }
    Some(())
}

/// The units of 256 of a weight; the rest is its lower half with a sign.
fn upper_half(weight: i16) -> i8 {
    ((i32::from(weight) + 128) >> 8) as i8
}

/// Makes rows of the result of those in between. With `WIDE`, lanes read two registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
fn write_rows<const WIDE: bool>(
    lanes: &[Lane],
    (fours, precision): (usize, u32),
    rows: &[u8],
    target: &mut [u8],
    row: usize,
) -> Option<()> {
    let half = _mm512_set1_epi32((1 << precision) >> 1);
    let precision = _mm_cvtsi32_si128(precision as i32);
    let pitch = rows.len() / ROWS;
    let count = target.len() / row;
    for (group, lanes) in lanes.chunks_exact(fours).enumerate() {
        let (mut upper, mut lower) = ([_mm512_setzero_si512(); ROWS], [half; ROWS]);
        for lane in lanes {
            // SAFETY: 64 bytes are loaded from each, which has as many.
            let (indices, units, rest) = unsafe {
                (
                    _mm512_load_si512(lane.indices.as_ptr().cast()),
                    _mm512_load_si512(lane.upper.as_ptr().cast()),
                    _mm512_load_si512(lane.lower.as_ptr().cast()),
                )
            };
            for (at, (upper, lower)) in upper.iter_mut().zip(&mut lower).enumerate() {
                let from = rows.get(at * pitch + lane.base..)?.first_chunk::<TWO_REGISTERS>()?;
                // SAFETY: 64 bytes are loaded, or twice as many, and there are 128.
                let levels = unsafe {
                    let first = _mm512_loadu_si512(from.as_ptr().cast());
                    if WIDE {
                        let second = _mm512_loadu_si512(from[REGISTER..].as_ptr().cast());
                        _mm512_permutex2var_epi8(first, indices, second)
                    } else {
                        _mm512_permutexvar_epi8(indices, first)
                    }
                };
                *upper = _mm512_dpbusd_epi32(*upper, levels, units);
                *lower = _mm512_dpbusd_epi32(*lower, levels, rest);
            }
        }
        let to = group * SUMS;
        for (at, (upper, lower)) in upper.into_iter().zip(lower).enumerate().take(count) {
            let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(upper), lower);
            let bytes = _mm512_cvtusepi32_epi8(_mm512_sra_epi32(sum, precision));
            let left = (row - to).min(SUMS);
            let to = target.get_mut(at * row + to..at * row + to + left)?;
            // SAFETY: as many bytes are stored as there are.
            unsafe { _mm_mask_storeu_epi8(to.as_mut_ptr().cast(), u16::MAX >> (SUMS - left), bytes) };
        }
    }
    Some(())
}
