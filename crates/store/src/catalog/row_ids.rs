//! The identity of each row: one number for a file and a place in it.
//!
//! Each file has a range of numbers of its own, which begins at a hash of its relative path. So a row keeps
//! its number when files are added or removed, and wherever the data set is copied to, and one search finds
//! the row of a number.
//!
//! ```text
//! a.parquet  hash 10⁹ + 7    rows 0 1 2 …    numbers 1000000007 1000000008 …
//! b.parquet  hash 4·10⁸      rows 0 1 2 …    numbers  400000000  400000001 …
//! ```
//!
//! For a hundred thousand files of ten thousand rows, the chance that two ranges overlap is 10⁻⁵. If they do,
//! the later file begins at another hash, so that no two rows ever have the same number; two files with the
//! same relative path, in two locations, are distinguished in the same way.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use forebay_base::Error;
use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The bits of a hash: a range that begins at one ends below 2^63.
const HASH_BITS: u32 = 62;

/// A row of a data set, as a number from 0 to 2^63 - 1.
///
/// The number stands for the path of a file, relative to the location that was opened, and the ordinal of the
/// row in that file. It is the same in every process, for each order, filter and set of columns, and in every
/// copy of the data set; it stays the same when other files are added or removed. It does not depend on the
/// content of the row: a file that is rewritten under its name has the same numbers.
///
/// `Dataset::row` finds the row again, and the loader option `row_id` delivers the numbers as a column.
///
/// ```
/// # use forebay_store::catalog::RowId;
///
/// let id: RowId = "3178490221894656".parse()?;
/// assert_eq!(id.get(), 3_178_490_221_894_656);
/// # Ok::<(), forebay_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RowId(i64);

impl RowId {
    /// The row with this number, whether a data set has it or not.
    pub fn new(number: i64) -> Self {
        RowId(number)
    }

    /// The number of the row.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RowId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse =
            |_| Error::invalid(format!("{text:?} is not a row id")).hint("a row id is a whole number");
        text.trim().parse().map(RowId).map_err(refuse)
    }
}

/// The place where a row is stored: "data/train/part-7.parquet, row group 3, row 12".
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct RowPlace {
    /// The path or URL of the file.
    #[serde(serialize_with = "as_text")]
    pub file: Arc<str>,
    /// The ordinal of the row group in the file, from 0; 0 for a file of a table that is planned as one.
    pub row_group: usize,
    /// The ordinal of the row in its row group, from 0; in its file, if that is planned as one.
    pub row: u64,
    /// The number of the row in the data set.
    #[serde(skip)]
    pub id: RowId,
    /// The data set that the row belongs to, from 0, if several are read together.
    #[serde(skip)]
    pub source: usize,
}

fn as_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, row group {}, row {}", self.file, self.row_group, self.row)
    }
}

/// The numbers of all rows, as the beginning of each file's range.
#[derive(Clone, Debug)]
pub(crate) struct RowIds {
    /// The beginning of each file's range.
    pub(super) first: Box<[i64]>,
    /// The beginnings with their files, ascending.
    pub(super) sorted: Box<[(i64, u32)]>,
}

impl RowIds {
    /// The numbers for files with a path and a number of rows.
    pub(super) fn of<'a>(files: impl Iterator<Item = (&'a str, u64)>) -> Self {
        RowIds::over(files, hash)
    }

    /// The numbers like [`of`](Self::of), with a hash of a path and a seed.
    fn over<'a>(files: impl Iterator<Item = (&'a str, u64)>, hash: impl Fn(&str, u64) -> u64) -> Self {
        let mut taken: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let mut first = Vec::new();
        for (file, (path, rows)) in files.enumerate() {
            let is_free = |begin: &u64| {
                let before = taken.range(..=begin).next_back();
                let after = taken.range(begin..).next();
                before.is_none_or(|(at, (rows, _))| at + rows <= *begin)
                    && after.is_none_or(|(at, _)| begin + rows <= *at)
            };
            let mut begins = (0..).map(|seed| hash(path, seed) >> (u64::BITS - HASH_BITS));
            // All rows that can be counted fill only a part of the hashes, so there is a free one.
            let begin = begins.find(is_free).unwrap_or_default();
            first.push(begin as i64);
            // A file without rows takes no number.
            if rows > 0 {
                taken.insert(begin, (rows, file as u32));
            }
        }
        let sorted = taken.into_iter().map(|(begin, (_, file))| (begin as i64, file));
        RowIds { first: first.into(), sorted: sorted.collect() }
    }

    /// The same numbers for some of the files.
    pub(super) fn of_some(&self, is_kept: &[bool]) -> Self {
        let before = is_kept.iter().scan(0, |kept, is_kept| {
            let before = *kept;
            *kept += u32::from(*is_kept);
            Some(is_kept.then_some(before))
        });
        let places: Vec<Option<u32>> = before.collect();
        let first = self.first.iter().zip(is_kept).filter(|(_, is_kept)| **is_kept);
        let sorted = self.sorted.iter().filter_map(|(begin, file)| Some((*begin, places[*file as usize]?)));
        RowIds { first: first.map(|(first, _)| *first).collect(), sorted: sorted.collect() }
    }
}

fn hash(path: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(path.as_bytes(), seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_have_one_number_however_bad_the_hash() {
        let files = [("a", 10), ("b", 1), ("a", 5), ("empty", 0), ("c", 20), ("a", 7)];
        for hash in [|_: &str, seed: u64| seed << 8, |path: &str, seed: u64| (path.len() as u64 + seed) << 5]
        {
            let ids = RowIds::over(files.into_iter(), hash);
            let mut numbers: Vec<i64> = ids
                .first
                .iter()
                .zip(files)
                .flat_map(|(&first, (_, rows))| first..first + rows as i64)
                .collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
            assert_eq!(ids.sorted.len(), 5, "the file without rows has no range");
            assert!(ids.sorted.is_sorted());
        }
    }

    #[test]
    fn the_numbers_of_a_file_never_change() {
        let one = RowIds::over([("part-7.parquet", 100)].into_iter(), hash);
        assert_eq!(one.first[0], GOLDEN);
        let files = [("a.parquet", 3), ("part-7.parquet", 100), ("z.parquet", 1 << 40)];
        let more = RowIds::over(files.into_iter(), hash);
        assert_eq!(more.first[1], GOLDEN, "other files do not matter");
    }

    const GOLDEN: i64 = 1_124_235_804_756_286_118;
}
