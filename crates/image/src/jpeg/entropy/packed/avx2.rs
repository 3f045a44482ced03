//! Expands packed blocks with AVX2. 32 coefficients at a time are put in zigzag order, 16 in each half of a
//! register, and are then moved to natural order.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::block::Block;
use super::super::sequential::NATURAL;
use super::expand::{Escapes, PackedBlock};
use super::read::{ReadMcu, Reader};

/// The shuffle index that produces a zero byte.
const ZERO: u8 = 0x80;

/// The number of coefficients in half a register. Shuffles work on the two halves separately.
const LANE: usize = 16;

/// The shuffle indices that spread consecutive values over the set bits of a pattern of eight bits: `places`
/// has the index of a value for each set bit, and an index that gives zero for each other bit. `count`
/// repeats the number of set bits eight times.
#[derive(Clone, Copy)]
#[repr(C)]
struct Spread {
    before: [u8; 8],
    places: [u8; 8],
    count: [u8; 8],
}

/// The spread for each pattern of eight bits.
static SPREADS: [Spread; 256] = {
    let (mut all, mut bits) = ([Spread { before: [0; 8], places: [ZERO; 8], count: [0; 8] }; 256], 0);
    while bits < 256 {
        let (mut at, mut next) = (0, 0);
        while at < 8 {
            if bits >> at & 1 == 1 {
                all[bits].places[at] = next;
                next += 1;
            }
            at += 1;
        }
        all[bits].count = [next; 8];
        bits += 1;
    }
    all
};

/// Shuffle indices that move coefficients from zigzag order to natural order. Each shuffle picks, from 16
/// consecutive coefficients in zigzag order, those that belong to a given 16 in natural order.
static TO_NATURAL: [[[[u8; LANE]; 2]; 2]; 4] = {
    let (mut all, mut at) = ([[[[ZERO; LANE]; 2]; 2]; 4], 0);
    while at < 64 {
        let to = NATURAL[at] as usize;
        all[to / LANE][at / (2 * LANE)][at / LANE % 2][to % LANE] = (at % LANE) as u8;
        at += 1;
    }
    all
};

/// The function that reads an MCU, if this machine has the required features.
pub(super) fn read_mcu() -> Option<ReadMcu> {
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn with_features(reader: &mut Reader<'_>, blocks: &mut [&mut Block]) -> Option<()> {
        reader.mcu(blocks, |packed, block| expand_256(packed, block), |packed| count_256(packed))
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
        unsafe { expand_256(packed, block) }
    }
    fn counted(packed: &PackedBlock<'_>) -> (usize, usize) {
        // SAFETY: as above.
        unsafe { count_256(packed) }
    }
    is_here().then_some((expanded, counted))
}

fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn expand_256(packed: &PackedBlock<'_>, block: &mut Block) -> Escapes {
    // Most blocks have only low frequencies.
    match packed.bitmap << 1 {
        0..0x1_0000_0000 => expand_halves::<1>(packed, block),
        _ => expand_halves::<2>(packed, block),
    }
}

/// Expands the first 32 coefficients in zigzag order, or all 64 if `HALVES` is 2.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn expand_halves<const HALVES: usize>(packed: &PackedBlock<'_>, block: &mut Block) -> Escapes {
    let mut escapes = Escapes { bytes: 0, words: 0 };
    let mut natural = [_mm256_setzero_si256(); 4];
    let present = packed.bitmap << 1;
    let mut first = 0;
    for half in 0..HALVES {
        let bits = (present >> (32 * half)) as u32;
        let count = bits.count_ones();
        let in_lane = (bits as u16).count_ones();
        let second = first + in_lane;
        let mut values =
            signed_nibbles(nibbles_from(packed.nibbles, first), nibbles_from(packed.nibbles, second));
        let of_values = _bzhi_u32(0xFFFF, in_lane) | _bzhi_u32(0xFFFF, count - in_lane) << LANE;
        let escaped = zeros(values) & of_values;
        if escaped != 0 {
            let next = escapes.bytes + (escaped as u16).count_ones();
            // At most 47 coefficients come before the last 16, so the limit never changes an offset.
            let [low, high] = [escapes.bytes, next].map(|at| load(packed.bytes, (at as usize).min(48)));
            let bytes = _mm256_set_m128i(high, low);
            values = _mm256_or_si256(values, _mm256_shuffle_epi8(bytes, spread(escaped)));
            let zeros = zeros(values) & escaped;
            escapes.words |= u64::from(zeros as u16) << first | u64::from(zeros >> LANE) << second;
            escapes.bytes += escaped.count_ones();
        }
        first += count;
        let in_zigzag = _mm256_shuffle_epi8(values, spread(bits));
        for (natural, from) in natural.iter_mut().zip(&TO_NATURAL) {
            // SAFETY: the load reads 32 bytes, which is the length of `from[half]`.
            let from = unsafe { _mm256_loadu_si256(from[half].as_ptr().cast()) };
            *natural = _mm256_or_si256(*natural, _mm256_shuffle_epi8(in_zigzag, from));
        }
    }
    for (two_rows, natural) in block.as_chunks_mut::<LANE>().0.iter_mut().zip(natural) {
        let both = _mm_or_si128(_mm256_castsi256_si128(natural), _mm256_extracti128_si256::<1>(natural));
        // SAFETY: the store writes 32 bytes, which is the size of 16 coefficients.
        unsafe { _mm256_storeu_si256(two_rows.as_mut_ptr().cast(), _mm256_cvtepi8_epi16(both)) };
    }
    escapes
}

