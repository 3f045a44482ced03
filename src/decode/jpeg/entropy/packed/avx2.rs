//! Expansion with AVX2: eight coefficients at a time are put in their places in zigzag order, and then all in natural
//! order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::library::Block;
use super::super::sequential::NATURAL;
use super::expand::{Escapes, Packed};
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
        reader.mcu(blocks, |packed, block| expand_256(packed, block))
    }
    fn detected(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        // SAFETY: the function is only handed out where the machine has the features.
        unsafe { with_features(reader, blocks) }
    }
    is_here().then_some(detected)
}

/// The way to expand a block, for tests.
#[cfg(test)]
pub(super) fn expand() -> Option<super::expand::Expand> {
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
    // Values, and the bytes that are loaded after the last one.
    let mut values = [0u8; 72];
    let mut zeros = 0;
    let [mask, sign] = [15, 8].map(|byte| _mm_set1_epi8(byte));
    for half in 0..2 {
        let nibbles = load(packed.nibbles, 16 * half);
        let [low, high] = [nibbles, _mm_srli_epi16::<4>(nibbles)].map(|nibbles| _mm_and_si128(nibbles, mask));
        for (at, pair) in [_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high)].into_iter().enumerate()
        {
            let at = 32 * half + 16 * at;
            let value = _mm_sub_epi8(_mm_xor_si128(pair, sign), sign);
            let zero = _mm_movemask_epi8(_mm_cmpeq_epi8(value, _mm_setzero_si128())) as u16;
            zeros |= u64::from(zero) << at;
            // SAFETY: 16 bytes are stored, the last ones up to 64.
            unsafe { _mm_storeu_si128(values[at..at + 16].as_mut_ptr().cast(), value) };
        }
    }
    let mut escapes = Escapes { bytes: 0, words: 0 };
    let mut escaped = zeros & _bzhi_u64(u64::MAX, packed.bitmap.count_ones());
    while escaped != 0 {
        let at = escaped.trailing_zeros() as usize;
        escaped &= escaped - 1;
        let byte = packed.bytes[escapes.bytes as usize % packed.bytes.len()];
        values[at] = byte;
        escapes.bytes += 1;
        escapes.words |= u64::from(byte == 0) << at;
    }
    let present = packed.bitmap << 1;
    let mut from = 0;
    let mut eight = |group: usize| {
        let bits = (present >> (8 * group)) as u8;
        // SAFETY: eight bytes are loaded: at most 56 values come before those of the last group.
        let (value, spread) = unsafe {
            let value = _mm_loadl_epi64(values[from..from + 8].as_ptr().cast());
            (value, _mm_loadl_epi64(SPREAD[usize::from(bits)].as_ptr().cast()))
        };
        from += bits.count_ones() as usize;
        _mm_shuffle_epi8(value, spread)
    };
    let in_zigzag: [__m128i; 4] = std::array::from_fn(|at| {
        let low = eight(2 * at);
        _mm_unpacklo_epi64(low, eight(2 * at + 1))
    });
    for (two_rows, from) in block.as_chunks_mut::<16>().0.iter_mut().zip(&TO_NATURAL) {
        let mut natural = _mm_setzero_si128();
        for (values, from) in in_zigzag.iter().zip(from) {
            natural = _mm_or_si128(natural, _mm_shuffle_epi8(*values, load(from, 0)));
        }
        // SAFETY: 32 bytes are stored to 16 coefficients of two bytes.
        unsafe { _mm256_storeu_si256(two_rows.as_mut_ptr().cast(), _mm256_cvtepi8_epi16(natural)) };
    }
    escapes
}

#[target_feature(enable = "avx2")]
fn load<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: 16 bytes are loaded from as many.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
