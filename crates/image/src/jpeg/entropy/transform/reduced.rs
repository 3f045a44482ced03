//! The inverse cosine transform with AVX2 for images that are reduced: a block gives 4, 2 or 1 samples across
//! and down, from its lowest frequencies.
//!
//! The constants are those of libjpeg-turbo for an image at 1/2, 1/4 or 1/8 of its size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::block::Block;
use super::avx2::*;
use super::constants::*;
use super::job::{Job, Transform};

/// The number of bits that each pass rounds away for 4 or 2 samples. They are one or two more than for a
/// whole block, because the sums are two or four times as large.
const FIRST_OF_4: i32 = FIRST_SHIFT as i32 + 1;
const SECOND_OF_4: i32 = SECOND_SHIFT as i32 + 1;
const FIRST_OF_2: i32 = FIRST_SHIFT as i32 + 2;
const SECOND_OF_2: i32 = SECOND_SHIFT as i32 + 2;
/// The number of fractional bits that row or column 0, which stands for the mean, gets in the sums for 4 or 2
/// samples.
const MEAN_OF_4: i32 = CONSTANT_BITS as i32 + 1;
const MEAN_OF_2: i32 = CONSTANT_BITS as i32 + 2;
/// The DC coefficient is eight times the mean of its block, so it is shifted right by this number of bits.
const MEAN_SHIFT: u32 = 3;
/// The number of bits of a signed sample that libjpeg-turbo keeps before it limits the sample to a byte.
const LEVEL_BITS: u32 = 10;

/// The transform, if this processor has the required instructions.
pub(super) fn transform() -> Option<Transform> {
    // SAFETY: the function is returned only if the processor has AVX2.
    is_x86_feature_detected!("avx2").then_some(|job, samples| unsafe { transform_all(job, samples) })
}

#[target_feature(enable = "avx2")]
fn transform_all(job: &Job<'_>, samples: &mut [u8]) {
    assert!(job.fits(samples.len()), "blocks beyond the samples");
    if job.side == 1 {
        for (block, offset) in job.blocks.iter().zip(job.offsets) {
            samples[job.start + offset] = mean(block[0], job.quantization[0]);
        }
        return;
    }
    for (blocks, offsets) in job.blocks.as_chunks().0.iter().zip(job.offsets.as_chunks().0) {
        let [first, second] = offsets;
        let starts = [job.start + first, job.start + second];
        // SAFETY: `fits` has checked that the samples of both blocks are within `samples`.
        unsafe {
            match job.side {
                4 => write_4(four(blocks, job.quantization), starts, job.pitch, samples),
                2 => write_2(two(blocks, job.quantization), starts, job.pitch, samples),
                side => unreachable!("{side} samples of a reduced block"),
            }
        }
    }
}

/// The single sample of a block that is reduced to 1x1.
fn mean(dc: i16, step: u16) -> u8 {
    // The product is signed, because libjpeg-turbo stores quantisation steps as signed numbers.
    let level = (i32::from(dc) * i32::from(step.cast_signed()) + (1 << (MEAN_SHIFT - 1))) >> MEAN_SHIFT;
    let level = level << (i32::BITS - LEVEL_BITS) >> (i32::BITS - LEVEL_BITS);
    (level.clamp(i8::MIN.into(), i8::MAX.into()) - i32::from(CENTRE)) as u8
}

