//! Expands packed blocks with AVX-512 VBMI, all coefficients of a block at once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::block::Block;
use super::super::sequential::NATURAL;
use super::expand::{Escapes, PackedBlock};
use super::read::{ReadMcu, Reader};

/// The zigzag index of each coefficient in natural order.
const ZIGZAG: [u8; 64] = {
    let (mut zigzag, mut at) = ([0; 64], 0);
    while at < 64 {
        zigzag[NATURAL[at] as usize] = at as u8;
        at += 1;
    }
    zigzag
};

/// The function that reads an MCU, if this machine has the required features.
pub(super) fn read_mcu() -> Option<ReadMcu> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
    fn with_features(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        reader.mcu(blocks, |packed, block| expand_512(packed, block), |packed| count_512(packed))
    }
    fn detected(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        // SAFETY: the function is returned only if the machine has the features.
        unsafe { with_features(reader, blocks) }
    }
    is_here().then_some(detected)
}

/// The functions that expand a block and that count its bytes and words, for tests.
#[cfg(test)]
pub(super) fn ways() -> Option<(super::expand::Expand, super::expand::Count)> {
    fn expanded(packed: &PackedBlock<'_>, block: &mut Block) -> Escapes {
        // SAFETY: the function is returned only if the machine has the features.
        unsafe { expand_512(packed, block) }
    }
    fn counted(packed: &PackedBlock<'_>) -> (usize, usize) {
        // SAFETY: as above.
        unsafe { count_512(packed) }
    }
    is_here().then_some((expanded, counted))
}

fn is_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// The non-zero coefficients of a block in zigzag order, with masks of those that do not fit a nibble, and of
/// those that do not fit a byte either.
struct BlockValues {
    all: __m512i,
    bytes: u64,
    words: u64,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
fn values(packed: &PackedBlock<'_>) -> BlockValues {
    // SAFETY: the loads read 32 and 64 bytes, which are the lengths of the two arrays.
    let (nibbles, bytes) = unsafe {
        (_mm256_loadu_si256(packed.nibbles.as_ptr().cast()), _mm512_loadu_si512(packed.bytes.as_ptr().cast()))
    };
    let present: u64 = _bzhi_u64(u64::MAX, packed.bitmap.count_ones());
    // Each byte becomes 16 bits, so that its nibbles become one byte each.
    let wide = _mm512_cvtepu8_epi16(nibbles);
    let spread = _mm512_or_si512(wide, _mm512_slli_epi16::<4>(wide));
    let spread = _mm512_and_si512(spread, _mm512_set1_epi8(15));
    let sign = _mm512_set1_epi8(8);
    let values = _mm512_sub_epi8(_mm512_xor_si512(spread, sign), sign);
    let escaped = _mm512_testn_epi8_mask(values, values) & present;
    let all = _mm512_mask_expand_epi8(values, escaped, bytes);
    BlockValues { all, bytes: escaped, words: _mm512_testn_epi8_mask(all, all) & escaped }
}

/// Counts the bytes and the words that a skipped block takes from their streams.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
fn count_512(packed: &PackedBlock<'_>) -> (usize, usize) {
    let BlockValues { bytes, words, .. } = values(packed);
    (bytes.count_ones() as usize, words.count_ones() as usize)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
fn expand_512(packed: &PackedBlock<'_>, block: &mut Block) -> Escapes {
    let BlockValues { all, bytes, words } = values(packed);
    // SAFETY: the load reads 64 bytes, which is the length of the array.
    let zigzag = unsafe { _mm512_loadu_si512(ZIGZAG.as_ptr().cast()) };
    let in_zigzag = _mm512_maskz_expand_epi8(packed.bitmap << 1, all);
    let natural = _mm512_permutexvar_epi8(zigzag, in_zigzag);
    let low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(natural));
    let high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(natural));
    let [first, second] = block.as_chunks_mut::<32>().0 else { unreachable!("two halves of 64") };
    // SAFETY: each store writes 64 bytes, which is the size of 32 coefficients.
    unsafe {
        _mm512_storeu_si512(first.as_mut_ptr().cast(), low);
        _mm512_storeu_si512(second.as_mut_ptr().cast(), high);
    }
    Escapes { bytes: bytes.count_ones(), words }
}
