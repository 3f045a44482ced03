//! The resize of levels of 8 bits with AVX2: two weights of 16 bits at a time.
//!
//! The order of work is that of [`avx512`](super::avx512): a row of the result is made down first, of whole rows of the
//! source, and then across. For that, each 8 bytes of it have a [`Lane`] for each two weights. A half of a register reads
//! 16 bytes of a row in between, so that scales of more than 3 are left to the library.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::depth::Depth;
use super::super::geometry::{Mirror, Rect};
use super::super::spec::Size;
use super::source::Source;
use super::weights::Weights;
use super::{Decoded, Part};
use crate::processor;

/// Rows that are made at a time, for which lanes are loaded once.
const ROWS: usize = 4;
/// Bytes of a register, and of its halves, which shuffles do not cross.
const REGISTER: usize = 32;
const HALF: usize = 16;
/// Bytes of the result that a register has sums of, and those that a half has.
const SUMS: usize = 8;
const HALF_SUMS: usize = SUMS / 2;
/// Weights that are multiplied together.
const PAIR: usize = 2;
/// Most pairs of weights that a pixel may have down, for a scale of more than 7, and across.
const MOST_PAIRS: usize = 8;
const MOST_ACROSS: usize = 4;
/// Bytes after a row in between: what a lane loads beyond it, of three channels.
const SLACK: usize = MOST_ACROSS * PAIR * 3 + REGISTER;
const CACHE_LINE: usize = 64;
/// The index of a byte that becomes zero.
const ZERO: u8 = 0x80;

/// How to make 8 bytes of a row of the result of two weights each.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Lane {
    /// Where the levels come from, after the base of their half: each is a byte and a zero.
    indices: [[[u8; 2]; PAIR]; SUMS],
    weights: [[i16; PAIR]; SUMS],
    bases: [usize; 2],
}

/// The lanes of a row of the result.
#[derive(Default)]
struct Lanes {
    /// For each 8 bytes, one for each two weights.
    all: Vec<Lane>,
    /// The largest of their bases.
    furthest: usize,
}

/// The state of a thread.
#[derive(Default)]
pub(super) struct Avx2 {
    across: Weights,
    down: Weights,
    lanes: Lanes,
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
        // SAFETY: the machine has the features.
        unsafe { self.resize_256(decoded, (view, part), (size, mirror), target) }.is_some()
    }

    /// Bytes that it takes beside weights and as many rows as a library would: for a target of so many bytes in a row.
    pub(super) const fn lane_bytes(row: u64) -> u64 {
        (row / SUMS as u64 + 1) * (MOST_ACROSS * size_of::<Lane>()) as u64 + (ROWS * SLACK) as u64
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let lanes = self.lanes.all.capacity() * size_of::<Lane>();
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
        (across.pairs <= MOST_ACROSS && down.pairs <= MOST_PAIRS).then_some(())?;
        let source = Source::of(decoded, view)?;
        match channels {
            1 => lanes.set::<1>(across, mirror.across)?,
            3 => lanes.set::<3>(across, mirror.across)?,
            _ => return None,
        }
        let pitch = source.bytes.next_multiple_of(REGISTER) + SLACK;
        if rows.len() < pitch * ROWS {
            *rows = vec![0; pitch * ROWS];
        }
        let rows = &mut rows[..pitch * ROWS];
        let row = size.width as usize * channels;
        for (at, some) in target[..row * size.height as usize].chunks_mut(row * ROWS).enumerate() {
            prefetch(some);
            let count = some.len() / row;
            for (to, y) in rows.chunks_exact_mut(pitch).zip(at * ROWS..).take(count) {
                let y = if mirror.down { size.height as usize - 1 - y } else { y };
                source_row(source, down, y, to)?;
            }
            write_rows(lanes, across, rows, some, row)?;
        }
        Some(())
    }
}

impl Lanes {
    /// Sets them; `None` where one would read more than a half of a register.
    fn set<const CHANNELS: usize>(&mut self, across: &Weights, mirrored: bool) -> Option<()> {
        let (width, pairs) = (across.firsts.len(), across.pairs);
        let empty = Lane { indices: [[[ZERO; 2]; PAIR]; SUMS], weights: [[0; PAIR]; SUMS], bases: [0; 2] };
        let Lanes { all, furthest } = self;
        *furthest = 0;
        all.clear();
        all.resize((width * CHANNELS).div_ceil(SUMS) * pairs, empty);
        for (half, byte) in (0..width * CHANNELS).step_by(HALF_SUMS).enumerate() {
            let (group, half) = (half / 2, half % 2);
            let lanes = &mut all[group * pairs..(group + 1) * pairs];
            let bytes = byte..(byte + HALF_SUMS).min(width * CHANNELS);
            let pixel = |byte: usize| if mirrored { width - 1 - byte / CHANNELS } else { byte / CHANNELS };
            let first = |byte: usize| across.firsts[pixel(byte)] as usize * CHANNELS;
            let base = first(bytes.start).min(first(bytes.end - 1));
            for (pair, lane) in lanes.iter_mut().enumerate() {
                lane.bases[half] = base + pair * PAIR * CHANNELS;
                *furthest = lane.bases[half].max(*furthest);
            }
            for (at, byte) in bytes.enumerate() {
                let from = first(byte) + byte % CHANNELS - base;
                if from + CHANNELS >= HALF {
                    return None;
                }
                let weights = across.of(pixel(byte)).as_flattened().as_chunks::<PAIR>().0;
                for (lane, weights) in lanes.iter_mut().zip(weights) {
                    let at = half * HALF_SUMS + at;
                    lane.indices[at] = [[from as u8, ZERO], [(from + CHANNELS) as u8, ZERO]];
                    lane.weights[at] = *weights;
                }
            }
        }
        Some(())
    }
}

