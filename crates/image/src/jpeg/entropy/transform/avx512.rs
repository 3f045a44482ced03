//! The inverse cosine transform with AVX-512, four blocks at a time, by the algorithm of Loeffler, Ligtenberg
//! and Moschytz (ICASSP 1989) in fixed point.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::constants::*;
use super::job::{Job, SIDE, TRANSFORMS, Transform};
use crate::halves::store_halves;

/// The transform, if this processor has the required instructions.
pub(super) fn transform() -> Option<Transform> {
    let has = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    // SAFETY: the function is returned only if the processor has the instructions.
    has.then_some(|job, samples| unsafe { transform_512(job, samples) })
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn transform_512(job: &Job<'_>, samples: &mut [u8]) {
    assert!(job.fits(samples.len()), "blocks beyond the samples");
    // SAFETY: a block has 128 bytes, which are all that is read from each pointer.
    let blocks = unsafe { by_rows(job.blocks.map(|block| block.as_ptr().cast())) };
    let (table, _) = job.quantization.as_chunks::<SIDE>();
    let mut rows = blocks;
    for (row, steps) in rows.iter_mut().zip(table) {
        // SAFETY: the load takes 16 bytes, and `steps` has eight numbers of two bytes.
        let steps = unsafe { _mm_loadu_si128(steps.as_ptr().cast()) };
        *row = _mm512_mullo_epi16(*row, _mm512_broadcast_i32x4(steps));
    }
    // These are the coefficients below the first row of each block.
    let [_, one, two, three, four, five, six, seven] = blocks;
    let upper = _mm512_or_si512(_mm512_or_si512(one, two), three);
    let lower = _mm512_or_si512(_mm512_or_si512(four, five), _mm512_or_si512(six, seven));
    let below = _mm512_or_si512(upper, lower);
    let any = _mm512_or_si512(below, blocks[0]);
    if _mm512_mask_test_epi16_mask(AC_OF_FIRST_ROW, blocks[0], blocks[0]) == 0 && is_zero(below) {
        // SAFETY: the rows of the job are within `samples`.
        return unsafe { write([same(rows[0]); 4], job, samples) };
    }
    // Most blocks have only their lowest frequencies, so the last four rows and columns are zero.
    let is_low = is_zero(lower) && _mm512_test_epi64_mask(any, any) & UPPER_COLUMNS == 0;
    let mut columns = if is_low { low_pass::<FIRST_SHIFT>(rows) } else { pass::<FIRST_SHIFT>(rows) };
    // Blocks with no coefficients below the first row get the result of the first pass directly.
    // libjpeg-turbo skips the pass for them, and the pass would give another result if it overflowed.
    let any = _mm512_test_epi64_mask(below, below);
    let flat = !(any | any >> 1) & !UPPER_COLUMNS;
    if flat != 0 {
        let shifted = _mm512_slli_epi16::<PASS_BITS>(rows[0]);
        for column in &mut columns {
            *column = _mm512_mask_mov_epi64(*column, flat | flat << 1, shifted);
        }
    }
    let columns = transposed(columns);
    let rows =
        transposed(if is_low { low_pass::<SECOND_SHIFT>(columns) } else { pass::<SECOND_SHIFT>(columns) });
    let pairs = std::array::from_fn(|pair| _mm512_packs_epi16(rows[2 * pair], rows[2 * pair + 1]));
    // SAFETY: the rows of the job are within `samples`.
    unsafe { write(pairs, job, samples) }
}

/// A mask of all numbers in a row of each block, except that in the first column.
const AC_OF_FIRST_ROW: u32 = 0xFEFE_FEFE;
/// A mask of the right halves of the rows of each block.
const UPPER_COLUMNS: u8 = 0b1010_1010;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn is_zero(numbers: __m512i) -> bool {
    _mm512_test_epi64_mask(numbers, numbers) == 0
}

/// The samples of four blocks that have only DC, before the shift to unsigned levels. `rows` holds their
/// first rows; all samples of a block are the same.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn same(rows: __m512i) -> __m512i {
    // With DC alone, the first pass only shifts left by `PASS_BITS`, and the second pass only divides by 32
    // and rounds halves up.
    let shifted = _mm512_slli_epi16::<PASS_BITS>(rows);
    let half = _mm512_and_si512(_mm512_srli_epi16::<4>(shifted), _mm512_set1_epi16(1));
    let level = _mm512_add_epi16(_mm512_srai_epi16::<5>(shifted), half);
    _mm512_shuffle_epi8(_mm512_packs_epi16(level, level), _mm512_setzero_si512())
}