/// The 4x4 samples of both blocks, before the shift to unsigned levels.
#[inline]
#[target_feature(enable = "avx2")]
fn four(blocks: &[&Block; BLOCKS], quantization: &[u16; 64]) -> __m256i {
    let (mut rows, tables) = (by_rows(blocks), by_rows(&[quantization; BLOCKS]));
    let low = _mm256_or_si256(_mm256_or_si256(rows[1], rows[2]), rows[3]);
    let high = _mm256_or_si256(_mm256_or_si256(rows[5], rows[6]), rows[7]);
    let right = _mm256_unpackhi_epi64(_mm256_or_si256(rows[0], low), high);
    let is_low = is_zero(_mm256_or_si256(right, high));
    if is_low && is_zero(_mm256_or_si256(_mm256_srli_epi64::<16>(rows[0]), low)) {
        return same(_mm256_mullo_epi16(rows[0], tables[0]));
    }
    let used = if is_low { 4 } else { 8 };
    for (row, table) in rows.iter_mut().zip(tables).take(used) {
        *row = _mm256_mullo_epi16(*row, table);
    }
    let [zero, one, two, three, _, five, six, seven] = rows;
    let mut made = if is_low {
        let none = first_pairs(_mm256_setzero_si256(), _mm256_setzero_si256());
        let odd = [first_pairs(one, three), none];
        pass_of_4::<FIRST_OF_4, 1>(widened_first::<FIRST_OF_4, MEAN_OF_4>(zero), first_pairs(two, six), odd)
    } else {
        let odd = [pairs(one, three), pairs(five, seven)];
        pass_of_4::<FIRST_OF_4, 2>(widened::<FIRST_OF_4, MEAN_OF_4>(zero), pairs(two, six), odd)
    };
    // libjpeg-turbo skips the first pass for blocks with no coefficients below the first row, and the pass
    // would give another result if it overflowed.
    let flat = without(_mm256_or_si256(low, high));
    if !is_zero(flat) {
        let shifted = _mm256_slli_epi16::<{ PASS_BITS as i32 }>(zero);
        for row in &mut made {
            *row = _mm256_blendv_epi8(*row, shifted, flat);
        }
    }
    // Each half of a register now holds two columns with four numbers each.
    let [a, b, c, d] = made;
    let ([ab, right_ab], [cd, right_cd]) = (pairs(a, b), pairs(c, d));
    let (zero_one, two_three) = (_mm256_unpacklo_epi32(ab, cd), _mm256_unpackhi_epi32(ab, cd));
    let (four_five, six_seven) =
        (_mm256_unpacklo_epi32(right_ab, right_cd), _mm256_unpackhi_epi32(right_ab, right_cd));
    let odd = [[_mm256_unpackhi_epi16(zero_one, two_three)], [_mm256_unpackhi_epi16(four_five, six_seven)]];
    let zero = widened_first::<SECOND_OF_4, MEAN_OF_4>(zero_one);
    let [a, b, c, d] = pass_of_4::<SECOND_OF_4, 1>(zero, first_pairs(two_three, six_seven), odd);
    // The upper half of each of these registers is zero.
    let columns = _mm256_packs_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
    let across =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    _mm256_shuffle_epi8(columns, across)
}

/// The samples of blocks that have only DC, before the shift to unsigned levels. Each block's first number in
/// `dc` is its DC.
#[inline]
#[target_feature(enable = "avx2")]
fn same(dc: __m256i) -> __m256i {
    let once = _mm256_slli_epi16::<{ PASS_BITS as i32 }>(dc);
    let level = narrowed::<SECOND_OF_4, 1>(widened_first::<SECOND_OF_4, MEAN_OF_4>(once));
    _mm256_shuffle_epi8(_mm256_packs_epi16(level, level), _mm256_setzero_si256())
}

/// One pass of the transform to four samples. It takes the row of the mean, and the other rows in pairs: 2
/// and 6, 1 and 3, 5 and 7, counted from 0.
#[inline]
#[target_feature(enable = "avx2")]
fn pass_of_4<const SHIFT: i32, const N: usize>(
    mean: Sums<N>,
    two_and_six: Sums<N>,
    [one_and_three, five_and_seven]: [Sums<N>; 2],
) -> [__m256i; 4] {
    let even = weighed(two_and_six, C_1_847, -C_0_765);
    let even = [sum(mean, even), difference(mean, even)];
    let odd = [
        sum(weighed(one_and_three, C_2_562, C_0_899), weighed(five_and_seven, -C_0_601, -C_0_509)),
        sum(weighed(one_and_three, C_1_061, -C_2_172), weighed(five_and_seven, C_1_451, -C_0_211)),
    ];
    [
        narrowed::<SHIFT, N>(sum(even[0], odd[0])),
        narrowed::<SHIFT, N>(sum(even[1], odd[1])),
        narrowed::<SHIFT, N>(difference(even[1], odd[1])),
        narrowed::<SHIFT, N>(difference(even[0], odd[0])),
    ]
}

/// Stores the 4x4 samples of both blocks.
///
/// # Safety
/// For each block, four rows of four bytes must be within `samples`, from its start and with this pitch.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn write_4(levels: __m256i, starts: [usize; BLOCKS], pitch: usize, samples: &mut [u8]) {
    let bytes = _mm256_add_epi8(levels, _mm256_set1_epi8(CENTRE));
    let halves = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
    for (start, half) in starts.into_iter().zip(halves) {
        let rows = [
            _mm_cvtsi128_si32(half),
            _mm_extract_epi32::<1>(half),
            _mm_extract_epi32::<2>(half),
            _mm_extract_epi32::<3>(half),
        ];
        for (row, bytes) in rows.into_iter().enumerate() {
            // SAFETY: the caller guarantees that four bytes of each row are within `samples`.
            unsafe { samples.as_mut_ptr().add(start + row * pitch).cast::<i32>().write_unaligned(bytes) };
        }
    }
}

