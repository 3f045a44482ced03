//! Identifies each row of a data set by one number, which stands for a file and a row in that file.
//!
//! Each file has its own range of numbers, which begins at a hash of the file's relative path. So a row keeps
//! its number if files are added or removed, or if the data set is copied to another place; and one search in
//! the ranges finds the row that a number stands for.
//!
//! ```text
//! a.parquet  hash 10⁹ + 7    rows 0 1 2 …    numbers 1000000007 1000000008 …
//! b.parquet  hash 4·10⁸      rows 0 1 2 …    numbers  400000000  400000001 …
//! ```
//!
//! For a hundred thousand files of ten thousand rows, the chance that two ranges overlap is 10⁻⁵. If two
//! overlap, the later file gets another hash, so that no two rows ever have the same number. The same is done
//! for two files with the same relative path, in two locations.
//!
//! A table format may give ids to rows itself. Each file then has a range that the table gives it. A file
//! that was rewritten has a column with the ids that its rows had before; this column is read when an id is
//! first asked for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Place, Result};
use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::row_set::RowSet;

/// The number of bits of a hash. It is small enough that a range of ids that begins at a hash ends below
/// 2^63.
const HASH_BITS: u32 = 62;

/// Stands for the id of a row if ids have not been read.
const UNKNOWN: i64 = -1;

/// A row of a data set, as a number from 0 to 2^63 - 1.
///
/// The number stands for the path of a file, relative to the location that was opened, and the ordinal of the
/// row in that file. It is the same in every process, for each order, filter and set of columns, and in every
/// copy of the data set; it stays the same when other files are added or removed. It does not depend on the
/// content of the row: a file that is rewritten under its name has the same numbers.
///
/// In a table that tracks row ids, the number is the id that the table gives the row, which it keeps when the
/// table is compacted.
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
    /// The id with this number. It may or may not belong to a row of a data set.
    pub fn new(number: i64) -> Self {
        RowId(number)
    }

    /// The id as a number.
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

    fn from_str(text: &str) -> Result<Self> {
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
    /// The number of the row group in the file, from 0. It is 0 for a file that is planned as one row group,
    /// as small files of a table are.
    pub row_group: usize,
    /// The number of the row in its row group, from 0. It is the number in the file if the file is planned as
    /// one row group.
    pub row: u64,
    /// The id of the row in the data set.
    #[serde(skip)]
    pub id: RowId,
    /// The data set that the row belongs to, as its number from 0 among those that are read together.
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

/// The ids of all rows of a data set: where the range of each file begins, and the ids that files store
/// themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowIds {
    /// The first id of each file's range, by the file's index.
    first: Box<[i64]>,
    /// The first id of each file's range, ascending, with the index of the file. Files that store ids are
    /// left out.
    sorted: Box<[(i64, u32)]>,
    /// The ids of files that store them, by the file's index.
    stored: HashMap<u32, IdRuns>,
    /// The stored ids of all rows that are not deleted, in ascending order.
    found: Box<[FoundRun]>,
}

/// A run of rows in a file whose stored ids are consecutive.
#[derive(Clone, Copy, Debug)]
struct FoundRun {
    id: i64,
    file: u32,
    row: u32,
    rows: u32,
}

/// The ids that a file stores for its rows, as runs of rows with consecutive ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdRuns {
    /// The first row of each run, ascending.
    rows: Vec<u32>,
    /// The id of each run's first row.
    ids: Vec<i64>,
}

/// The rows of one file, with the ids that a table gives to them.
pub(super) struct IdsOfFile<'a> {
    pub(super) location: &'a Arc<str>,
    /// The id of the file's first row. It is ignored if the file stores ids.
    pub(super) first: i64,
    /// The number of rows, including deleted ones.
    pub(super) rows: u64,
    pub(super) deleted: Option<&'a RowSet>,
    /// The ids that the file stores for its rows, if it stores any.
    pub(super) stored: Option<IdRuns>,
}

