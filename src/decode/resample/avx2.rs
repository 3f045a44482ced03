//! The resize of levels of 8 bits with AVX2: two weights at a time, of 16 bits.
//!
//! The steps are those of [`avx512`](super::avx512): a row of the result is made down first, of whole rows of the source, and
//! then across. For that, each eight bytes of it have a [`Lane`]. The library goes over all rows down, and then over all of
//! them across, pixel by pixel.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::depth::Depth;
use super::super::geometry::{Mirror, Rect};
use super::super::spec::Size;
use super::source::Source;
use super::weights::Weights;
use super::{Decoded, Part};

/// Rows that are made at a time, for which lanes are loaded once.
const ROWS: usize = 4;
/// Weights that are multiplied together.
const PAIR: usize = 2;
/// Bytes of a register.
const REGISTER: usize = 32;
/// Bytes from which one half of a register is filled.
const HALF: usize = 16;
/// Bytes of the result that a register has sums of, and half of it.
const SUMS: usize = 8;
const HALF_SUMS: usize = SUMS / 2;
/// Most pairs of weights that a pixel may have along an axis: for a scale of more than 7.
const MOST_PAIRS: usize = 8;
/// Bytes after a row in between: what a lane loads beyond it, of three channels.
const SLACK: usize = MOST_PAIRS * PAIR * 3 + REGISTER;
/// In the place of an index: a zero.
const ZERO: u8 = 0x80;

/// How to make eight bytes of a row of the result of two weights each.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Lane {
    /// Where the levels come from, as numbers of 16 bits: for each half after its base.
    indices: [[[u8; 2]; PAIR]; SUMS],
    weights: [[i16; PAIR]; SUMS],
    bases: [usize; 2],
}

/// The state of a thread.
#[derive(Default)]
pub(super) struct Avx2 {
    across: Weights,
    down: Weights,
    lanes: Vec<Lane>,
    /// Rows between the two steps.
    rows: Vec<u8>,
}

/// Whether this machine has all that it needs.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
}

impl Avx2 {
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
        // SAFETY: the machine has the feature.
        unsafe { self.resize_256(decoded, (view, part), (size, mirror), target) }.is_some()
    }

    /// Bytes that it takes beside weights and as many rows as a library would: for a target of so many bytes in a row.
    pub(super) const fn lane_bytes(row: u64) -> u64 {
        (row / SUMS as u64 + 1) * (MOST_PAIRS * size_of::<Lane>()) as u64 + (ROWS * SLACK) as u64
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let lanes = self.lanes.capacity() * size_of::<Lane>();
        self.across.bytes() + self.down.bytes() + (lanes + self.rows.capacity()) as u64
    }

    #[target_feature(enable = "avx2")]
    fn resize_256(
        &mut self,
        decoded: Decoded<'_>,
        (view, part): (Rect, Part),
        (size, mirror): (Size, Mirror),
        target: &mut [u8],
    ) -> Option<()> {
        let channels = decoded.channels;
        let Avx2 { across, down, lanes, rows } = self;
        across.set(view.width, (part.left, part.width), size.width)?;
        down.set(view.height, (part.top, part.height), size.height)?;
        let pairs = across.pairs;
        (pairs.max(down.pairs) <= MOST_PAIRS).then_some(())?;
        let source = Source::of(decoded, view)?;
        set_lanes(lanes, across, channels, mirror.across)?;
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
            write_rows(lanes, (pairs, across.precision), rows, some, row)?;
        }
        Some(())
    }
}

/// Sets the lanes of a row of the result. `None` where pixels are too far apart.
fn set_lanes(lanes: &mut Vec<Lane>, across: &Weights, channels: usize, mirrored: bool) -> Option<()> {
    let (width, pairs) = (across.firsts.len(), across.pairs);
    let empty =
        Lane { indices: [[[ZERO; 2]; PAIR]; SUMS], weights: [[0; PAIR]; SUMS], bases: [usize::MAX; 2] };
    lanes.clear();
    lanes.resize((width * channels).div_ceil(SUMS) * pairs, empty);
    for (group, lanes) in lanes.chunks_exact_mut(pairs).enumerate() {
        for half in 0..2 {
            let start = (group * SUMS + half * HALF_SUMS).min(width * channels - 1);
            let bytes = start..(start + HALF_SUMS).min(width * channels);
            let pixel = |byte: usize| if mirrored { width - 1 - byte / channels } else { byte / channels };
            let ends =
                [bytes.start, bytes.end - 1].map(|byte| across.firsts[pixel(byte)] as usize * channels);
            let base = ends[0].min(ends[1]);
            (ends[0].max(ends[1]) - base + PAIR * channels <= HALF).then_some(())?;
            for (at, byte) in bytes.enumerate() {
                let (pixel, channel) = (pixel(byte), byte % channels);
                let offset = across.firsts[pixel] as usize * channels + channel - base;
                let weights = across.of(pixel).as_flattened().as_chunks::<PAIR>().0;
                for (lane, weights) in lanes.iter_mut().zip(weights) {
                    let at = half * HALF_SUMS + at;
                    lane.indices[at] = [[offset as u8, ZERO], [(offset + channels) as u8, ZERO]];
                    lane.weights[at] = *weights;
                }
            }
            for (pair, lane) in lanes.iter_mut().enumerate() {
                lane.bases[half] = base + pair * PAIR * channels;
            }
        }
    }
    Some(())
}