/// Stores the eight rows of four blocks. Each register holds two rows of each block.
///
/// # Safety
/// The samples of the job must be within `samples`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn write(pixels: [__m512i; 4], job: &Job<'_>, samples: &mut [u8]) {
    let centre = _mm512_set1_epi8(CENTRE);
    for (pair, bytes) in pixels.into_iter().enumerate() {
        let bytes = _mm512_add_epi8(bytes, centre);
        let each = [
            _mm512_castsi512_si128(bytes),
            _mm512_extracti32x4_epi32::<1>(bytes),
            _mm512_extracti32x4_epi32::<2>(bytes),
            _mm512_extracti32x4_epi32::<3>(bytes),
        ];
        for (offset, bytes) in job.offsets.iter().zip(each) {
            // SAFETY: the caller guarantees that eight rows of eight bytes are within `samples`.
            unsafe {
                let first = samples.as_mut_ptr().add(job.start + offset + 2 * pair * job.pitch);
                store_halves(bytes, first, first.add(job.pitch));
            }
        }
    }
}

/// Loads four blocks of 8x8 16-bit numbers. Each register gets the same row of all four blocks.
///
/// # Safety
/// 128 bytes must be readable from each pointer.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn by_rows(blocks: [*const u8; TRANSFORMS]) -> [__m512i; 8] {
    let mut rows = [_mm512_setzero_si512(); 8];
    for half in 0..2 {
        let [a, b, c, d] = blocks;
        // SAFETY: 64 bytes are read from the beginning of each block, and 64 from its middle.
        let (a, b, c, d) = unsafe {
            (
                _mm512_loadu_si512(a.add(64 * half).cast()),
                _mm512_loadu_si512(b.add(64 * half).cast()),
                _mm512_loadu_si512(c.add(64 * half).cast()),
                _mm512_loadu_si512(d.add(64 * half).cast()),
            )
        };
        let [first, second] = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
        let [third, fourth] = [_mm512_shuffle_i32x4::<0xEE>(a, b), _mm512_shuffle_i32x4::<0xEE>(c, d)];
        rows[4 * half] = _mm512_shuffle_i32x4::<0x88>(first, second);
        rows[4 * half + 1] = _mm512_shuffle_i32x4::<0xDD>(first, second);
        rows[4 * half + 2] = _mm512_shuffle_i32x4::<0x88>(third, fourth);
        rows[4 * half + 3] = _mm512_shuffle_i32x4::<0xDD>(third, fourth);
    }
    rows
}

/// Transposes each block (swaps rows and columns).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn transposed(rows: [__m512i; 8]) -> [__m512i; 8] {
    interleaved(interleaved(interleaved(rows)))
}

/// Interleaves the numbers of each of the first four rows with those of the row four below it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn interleaved([a, b, c, d, e, f, g, h]: [__m512i; 8]) -> [__m512i; 8] {
    let [[a, e], [b, f], [c, g], [d, h]] = [pairs(a, e), pairs(b, f), pairs(c, g), pairs(d, h)];
    [a, e, b, f, c, g, d, h]
}

/// One pass of the transform, along each column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn pass<const SHIFT: u32>(rows: [__m512i; 8]) -> [__m512i; 8] {
    // The even part of the transform, from the rows with even numbers.
    let two_and_six = pairs(rows[2], rows[6]);
    let two = weighed(two_and_six, C_0_541, C_0_541 - C_1_847);
    let three = weighed(two_and_six, C_0_541 + C_0_765, C_0_541);
    let zero = widened::<SHIFT>(_mm512_add_epi16(rows[0], rows[4]));
    let one = widened::<SHIFT>(_mm512_sub_epi16(rows[0], rows[4]));
    let even = [sum(zero, three), sum(one, two), difference(one, two), difference(zero, three)];

    // The odd part of the transform, from the rows with odd numbers.
    let sums = pairs(_mm512_add_epi16(rows[7], rows[3]), _mm512_add_epi16(rows[5], rows[1]));
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

    combined::<SHIFT>(even, odd)
}