/// Asks for memory that will be written to, which no cache has as a rule.
fn prefetch(target: &[u8]) {
    for line in target.chunks(CACHE_LINE) {
        processor::fetch(&line[0]);
    }
}

/// Two rows of the source, by where they begin, and what they are multiplied by.
#[derive(Clone, Copy)]
struct Step {
    rows: [usize; PAIR],
    weights: __m256i,
}

/// Makes one row of the result of those of the source: in its height, and of the view's width.
#[target_feature(enable = "avx2")]
fn source_row(source: Source<'_>, down: &Weights, y: usize, to: &mut [u8]) -> Option<()> {
    let Source { pitch, last, .. } = source;
    let first = *down.firsts.get(y)? as usize;
    let mut steps = [Step { rows: [0; PAIR], weights: _mm256_setzero_si256() }; MOST_PAIRS];
    let mut used = 1;
    let pairs = down.of(y).as_flattened().as_chunks::<PAIR>().0;
    for (pair, (step, weights)) in steps.iter_mut().zip(pairs).enumerate() {
        step.rows = [0, 1].map(|tap| (first + pair * PAIR + tap).min(last) * pitch);
        let [low, high] = weights.map(|weight| i32::from(weight as u16));
        step.weights = _mm256_set1_epi32(low | high << 16);
        used = if *weights == [0; PAIR] { used } else { pair + 1 };
    }
    match used {
        1 => weighed_row::<1>(source, steps.first_chunk()?, down.precision, to),
        2 => weighed_row::<2>(source, steps.first_chunk()?, down.precision, to),
        3 => weighed_row::<3>(source, steps.first_chunk()?, down.precision, to),
        4 => weighed_row::<4>(source, steps.first_chunk()?, down.precision, to),
        // The rest has weights of zero.
        _ => weighed_row::<MOST_PAIRS>(source, &steps, down.precision, to),
    }
}

/// The sums of rows times their weights. Not inlined, so that each number of pairs has the registers to itself.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn weighed_row<const PAIRS: usize>(
    source: Source<'_>,
    steps: &[Step; PAIRS],
    precision: u32,
    to: &mut [u8],
) -> Option<()> {
    let half = _mm256_set1_epi32((1 << precision) >> 1);
    let precision = _mm_cvtsi32_si128(precision as i32);
    let to = to.as_chunks_mut::<REGISTER>().0.get_mut(..source.bytes.div_ceil(REGISTER))?;
    let furthest = steps.iter().flat_map(|step| step.rows).max()?;
    let whole = source.pixels.len().saturating_sub(furthest) / REGISTER;
    let (within, beyond) = to.split_at_mut(whole.min(to.len()));
    for (block, to) in within.iter_mut().enumerate() {
        let pairs = steps.each_ref().map(|step| {
            // SAFETY: after the row that begins last, so many blocks of 32 bytes are in the pixels.
            step.rows.map(|row| unsafe {
                _mm256_loadu_si256(source.pixels.as_ptr().add(row + block * REGISTER).cast())
            })
        });
        store(weighed(&pairs, steps, half, precision), to);
    }
    for (block, to) in beyond.iter_mut().enumerate() {
        let pairs = steps
            .each_ref()
            .map(|step| step.rows.map(|row| load(source.pixels, row + (whole + block) * REGISTER)));
        store(weighed(&pairs, steps, half, precision), to);
    }
    Some(())
}

/// The sums of 32 levels of each row times their weights.
#[inline]
#[target_feature(enable = "avx2")]
fn weighed<const PAIRS: usize>(
    pairs: &[[__m256i; PAIR]; PAIRS],
    steps: &[Step; PAIRS],
    half: __m256i,
    precision: __m128i,
) -> __m256i {
    let zero = _mm256_setzero_si256();
    let mut sums = [half; 4];
    for ([a, b], step) in pairs.iter().zip(steps) {
        let [low, high] = [_mm256_unpacklo_epi8(*a, *b), _mm256_unpackhi_epi8(*a, *b)];
        let levels = [
            _mm256_unpacklo_epi8(low, zero),
            _mm256_unpackhi_epi8(low, zero),
            _mm256_unpacklo_epi8(high, zero),
            _mm256_unpackhi_epi8(high, zero),
        ];
        for (sum, levels) in sums.iter_mut().zip(levels) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(levels, step.weights));
        }
    }
    let [a, b, c, d] = sums.map(|sum| _mm256_sra_epi32(sum, precision));
    _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: __m256i, to: &mut [u8; REGISTER]) {
    // SAFETY: 32 bytes are stored to as many.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
}

