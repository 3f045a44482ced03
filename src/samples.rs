//! The index of samples: how many samples each row group gives, and from which stored rows each sample is
//! made.
//!
//! The index is built before an epoch is planned, and this code does no I/O. First the rows of each row group
//! are chosen as a [`RowSet`]: rows that a table has deleted are left out, then rows that the filter does not
//! select. A [`SampleKind`] then says which rows make one sample; without a kind, each row is a sample. The
//! plan depends only on the number of samples in each row group. So samples of any kind have an exact number,
//! equal steps on all ranks, and epochs that can be resumed with another number of ranks.
//!
//! ```text
//! stored rows ─ deleted ─► live rows ─ filter ─► selected rows ─ kind ─► samples ─► counts, to be planned
//!      0 1 2 3 4 5 6          0 2 3 4 6             0 2 4 6       pairs    3
//! part of the plan: samples 1..3 of the row group ─► selected rows 1 2, 2 3 ─► stored rows 2 4, 4 6
//! ```
//!
//! A part of the plan is a run of samples of one row group. If a sample is a row, only the rows of a part are
//! decoded for it. Samples of any other kind may share rows and have rows from anywhere in their row group,
//! so all selected rows of the row group are decoded for each part. A sample may continue in the next row
//! groups: the first rows of these are its [`Head`]s, numbered after the rows of its own row group.
//!
//! ```text
//! row group 7          0 1 2 3 4│         windows of 4 rows: five begin in row group 7,
//! its head, group 8              │5 6 7   and the last of them has 3 rows of row group 8
//! ```

mod across;
mod bucket;
mod cost;
mod costs;
mod frames;
mod index;
mod lengths;
mod pack;
mod reshuffled;
mod selected;
mod starts;
mod stretches;
mod unfit;
mod weighted;
mod window;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use forebay_base::Result;
use forebay_store::row_set::RowSet;

pub use across::Across;
pub use bucket::Bucket;
pub(crate) use bucket::Buckets;
pub use cost::RowCost;
pub use frames::Frames;
pub(crate) use index::{EpochSamples, PartRows, PartSamples, SampleIndex};
pub(crate) use lengths::lengths;
pub use pack::{Pack, PackValue};
pub(crate) use pack::{PackMarks, Packs};
pub(crate) use reshuffled::Reshuffled;
pub(crate) use starts::SequenceStarts;
pub(crate) use stretches::{Deciding, Stretches};
pub(crate) use unfit::UnfitRow;
pub use weighted::{Class, Sample};
pub(crate) use weighted::{ColumnValues, Population};
pub(crate) use window::Windows;
pub use window::{Gap, Window};

/// The kind of a loader's samples: which rows make up one sample.
///
/// ```
/// use forebay::samples::{Samples, Window};
///
/// assert_eq!(Samples::default(), Samples::Rows);
/// let windows = Samples::from(Window::rows(16));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Samples {
    /// One row.
    #[default]
    Rows,
    /// A fixed number of consecutive rows.
    Windows(Window),
    /// Several lists, such as the tokens of documents, packed into one row of fixed length.
    Packs(Pack),
    /// Several rows of similar length.
    Buckets(Bucket),
    /// One row, drawn by weight in each epoch.
    Weighted(Sample),
}

impl Samples {
    pub(crate) fn are_rows(&self) -> bool {
        matches!(self, Samples::Rows)
    }

    /// Whether each sample is a single row, however the rows are chosen.
    pub(crate) fn are_single_rows(&self) -> bool {
        matches!(self, Samples::Rows | Samples::Weighted(_))
    }

    /// Returns the options that decide the order of samples, as the text that a position stores; `None` if
    /// samples are rows. `stored` maps the name of a column to its stored name.
    pub(crate) fn canonical(&self, stored: impl Fn(&str) -> String) -> Option<String> {
        let deciding = match self {
            Samples::Rows => return None,
            Samples::Windows(window) => Samples::Windows(window.deciding_alone()),
            Samples::Packs(pack) => Samples::Packs(pack.deciding_alone(stored)),
            Samples::Buckets(_) | Samples::Weighted(_) => self.clone(),
        };
        // Numbers are finite and map keys are texts, so serialization cannot fail.
        Some(serde_json::to_string(&deciding).unwrap_or_default())
    }

