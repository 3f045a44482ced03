//! Repetition levels: whether a page has one for each of its values.
//!
//! The Parquet crate refuses a page that has fewer when it reads its rows, but when it skips rows it never returns.

use super::corrupt;
use super::lengths::varint;
use crate::error::Result;

/// Values in a group of a bit-packed run.
const GROUP: u64 = 8;

/// Fails with `Corrupt` if runs of levels, of which the highest is `max`, are fewer than the values of their page.
pub(super) fn check(runs: &[u8], max: i16, values: u64) -> Result<()> {
    let width = u64::from(i16::BITS - max.leading_zeros());
    let found = count(runs, width, values);
    if found < values {
        return Err(corrupt(format!("a page of {values} values with {found} repetition levels")));
    }
    Ok(())
}

/// The number of levels of this many bits that runs hold; counting stops at `enough`.
fn count(runs: &[u8], width: u64, enough: u64) -> u64 {
    let mut rest = runs;
    let mut found = 0u64;
    while found < enough {
        // Some writers fill the end with zeros.
        let Some(header) = varint(&mut rest).filter(|&header| header > 0) else {
            break;
        };
        let stored = rest.len() as u64;
        let (levels, bytes) = match header & 1 {
            0 if stored < width.div_ceil(8) => break,
            0 => (header >> 1, width.div_ceil(8)),
            // Some writers cut the last group off.
            _ => {
                let groups = header >> 1;
                ((groups.saturating_mul(GROUP)).min(stored * 8 / width), groups.saturating_mul(width))
            }
        };
        found = found.saturating_add(levels);
        // In bounds, and so it fits.
        rest = &rest[bytes.min(stored) as usize..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_as_far_as_their_bytes_go() {
        // A run of five, two groups of which all bytes are there, and one group of two bits whose second byte is not.
        assert_eq!(count(&[10, 0], 1, 100), 5);
        assert_eq!(count(&[10, 0, 5, 0, 0], 1, 100), 21);
        assert_eq!(count(&[3, 0], 2, 100), 4);
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
}