/// The 2x2 samples of both blocks, before the shift to unsigned levels.
#[inline]
#[target_feature(enable = "avx2")]
fn two(blocks: &[&Block; BLOCKS], quantization: &[u16; 64]) -> __m256i {
    let (mut rows, tables) = (by_rows(blocks), by_rows(&[quantization; BLOCKS]));
    for (row, table) in rows.iter_mut().zip(tables) {
        *row = _mm256_mullo_epi16(*row, table);
    }
    let [zero, one, _, three, _, five, _, seven] = rows;
    let half = _mm256_set1_epi32(1 << (FIRST_OF_2 - 1));
    // Among the columns with even numbers, only column 0 is needed.
    let even = |row: __m256i| _mm256_slli_epi32::<16>(row);
    let odd = |row: __m256i| _mm256_blend_epi16::<0b1010_1010>(_mm256_setzero_si256(), row);
    let both = |a: __m256i, b: __m256i| _mm256_blend_epi16::<0b1010_1010>(a, b);
    let sums_of = |one_and_three: __m256i, five_and_seven: __m256i| {
        let [sums] =
            sum(weighed([one_and_three], C_3_624, -C_1_272), weighed([five_and_seven], C_0_850, -C_0_720));
        sums
    };
    let sums = [
        sums_of(both(one, even(three)), both(five, even(seven))),
        sums_of(both(_mm256_srli_epi32::<16>(one), three), both(_mm256_srli_epi32::<16>(five), seven)),
    ];
    let means = [even(zero), odd(zero)];
    let mut made = [[_mm256_setzero_si256(); 2]; 2];
    for ((made, mean), sums) in made.iter_mut().zip(means).zip(sums) {
        let mean = _mm256_add_epi32(_mm256_srai_epi32::<{ 16 - MEAN_OF_2 }>(mean), half);
        *made = [
            _mm256_srai_epi32::<FIRST_OF_2>(_mm256_add_epi32(mean, sums)),
            _mm256_srai_epi32::<FIRST_OF_2>(_mm256_sub_epi32(mean, sums)),
        ];
    }
    let [[first, second], [odd_of_first, odd_of_second]] = made;
    // From here on, each row has the sum of its odd columns twice and its mean twice, once for each sample.
    let columns = _mm256_packs_epi32(odd_of_first, odd_of_second);
    let [a, b, c, d] = [C_3_624, -C_1_272, C_0_850, -C_0_720];
    let weights = _mm256_broadcastsi128_si256(_mm_setr_epi16(a, b, c, d, a, b, c, d));
    let sums = _mm256_madd_epi16(columns, weights);
    let sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b10_11_00_01>(sums));
    let mean = _mm256_shuffle_epi32::<0b01_01_00_00>(_mm256_unpacklo_epi32(first, second));
    let mean =
        _mm256_add_epi32(_mm256_slli_epi32::<MEAN_OF_2>(mean), _mm256_set1_epi32(1 << (SECOND_OF_2 - 1)));
    let signs = _mm256_setr_epi32(1, -1, 1, -1, 1, -1, 1, -1);
    let levels = _mm256_srai_epi32::<SECOND_OF_2>(_mm256_add_epi32(mean, _mm256_sign_epi32(sums, signs)));
    let levels = _mm256_packs_epi32(levels, levels);
    _mm256_packs_epi16(levels, levels)
}

/// Stores the 2x2 samples of both blocks.
///
/// # Safety
/// For each block, two rows of two bytes must be within `samples`, from its start and with this pitch.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn write_2(levels: __m256i, starts: [usize; BLOCKS], pitch: usize, samples: &mut [u8]) {
    let bytes = _mm256_add_epi8(levels, _mm256_set1_epi8(CENTRE));
    let halves = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
    for (start, half) in starts.into_iter().zip(halves) {
        let bytes = _mm_cvtsi128_si32(half);
        for (row, bytes) in [bytes as u16, (bytes >> 16) as u16].into_iter().enumerate() {
            // SAFETY: the caller guarantees that two bytes of each row are within `samples`.
            unsafe { samples.as_mut_ptr().add(start + row * pitch).cast::<u16>().write_unaligned(bytes) };
        }
    }
}
