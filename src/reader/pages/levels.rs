//! Repetition and definition levels: whether a page has one of each for each of its values.
//!
//! The Parquet crate takes what it finds of a run that claims more than there is, and values move to other rows; where it skips
//! rows and there are too few levels, it never returns.

use super::corrupt;
use super::lengths::{packed_number, varint};
use crate::error::Result;

/// Values in a group of a bit-packed run.
const GROUP: u64 = 8;

/// Runs of levels, whose length in bytes comes first, and what follows them.
pub(in crate::reader) fn split_levels(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(i32::from_le_bytes(*length)).ok()?)
}

/// Fails with `Corrupt` if runs of levels, of which the highest is `max`, are fewer than the values of their page, or make no
/// sense.
pub(super) fn check(runs: &[u8], max: i16, values: u64) -> Result<()> {
    let found = count(runs, max, values);
    if found < values {
        return Err(corrupt(format!("a page of {values} values with {found} levels")));
    }
    Ok(())
}

/// The number of levels that runs hold, up to one that makes no sense; counting stops at `enough`.
fn count(runs: &[u8], max: i16, enough: u64) -> u64 {
    let (width, max) = (u64::from(i16::BITS - max.leading_zeros()), u64::from(max.unsigned_abs()));
    let mut rest = runs;
    let mut found = 0u64;
    while found < enough {
        // Some writers fill the end with zeros.
        let Some(header) = varint(&mut rest).filter(|&header| header > 0) else {
            break;
        };
        let (left, count, stored) = (enough - found, header >> 1, rest.len() as u64);
        let (levels, bytes) = match header & 1 {
            0 => {
                let bytes = width.div_ceil(8);
                let value = rest.get(..bytes as usize).map(little_endian);
                if value.is_none_or(|value| value > max) {
                    break;
                }
                (count, bytes)
            }
            _ => {
                let bytes = count.saturating_mul(width);
                // Some writers cut the last group off behind the last level.
                let is_last = count <= left.div_ceil(GROUP) && left * width <= stored * 8;
                if bytes > stored && !is_last {
                    break;
                }
                let levels = count.saturating_mul(GROUP);
                if highest(rest, width, levels.min(left), max) > max {
                    break;
                }
                (levels, bytes)
            }
        };
        found = found.saturating_add(levels);
        // In bounds, and so it fits.
        rest = &rest[bytes.min(stored) as usize..];
    }
    found
}

/// The highest of so many levels of a packed run, all bytes of which are there; 0 where no level can be too high.
fn highest(packed: &[u8], width: u64, levels: u64, max: u64) -> u64 {
    if max + 1 == 1 << width {
        return 0;
    }
    let level = |at: u64| packed_number(packed, at as usize, width as usize);
    (0..levels).map(level).max().unwrap_or_default()
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_as_far_as_their_bytes_go() {
        // A run of five, two groups of which all bytes are there, and one group of two bits whose second byte is not needed.
        assert_eq!(count(&[10, 0], 1, 100), 5);
        assert_eq!(count(&[10, 0, 5, 0, 0], 1, 100), 21);
        assert_eq!(count(&[3, 0], 3, 4), 8);
        assert_eq!(count(&[10, 0, 0, 10, 0], 1, 100), 5);
        assert_eq!(count(&[10, 0, 10, 0], 1, 5), 5);
    }

    #[test]
    fn levels_that_are_not_there_do_not_count() {
        assert_eq!(count(&[], 1, 1), 0);
        // A run without its value, a header that is cut off, one that never ends, and groups without bytes.
        for runs in [&[10][..], &[0xfe; 7], &[0xff; 20], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert_eq!(count(runs, 1, 4), 0, "{runs:?}");
        }
        assert!(check(&[6, 0], 1, 4).is_err());
        assert!(check(&[8, 0], 1, 4).is_ok());
    }

    /// A byte that was damaged: a run of other levels than there are, and groups that end in the values.
    #[test]
    fn levels_that_make_no_sense_do_not_count() {
        assert_eq!(count(&[8, 1, 8, 2], 1, 8), 4);
        assert_eq!(count(&[8, 3], 3, 4), 4);
        assert_eq!(count(&[3, 0], 3, 5), 0);
        assert_eq!(count(&[27, 0, 0], 1, 16), 0);
        assert_eq!(count(&[5, 0, 27, 0], 1, 24), 16);
        // Packed ones of two bits, of which the last is above 2; but for those behind the last that counts.
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 2, 8), 0);
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 2, 7), 8);
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 3, 8), 8);
    }
}
