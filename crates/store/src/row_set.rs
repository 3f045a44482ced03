//! Sets of rows of one row group: all of them, runs of rows, or a bitmap, whichever is smallest.
//!
//! A set does not list its rows one by one: it takes at most a bit for each row of the row group, and a
//! sixteenth of that for a directory, which counts the rows before each block of bits. With the directory,
//! [`rank`](RowSet::rank) and [`select`](RowSet::select) convert quickly between a row and its ordinal (its
//! number in the set). So a slice of a set is given by two ordinals, and needs no copy.
//!
//! ```text
//! rows of the row group      0 1 2 3 4 5 6 7 8 9
//! selected                     ■ ■ ■       ■ ■
//! ordinal in the set           0 1 2       3 4        select(3) = 7, rank(7) = 3, runs(2..4) = 3..4, 7..8
//! ```

mod bitmap;
mod runs;
mod stored;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bitmap::Bitmap;
use forebay_arrow::buffer::BooleanBuffer;
use parquet::arrow::arrow_reader::RowSelection;
use runs::RowRuns;

/// Some of the rows of a row group, in their stored order. Cheap to clone.
///
/// Two sets are equal if they hold the same rows out of the same number of rows, because the rows determine
/// the form.
///
/// A value takes only sixteen bytes. It has to be small, because a data set has one for each row group.
#[derive(Clone, PartialEq, Eq)]
pub struct RowSet(SetForm);

/// The form in which a set is stored. The number in each form is the number of rows of the row group.
#[derive(Clone, PartialEq, Eq)]
enum SetForm {
    None(u32),
    All(u32),
    Runs(u32, Arc<RowRuns>),
    Bitmap(u32, Arc<Bitmap>),
}

impl RowSet {
    /// The set of all rows of a row group of `rows` rows.
    pub fn all(rows: u32) -> Self {
        RowSet(SetForm::All(rows))
    }

    /// The empty set, for a row group of `rows` rows.
    pub fn none(rows: u32) -> Self {
        RowSet(if rows == 0 { SetForm::All(rows) } else { SetForm::None(rows) })
    }

    /// The set of the rows in `ranges`, which ascend and do not overlap, for a row group of `rows` rows.
    pub fn from_runs(rows: u32, ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        let mut builder = RowSetBuilder::new(rows);
        ranges.into_iter().for_each(|range| builder.push(range));
        builder.finish()
    }

    /// The set of the rows whose bits are set. There is a bit for each row of the row group, at most 2^32 -
    /// 1.
    pub fn from_bits(bits: &BooleanBuffer) -> Self {
        RowSet::from_runs(bits.len() as u32, bits.set_slices().map(|(from, to)| from as u32..to as u32))
    }

    /// The set of the rows whose bits are set, for a row group of `rows` rows. Each word has the bits of 64
    /// rows.
    fn from_words(rows: u32, words: Vec<u64>) -> Self {
        let has_few_runs = bitmap::run_count(&words) <= most_runs(rows);
        let bitmap = RowSet(SetForm::Bitmap(rows, Arc::new(Bitmap::new(words))));
        match has_few_runs {
            true => RowSet::from_runs(rows, bitmap.runs(0..bitmap.count())),
            false => bitmap,
        }
    }

    /// The number of rows of the row group, in the set or not.
    pub fn rows(&self) -> u32 {
        match self.0 {
            SetForm::None(rows) | SetForm::All(rows) | SetForm::Runs(rows, _) | SetForm::Bitmap(rows, _) => {
                rows
            }
        }
    }

    /// The number of rows in the set.
    pub fn count(&self) -> u32 {
        match &self.0 {
            SetForm::None(_) => 0,
            SetForm::All(rows) => *rows,
            SetForm::Runs(_, runs) => runs.count(),
            SetForm::Bitmap(_, bitmap) => bitmap.count(),
        }
    }

    /// Whether every row is in the set.
    pub fn is_all(&self) -> bool {
        matches!(self.0, SetForm::All(_))
    }

