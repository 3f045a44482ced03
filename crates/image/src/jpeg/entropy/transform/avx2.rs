//! The inverse cosine transform with AVX2, two blocks at a time. Blocks that have only their lowest
//! frequencies take less work.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::block::Block;
use super::constants::*;
use super::job::{Job, SIDE, Transform};
use crate::halves::store_halves;

/// The number of bits that the first pass rounds away, in the type that shift instructions take.
const FIRST: i32 = FIRST_SHIFT as i32;
/// The number of bits that the second pass rounds away, in the same type.
const SECOND: i32 = SECOND_SHIFT as i32;
/// The number of fractional bits of a constant, in the same type.
const BITS: i32 = CONSTANT_BITS as i32;
/// The number of blocks in a register.
pub(super) const BLOCKS: usize = 2;
/// The number of bytes of a row of a block.
const ROW: usize = 16;

/// The transform, if this processor has the required instructions.
pub(super) fn transform() -> Option<Transform> {
    // SAFETY: the function is returned only if the processor has AVX2.
    is_x86_feature_detected!("avx2").then_some(|job, samples| unsafe { transform_all(job, samples) })
}

#[target_feature(enable = "avx2")]
fn transform_all(job: &Job<'_>, samples: &mut [u8]) {
    assert!(job.fits(samples.len()), "blocks beyond the samples");
    for (blocks, offsets) in job.blocks.as_chunks().0.iter().zip(job.offsets.as_chunks().0) {
        let [first, second] = offsets;
        let starts = [job.start + first, job.start + second];
        // SAFETY: `fits` has checked that the samples of both blocks are within `samples`.
        unsafe { transform_256(blocks, job.quantization, starts, job.pitch, samples) };
    }
}

/// # Safety
/// For each block, eight rows of eight bytes must be within `samples`, from its start and with this pitch.
#[target_feature(enable = "avx2")]
unsafe fn transform_256(
    blocks: &[&Block; BLOCKS],
    quantization: &[u16; 64],
    starts: [usize; BLOCKS],
    pitch: usize,
    samples: &mut [u8],
) {
    let (mut rows, tables) = (by_rows(blocks), by_rows(&[quantization; BLOCKS]));
    let lower = _mm256_or_si256(_mm256_or_si256(rows[4], rows[5]), _mm256_or_si256(rows[6], rows[7]));
    let upper = _mm256_or_si256(_mm256_or_si256(rows[1], rows[2]), rows[3]);
    let right = _mm256_unpackhi_epi64(_mm256_or_si256(rows[0], upper), lower);
    let is_low = is_zero(_mm256_or_si256(right, lower));
    // Blocks with no coefficients below the first row get the result of the first pass directly.
    // libjpeg-turbo skips the pass for them, and the pass would give another result if it overflowed.
    let flat = without(_mm256_or_si256(upper, lower));
    if is_low && is_zero(_mm256_or_si256(_mm256_srli_epi64::<16>(rows[0]), upper)) {
        let all = same(_mm256_mullo_epi16(rows[0], tables[0]));
        // SAFETY: the caller guarantees that the rows are within `samples`.
        return unsafe { write([all; 4], starts, pitch, samples) };
    }
    let used = if is_low { 4 } else { 8 };
    for (row, table) in rows.iter_mut().zip(tables).take(used) {
        *row = _mm256_mullo_epi16(*row, table);
    }
    let mut columns = if is_low {
        let [zero, one, two, three, ..] = rows;
        low_pass::<FIRST, 1>(first_pairs(zero, two), first_pairs(three, one))
    } else {
        pass::<FIRST>(rows)
    };
    if !is_zero(flat) {
        let shifted = _mm256_slli_epi16::<{ PASS_BITS as i32 }>(rows[0]);
        for column in &mut columns {
            *column = _mm256_blendv_epi8(*column, shifted, flat);
        }
    }
    let columns = transposed(columns);
    let rows = transposed(if is_low {
        let [zero, one, two, three, ..] = columns;
        low_pass::<SECOND, 2>(pairs(zero, two), pairs(three, one))
    } else {
        pass::<SECOND>(columns)
    });
    let mut bytes = [_mm256_setzero_si256(); 4];
    for (pair, bytes) in bytes.iter_mut().enumerate() {
        *bytes = _mm256_packs_epi16(rows[2 * pair], rows[2 * pair + 1]);
    }
    // SAFETY: the caller guarantees that the rows are within `samples`.
    unsafe { write(bytes, starts, pitch, samples) }
}

/// The shuffle order that swaps the halves of each block's row.
const SWAPPED: i32 = 0b01_00_11_10;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn is_zero(numbers: __m256i) -> bool {
    _mm256_testz_si256(numbers, numbers) == 1
}