/// The ids of the rows of a row group.
pub struct GroupIds<'a> {
    /// The id of the first row of the row group. The ids of the others are consecutive, unless the file
    /// stores ids.
    first: i64,
    /// The number in the file of the row group's first row.
    in_file: u64,
    stored: Option<&'a IdRuns>,
}

impl<'a> GroupIds<'a> {
    pub(super) fn new(ids: Option<&'a RowIds>, file: usize, in_file: u64) -> Self {
        let first = ids.map_or(UNKNOWN, |ids| ids.first[file].saturating_add_unsigned(in_file));
        GroupIds { first, in_file, stored: ids.and_then(|ids| ids.stored.get(&(file as u32))) }
    }

    /// The id of the row with this number in the row group; -1 if ids have not been read.
    pub fn at(&self, row: u64) -> RowId {
        RowId(match self.stored {
            Some(stored) => stored.at(self.in_file + row),
            None if self.first == UNKNOWN => UNKNOWN,
            None => self.first.saturating_add_unsigned(row),
        })
    }
}

impl IdRuns {
    /// Appends the id of a row. The row must come after all rows that were added before.
    pub(crate) fn push(&mut self, row: u32, id: i64) {
        let follows = self.rows.last().zip(self.ids.last());
        if follows.is_none_or(|(first, begin)| begin.checked_add((row - first).into()) != Some(id)) {
            self.rows.push(row);
            self.ids.push(id);
        }
    }

    fn at(&self, row: u64) -> i64 {
        let run = self.rows.partition_point(|first| u64::from(*first) <= row) - 1;
        self.ids[run] + (row - u64::from(self.rows[run])) as i64
    }

    /// The runs of consecutive ids in a file of `rows` rows, without deleted rows.
    fn live(&self, file: u32, rows: u32, deleted: Option<&RowSet>) -> Vec<FoundRun> {
        let mut live = Vec::new();
        let mut add = |run: usize, rows: Range<u32>| {
            let id = self.ids[run] + i64::from(rows.start - self.rows[run]);
            live.push(FoundRun { id, file, row: rows.start, rows: rows.end - rows.start });
        };
        let mut gaps = deleted.into_iter().flat_map(|rows| rows.runs(0..rows.count()));
        let mut gap = gaps.next();
        for run in 0..self.rows.len() {
            let (mut from, end) = (self.rows[run], self.rows.get(run + 1).copied().unwrap_or(rows));
            while let Some(gone) = gap.clone().filter(|gap| gap.start < end) {
                if from < gone.start {
                    add(run, from..gone.start);
                }
                from = from.max(gone.end.min(end));
                // The rest of this deleted range belongs to later runs.
                if gone.end > end {
                    break;
                }
                gap = gaps.next();
            }
            if from < end {
                add(run, from..end);
            }
        }
        live
    }
}