    /// The bytes of memory that the set takes in addition to its own size.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            SetForm::None(_) | SetForm::All(_) => 0,
            SetForm::Runs(_, runs) => runs.bytes(),
            SetForm::Bitmap(_, bitmap) => bitmap.bytes(),
        }
    }

    /// The row of the row group with this ordinal (number in the set), which must be less than
    /// [`count`](Self::count).
    pub fn select(&self, ordinal: u32) -> u32 {
        debug_assert!(ordinal < self.count(), "row {ordinal} of {}", self.count());
        match &self.0 {
            SetForm::None(_) | SetForm::All(_) => ordinal,
            SetForm::Runs(_, runs) => runs.select(ordinal),
            SetForm::Bitmap(_, bitmap) => bitmap.select(ordinal),
        }
    }

    /// The number of rows in the set that come before `row`.
    pub fn rank(&self, row: u32) -> u32 {
        let row = row.min(self.rows());
        match &self.0 {
            SetForm::None(_) => 0,
            SetForm::All(_) => row,
            SetForm::Runs(_, runs) => runs.rank(row),
            SetForm::Bitmap(_, bitmap) => bitmap.rank(row),
        }
    }

    /// The rows with these ordinals (numbers in the set) as ranges of consecutive rows, each as long as
    /// possible.
    pub fn runs(&self, ordinals: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let end = ordinals.end.min(self.count());
        let (mut at, mut cursor) = (ordinals.start, None);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let most = end - at;
            let run = match &self.0 {
                SetForm::None(_) | SetForm::All(_) => at..end,
                SetForm::Runs(_, runs) => runs.run(cursor.get_or_insert_with(|| runs.holding(at)), at, most),
                SetForm::Bitmap(_, bitmap) => {
                    bitmap.run(cursor.get_or_insert_with(|| bitmap.select(at)), most)
                }
            };
            at += run.end - run.start;
            Some(run)
        })
    }

    /// The rows that are not in the set.
    pub fn complement(&self) -> Self {
        if let SetForm::Bitmap(rows, bitmap) = &self.0 {
            return RowSet::from_words(*rows, bitmap::complement(bitmap.words(), *rows));
        }
        let mut builder = RowSetBuilder::new(self.rows());
        let mut from = 0;
        for run in self.runs(0..self.count()) {
            builder.push(from..run.start);
            from = run.end;
        }
        builder.push(from..self.rows());
        builder.finish()
    }

    /// The rows that are in both sets. Both must have the same [`rows`](Self::rows).
    pub fn intersection(&self, other: &RowSet) -> Self {
        debug_assert_eq!(self.rows(), other.rows());
        match (&self.0, &other.0) {
            (_, SetForm::All(_)) => self.clone(),
            (SetForm::All(_), _) => other.clone(),
            _ => {
                let of_other = |run: Range<u32>| {
                    let rows = other.rank(run.start)..other.rank(run.end);
                    other.runs(rows)
                };
                RowSet::from_runs(self.rows(), self.runs(0..self.count()).flat_map(of_other))
            }
        }
    }

    /// The rows that are in at least one of the sets. Both must have the same [`rows`](Self::rows).
    pub fn union(&self, other: &RowSet) -> Self {
        match (self.count(), other.count()) {
            (_, 0) => self.clone(),
            (0, _) => other.clone(),
            _ => self.complement().intersection(&other.complement()).complement(),
        }
    }

    /// Selects among the rows of this set: keeps those whose ordinals (numbers in this set) are in `inner`.
    pub fn compose(&self, inner: &RowSet) -> Self {
        debug_assert_eq!(inner.rows(), self.count());
        match (&self.0, &inner.0) {
            (_, SetForm::All(_)) => self.clone(),
            (SetForm::All(_), _) => inner.clone(),
            _ => {
                let inner = inner.runs(0..inner.count());
                RowSet::from_runs(self.rows(), inner.flat_map(|ordinals| self.runs(ordinals)))
            }
        }
    }

    /// The rows of the set that are in `range`, as a set whose row 0 is the start of the range. The range may
    /// end after the last row of the row group; such rows are not in the set.
    pub fn within(&self, range: Range<u32>) -> Self {
        let rows = range.end - range.start;
        // For a longer range, a bitmap would take more memory than this set, so the runs are used.
        if let SetForm::Bitmap(all, bitmap) = &self.0
            && rows <= *all
        {
            return RowSet::from_words(rows, bitmap::within(bitmap.words(), range));
        }
        let runs = self.runs(self.rank(range.start)..self.rank(range.end));
        RowSet::from_runs(rows, runs.map(|run| run.start - range.start..run.end - range.start))
    }

    /// The rows with these ordinals (numbers in the set) as a selection for the Parquet decoder; `None` for
    /// all rows of the row group.
    pub fn selection(&self, ordinals: Range<u32>) -> Option<RowSelection> {
        if self.is_all() && ordinals == (0..self.rows()) {
            return None;
        }
        let runs = self.runs(ordinals).map(|run| run.start as usize..run.end as usize);
        Some(RowSelection::from_consecutive_ranges(runs, self.rows() as usize))
    }
}