/// Returns the sixteen nibbles that begin at index `at`. At most 47 nibbles come before the last 16, so the
/// limit never changes the index.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn nibbles_from(nibbles: &[u8; 32], at: u32) -> u64 {
    let (byte, shift) = (((at / 2) as usize).min(23), at % 2 * 4);
    // SAFETY: `byte` is at most 23, so the eight bytes that are read are among the 32.
    let first = unsafe { nibbles.as_ptr().add(byte).cast::<u64>().read_unaligned() };
    let next = u64::from(nibbles[byte + 8]);
    first >> shift | next << (u64::BITS - 8) << (8 - shift)
}

/// Converts sixteen nibbles for each half of a register to signed bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn signed_nibbles(low: u64, high: u64) -> __m256i {
    let [mask, sign] = [_mm256_set1_epi8(15), _mm256_set1_epi8(8)];
    let [low, high] = [_mm_cvtsi64_si128(low.cast_signed()), _mm_cvtsi64_si128(high.cast_signed())];
    let nibbles = _mm256_set_m128i(high, low);
    let each = _mm256_unpacklo_epi8(nibbles, _mm256_srli_epi16::<4>(nibbles));
    _mm256_sub_epi8(_mm256_xor_si256(_mm256_and_si256(each, mask), sign), sign)
}

/// Makes the shuffle indices that spread values over the set bits of `bits`, separately for the 16 bits of
/// each half, and that give zeros for the other bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn spread(bits: u32) -> __m256i {
    let [a, b, c, d] = bits.to_le_bytes().map(|bits| &raw const SPREADS[usize::from(bits)]);
    // SAFETY: 16 bytes are loaded from the first field on or from the second field on; the three fields have
    // 8 bytes each.
    let (firsts, seconds) = unsafe {
        (
            _mm256_loadu2_m128i((&raw const (*c).places).cast(), (&raw const (*a).places).cast()),
            _mm256_loadu2_m128i(d.cast(), b.cast()),
        )
    };
    // `ZERO` still gives zero after a count of up to eight is added.
    _mm256_add_epi8(firsts, seconds)
}

/// Counts the bytes and the words that a skipped block takes from their streams.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn count_256(packed: &PackedBlock<'_>) -> (usize, usize) {
    let count = packed.count();
    // SAFETY: `nibbles` has 32 bytes, and `bytes` has two times 32 bytes.
    let (nibbles, bytes) = unsafe {
        let bytes = packed.bytes.as_ptr();
        (
            _mm256_loadu_si256(packed.nibbles.as_ptr().cast()),
            [_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())],
        )
    };
    let low = zeros(_mm256_and_si256(nibbles, _mm256_set1_epi8(0x0F)));
    let high = zeros(_mm256_andnot_si256(_mm256_set1_epi8(0x0F), nibbles));
    let escaped = _bzhi_u32(low, count.div_ceil(2)).count_ones() + _bzhi_u32(high, count / 2).count_ones();
    let words = u64::from(zeros(bytes[0])) | u64::from(zeros(bytes[1])) << 32;
    (escaped as usize, _bzhi_u64(words, escaped).count_ones() as usize)
}

/// A mask with a set bit for each byte that is zero.
#[inline]
#[target_feature(enable = "avx2")]
fn zeros(bytes: __m256i) -> u32 {
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: the load reads 16 bytes, which is the length of the slice.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