    /// Whether each epoch combines the rows into different samples than other epochs.
    pub(crate) fn are_reshuffled(&self) -> bool {
        match self {
            Samples::Packs(pack) => pack.is_reshuffled(),
            Samples::Buckets(bucket) => bucket.is_reshuffled(),
            Samples::Rows | Samples::Windows(_) | Samples::Weighted(_) => false,
        }
    }

    /// The number of rows in each window; 1 for samples of any other kind.
    pub(crate) fn rows_of_each(&self) -> u64 {
        match self {
            Samples::Windows(window) => window.length().into(),
            Samples::Rows | Samples::Packs(_) | Samples::Buckets(_) | Samples::Weighted(_) => 1,
        }
    }

    /// Returns an error for options that can never work, whatever the data.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Samples::Rows => Ok(()),
            Samples::Windows(window) => window.check(),
            Samples::Packs(pack) => pack.check(),
            Samples::Buckets(bucket) => bucket.check(),
            Samples::Weighted(sample) => sample.check(),
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

impl From<Sample> for Samples {
    fn from(sample: Sample) -> Self {
        Samples::Weighted(sample)
    }
}

impl From<Bucket> for Samples {
    fn from(bucket: Bucket) -> Self {
        Samples::Buckets(bucket)
    }
}

/// A kind of sample: says which of the selected rows of a row group each sample has.
pub(crate) trait SampleKind: fmt::Debug + Send + Sync {
    /// The number of samples that begin in a row group.
    fn count(&self, group: usize) -> u32;

    /// The number of rows that the samples of `group` have in later row groups. A row of several samples
    /// counts once.
    fn beyond(&self, group: usize, selected: &RowSet) -> u32 {
        let _ = (group, selected);
        0
    }

    /// Appends the rows of a sample, at least one. Rows are numbered among the `selected` rows of the row
    /// group; the rows of later row groups continue the numbering.
    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows);

    /// Prepares the samples of one row group, so that their rows can be listed quickly; `None` if `self`
    /// needs no preparation for that.
    fn of_group(&self, _group: usize) -> Option<Arc<dyn SampleKind>> {
        None
    }

    /// The memory that the kind takes, in bytes.
    fn bytes(&self) -> u64;
}

/// Samples that each epoch makes anew, by a seed.
pub(crate) trait EpochKinds: fmt::Debug + Send + Sync {
    /// The fewest and the most samples that a row group gives in an epoch.
    fn bounds(&self, group: usize) -> (u32, u32);

    /// The number of samples in an epoch, which is the same in all epochs.
    fn total(&self) -> u64;

    /// Returns the samples of an epoch, and the number of samples that each row group gives. Both depend only
    /// on the data, the seed and the number of the epoch.
    fn of_epoch(self: Arc<Self>, seed: u64, epoch: u64) -> (Arc<dyn SampleKind>, Arc<[u32]>);

    /// The bytes that each sample takes in the list of a row group's samples, which is made for an epoch when
    /// the row group is decoded.
    fn listed_bytes(&self) -> u64;

    /// The memory that all epochs take together, in bytes.
    fn bytes(&self) -> u64;
}

/// The rows of one sample, with facts about each row that are known before the rows are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleRows {
    pub(crate) rows: Vec<u32>,
    /// For each row, the length of its list that was used to make packs; empty unless samples are packs.
    pub(crate) lengths: Vec<u32>,
    /// For each row, the number of values at the beginning of its list that belong to earlier samples. This
    /// may be shorter than `rows`: the number is 0 for the remaining rows.
    pub(crate) skipped: Vec<u32>,
    /// For each row, how many times it came earlier in its epoch; empty if each row comes once.
    pub(crate) repeats: Vec<u32>,
}

impl SampleRows {
    /// Removes all rows, so that the buffers can be used for another sample.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.lengths.clear();
        self.repeats.clear();
        self.skipped.clear();
    }
}

/// The first selected rows of a row group, in which samples of an earlier row group continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) group: u32,
    pub(crate) rows: u32,
}