/// The samples of two blocks that have only DC, before the shift to unsigned levels. `rows` holds their first
/// rows; all samples of a block are the same.
#[inline]
#[target_feature(enable = "avx2")]
fn same(rows: __m256i) -> __m256i {
    // Both passes together divide by 32, and round halves up.
    let shifted = _mm256_slli_epi16::<{ PASS_BITS as i32 }>(rows);
    let half = _mm256_and_si256(_mm256_srli_epi16::<4>(shifted), _mm256_set1_epi16(1));
    let level = _mm256_add_epi16(_mm256_srai_epi16::<5>(shifted), half);
    let bytes = _mm256_packs_epi16(level, level);
    _mm256_shuffle_epi8(bytes, _mm256_setzero_si256())
}

/// Stores the eight rows of both blocks. Each register holds two rows of each block.
///
/// # Safety
/// The requirement of [`transform_256`] must hold.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn write(pixels: [__m256i; 4], starts: [usize; BLOCKS], pitch: usize, samples: &mut [u8]) {
    let centre = _mm256_set1_epi8(CENTRE);
    for (pair, bytes) in pixels.into_iter().enumerate() {
        let bytes = _mm256_add_epi8(bytes, centre);
        let each = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
        for (start, bytes) in starts.into_iter().zip(each) {
            // SAFETY: the caller guarantees that eight rows of eight bytes are within `samples`.
            unsafe {
                let first = samples.as_mut_ptr().add(start + 2 * pair * pitch);
                store_halves(bytes, first, first.add(pitch));
            }
        }
    }
}

/// Returns all ones for each block whose half of the register has only zeros, and zeros for the others.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn without(coefficients: __m256i) -> __m256i {
    let without = _mm256_cmpeq_epi64(coefficients, _mm256_setzero_si256());
    _mm256_and_si256(without, _mm256_shuffle_epi32::<SWAPPED>(without))
}

/// Loads two blocks of 8x8 16-bit numbers. Each register gets the same row of both blocks.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn by_rows<T>(blocks: &[&[T; 64]; BLOCKS]) -> [__m256i; 8] {
    const { assert!(size_of::<T>() * SIDE == ROW) };
    let [first, second] = blocks.map(|block| block.as_ptr().cast::<u8>());
    let mut rows = [_mm256_setzero_si256(); 8];
    for (at, row) in rows.iter_mut().enumerate() {
        // SAFETY: a block has eight rows of 16 bytes, and each load takes one of them.
        *row = unsafe { _mm256_loadu2_m128i(second.add(at * ROW).cast(), first.add(at * ROW).cast()) };
    }
    rows
}

/// Transposes each block (swaps rows and columns).
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m256i; 8]) -> [__m256i; 8] {
    interleaved(interleaved(interleaved(rows)))
}

/// Interleaves the numbers of each of the first four rows with those of the row four below it.
#[inline]
#[target_feature(enable = "avx2")]
fn interleaved([a, b, c, d, e, f, g, h]: [__m256i; 8]) -> [__m256i; 8] {
    let [[a, e], [b, f], [c, g], [d, h]] = [pairs(a, e), pairs(b, f), pairs(c, g), pairs(d, h)];
    [a, e, b, f, c, g, d, h]
}

/// One pass of the transform, along each column.
#[inline]
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(rows: [__m256i; 8]) -> [__m256i; 8] {
    // The even part of the transform, from the rows with even numbers.
    let two_and_six = pairs(rows[2], rows[6]);
    let two = weighed(two_and_six, C_0_541, C_0_541 - C_1_847);
    let three = weighed(two_and_six, C_0_541 + C_0_765, C_0_541);
    let zero = widened::<SHIFT, BITS>(_mm256_add_epi16(rows[0], rows[4]));
    let one = widened::<SHIFT, BITS>(_mm256_sub_epi16(rows[0], rows[4]));
    let even = [sum(zero, three), sum(one, two), difference(one, two), difference(zero, three)];

    // The odd part of the transform, from the rows with odd numbers.
    let sums = pairs(_mm256_add_epi16(rows[7], rows[3]), _mm256_add_epi16(rows[5], rows[1]));
    let third = weighed(sums, C_1_175 - C_1_961, C_1_175);
    let fourth = weighed(sums, C_1_175, C_1_175 - C_0_390);
    let seven_and_one = pairs(rows[7], rows[1]);
    let five_and_three = pairs(rows[5], rows[3]);
    let odd = [
        sum(weighed(seven_and_one, -C_0_899, C_1_501 - C_0_899), fourth),
        sum(weighed(five_and_three, -C_2_562, C_3_072 - C_2_562), third),
        sum(weighed(five_and_three, C_2_053 - C_2_562, -C_2_562), fourth),
        sum(weighed(seven_and_one, C_0_298 - C_0_899, -C_0_899), third),
    ];

    combined::<SHIFT, _>(even, odd)
}

