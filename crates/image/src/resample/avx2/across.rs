//! The second step of resizing with AVX2: makes rows of the result from intermediate rows, which have the
//! source's width.
//!
//! A register holds the sums for 8 bytes of a result row, four in each half, because shuffles do not cross
//! the halves. One [`LaneInstructions`] adds two weighted levels to each sum. For each half, 16 bytes of the
//! intermediate row are read. At scales of more than 3 these cover only one pixel of three channels.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::target::STRIP_ROWS as ROWS;
use super::super::weights::LineWeights;
use super::constants::{MOST_PAIRS, PAIR, REGISTER};
use crate::halves::store_halves;

/// The number of halves of a register, and the numbers of bytes and of sums in a half.
const HALVES: usize = 2;
const HALF: usize = REGISTER / HALVES;
const HALF_SUMS: usize = 4;
/// The number of bytes that are written to a row at a time.
const STORED: usize = 8;
/// The number of bytes of a pixel with three channels.
const PIXEL: usize = 3;
/// The largest distance between neighbouring result pixels, in source pixels, at which one half can compute
/// four bytes of the result. Their levels then lie within 16 bytes: the second pixel begins 3 x 3 bytes after
/// the first, its last channel is 2 bytes later, and the second level of that channel another 3 bytes later.
const FURTHEST_PIXEL: u32 = 3;
/// The shuffle index that makes a byte zero.
const ZERO: u8 = 0x80;

/// The operands of one multiplication, which adds two weighted levels to each of the eight sums in a
/// register. Each sum becomes a byte of a result row.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct LaneInstructions {
    /// For each sum, the positions of its two levels in the 16 bytes that are read at the base of its half. A
    /// zero byte follows each level, which makes it a 16-bit number.
    indices: [[[u8; 2]; PAIR]; HALVES * HALF_SUMS],
    weights: [[i16; PAIR]; HALVES * HALF_SUMS],
    bases: [usize; HALVES],
}

/// The operands for a whole row of the result, which are the same for all rows.
#[derive(Default)]
pub(super) struct Lanes {
    /// For each group of result bytes whose sums fill a register, one element for every two weights.
    all: Vec<LaneInstructions>,
    /// The largest offset in an intermediate row at which 16 bytes are read.
    furthest: usize,
    /// The number of result bytes whose sums are in one half of a register: 4, or 3 at large scales.
    in_half: usize,
}

impl Lanes {
    /// The number of spare bytes after an intermediate row, because 16 bytes are read even at its end. It
    /// suffices for three channels.
    pub(super) const SLACK: usize = MOST_PAIRS * PAIR * 3 + REGISTER;

    /// The most bytes that the operands for a target take, if a row of the target has `row` bytes.
    pub(super) const fn most_bytes(row: u64) -> u64 {
        (row / (HALVES * PIXEL) as u64 + 1) * (MOST_PAIRS * size_of::<LaneInstructions>()) as u64
    }

    /// The number of bytes that the operands take.
    pub(super) fn bytes(&self) -> u64 {
        (self.all.capacity() * size_of::<LaneInstructions>()) as u64
    }

