//! Reads sets of 64-bit numbers, such as the deleted rows of a table's file. They are stored in the portable
//! Roaring format: numbers with the same upper 32 bits share one bitmap.

use std::ops::Range;

/// The first four bytes of a set.
const MAGIC: u32 = 1_681_511_377;

/// The first two bytes of a bitmap with runs.
const WITH_RUNS: u16 = 12_347;

/// The first four bytes of a bitmap without runs.
const WITHOUT_RUNS: u32 = 12_346;

/// The least number of containers (blocks of 65,536 possible numbers) for which a bitmap that has runs also
/// stores the offsets of its containers.
const WITH_OFFSETS: usize = 4;

/// The most numbers in a container that lists its numbers; a container with more numbers is a bitmap.
const MAX_ARRAY_NUMBERS: u32 = 4_096;

/// The number of bytes of a container that is a bitmap.
const BITMAP_BYTES: usize = 8_192;

/// Removes the frame of a set: the length before its bytes and the checksum after them. `size` is the length
/// that the table states.
///
/// # Errors
/// The fault in the frame, as the end of a sentence.
pub fn unframed(bytes: &[u8], size: u64) -> Result<&[u8], String> {
    let parts = bytes.split_at_checked(4).and_then(|(size, rest)| {
        let (data, checksum) = rest.split_at_checked(rest.len().checked_sub(4)?)?;
        let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
        Some((number(size)?, data, number(checksum)?))
    });
    let (said, data, checksum) = parts.ok_or("it ends early")?;
    if u64::from(said) != size {
        return Err(format!("it has {said} bytes, the table says {size}"));
    }
    match crc32fast::hash(data) == checksum {
        true => Ok(data),
        false => Err("its checksum is wrong".to_owned()),
    }
}

/// The numbers of a set as ranges that ascend and do not touch; `None` where the bytes are malformed.
pub fn ranges(bytes: &[u8]) -> Option<Vec<Range<u64>>> {
    let mut input = UnreadBytes(bytes);
    let mut found = FoundRanges::default();
    if input.u32()? != MAGIC {
        return None;
    }
    let bitmaps = u64::from_le_bytes(input.take(8)?.try_into().ok()?);
    let mut last = None;
    for _ in 0..bitmaps {
        let key = input.u32()?;
        if last.is_some_and(|last| key <= last) {
            return None;
        }
        last = Some(key);
        bitmap(&mut input, u64::from(key) << 32, &mut found)?;
    }
    Some(found.ranges)
}

/// The ranges found so far.
#[derive(Default)]
struct FoundRanges {
    ranges: Vec<Range<u64>>,
}

impl FoundRanges {
    /// Adds a range, which must begin at the end of all others or later; `None` if it does not.
    fn push(&mut self, range: Range<u64>) -> Option<()> {
        match self.ranges.last_mut() {
            Some(last) if range.start < last.end => None,
            Some(last) if range.start == last.end => {
                last.end = range.end;
                Some(())
            }
            _ => {
                self.ranges.push(range);
                Some(())
            }
        }
    }
}

fn bitmap(input: &mut UnreadBytes<'_>, upper: u64, found: &mut FoundRanges) -> Option<()> {
    let cookie = input.u32()?;
    let (containers, runs) = if cookie as u16 == WITH_RUNS {
        let containers = (cookie >> 16) as usize + 1;
        (containers, input.take(containers.div_ceil(8))?)
    } else if cookie == WITHOUT_RUNS {
        (input.u32()? as usize, &[][..])
    } else {
        return None;
    };
    if containers > 1 << 16 {
        return None;
    }
    let headers = input.take(containers * 4)?;
    if runs.is_empty() || containers >= WITH_OFFSETS {
        input.take(containers * 4)?;
    }
    let mut last = None;
    for at in 0..containers {
        let mut header = UnreadBytes(headers.get(at * 4..at * 4 + 4)?);
        let (key, count) = (header.u16()?, u32::from(header.u16()?) + 1);
        if last.is_some_and(|last| key <= last) {
            return None;
        }
        last = Some(key);
        let base = upper | u64::from(key) << 16;
        let has_runs = runs.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        if has_runs {
            for _ in 0..input.u16()? {
                let (start, more) = (u64::from(input.u16()?), u64::from(input.u16()?));
                if start + more > u64::from(u16::MAX) {
                    return None;
                }
                found.push(base + start..base + start + more + 1)?;
            }
        } else if count <= MAX_ARRAY_NUMBERS {
            for number in input.take(count as usize * 2)?.chunks_exact(2) {
                let number = base + u64::from(u16::from_le_bytes(number.try_into().ok()?));
                found.push(number..number + 1)?;
            }
        } else {
            let words = input.take(BITMAP_BYTES)?.chunks_exact(8);
            for (at, word) in words.enumerate() {
                let word = u64::from_le_bytes(word.try_into().ok()?);
                of_word(word, base + at as u64 * 64, found)?;
            }
        }
    }
    Some(())
}