/// A [`pass`] over rows of which the last four are zero. `even_rows` interleaves the first and the third row,
/// and `odd_rows` the fourth and the second.
#[inline]
#[target_feature(enable = "avx2")]
fn low_pass<const SHIFT: i32, const N: usize>(even_rows: Sums<N>, odd_rows: Sums<N>) -> [__m256i; 8] {
    const ONE: i16 = 1 << CONSTANT_BITS;
    let half = [_mm256_set1_epi32(1 << (SHIFT - 1)); N];
    let even = [
        sum(weighed(even_rows, ONE, C_0_541 + C_0_765), half),
        sum(weighed(even_rows, ONE, C_0_541), half),
        sum(weighed(even_rows, ONE, -C_0_541), half),
        sum(weighed(even_rows, ONE, -C_0_541 - C_0_765), half),
    ];
    let odd = [
        weighed(odd_rows, C_1_175, C_1_501 - C_0_899 + C_1_175 - C_0_390),
        weighed(odd_rows, C_3_072 - C_2_562 + C_1_175 - C_1_961, C_1_175),
        weighed(odd_rows, C_1_175 - C_2_562, C_1_175 - C_0_390),
        weighed(odd_rows, C_1_175 - C_1_961, C_1_175 - C_0_899),
    ];
    combined::<SHIFT, _>(even, odd)
}

/// Combines the even and the odd part of a pass: the first four rows are their sums, the last four their
/// differences.
#[inline]
#[target_feature(enable = "avx2")]
fn combined<const SHIFT: i32, const N: usize>(even: [Sums<N>; 4], odd: [Sums<N>; 4]) -> [__m256i; 8] {
    let mut done = [_mm256_setzero_si256(); 8];
    for at in 0..4 {
        done[at] = narrowed::<SHIFT, N>(sum(even[at], odd[at]));
        done[7 - at] = narrowed::<SHIFT, N>(difference(even[at], odd[at]));
    }
    done
}

/// 32-bit numbers for a row of each block: one register for the left half of the columns, and one for the
/// right half, which is left out if its numbers are zero.
pub(super) type Sums<const N: usize> = [__m256i; N];

/// Interleaves the numbers of two rows.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn pairs(a: __m256i, b: __m256i) -> Sums<2> {
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

/// The [`pairs`] of two rows whose right half is zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn first_pairs(a: __m256i, b: __m256i) -> Sums<1> {
    [_mm256_unpacklo_epi16(a, b)]
}

/// Multiplies the two numbers of each pair by `a` and `b`, and adds the products.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn weighed<const N: usize>(mut pairs: Sums<N>, a: i16, b: i16) -> Sums<N> {
    let weights = _mm256_set1_epi32(i32::from(a) & 0xFFFF | i32::from(b) << 16);
    for pairs in &mut pairs {
        *pairs = _mm256_madd_epi16(*pairs, weights);
    }
    pairs
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum<const N: usize>(mut a: Sums<N>, b: Sums<N>) -> Sums<N> {
    for (a, b) in a.iter_mut().zip(b) {
        *a = _mm256_add_epi32(*a, b);
    }
    a
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn difference<const N: usize>(mut a: Sums<N>, b: Sums<N>) -> Sums<N> {
    for (a, b) in a.iter_mut().zip(b) {
        *a = _mm256_sub_epi32(*a, b);
    }
    a
}

/// A row as 32-bit numbers with `BITS` fractional bits, plus half of the unit that the pass rounds to in the
/// end.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn widened<const SHIFT: i32, const BITS: i32>(row: __m256i) -> Sums<2> {
    let half = _mm256_set1_epi32(1 << (SHIFT - 1));
    let mut sums = pairs(_mm256_setzero_si256(), row);
    for sums in &mut sums {
        *sums = _mm256_add_epi32(_mm256_sra_epi32(*sums, _mm_cvtsi32_si128(16 - BITS)), half);
    }
    sums
}

/// The left half of a row, [widened](widened).
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn widened_first<const SHIFT: i32, const BITS: i32>(row: __m256i) -> Sums<1> {
    let [first, _] = widened::<SHIFT, BITS>(row);
    [first]
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn narrowed<const SHIFT: i32, const N: usize>(sums: Sums<N>) -> __m256i {
    let mut halves = [_mm256_setzero_si256(); 2];
    for (half, sums) in halves.iter_mut().zip(sums) {
        *half = _mm256_srai_epi32::<SHIFT>(sums);
    }
    let [low, high] = halves;
    _mm256_packs_epi32(low, high)
}