impl RowIds {
    /// Gives ids to the rows of files. Each file is a pair of its path and its number of rows.
    pub(super) fn new<'a>(files: impl Iterator<Item = (&'a str, u64)>) -> Self {
        RowIds::over(files, hash)
    }

    /// Works like [`new`](Self::new), with another function that hashes a path and a seed.
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
            // There are far more hashes than a data set can have rows, so a free range is always found.
            let begin = begins.find(is_free).unwrap_or_default();
            first.push(begin as i64);
            // A file without rows takes no ids.
            if rows > 0 {
                taken.insert(begin, (rows, file as u32));
            }
        }
        let sorted = taken.into_iter().map(|(begin, (_, file))| (begin as i64, file));
        RowIds { first: first.into(), sorted: sorted.collect(), ..RowIds::default() }
    }

    /// Takes the ids from a table that tracks them.
    ///
    /// # Errors
    /// `Corrupt`, with the file, if an id is not valid or two rows have the same id.
    pub(super) fn tracked<'a>(files: impl Iterator<Item = IdsOfFile<'a>>) -> Result<Self> {
        let (mut ids, mut first, mut sorted, mut found) = (RowIds::default(), vec![], vec![], vec![]);
        let (mut locations, mut rows_of) = (Vec::new(), Vec::new());
        for (file, IdsOfFile { location, first: begin, rows, deleted, stored }) in files.enumerate() {
            let end = i64::try_from(rows).ok().and_then(|rows| begin.checked_add(rows));
            if begin < 0 || end.is_none() {
                let cause = format!("the first of its {rows} rows has the id {begin}, which is none");
                return Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(location.clone())));
            }
            first.push(begin);
            locations.push(location);
            rows_of.push(rows as i64);
            let short = u32::try_from(rows).unwrap_or(u32::MAX);
            match stored {
                Some(stored) => {
                    found.extend(stored.live(file as u32, short, deleted));
                    ids.stored.insert(file as u32, stored);
                }
                None if rows > 0 => sorted.push((begin, file as u32)),
                None => {}
            }
        }
        sorted.sort_unstable();
        found.sort_unstable_by_key(|run| run.id);
        let twice = |id: i64, one: u32, other: u32| {
            let other = locations[other as usize];
            let cause = format!("the table has the row id {id} in this file and in {other}");
            Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(locations[one as usize].clone())))
        };
        for pair in sorted.windows(2) {
            let [(begin, one), (next, other)] = [pair[0], pair[1]];
            if begin + rows_of[one as usize] > next {
                return twice(next, other, one);
            }
        }
        for pair in found.windows(2) {
            if pair[0].id + i64::from(pair[0].rows) > pair[1].id {
                return twice(pair[1].id, pair[1].file, pair[0].file);
            }
        }
        Ok(RowIds { first: first.into(), sorted: sorted.into(), found: found.into(), ..ids })
    }

    /// Finds the rows that may have this id, each as the index of its file and its number in the file. First
    /// comes the row of a file that stores the id, if there is one. Then comes the row of the file whose
    /// range may include the id; its number may be beyond the end of that file.
    pub(super) fn find(&self, id: i64) -> impl Iterator<Item = (usize, u64)> {
        let after = self.found.partition_point(|run| run.id <= id);
        let stored = after.checked_sub(1).map(|at| self.found[at]);
        let stored = stored.filter(|run| id - run.id < run.rows.into());
        let stored = stored.map(|run| (run.file as usize, u64::from(run.row) + (id - run.id) as u64));
        let after = self.sorted.partition_point(|(begin, _)| *begin <= id);
        let placed = after.checked_sub(1).map(|at| self.sorted[at]);
        stored.into_iter().chain(placed.map(|(begin, file)| (file as usize, (id - begin) as u64)))
    }

    /// The ids without those of the files for which `is_kept` is false. The other files are numbered anew.
    pub(super) fn of_some(&self, is_kept: &[bool]) -> Self {
        let before = is_kept.iter().scan(0, |kept, is_kept| {
            let before = *kept;
            *kept += u32::from(*is_kept);
            Some(is_kept.then_some(before))
        });
        let places: Vec<Option<u32>> = before.collect();
        let place = |file: u32| places[file as usize];
        let first = self.first.iter().zip(is_kept).filter(|(_, is_kept)| **is_kept);
        let sorted = self.sorted.iter().filter_map(|(begin, file)| Some((*begin, place(*file)?)));
        let stored = self.stored.iter().filter_map(|(file, runs)| Some((place(*file)?, runs.clone())));
        let found = self.found.iter().filter_map(|run| Some(FoundRun { file: place(run.file)?, ..*run }));
        RowIds {
            first: first.map(|(first, _)| *first).collect(),
            sorted: sorted.collect(),
            stored: stored.collect(),
            found: found.collect(),
        }
    }

    /// The number of bytes of memory for ids that files store.
    pub(super) fn stored_bytes(&self) -> u64 {
        let runs = self.stored.values().map(|runs| runs.rows.len());
        (runs.sum::<usize>() * (size_of::<u32>() + size_of::<i64>()) + size_of_val(&*self.found)) as u64
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
