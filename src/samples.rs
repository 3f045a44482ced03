//! The index of samples: how many samples each row group gives, and the stored rows that a sample is made of.
//!
//! Composed before anything is planned, and pure. First the rows of each row group are chosen as a
//! [`RowSet`]: without those that a table has deleted, then those of them that a filter selects. A
//! [`SampleKind`] then defines one sample; without one, a sample is a row. The plan permutes counts of
//! samples and depends on nothing else, so order, exact lengths, equal steps and resuming on another world
//! hold for any kind.
//!
//! ```text
//! stored rows ─ deleted ─► live rows ─ filter ─► selected rows ─ kind ─► samples ─► counts, to be planned
//!      0 1 2 3 4 5 6          0 2 3 4 6             0 2 4 6       pairs    3
//! part of the plan: samples 1..3 of the row group ─► selected rows 1 2, 2 3 ─► stored rows 2 4, 4 6
//! ```
//!
//! Rows of a part are decoded as they are needed; samples of any other kind may share rows, and take them
//! from anywhere in their row group, so all selected rows of it are decoded for each of its parts. A sample
//! may run on into the row groups after it: their first rows, as many as are needed, are its [`Head`]s, and
//! count on from its own rows.
//!
//! ```text
//! row group 7          0 1 2 3 4│         windows of 4 rows: four begin in row group 7,
//! its heads             8:      │5 6 7    and have 3 rows of those after it
//! ```

mod across;
mod bucket;
mod frames;
mod index;
mod lengths;
mod pack;
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
pub use frames::Frames;
pub(crate) use index::{EpochSamples, PartRows, PartSamples, SampleIndex};
pub(crate) use lengths::lengths;
pub(crate) use pack::Packs;
pub use pack::{Pack, PackValue};
pub(crate) use starts::SequenceStarts;
pub(crate) use stretches::{Deciding, Stretches};
pub(crate) use unfit::UnfitRow;
pub use weighted::{Class, Sample};
pub(crate) use weighted::{ColumnValues, Population};
pub(crate) use window::Windows;
pub use window::{Gap, Window};

/// What one sample of a loader is.
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
    /// A row.
    #[default]
    Rows,
    /// So many consecutive rows.
    Windows(Window),
    /// Several lists, such as the tokens of documents, in a row of one length.
    Packs(Pack),
    /// Several rows of similar length.
    Buckets(Bucket),
    /// A row, drawn by weight in each epoch.
    Weighted(Sample),
}

impl Samples {
    pub(crate) fn are_rows(&self) -> bool {
        matches!(self, Samples::Rows)
    }

    /// Whether each is one row, however it was chosen.
    pub(crate) fn are_single_rows(&self) -> bool {
        matches!(self, Samples::Rows | Samples::Weighted(_))
    }

    /// What of it decides the order, as a text that a position has; `None` for rows. `stored` is the stored
    /// name of a column.
    pub(crate) fn canonical(&self, stored: impl Fn(&str) -> String) -> Option<String> {
        let deciding = match self {
            Samples::Rows => return None,
            Samples::Windows(window) => Samples::Windows(window.deciding_alone()),
            Samples::Packs(pack) => Samples::Packs(pack.deciding_alone(stored)),
            Samples::Buckets(_) | Samples::Weighted(_) => self.clone(),
        };
        // Numbers are finite and names are texts, so this cannot fail.
        Some(serde_json::to_string(&deciding).unwrap_or_default())
    }

    /// Rows that each has, where all have as many.
    pub(crate) fn rows_of_each(&self) -> u64 {
        match self {
            Samples::Windows(window) => window.length().into(),
            Samples::Rows | Samples::Packs(_) | Samples::Buckets(_) | Samples::Weighted(_) => 1,
        }
    }

    /// Refuses what can never work.
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

/// Defines a sample: the selected rows of one row group that it is made of.
pub(crate) trait SampleKind: fmt::Debug + Send + Sync {
    /// Samples that a row group gives.
    fn count(&self, group: usize) -> u32;

    /// How many rows of the row groups after it the samples of a row group run on into.
    fn beyond(&self, group: usize, selected: &RowSet) -> u32 {
        let _ = (group, selected);
        0
    }

    /// Appends the rows of a sample, at least one: their ordinals among the `selected` rows of the row group,
    /// where those of the row groups after it count on.
    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows);

    /// The samples of one row group, where it takes work to find them that is to be done once.
    fn of_group(&self, _group: usize) -> Option<Arc<dyn SampleKind>> {
        None
    }

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
    /// Of each row how often it came before in its epoch, where one may come several times.
    pub(crate) repeats: Vec<u32>,
}

impl SampleRows {
    /// Without rows, to be used for another sample.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.lengths.clear();
        self.repeats.clear();
        self.skipped = 0;
    }
}

/// The first selected rows of a row group, which samples of one before it run on into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) group: u32,
    pub(crate) rows: u32,
}
