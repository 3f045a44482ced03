//! Puts the AC coefficients of one packed block in their places.

use super::super::block::Block;
use super::super::sequential::NATURAL;

/// A packed block.
#[derive(Clone, Copy)]
pub(super) struct PackedBlock<'a> {
    /// The mask of AC coefficients that are not zero; the lowest bit is the first AC coefficient in zigzag
    /// order.
    pub(super) bitmap: u64,
    /// The stream of nibbles, beginning with the first nibble of this block; `bytes` is the stream of bytes.
    pub(super) nibbles: &'a [u8; 32],
    pub(super) bytes: &'a [u8; 64],
}

impl PackedBlock<'_> {
    /// The number of coefficients that are not zero.
    pub(super) fn count(&self) -> u32 {
        self.bitmap.count_ones()
    }
}

/// The number of bytes that a block takes from the stream of bytes, and a mask with one bit for each of its
/// non-zero coefficients, which is set if the coefficient is stored as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Escapes {
    pub(super) bytes: u32,
    pub(super) words: u64,
}

/// A function that sets the AC coefficients of a block. It sets those that are stored as words to zero, and
/// DC to any value.
#[cfg(test)]
pub(super) type Expand = fn(&PackedBlock<'_>, &mut Block) -> Escapes;

/// A function that counts the bytes and the words that a block takes from their streams.
#[cfg(test)]
pub(super) type Count = fn(&PackedBlock<'_>) -> (usize, usize);

/// Expands a block with plain code, for machines without the vector instructions.
pub(super) fn plain(packed: &PackedBlock<'_>, block: &mut Block) -> Escapes {
    let mut escapes = Escapes { bytes: 0, words: 0 };
    *block = [0; 64];
    for (place, at) in places(packed.bitmap).zip(0..) {
        let nibble = packed.nibbles[at / 2] >> (at % 2 * 4) & 15;
        let mut value = (nibble << 4) as i8 >> 4;
        if nibble == 0 {
            value = packed.bytes[escapes.bytes as usize % packed.bytes.len()] as i8;
            escapes.bytes += 1;
            escapes.words |= u64::from(value == 0) << at;
        }
        block[place] = value.into();
    }
    escapes
}

/// The indices, in natural order, of the coefficients that are not zero.
pub(super) fn places(mut bitmap: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (bitmap != 0).then(|| bitmap.trailing_zeros() as usize + 1)?;
        bitmap &= bitmap - 1;
        Some(usize::from(NATURAL[first]))
    })
}

/// Counts the bytes and the words that a skipped block takes from their streams.
pub(super) fn count(packed: &PackedBlock<'_>) -> (usize, usize) {
    const FIRSTS: u128 = u128::MAX / 15;
    let count = packed.count();
    let [low, high] = [0, 16].map(|at| {
        let nibbles = u128::from_le_bytes(*packed.nibbles[at..].first_chunk().unwrap_or(&[0; 16]));
        let any = nibbles | nibbles >> 1 | nibbles >> 2 | nibbles >> 3;
        !any & FIRSTS
    });
    // The closure counts the zeros among the first `count` nibbles of a half.
    let of = |zeros: u128, count: u32| (zeros & !u128::MAX.checked_shl(4 * count).unwrap_or(0)).count_ones();
    let bytes = (of(low, count.min(32)) + of(high, count.saturating_sub(32))) as usize;
    (bytes, packed.bytes.iter().take(bytes).filter(|byte| **byte == 0).count())
}
