//! Strings whose lengths come first (`DELTA_LENGTH_BYTE_ARRAY`, `DELTA_BYTE_ARRAY`): the number of lengths that each
//! page claims, and whether each string has the beginning that it shares with the one before.
//!
//! The Parquet crate reserves memory for that many, and the number is in the page's body, not in its header. It also takes a
//! shorter beginning for the one that is claimed.

use parquet::basic::Encoding;

/// The widest number that is in a word of 64 bits wherever it begins in its first byte.
const WIDEST_IN_A_WORD: usize = 57;

/// The most bytes that an integer of variable length takes.
const LONGEST_VARINT: u32 = 10;

/// Whether a page of so many values can have the lengths that it claims: all of its values in an encoding that has none.
pub(super) fn are_sound(encoding: Encoding, body: &[u8], values: u32) -> bool {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => deltas(body, values).is_some(),
        Encoding::DELTA_BYTE_ARRAY => have_their_beginnings(body, values).is_some(),
        _ => true,
    }
}

/// Whether each string begins with no more of the one before than that has: `None` if not, or if lengths are missing.
fn have_their_beginnings(body: &[u8], most: u32) -> Option<()> {
    let end = deltas(body, most)?;
    let lengths = body.get(end..)?;
    deltas(lengths, most)?;
    let (shared, mut own) = (Deltas::of(body)?, Deltas::of(lengths)?);
    let mut before = 0u64;
    for shared in shared {
        (shared <= before).then_some(())?;
        before = shared.saturating_add(own.next()?);
    }
    Some(())
}

/// How many numbers of the encoding `DELTA_BINARY_PACKED` there are, of which at most so many are looked for; `None` if some are
/// missing.
pub(in crate::reader) fn whole_deltas(bytes: &[u8], most: u32) -> Option<usize> {
    let stored = Deltas::of(bytes)?.left;
    match stored > most as usize {
        true => Some(stored),
        false => deltas(bytes, most).map(|_| stored),
    }
}

/// The end of numbers of the encoding `DELTA_BINARY_PACKED`; `None` if there are more than `most`, or some are missing.
fn deltas(bytes: &[u8], most: u32) -> Option<usize> {
    let Deltas { mut rest, miniblocks, values, left, .. } = Deltas::of(bytes)?;
    if left > most as usize || miniblocks == 0 {
        return None;
    }
    let mut left = left.saturating_sub(1);
    while left > 0 {
        let _least = varint(&mut rest)?;
        let (widths, packed) = rest.split_at_checked(miniblocks)?;
        rest = packed;
        for &bits in widths {
            // Widths of miniblocks after the last value have no meaning.
            if left == 0 {
                break;
            }
            let length = values.checked_mul(usize::from(bits))? / 8;
            rest = rest.get(length..)?;
            left = left.saturating_sub(values);
        }
        if values == 0 {
            return None;
        }
    }
    Some(bytes.len() - rest.len())
}

/// Numbers of the encoding `DELTA_BINARY_PACKED`, one by one; they end where some are missing.
struct Deltas<'a> {
    /// What follows the present miniblock.
    rest: &'a [u8],
    /// Of a block, and the numbers of each.
    miniblocks: usize,
    values: usize,
    /// Numbers to come, and the next one if it is the first of all.
    left: usize,
    first: Option<u64>,
    number: u64,
    /// The least difference of the present block, and the widths of its miniblocks to come.
    least: u64,
    widths: &'a [u8],
    /// The differences of the present miniblock, their width, and which is next.
    packed: &'a [u8],
    width: usize,
    at: usize,
}

