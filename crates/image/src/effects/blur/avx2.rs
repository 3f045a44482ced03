//! Sums up the levels of a blur with AVX2, two weights at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lines::{BLOCK, LEVEL_BITS, Lines, WEIGHT_BITS};

/// The number of levels in a register.
const LEVELS: usize = 16;
/// The number of weights that one instruction multiplies with levels and adds up.
const PAIR: usize = 2;
/// The number of registers with the sums of a block.
const SUMS: usize = 4;

/// The number of bits that are dropped of a sum along a row, and of a sum along a column.
const WEIGHT: i32 = WEIGHT_BITS as i32;
const BOTH: i32 = (WEIGHT_BITS + LEVEL_BITS) as i32;

/// Makes a row of levels from sums along a row. Returns false, and leaves the target unchanged, without AVX2.
pub(super) fn across(weights: &[i16], lines: Lines<'_>, to: &mut [i16]) -> bool {
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    check(lines, to.len());
    // SAFETY: the processor has AVX2, and the lines were checked.
    unsafe { across_avx2(weights, lines, to) };
    true
}

/// Makes a row of bytes from sums along columns. Returns false, and leaves the target unchanged, without
/// AVX2.
pub(super) fn down(weights: &[i16], lines: Lines<'_>, to: &mut [u8]) -> bool {
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    check(lines, to.len());
    // SAFETY: the processor has AVX2, and the lines were checked.
    unsafe { down_avx2(weights, lines, to) };
    true
}

/// Panics if a line has fewer values than a row of this length, in whole blocks.
fn check(lines: Lines<'_>, row: usize) {
    let last = lines.firsts.iter().max().map_or(0, |first| first + row.next_multiple_of(BLOCK));
    assert!(last <= lines.values.len(), "lines end before the row that is made of them");
}

/// # Safety
/// The lines must have whole blocks for the row that is made, as [`check`] demands.
#[target_feature(enable = "avx2")]
unsafe fn across_avx2(weights: &[i16], lines: Lines<'_>, to: &mut [i16]) {
    let half = _mm256_set1_epi32(1 << (WEIGHT_BITS - 1));
    let mut made = [0; BLOCK];
    for (block, to) in to.chunks_mut(BLOCK).enumerate() {
        // SAFETY: the caller checked the lines.
        let sums = unsafe { weighed(weights, lines, block * BLOCK, half) };
        let low =
            _mm256_packs_epi32(_mm256_srai_epi32::<WEIGHT>(sums[0]), _mm256_srai_epi32::<WEIGHT>(sums[1]));
        let high =
            _mm256_packs_epi32(_mm256_srai_epi32::<WEIGHT>(sums[2]), _mm256_srai_epi32::<WEIGHT>(sums[3]));
        // SAFETY: two registers have 32 levels, as many as `made`.
        unsafe {
            _mm256_storeu_si256(made.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(made.as_mut_ptr().add(LEVELS).cast(), high);
        }
        to.copy_from_slice(&made[..to.len()]);
    }
}

/// # Safety
/// The lines must have whole blocks for the row that is made, as [`check`] demands.
#[target_feature(enable = "avx2")]
unsafe fn down_avx2(weights: &[i16], lines: Lines<'_>, to: &mut [u8]) {
    let half = _mm256_set1_epi32(1 << (WEIGHT_BITS + LEVEL_BITS - 1));
    let mut made = [0; BLOCK];
    for (block, to) in to.chunks_mut(BLOCK).enumerate() {
        // SAFETY: the caller checked the lines.
        let sums = unsafe { weighed(weights, lines, block * BLOCK, half) };
        let low = _mm256_packs_epi32(_mm256_srai_epi32::<BOTH>(sums[0]), _mm256_srai_epi32::<BOTH>(sums[1]));
        let high = _mm256_packs_epi32(_mm256_srai_epi32::<BOTH>(sums[2]), _mm256_srai_epi32::<BOTH>(sums[3]));
        // Packing works in halves of registers, so the middle quarters are exchanged.
        let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high));
        // SAFETY: a register has 32 bytes, as many as `made`.
        unsafe { _mm256_storeu_si256(made.as_mut_ptr().cast(), bytes) };
        to.copy_from_slice(&made[..to.len()]);
    }
}

/// The weighted sums of a block of levels, whose first ones have the index `at` in their lines, with `half`
/// added for rounding. Two registers have the sums of 16 levels: those of the levels 0 to 3 and 8 to 11, and
/// the others.
///
/// # Safety
/// The lines must have a whole block of levels from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn weighed(weights: &[i16], lines: Lines<'_>, at: usize, half: __m256i) -> [__m256i; SUMS] {
    let mut sums = [half; SUMS];
    let pairs = lines.firsts.as_chunks::<PAIR>().0.iter().zip(weights.as_chunks::<PAIR>().0);
    for ([one, other], [first, second]) in pairs {
        let weights = _mm256_set1_epi32(i32::from(*first as u16) | i32::from(*second) << 16);
        for (half, sums) in sums.as_chunks_mut::<PAIR>().0.iter_mut().enumerate() {
            let from = at + half * LEVELS;
            // SAFETY: the caller guarantees that the lines have a whole block of levels from `at` on.
            let (one, other) = unsafe {
                (
                    _mm256_loadu_si256(lines.values.as_ptr().add(one + from).cast()),
                    _mm256_loadu_si256(lines.values.as_ptr().add(other + from).cast()),
                )
            };
            let (low, high) = (_mm256_unpacklo_epi16(one, other), _mm256_unpackhi_epi16(one, other));
            sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(low, weights));
            sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(high, weights));
        }
    }
    sums
}