impl fmt::Debug for RowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match &self.0 {
            SetForm::None(_) => "none",
            SetForm::All(_) => "all",
            SetForm::Runs(..) => "runs",
            SetForm::Bitmap(..) => "bitmap",
        };
        write!(f, "{} of {} rows ({form})", self.count(), self.rows())
    }
}

/// The largest number of runs that take no more memory than a bitmap of `rows` bits.
fn most_runs(rows: u32) -> usize {
    bitmap::bytes(rows) as usize / size_of::<runs::RowRun>()
}

/// Builds a set: as runs, or as a bitmap once the runs would take more memory than a bitmap.
struct RowSetBuilder {
    rows: u32,
    count: u32,
    /// The last run. It is not yet in `runs` or `words`, because it may still grow.
    last: Range<u32>,
    runs: Vec<runs::RowRun>,
    most_runs: usize,
    words: Option<Vec<u64>>,
}

impl RowSetBuilder {
    fn new(rows: u32) -> Self {
        RowSetBuilder {
            rows,
            count: 0,
            last: 0..0,
            runs: Vec::new(),
            most_runs: most_runs(rows),
            words: None,
        }
    }

    /// Adds the rows in `range`, which must come after all rows that were added before.
    fn push(&mut self, range: Range<u32>) {
        debug_assert!(self.last.end <= range.start || range.is_empty());
        if range.is_empty() {
            return;
        }
        if range.start == self.last.end {
            self.last.end = range.end;
            return;
        }
        let run = std::mem::replace(&mut self.last, range);
        self.settle(run);
    }

    /// Stores a run that cannot grow any more.
    fn settle(&mut self, run: Range<u32>) {
        if run.is_empty() {
            return;
        }
        if self.words.is_none() && self.runs.len() == self.most_runs {
            let mut words = bitmap::empty(self.rows);
            for (at, run) in self.runs.iter().enumerate() {
                let end = self.runs.get(at + 1).map_or(self.count, |next| next.before);
                bitmap::set(&mut words, run.start..run.start + (end - run.before));
            }
            self.runs = Vec::new();
            self.words = Some(words);
        }
        match &mut self.words {
            Some(words) => bitmap::set(words, run.clone()),
            None => self.runs.push(runs::RowRun { start: run.start, before: self.count }),
        }
        self.count += run.end - run.start;
    }

    fn finish(mut self) -> RowSet {
        let last = std::mem::take(&mut self.last);
        self.settle(last);
        let rows = self.rows;
        RowSet(match (self.count, self.words) {
            (count, _) if count == rows => SetForm::All(rows),
            (0, _) => SetForm::None(rows),
            (count, None) => SetForm::Runs(rows, Arc::new(RowRuns::new(self.runs, count))),
            (_, Some(words)) => SetForm::Bitmap(rows, Arc::new(Bitmap::new(words))),
        })
    }
}