/// As many bytes as a register has, or those that are left and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn load(pixels: &[u8], at: usize) -> __m256i {
    let from = pixels.get(at..).unwrap_or_default();
    if let Some(from) = from.first_chunk::<REGISTER>() {
        // SAFETY: 32 bytes are loaded from as many.
        return unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    }
    let mut bytes = [0; REGISTER];
    bytes[..from.len()].copy_from_slice(from);
    // SAFETY: as above.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Makes rows of the result of those in between.
#[target_feature(enable = "avx2")]
fn write_rows(lanes: &Lanes, across: &Weights, rows: &[u8], target: &mut [u8], row: usize) -> Option<()> {
    match across.pairs {
        1 => write_rows_of::<1>(lanes, across.precision, rows, target, row),
        2 => write_rows_of::<2>(lanes, across.precision, rows, target, row),
        3 => write_rows_of::<3>(lanes, across.precision, rows, target, row),
        _ => write_rows_of::<MOST_ACROSS>(lanes, across.precision, rows, target, row),
    }
}

/// [`write_rows`] with so many lanes for each 8 bytes. Not inlined, so that each number of them has the registers to itself.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn write_rows_of<const PAIRS: usize>(
    lanes: &Lanes,
    precision: u32,
    rows: &[u8],
    target: &mut [u8],
    row: usize,
) -> Option<()> {
    let half = _mm256_set1_epi32((1 << precision) >> 1);
    let precision = _mm_cvtsi32_si128(precision as i32);
    let pitch = rows.len() / ROWS;
    (lanes.furthest + HALF <= pitch).then_some(())?;
    let groups = lanes.all.as_chunks::<PAIRS>().0;
    // The last group of a row may have bytes after it, and the last rows may be fewer.
    let whole = if target.len() == ROWS * row { (row / SUMS).min(groups.len()) } else { 0 };
    let (within, beyond) = groups.split_at(whole);
    let to = target.as_mut_ptr();
    for (group, lanes) in within.iter().enumerate() {
        // SAFETY: the lanes begin 16 bytes before the end of a row at the latest.
        let [first, second] = unsafe { weighed_lanes(lanes, (half, precision), rows.as_ptr(), pitch) };
        // SAFETY: eight bytes are stored to each of four rows, which have as many groups.
        unsafe {
            let to = to.add(group * SUMS);
            _mm_storel_epi64(to.cast(), first);
            _mm_storeh_pd(to.add(row).cast(), _mm_castsi128_pd(first));
            _mm_storel_epi64(to.add(2 * row).cast(), second);
            _mm_storeh_pd(to.add(3 * row).cast(), _mm_castsi128_pd(second));
        }
    }
    for (group, lanes) in beyond.iter().enumerate() {
        // SAFETY: as above.
        let bytes = unsafe { weighed_lanes(lanes, (half, precision), rows.as_ptr(), pitch) };
        let mut each = [[0; SUMS]; ROWS];
        for (two, bytes) in each.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            // SAFETY: 16 bytes are stored to as many.
            unsafe { _mm_storeu_si128(two.as_mut_ptr().cast(), bytes) };
        }
        for (target, bytes) in target.chunks_exact_mut(row).zip(each) {
            let to = target.get_mut((whole + group) * SUMS..)?;
            let left = to.len().min(SUMS);
            to[..left].copy_from_slice(&bytes[..left]);
        }
    }
    Some(())
}

/// Eight bytes of each of four rows of the result.
///
/// # Safety
/// From each base on, 16 bytes may be read of four rows in between.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn weighed_lanes<const PAIRS: usize>(
    lanes: &[Lane; PAIRS],
    (half, precision): (__m256i, __m128i),
    rows: *const u8,
    pitch: usize,
) -> [__m128i; 2] {
    let mut sums = [half; ROWS];
    for lane in lanes {
        let [low, high] = lane.bases;
        // SAFETY: 32 bytes are loaded from each, which has as many.
        let (indices, weights) = unsafe {
            (_mm256_load_si256(lane.indices.as_ptr().cast()), _mm256_load_si256(lane.weights.as_ptr().cast()))
        };
        for (at, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller vouches for 16 bytes.
            let levels = unsafe {
                let from = rows.add(at * pitch);
                _mm256_loadu2_m128i(from.add(high).cast(), from.add(low).cast())
            };
            let levels = _mm256_shuffle_epi8(levels, indices);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(levels, weights));
        }
    }
    for sum in &mut sums {
        *sum = _mm256_sra_epi32(*sum, precision);
    }
    let [a, b, c, d] = sums;
    // Four bytes of each row in each half, and then those of a row beside each other.
    let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)]
}