    /// Computes the operands; `None` if the levels of a half do not fit into 16 bytes.
    pub(super) fn set<const CHANNELS: usize>(&mut self, across: &LineWeights, mirrored: bool) -> Option<()> {
        let (width, pairs) = (across.firsts.len(), across.pairs);
        let step = across.firsts.windows(2).map(|firsts| firsts[1] - firsts[0]).max().unwrap_or(0);
        let in_half = if CHANNELS == PIXEL && step > FURTHEST_PIXEL { PIXEL } else { HALF_SUMS };
        let in_register = HALVES * in_half;
        let empty = LaneInstructions {
            indices: [[[ZERO; 2]; PAIR]; HALVES * HALF_SUMS],
            weights: [[0; PAIR]; HALVES * HALF_SUMS],
            bases: [0; HALVES],
        };
        self.in_half = in_half;
        let Lanes { all, furthest, .. } = self;
        *furthest = 0;
        all.clear();
        all.resize((width * CHANNELS).div_ceil(in_register) * pairs, empty);
        for (half, byte) in (0..width * CHANNELS).step_by(in_half).enumerate() {
            let (group, half) = (half / HALVES, half % HALVES);
            let lanes = &mut all[group * pairs..(group + 1) * pairs];
            let bytes = byte..(byte + in_half).min(width * CHANNELS);
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
                let weights = across.for_pixel(pixel(byte)).as_flattened().as_chunks::<PAIR>().0;
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

/// Makes up to four rows of the result from intermediate rows.
#[target_feature(enable = "avx2")]
pub(super) fn write_rows(
    lanes: &Lanes,
    across: &LineWeights,
    rows: &[u8],
    target: &mut [u8],
    row: usize,
) -> Option<()> {
    let precision = across.precision;
    match (across.pairs, lanes.in_half) {
        (1, HALF_SUMS) => write_rows_of::<1, HALF_SUMS>(lanes, precision, rows, target, row),
        (2, HALF_SUMS) => write_rows_of::<2, HALF_SUMS>(lanes, precision, rows, target, row),
        (3, HALF_SUMS) => write_rows_of::<3, HALF_SUMS>(lanes, precision, rows, target, row),
        (4, HALF_SUMS) => write_rows_of::<4, HALF_SUMS>(lanes, precision, rows, target, row),
        (5, HALF_SUMS) => write_rows_of::<5, HALF_SUMS>(lanes, precision, rows, target, row),
        (4, PIXEL) => write_rows_of::<4, PIXEL>(lanes, precision, rows, target, row),
        (5, PIXEL) => write_rows_of::<5, PIXEL>(lanes, precision, rows, target, row),
        (6, PIXEL) => write_rows_of::<6, PIXEL>(lanes, precision, rows, target, row),
        (7, PIXEL) => write_rows_of::<7, PIXEL>(lanes, precision, rows, target, row),
        (MOST_PAIRS, PIXEL) => write_rows_of::<MOST_PAIRS, PIXEL>(lanes, precision, rows, target, row),
        _ => None,
    }
}

/// Works like [`write_rows`], with `PAIRS` elements of the operands for each register and `IN_HALF` result
/// bytes in each half. It is not inlined, so that the compiler can assign all registers for each `PAIRS`
/// separately.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn write_rows_of<const PAIRS: usize, const IN_HALF: usize>(
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
    let in_register = HALVES * IN_HALF;
    // The number of groups that can be written as 8 whole bytes without leaving the row. It is 0 if there are
    // fewer than four rows left, because this loop writes four at a time.
    let whole =
        if target.len() == ROWS * row { row.saturating_sub(STORED - in_register) / in_register } else { 0 };
    let whole = whole.min(groups.len());
    let (within, beyond) = groups.split_at(whole);
    let to = target.as_mut_ptr();
    for (group, lanes) in within.iter().enumerate() {
        // SAFETY: it was checked above that 16 bytes from each base are within an intermediate row.
        let [first, second] =
            unsafe { weighed_lanes::<PAIRS, IN_HALF>(lanes, (half, precision), rows.as_ptr(), pitch) };
        // SAFETY: eight bytes are written to each of four rows, and each row has at least eight bytes from
        // here on. Bytes after this group are overwritten by the next group.
        unsafe {
            let to = to.add(group * in_register);
            store_halves(first, to, to.add(row));
            store_halves(second, to.add(2 * row), to.add(3 * row));
        }
    }
    for (group, lanes) in beyond.iter().enumerate() {
        // SAFETY: it was checked above that 16 bytes from each base are within an intermediate row.
        let bytes =
            unsafe { weighed_lanes::<PAIRS, IN_HALF>(lanes, (half, precision), rows.as_ptr(), pitch) };
        let mut each = [[0; STORED]; ROWS];
        for (two, bytes) in each.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            // SAFETY: 16 bytes are written to memory of 16 bytes.
            unsafe { _mm_storeu_si128(two.as_mut_ptr().cast(), bytes) };
        }
        for (target, bytes) in target.chunks_exact_mut(row).zip(each) {
            let to = target.get_mut((whole + group) * in_register..)?;
            let left = to.len().min(in_register);
            to[..left].copy_from_slice(&bytes[..left]);
        }
    }
    Some(())
}

/// Computes up to eight bytes of each of four result rows from the operands of one register.
///
/// # Safety
/// In each of the four intermediate rows, the 16 bytes that begin at each base must be readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn weighed_lanes<const PAIRS: usize, const IN_HALF: usize>(
    lanes: &[LaneInstructions; PAIRS],
    (half, precision): (__m256i, __m128i),
    rows: *const u8,
    pitch: usize,
) -> [__m128i; 2] {
    let mut sums = [half; ROWS];
    for lane in lanes {
        let [low, high] = lane.bases;
        // SAFETY: 32 bytes are loaded from each of these arrays, which have 32 bytes and are aligned to 32.
        let (indices, weights) = unsafe {
            (_mm256_load_si256(lane.indices.as_ptr().cast()), _mm256_load_si256(lane.weights.as_ptr().cast()))
        };
        for (at, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that 16 bytes are readable at each base.
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
    // After packing, each half of the register has four bytes of every row. The permutation brings the bytes
    // of a row together.
    let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let mut bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if IN_HALF == PIXEL {
        let order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, 8, 9, 10, 12, 13, 14, -1, -1);
        bytes = _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(order));
    }
    [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)]
}
