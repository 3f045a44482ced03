//! Checks strings whose lengths come first (`DELTA_LENGTH_BYTE_ARRAY`, `DELTA_BYTE_ARRAY`): a page must not
//! claim more lengths than it has values, and a prefix that a string shares with the string before must not
//! be longer than that string.
//!
//! The Parquet crate reserves memory for the claimed number, which is in the page's body, not in its header.
//! It also accepts a prefix that is longer than the string before.

use parquet::basic::Encoding;

use crate::reader::integers::Deltas;

/// Whether the lengths in a page of `values` values are valid; true for encodings without lengths in front.
pub(super) fn are_sound(encoding: Encoding, body: &[u8], values: u32) -> bool {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => deltas(body, values).is_some(),
        Encoding::DELTA_BYTE_ARRAY => have_their_beginnings(body, values).is_some(),
        _ => true,
    }
}

/// Checks the lengths of a page, and that no string shares a prefix that is longer than the string before it;
/// `None` if one does, or if lengths are missing.
fn have_their_beginnings(body: &[u8], most: u32) -> Option<()> {
    let lengths = deltas(body, most)?;
    deltas(lengths, most)?;
    let mut own = Deltas::parse(lengths)?.numbers();
    let mut before = 0u64;
    for shared in Deltas::parse(body)?.numbers() {
        (shared <= before).then_some(())?;
        before = shared.saturating_add(own.next()?);
    }
    Some(())
}

/// Whether `bytes` hold at least `stored` numbers in the encoding `DELTA_BINARY_PACKED`.
pub(super) fn are_differences(bytes: &[u8], stored: usize) -> bool {
    let most = u32::try_from(stored).unwrap_or(u32::MAX);
    whole_deltas(bytes, most).is_some_and(|count| count >= stored)
}

/// The number of values that `bytes` claim to hold in the encoding `DELTA_BINARY_PACKED`; `None` if some are
/// missing, which is only checked for up to `most` values.
pub(in crate::reader) fn whole_deltas(bytes: &[u8], most: u32) -> Option<usize> {
    let stored = Deltas::parse(bytes)?.count;
    match stored > most as usize {
        true => Some(stored),
        false => deltas(bytes, most).map(|_| stored),
    }
}

/// The bytes after the numbers in the encoding `DELTA_BINARY_PACKED`; `None` if there are more than `most`
/// numbers, or if some are missing.
fn deltas(bytes: &[u8], most: u32) -> Option<&[u8]> {
    Deltas::parse(bytes).filter(|deltas| deltas.count <= most as usize)?.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_numbers_than_values_are_refused() {
        let three = [0x80, 1, 4, 3, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(deltas(&three, 3), Some(&[9][..]));
        assert_eq!((deltas(&three, 2), whole_deltas(&three, 2)), (None, Some(3)));
        assert_eq!((deltas(&three[..7], 3), whole_deltas(&three[..7], 3)), (None, None));
    }

    #[test]
    fn strings_begin_with_what_the_one_before_has() {
        // The closure makes three lengths, each given by its difference from the one before, in one byte.
        let lengths = |first: u8, differences: [u8; 2]| {
            let packed = [&[0, 8, 0, 0, 0][..], &differences, &[0; 30]].concat();
            [&[0x80, 1, 4, 3, 2 * first][..], &packed].concat()
        };
        let check = |shared: Vec<u8>, own: Vec<u8>| have_their_beginnings(&[shared, own].concat(), 3);
        assert_eq!(check(lengths(0, [1, 2]), lengths(1, [1, 0])), Some(()));
        assert_eq!(check(lengths(0, [1, 3]), lengths(1, [1, 0])), None, "four of a string of three");
        assert_eq!(check(lengths(1, [0, 0]), lengths(1, [0, 0])), None, "nothing is before the first");
        assert_eq!(check(lengths(0, [1, 2]), vec![0x80, 1, 4, 1, 0]), None, "of three the lengths of one");
    }
}
