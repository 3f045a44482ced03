//! Expansion with AVX2: 16 coefficients at a time are put in their places in zigzag order, and then in natural order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::library::Block;
use super::super::sequential::NATURAL;
use super::expand::{self, Escapes, Packed};
use super::read::{ReadMcu, Reader};

/// The index of a byte that becomes zero.
const ZERO: u8 = 0x80;

/// For each eight bits, where the values of those that are set come from.
const SPREAD: [[u8; 8]; 256] = {
    let (mut all, mut bits) = ([[ZERO; 8]; 256], 0);
    while bits < 256 {
        let (mut at, mut next) = (0, 0);
        while at < 8 {
            if bits >> at & 1 == 1 {
                all[bits][at] = next;
                next += 1;
            }
            at += 1;
        }
        bits += 1;
    }
    all
};

/// Where each 16 coefficients in natural order come from, among each 16 in zigzag order.
const TO_NATURAL: [[[u8; 16]; 4]; 4] = {
    let (mut all, mut at) = ([[[ZERO; 16]; 4]; 4], 0);
    while at < 64 {
        let to = NATURAL[at] as usize;
        all[to / 16][at / 16][to % 16] = (at % 16) as u8;
        at += 1;
    }
    all
};

/// Reads an MCU, if this machine has all that it needs.
pub(super) fn read_mcu() -> Option<ReadMcu> {
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn with_features(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        reader.mcu(blocks, (|packed, block| expand_256(packed, block), expand::count))
    }
    fn detected(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        // SAFETY: the function is only handed out where the machine has the features.
        unsafe { with_features(reader, blocks) }
    }
    is_here().then_some(detected)
}

/// The way to expand a block, for tests.
#[cfg(test)]
pub(super) fn expand() -> Option<expand::Expand> {
    fn detected(packed: &Packed<'_>, block: &mut Block) -> Escapes {
        // SAFETY: the function is only handed out where the machine has the features.
        unsafe { expand_256(packed, block) }
    }
    is_here().then_some(detected)
}

fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn expand_256(packed: &Packed<'_>, block: &mut Block) -> Escapes {
    // Most blocks have low frequencies alone.
    match packed.bitmap << 1 {
        0..0x1_0000 => expand_groups::<1>(packed, block),
        0x1_0000..0x1_0000_0000 => expand_groups::<2>(packed, block),
        _ => expand_groups::<4>(packed, block),
    }
}

/// Expands the first groups of 16 coefficients in zigzag order.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn expand_groups<const GROUPS: usize>(packed: &Packed<'_>, block: &mut Block) -> Escapes {
    let mut escapes = Escapes { bytes: 0, words: 0 };
    let mut natural = [_mm_setzero_si128(); 4];
    let present = packed.bitmap << 1;
    let mut before = 0;
    for group in 0..GROUPS {
        let bits = (present >> (16 * group)) as u16;
        let count = bits.count_ones();
        let nibbles = signed_nibbles(nibbles_from(packed.nibbles, before));
        let zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(nibbles, _mm_setzero_si128())) as u32;
        let escaped = _bzhi_u32(zeros, count) as u16;
        let mut values = nibbles;
        if escaped != 0 {
            // At most 47 bytes come before those of the last group.
            let bytes = load(packed.bytes, (escapes.bytes as usize).min(48));
            values = _mm_or_si128(values, _mm_shuffle_epi8(bytes, spread(escaped)));
            let zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(values, _mm_setzero_si128())) as u16;
            escapes.words |= u64::from(zeros & escaped) << before;
            escapes.bytes += escaped.count_ones();
        }
        before += count;
        let in_zigzag = _mm_shuffle_epi8(values, spread(bits));
        for (natural, from) in natural.iter_mut().zip(&TO_NATURAL) {
            *natural = _mm_or_si128(*natural, _mm_shuffle_epi8(in_zigzag, load(&from[group], 0)));
        }
    }
    for (two_rows, natural) in block.as_chunks_mut::<16>().0.iter_mut().zip(natural) {
        // SAFETY: 32 bytes are stored to 16 coefficients of two bytes.
        unsafe { _mm256_storeu_si256(two_rows.as_mut_ptr().cast(), _mm256_cvtepi8_epi16(natural)) };
    }
    escapes
}

/// 16 nibbles from one on: at most 47 come before those of the last group.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn nibbles_from(nibbles: &[u8; 32], at: u32) -> u64 {
    let (byte, shift) = (((at / 2) as usize).min(23), at % 2 * 4);
    // SAFETY: eight bytes are read from byte 23 on at most, of 32.
    let first = unsafe { nibbles.as_ptr().add(byte).cast::<u64>().read_unaligned() };
    let next = u64::from(nibbles[byte + 8]);
    first >> shift | next << (u64::BITS - 8) << (8 - shift)
}

/// Nibbles as bytes with their signs.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn signed_nibbles(nibbles: u64) -> __m128i {
    let [mask, sign] = [_mm_set1_epi8(15), _mm_set1_epi8(8)];
    let nibbles = _mm_cvtsi64_si128(nibbles.cast_signed());
    let each = _mm_and_si128(_mm_unpacklo_epi8(nibbles, _mm_srli_epi16::<4>(nibbles)), mask);
    _mm_sub_epi8(_mm_xor_si128(each, sign), sign)
}

/// For 16 bits, where the values of those that are set come from.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn spread(bits: u16) -> __m128i {
    let [low, high] = bits.to_le_bytes();
    // SAFETY: eight bytes are loaded from as many.
    let (first, second) = unsafe {
        (
            _mm_loadl_epi64(SPREAD[usize::from(low)].as_ptr().cast()),
            _mm_loadl_epi64(SPREAD[usize::from(high)].as_ptr().cast()),
        )
    };
    // What becomes zero still does after eight more.
    _mm_unpacklo_epi64(first, _mm_add_epi8(second, _mm_set1_epi8(low.count_ones() as i8)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: 16 bytes are loaded from as many.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