/// A [`pass`] over rows of which the last four are zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn low_pass<const SHIFT: u32>([zero, one, two, three, ..]: [__m512i; 8]) -> [__m512i; 8] {
    const ONE: i16 = 1 << CONSTANT_BITS;
    let half = _mm512_set1_epi32(1 << (SHIFT - 1));
    let even_rows = pairs(zero, two);
    let odd_rows = pairs(three, one);
    let even = [
        sum(weighed(even_rows, ONE, C_0_541 + C_0_765), [half; 2]),
        sum(weighed(even_rows, ONE, C_0_541), [half; 2]),
        sum(weighed(even_rows, ONE, -C_0_541), [half; 2]),
        sum(weighed(even_rows, ONE, -C_0_541 - C_0_765), [half; 2]),
    ];
    let odd = [
        weighed(odd_rows, C_1_175, C_1_501 - C_0_899 + C_1_175 - C_0_390),
        weighed(odd_rows, C_3_072 - C_2_562 + C_1_175 - C_1_961, C_1_175),
        weighed(odd_rows, C_1_175 - C_2_562, C_1_175 - C_0_390),
        weighed(odd_rows, C_1_175 - C_1_961, C_1_175 - C_0_899),
    ];
    combined::<SHIFT>(even, odd)
}

/// Combines the even and the odd part of a pass: the first four rows are their sums, the last four their
/// differences.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn combined<const SHIFT: u32>(even: [Sums; 4], odd: [Sums; 4]) -> [__m512i; 8] {
    let mut done = [_mm512_setzero_si512(); 8];
    for at in 0..4 {
        done[at] = narrowed::<SHIFT>(sum(even[at], odd[at]));
        done[7 - at] = narrowed::<SHIFT>(difference(even[at], odd[at]));
    }
    done
}

/// 32-bit numbers for a row of each block: a register for the left half of the columns, and one for the right
/// half.
type Sums = [__m512i; 2];

/// Interleaves the numbers of two rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn pairs(a: __m512i, b: __m512i) -> Sums {
    [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
}

/// Multiplies the two numbers of each pair by `a` and `b`, and adds the products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn weighed([low, high]: Sums, a: i16, b: i16) -> Sums {
    let weights = _mm512_set1_epi32(i32::from(a) & 0xFFFF | i32::from(b) << 16);
    [_mm512_madd_epi16(low, weights), _mm512_madd_epi16(high, weights)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn sum(a: Sums, b: Sums) -> Sums {
    [_mm512_add_epi32(a[0], b[0]), _mm512_add_epi32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn difference(a: Sums, b: Sums) -> Sums {
    [_mm512_sub_epi32(a[0], b[0]), _mm512_sub_epi32(a[1], b[1])]
}

/// A row as 32-bit numbers with the fractional bits of constants, plus half of the unit that the pass rounds
/// to in the end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn widened<const SHIFT: u32>(row: __m512i) -> Sums {
    let [low, high] = pairs(_mm512_setzero_si512(), row);
    let half = _mm512_set1_epi32(1 << (SHIFT - 1));
    let [low, high] =
        [_mm512_srai_epi32::<{ 16 - CONSTANT_BITS }>(low), _mm512_srai_epi32::<{ 16 - CONSTANT_BITS }>(high)];
    [_mm512_add_epi32(low, half), _mm512_add_epi32(high, half)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn narrowed<const SHIFT: u32>([low, high]: Sums) -> __m512i {
    _mm512_packs_epi32(_mm512_srai_epi32::<SHIFT>(low), _mm512_srai_epi32::<SHIFT>(high))
}
