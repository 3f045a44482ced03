//! The index of samples: how many samples each row group gives, and the stored rows that a sample is made of.
//!
//! Composed before anything is planned, and pure. First the rows of each row group are chosen as a [`RowSet`]: without
//! those that a table has deleted, then those of them that a filter selects. A [`SampleKind`] then defines one sample; without
//! one, a sample is a row. The plan permutes counts of samples and depends on nothing else, so order, exact lengths, equal steps
//! and resuming on another world hold for any kind.
//!
//! ```text
//! stored rows ─ deleted ─► live rows ─ filter ─► selected rows ─ kind ─► samples ─► counts, to be planned
//!      0 1 2 3 4 5 6          0 2 3 4 6             0 2 4 6       pairs    3
//! part of the plan: samples 1..3 of the row group ─► selected rows 1 2, 2 3 ─► stored rows 2 4, 4 6
//! ```
//!
//! Rows of a part are decoded as they are needed; samples of any other kind may share rows, and take them from anywhere in
//! their row group, so all selected rows of it are decoded for each of its parts. A sample may run on into the row groups after
//! it: their first rows, as many as are needed, are its [`Head`]s, and count on from its own rows.
//!
//! ```text
//! row group 7          0 1 2 3 4│         windows of 4 rows: four begin in row group 7,
//! its heads             8:      │5 6 7    and have 3 rows of those after it
//! ```

mod across;
mod bucket;
mod lengths;
mod pack;
mod starts;
mod stretches;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::row_set::RowSet;
use crate::shard::Part;

pub use across::Across;
pub use bucket::Bucket;
pub(crate) use bucket::Buckets;
pub(crate) use lengths::lengths;
pub use pack::Pack;
pub(crate) use pack::{Packs, TooLong};
pub(crate) use starts::SequenceStarts;
pub(crate) use stretches::{Deciding, Stretches};
pub(crate) use window::Windows;
pub use window::{Gap, Window};

/// What one sample of a loader is.
///
/// ```
/// use forebay::{Samples, Window};
///
/// assert_eq!(Samples::default(), Samples::Rows);
/// let windows = Samples::from(Window::rows(16));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Samples {
    /// A row.
    #[default]
    Rows,
    /// So many consecutive rows.
    Windows(Window),
    /// Several lists, such as the tokens of documents, in a row of one length.
    Packs(Pack),
    /// Several rows of similar length.
    Buckets(Bucket),
}

impl Samples {
    pub(crate) fn are_rows(&self) -> bool {
        matches!(self, Samples::Rows)
    }

    /// What of it decides the order, as a text that a position has; `None` for rows. `stored` is the stored name of a column.
    pub(crate) fn canonical(&self, stored: impl Fn(&str) -> String) -> Option<String> {
        let deciding = match self {
            Samples::Rows => return None,
            Samples::Windows(window) => Samples::Windows(window.deciding_alone()),
            Samples::Packs(pack) => Samples::Packs(pack.deciding_alone(stored)),
            Samples::Buckets(_) => self.clone(),
        };
        // Numbers are finite and names are texts, so this cannot fail.
        Some(serde_json::to_string(&deciding).unwrap_or_default())
    }

    /// Rows that each has, where all have as many.
    pub(crate) fn rows_of_each(&self) -> u64 {
        match self {
            Samples::Windows(window) => window.length().into(),
            Samples::Rows | Samples::Packs(_) | Samples::Buckets(_) => 1,
        }
    }

    /// Refuses what can never work.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Samples::Rows => Ok(()),
            Samples::Windows(window) => window.check(),
            Samples::Packs(pack) => pack.check(),
            Samples::Buckets(bucket) => bucket.check(),
        }
    }
}

impl From<Window> for Samples {
    fn from(window: Window) -> Self {
        Samples::Windows(window)
    }
}

impl From<Pack> for Samples {
    fn from(pack: Pack) -> Self {
        Samples::Packs(pack)
    }
}

impl From<Bucket> for Samples {
    fn from(bucket: Bucket) -> Self {
        Samples::Buckets(bucket)
    }
}

/// Defines a sample: the selected rows of one row group that it is made of.
pub(crate) trait SampleKind: fmt::Debug + Send + Sync {
    /// Samples that a row group gives.
    fn count(&self, group: usize) -> u32;

    /// How many rows of the row groups after it the samples of a row group run on into.
    fn beyond(&self, group: usize, selected: &RowSet) -> u32 {
        let _ = (group, selected);
        0
    }

    /// Appends the rows of a sample, at least one: their ordinals among the `selected` rows of the row group, where those of the
    /// row groups after it count on.
    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows);

    /// Memory that it takes.
    fn bytes(&self) -> u64;
}

/// The rows of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleRows {
    pub(crate) rows: Vec<u32>,
    /// Of each row how long its list is, where that was planned with.
    pub(crate) lengths: Vec<u32>,
    /// How much of the first list belongs to samples before.
    pub(crate) skipped: u32,
}

impl SampleRows {
    /// Without rows, to be used for another sample.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.lengths.clear();
        self.skipped = 0;
    }
}

/// The first selected rows of a row group, which samples of one before it run on into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) group: u32,
    pub(crate) rows: u32,
}

/// The samples of a data set, by row group.
#[derive(Debug)]
pub(crate) struct SampleIndex {
    /// `None` where a sample is a row.
    kind: Option<Arc<dyn SampleKind>>,
    /// The number of samples of each row group, which is what the plan permutes.
    pub(crate) counts: Arc<[u32]>,
    /// The selected rows of each row group.
    rows: Box<[RowSet]>,
    /// Of each row group how many rows of those after it its samples run on into; empty where none do.
    beyond: Box<[u32]>,
}