impl<'a> Deltas<'a> {
    fn of(mut rest: &'a [u8]) -> Option<Deltas<'a>> {
        let block = usize::try_from(varint(&mut rest)?).ok()?;
        let miniblocks = usize::try_from(varint(&mut rest)?).ok()?;
        let left = usize::try_from(varint(&mut rest)?).ok()?;
        let number = zigzag(varint(&mut rest)?);
        let values = block.checked_div(miniblocks).unwrap_or(0);
        Some(Deltas {
            rest,
            miniblocks,
            values,
            left,
            first: Some(number),
            number,
            least: 0,
            widths: &[],
            packed: &[],
            width: 0,
            at: values,
        })
    }

    /// Goes on to the next miniblock.
    fn advance(&mut self) -> Option<()> {
        if self.widths.is_empty() {
            self.least = zigzag(varint(&mut self.rest)?);
            (self.widths, self.rest) = self.rest.split_at_checked(self.miniblocks)?;
        }
        let (width, widths) = self.widths.split_first()?;
        (self.width, self.widths, self.at) = ((*width).into(), widths, 0);
        let length = self.values.checked_mul(self.width)? / 8;
        (self.packed, self.rest) = self.rest.split_at_checked(length)?;
        Some(())
    }
}

impl Iterator for Deltas<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.at == self.values {
            self.advance()?;
        }
        let difference = packed_number(self.packed, self.at, self.width);
        self.at += 1;
        self.number = self.number.wrapping_add(self.least).wrapping_add(difference);
        Some(self.number)
    }
}

/// A number of either sign whose distance from zero is short.
fn zigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Of numbers of `width` bits each, at most 64, that are packed from the lowest bit on, the one at a place; bits that are not there
/// are zeros.
pub(super) fn packed_number(packed: &[u8], at: usize, width: usize) -> u64 {
    let bit = at * width;
    let tail = packed.get(bit / 8..).unwrap_or_default();
    if let Some(word) = tail.first_chunk().filter(|_| width <= WIDEST_IN_A_WORD) {
        return u64::from_le_bytes(*word) >> (bit % 8) & ((1 << width) - 1);
    }
    let mut window = [0; size_of::<u128>()];
    let length = tail.len().min(window.len());
    window[..length].copy_from_slice(&tail[..length]);
    let mask = (1u128 << width.min(64)) - 1;
    (u128::from_le_bytes(window) >> (bit % 8) & mask) as u64
}

/// An integer of variable length: seven bits a byte, the lowest first.
pub(in crate::reader) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..LONGEST_VARINT {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 128 numbers in 4 miniblocks: how many numbers, their first, and what follows.
    fn packed(count: u64, blocks: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        let mut rest = count;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.extend([rest as u8, 0]);
        bytes.extend(blocks);
        bytes
    }

    #[test]
    fn numbers_end_where_their_last_miniblock_does() {
        assert_eq!(deltas(&packed(0, &[9, 9]), 10), Some(5));
        assert_eq!(deltas(&packed(1, &[9, 9]), 10), Some(5));
        // 33 more numbers: a miniblock of two bits each, one without, and two that do not count.
        let blocks = [&[0, 2, 0, 7, 7][..], &[1; 8], &[9; 9]].concat();
        assert_eq!(deltas(&packed(34, &blocks), 34), Some(5 + 5 + 8));
        assert_eq!(deltas(&packed(34, &blocks), 33), None);
        assert_eq!(deltas(&packed(34, &blocks[..12]), 34), None);
    }

    #[test]
    fn strings_begin_with_what_the_one_before_has() {
        // Three lengths, each its own distance from the one before it, in a byte each.
        let lengths = |first: u8, differences: [u8; 2]| {
            let packed = [&[0, 8, 0, 0, 0][..], &differences, &[0; 30]].concat();
            [&[0x80, 1, 4, 3, 2 * first][..], &packed].concat()
        };
        let check = |shared: Vec<u8>, own: Vec<u8>| have_their_beginnings(&[shared, own].concat(), 3);
        assert_eq!(check(lengths(0, [1, 2]), lengths(1, [1, 0])), Some(()));
        assert_eq!(check(lengths(0, [1, 3]), lengths(1, [1, 0])), None, "four of a string of three");
        assert_eq!(check(lengths(1, [0, 0]), lengths(1, [0, 0])), None, "nothing is before the first");
        assert_eq!(check(lengths(0, [1, 2]), packed(1, &[])), None, "of three the lengths of one");
    }

    #[test]
    fn numbers_without_end_are_refused() {
        for count in [1 << 32, u64::MAX >> 1, u64::MAX] {
            assert_eq!(deltas(&packed(count, &[0; 50]), u32::MAX), None);
        }
        // No miniblocks; blocks of none.
        assert_eq!(deltas(&[0x80, 1, 0, 5, 0, 0, 0, 0, 0, 0], 5), None);
        assert_eq!(deltas(&[0, 4, 5, 0, 0, 0, 0, 0, 0], 5), None);
    }
}