/// Adds a number for each bit that is set in a word. The lowest bit stands for the number `base`.
fn of_word(mut word: u64, base: u64, found: &mut FoundRanges) -> Option<()> {
    let mut passed = 0;
    while word != 0 {
        let zeros = u64::from(word.trailing_zeros());
        word >>= zeros;
        let ones = u64::from(word.trailing_ones());
        let start = base + passed + zeros;
        found.push(start..start + ones)?;
        word = if ones == 64 { 0 } else { word >> ones };
        passed += zeros + ones;
    }
    Some(())
}

/// The bytes that were not read yet.
struct UnreadBytes<'a>(&'a [u8]);

impl<'a> UnreadBytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A set with one bitmap, whose containers are given as the bytes after the header.
    fn set(cookie: &[u8], headers: &[(u16, u16)], has_offsets: bool, containers: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(cookie);
        for (key, less_one) in headers {
            bytes.extend([key.to_le_bytes(), less_one.to_le_bytes()].concat());
        }
        bytes.extend(vec![0; if has_offsets { headers.len() * 4 } else { 0 }]);
        bytes.extend(containers);
        bytes
    }

    fn words(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn arrays_bitmaps_and_runs_are_the_same_numbers() {
        const UPPER: u64 = 2 << 32;
        let without = |containers: u32| [WITHOUT_RUNS, containers].map(u32::to_le_bytes).concat();
        let array = set(&without(1), &[(1, 2)], true, &words(&[5, 6, 9]));
        let at = UPPER + (1 << 16);
        assert_eq!(ranges(&array).unwrap(), [at + 5..at + 7, at + 9..at + 10]);
        let cookie = [u32::from(WITH_RUNS).to_le_bytes().to_vec(), vec![1]].concat();
        let runs = set(&cookie, &[(1, 2)], false, &words(&[2, 5, 1, 9, 0]));
        assert_eq!(ranges(&runs), ranges(&array));
        let mut bits = vec![0xff; BITMAP_BYTES];
        bits[0] = 0b0111_1110;
        let full = set(&without(1), &[(0, 65_533)], true, &bits);
        assert_eq!(ranges(&full).unwrap(), [UPPER + 1..UPPER + 7, UPPER + 8..UPPER + 65_536]);
        assert_eq!(ranges(&[MAGIC.to_le_bytes().to_vec(), vec![0; 8]].concat()).unwrap(), []);
    }

    #[test]
    fn sets_that_end_early_or_do_not_ascend_are_refused() {
        let without = |containers: u32| [WITHOUT_RUNS, containers].map(u32::to_le_bytes).concat();
        let array = set(&without(1), &[(1, 2)], true, &words(&[5, 6, 9]));
        assert!((0..array.len()).all(|length| ranges(&array[..length]).is_none()));
        for wrong in [
            set(&without(1), &[(1, 2)], true, &words(&[5, 4, 9])),
            set(&without(1), &[(1, 2)], true, &words(&[5, 5, 9])),
            set(&without(2), &[(1, 0), (1, 0)], true, &words(&[5, 9])),
            set(&without(u32::MAX), &[], true, &[]),
            set(&1u32.to_le_bytes(), &[(1, 2)], true, &words(&[5, 6, 9])),
            set(
                &[u32::from(WITH_RUNS).to_le_bytes().to_vec(), vec![1]].concat(),
                &[(1, 0)],
                false,
                &words(&[1, 9, 65_530]),
            ),
        ] {
            assert_eq!(ranges(&wrong), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_ranges_that_ascend_or_nothing(rest in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [&MAGIC.to_le_bytes()[..], &1u64.to_le_bytes(), &0u32.to_le_bytes(), &rest].concat();
            for found in ranges(&bytes).into_iter() {
                prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