/// Two rows of the source, and what they are multiplied by.
#[derive(Clone, Copy)]
struct Step<'a> {
    rows: [&'a [u8]; PAIR],
    weights: __m256i,
}

/// Makes one row of the result of those of the source: in its height, and of the view's width.
#[target_feature(enable = "avx2")]
fn source_row(source: Source<'_>, down: &Weights, y: usize, to: &mut [u8]) -> Option<()> {
    let Source { pixels, pitch, bytes, last } = source;
    let first = *down.firsts.get(y)? as usize;
    let none = Step { rows: [&[]; PAIR], weights: _mm256_setzero_si256() };
    let mut steps = [none; MOST_PAIRS];
    let weights = down.of(y).as_flattened().as_chunks::<PAIR>().0;
    let mut used = 0;
    for (pair, weights) in weights.iter().enumerate().filter(|(_, weights)| **weights != [0; PAIR]) {
        let step = steps.get_mut(used)?;
        for (tap, row) in step.rows.iter_mut().enumerate() {
            let from = (first + pair * PAIR + tap).min(last) * pitch;
            *row = pixels.get(from..from + bytes)?;
        }
        step.weights = _mm256_set1_epi32(i32::from(weights[0]) & 0xFFFF | i32::from(weights[1]) << 16);
        used += 1;
    }
    let steps = &steps[..used];
    let precision = _mm_cvtsi32_si128(down.precision as i32);
    let half = _mm256_set1_epi32((1 << down.precision) >> 1);
    // The last block overlaps the one before it.
    let end = bytes.checked_sub(REGISTER)?;
    for at in (0..bytes).step_by(REGISTER) {
        let at = at.min(end);
        let mut sums = [half; 4];
        for step in steps {
            let [a, b] = step.rows;
            let (a, b) = (a.get(at..)?.first_chunk()?, b.get(at..)?.first_chunk()?);
            add_weighed(&mut sums, (a, b), step.weights);
        }
        *to.get_mut(at..)?.first_chunk_mut()? = narrowed(sums, precision);
    }
    Some(())
}

/// Adds bytes of two rows, times the weights of each.
#[inline]
#[target_feature(enable = "avx2")]
fn add_weighed(sums: &mut [__m256i; 4], (a, b): (&[u8; REGISTER], &[u8; REGISTER]), weights: __m256i) {
    let zero = _mm256_setzero_si256();
    // SAFETY: 32 bytes are loaded from each, which has as many.
    let (a, b) = unsafe { (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())) };
    let [low, high] = [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)];
    let levels = [
        _mm256_unpacklo_epi8(low, zero),
        _mm256_unpackhi_epi8(low, zero),
        _mm256_unpacklo_epi8(high, zero),
        _mm256_unpackhi_epi8(high, zero),
    ];
    for (sum, levels) in sums.iter_mut().zip(levels) {
        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(levels, weights));
    }
}

/// Sums as bytes, of which each register has eight, as they were unpacked.
#[inline]
#[target_feature(enable = "avx2")]
fn narrowed(sums: [__m256i; 4], precision: __m128i) -> [u8; REGISTER] {
    let mut sums = sums;
    for sum in &mut sums {
        *sum = _mm256_sra_epi32(*sum, precision);
    }
    let words = [_mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3])];
    let mut bytes = [0; REGISTER];
    // SAFETY: 32 bytes are stored to as many.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm256_packus_epi16(words[0], words[1])) };
    bytes
}

/// Makes rows of the result of those in between.
#[target_feature(enable = "avx2")]
fn write_rows(
    lanes: &[Lane],
    (pairs, precision): (usize, u32),
    rows: &[u8],
    target: &mut [u8],
    row: usize,
) -> Option<()> {
    let half = _mm256_set1_epi32((1 << precision) >> 1);
    let precision = _mm_cvtsi32_si128(precision as i32);
    let pitch = rows.len() / ROWS;
    let count = target.len() / row;
    for (group, lanes) in lanes.chunks_exact(pairs).enumerate() {
        let mut sums = [half; ROWS];
        for lane in lanes {
            // SAFETY: 32 bytes are loaded from each, which has as many.
            let (indices, weights) = unsafe {
                (
                    _mm256_load_si256(lane.indices.as_ptr().cast()),
                    _mm256_load_si256(lane.weights.as_ptr().cast()),
                )
            };
            for (at, sum) in sums.iter_mut().enumerate() {
                let [first, second] = lane.bases;
                let row = rows.get(at * pitch..(at + 1) * pitch)?;
                let (first, second) =
                    (row.get(first..)?.first_chunk::<HALF>()?, row.get(second..)?.first_chunk::<HALF>()?);
                // SAFETY: 16 bytes are loaded from each, which has as many.
                let levels = unsafe { _mm256_loadu2_m128i(second.as_ptr().cast(), first.as_ptr().cast()) };
                let levels = _mm256_shuffle_epi8(levels, indices);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(levels, weights));
            }
        }
        let to = group * SUMS;
        for (at, sum) in sums.iter().enumerate().take(count) {
            let sum = _mm256_sra_epi32(*sum, precision);
            let words = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            let bytes: [u8; SUMS] = _mm_cvtsi128_si64(_mm_packus_epi16(words, words)).to_le_bytes();
            let to = target.get_mut(at * row + to..(at + 1) * row)?;
            match to.first_chunk_mut() {
                Some(to) => *to = bytes,
                None => to.copy_from_slice(&bytes[..to.len()]),
            }
        }
    }
    Some(())
}