impl SampleIndex {
    /// Each of the selected rows is a sample.
    pub(crate) fn of_rows(rows: Vec<RowSet>) -> Self {
        let counts = rows.iter().map(RowSet::count).collect();
        SampleIndex { kind: None, counts, rows: rows.into(), beyond: Box::default() }
    }

    /// Samples of one kind over the selected rows of each row group.
    pub(crate) fn of_kind(kind: Arc<dyn SampleKind>, rows: Vec<RowSet>) -> Self {
        let counts = (0..rows.len()).map(|group| kind.count(group)).collect();
        let beyond: Box<[u32]> = rows.iter().enumerate().map(|(at, rows)| kind.beyond(at, rows)).collect();
        let beyond = if beyond.iter().any(|rows| *rows > 0) { beyond } else { Box::default() };
        SampleIndex { kind: Some(kind), counts, rows: rows.into(), beyond }
    }

    /// Whether samples run on into the row groups after theirs.
    pub(crate) fn run_on(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// What the samples of a row group have of those after it.
    pub(crate) fn heads(&self, group: usize) -> impl Iterator<Item = Head> + '_ {
        let (mut left, mut at) = (self.beyond.get(group).copied().unwrap_or(0), group);
        std::iter::from_fn(move || {
            while left > 0 && at + 1 < self.rows.len() {
                at += 1;
                let rows = left.min(self.rows[at].count());
                left -= rows;
                if rows > 0 {
                    return Some(Head { group: at as u32, rows });
                }
            }
            None
        })
    }

    /// The row group of a row that a part is decoded to, or of one that counts on from these, and the row's ordinal in it.
    pub(crate) fn place(&self, part: &Part, row: u32) -> (usize, u32) {
        let group = part.group as usize;
        let own = self.decoded(part);
        if row < own.rows {
            return (group, self.rows[group].select(own.start + row));
        }
        let mut beyond = row - own.rows;
        for head in self.heads(group) {
            if beyond < head.rows {
                return (head.group as usize, self.rows[head.group as usize].select(beyond));
            }
            beyond -= head.rows;
        }
        // No sample has more rows than its heads.
        (group, self.rows[group].rows())
    }

    /// The selected rows of a row group.
    pub(crate) fn selected(&self, group: usize) -> &RowSet {
        &self.rows[group]
    }

    /// Of each row group the number of selected rows, or 0 where it gives no sample.
    pub(crate) fn row_counts(&self) -> Arc<[u32]> {
        let rows = self.rows.iter().zip(&*self.counts);
        rows.map(|(rows, samples)| if *samples > 0 { rows.count() } else { 0 }).collect()
    }

    /// Whether a sample is a row.
    pub(crate) fn are_rows(&self) -> bool {
        self.kind.is_none()
    }

    /// Memory that the sets of rows and the kind take.
    pub(crate) fn bytes(&self) -> u64 {
        let of_kind = self.kind.as_ref().map_or(0, |kind| kind.bytes());
        self.rows.iter().map(RowSet::bytes).sum::<u64>() + of_kind + size_of_val(&*self.beyond) as u64
    }

    /// What is decoded for a part of the plan, counted in selected rows.
    pub(crate) fn decoded(&self, part: &Part) -> Part {
        match self.kind {
            None => *part,
            Some(_) => Part { group: part.group, start: 0, rows: self.rows[part.group as usize].count() },
        }
    }

    /// The stored rows that a part is decoded to.
    pub(crate) fn rows_of(&self, part: &Part) -> PartRows {
        let Part { group, start, rows } = self.decoded(part);
        PartRows { set: self.rows[group as usize].clone(), ordinals: start..start + rows }
    }

    /// The stored rows of a head.
    pub(crate) fn rows_of_head(&self, head: Head) -> PartRows {
        PartRows { set: self.rows[head.group as usize].clone(), ordinals: 0..head.rows }
    }

    /// The samples of a part, where one is not a row.
    pub(crate) fn samples_of(&self, part: &Part) -> Option<PartSamples> {
        let selected = self.rows[part.group as usize].clone();
        Some(PartSamples { kind: self.kind.clone()?, part: *part, selected })
    }
}

/// The stored rows that a part is decoded to.
#[derive(Clone, Debug)]
pub(crate) struct PartRows {
    set: RowSet,
    ordinals: Range<u32>,
}

impl PartRows {
    /// The ordinal in the row group of the `row`-th of them.
    pub(crate) fn row_in_group(&self, row: u32) -> u32 {
        self.set.select(self.ordinals.start + row)
    }

    /// The part of the row group to decode; `None` for all of it.
    pub(crate) fn selection(&self) -> Option<RowSelection> {
        self.set.selection(self.ordinals.clone())
    }
}

/// The samples of a part of the plan.
#[derive(Clone, Debug)]
pub(crate) struct PartSamples {
    kind: Arc<dyn SampleKind>,
    part: Part,
    selected: RowSet,
}

impl PartSamples {
    /// Appends the rows of a sample of the part, among those that the part is decoded to.
    pub(crate) fn rows(&self, sample: u32, rows: &mut SampleRows) {
        self.kind.rows(self.part.group as usize, self.part.start + sample, &self.selected, rows);
    }
}
