//! The index of samples: how many samples each row group gives in an epoch, and which stored rows make up the
//! samples of a part.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_store::row_set::RowSet;
use parquet::arrow::arrow_reader::RowSelection;

use super::selected::SelectedRows;
use super::{EpochKinds, Head, SampleKind, SampleRows};
use crate::shard::Part;

/// The samples of a data set by row group, in a form that holds for every epoch.
#[derive(Debug)]
pub(crate) struct SampleIndex {
    rows: SelectedRows,
    /// The fewest and the most samples that each row group gives in an epoch.
    least: Arc<[u32]>,
    most: Arc<[u32]>,
    /// The number of samples in an epoch.
    total: u64,
    /// The memory that the kind of sample takes, in bytes.
    kind_bytes: u64,
    epochs: Epochs,
}

/// The samples of all epochs: the same in each epoch, or different ones.
#[derive(Debug)]
enum Epochs {
    /// Every epoch has the same samples.
    Same(Arc<EpochSamples>),
    /// Each epoch draws its samples anew. The fields are the samples to draw from, the seed, and the epochs
    /// that were used last, which are kept with their numbers.
    Drawn(Arc<dyn EpochKinds>, u64, Mutex<Vec<(u64, Arc<EpochSamples>)>>),
}

/// The number of drawn epochs that are kept: the current one, the one that is being prepared, and one more
/// for questions about any other epoch.
const EPOCHS_KEPT: usize = 3;

impl SampleIndex {
    /// An index in which each selected row is a sample.
    pub(crate) fn of_rows(rows: Vec<RowSet>) -> Self {
        let rows = SelectedRows::from(rows);
        let counts = rows.counts();
        SampleIndex::same(None, rows, counts)
    }

    /// Makes an index of samples of one kind over the selected rows of each row group.
    pub(crate) fn of_kind(kind: Arc<dyn SampleKind>, rows: Vec<RowSet>) -> Self {
        let counts = (0..rows.len()).map(|group| kind.count(group)).collect();
        SampleIndex::same(Some(kind), rows.into(), counts)
    }

    fn same(kind: Option<Arc<dyn SampleKind>>, rows: SelectedRows, counts: Arc<[u32]>) -> Self {
        let total = counts.iter().map(|samples| u64::from(*samples)).sum();
        let kind_bytes = kind.as_ref().map_or(0, |kind| kind.bytes());
        let beyond = kind.as_ref().map_or_else(Box::default, |kind| {
            let beyond: Box<[u32]> =
                (0..rows.len()).map(|group| kind.beyond(group, &rows.row_set(group))).collect();
            if beyond.iter().any(|rows| *rows > 0) { beyond } else { Box::default() }
        });
        let epoch = EpochSamples { kind, counts: counts.clone(), rows: rows.clone(), beyond };
        let epochs = Epochs::Same(Arc::new(epoch));
        SampleIndex { rows, least: counts.clone(), most: counts, total, kind_bytes, epochs }
    }

    /// An index of samples that each epoch draws anew, by a seed.
    pub(crate) fn drawn(kinds: impl EpochKinds + 'static, seed: u64, rows: Vec<RowSet>) -> Self {
        let (least, most): (Vec<u32>, Vec<u32>) = (0..rows.len()).map(|group| kinds.bounds(group)).unzip();
        let (total, kind_bytes) = (kinds.total(), kinds.bytes());
        let epochs = Epochs::Drawn(Arc::new(kinds), seed, Mutex::default());
        SampleIndex { rows: rows.into(), least: least.into(), most: most.into(), total, kind_bytes, epochs }
    }

    /// The samples of one epoch.
    pub(crate) fn of_epoch(&self, epoch: u64) -> Arc<EpochSamples> {
        let (kinds, seed, kept) = match &self.epochs {
            Epochs::Same(samples) => return samples.clone(),
            Epochs::Drawn(kinds, seed, kept) => (kinds, *seed, kept),
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(number, _)| *number == epoch).map(|at| kept.remove(at).1);
        let samples = known.unwrap_or_else(|| {
            let (kind, counts) = kinds.clone().of_epoch(seed, epoch);
            let rows = self.rows.clone();
            Arc::new(EpochSamples { kind: Some(kind), counts, rows, beyond: Box::default() })
        });
        kept.truncate(EPOCHS_KEPT - 1);
        kept.insert(0, (epoch, samples.clone()));
        samples
    }

    /// The number of samples in an epoch.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The fewest samples that each row group gives in an epoch.
    pub(crate) fn least(&self) -> &[u32] {
        &self.least
    }

    /// The most samples that each row group gives in an epoch.
    pub(crate) fn most(&self) -> &[u32] {
        &self.most
    }

    /// The selected rows of a row group.
    pub(crate) fn selected(&self, group: usize) -> RowSet {
        self.rows.row_set(group)
    }

    /// The number of selected rows in each row group, or 0 for a row group without samples.
    pub(crate) fn row_counts(&self) -> Arc<[u32]> {
        if self.most.iter().all(|samples| *samples > 0) {
            return self.rows.counts();
        }
        let samples = self.most.iter().enumerate();
        samples.map(|(group, samples)| if *samples > 0 { self.rows.count(group) } else { 0 }).collect()
    }

    /// Whether a sample is a row and each selected row comes once.
    pub(crate) fn are_rows(&self) -> bool {
        matches!(&self.epochs, Epochs::Same(samples) if samples.are_rows())
    }

    /// Whether any samples continue in the next row groups.
    pub(crate) fn run_on(&self) -> bool {
        matches!(&self.epochs, Epochs::Same(samples) if !samples.beyond.is_empty())
    }

    /// Returns the rows of later row groups into which the samples of `group` continue, in any epoch.
    pub(crate) fn heads(&self, group: usize) -> impl Iterator<Item = Head> + '_ {
        let of_all = match &self.epochs {
            Epochs::Same(samples) => Some(samples.heads(group)),
            Epochs::Drawn(..) => None,
        };
        of_all.into_iter().flatten()
    }

    /// The bytes that each sample takes in the list of a row group's samples, which is drawn when the row
    /// group is decoded; 0 if the samples of all epochs are the same.
    pub(crate) fn listed_bytes(&self) -> u64 {
        match &self.epochs {
            Epochs::Same(_) => 0,
            Epochs::Drawn(kinds, ..) => kinds.listed_bytes(),
        }
    }

    /// The memory that the sets of rows and the kind of sample take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let beyond = match &self.epochs {
            Epochs::Same(samples) => size_of_val(&*samples.beyond) as u64,
            Epochs::Drawn(..) => 0,
        };
        self.rows.bytes() + self.kind_bytes + beyond
    }
}

/// The samples of one epoch, by row group.
#[derive(Debug)]
pub(crate) struct EpochSamples {
    /// The kind of sample; `None` if a sample is a row.
    kind: Option<Arc<dyn SampleKind>>,
    /// The number of samples of each row group, which is what the plan permutes.
    pub(crate) counts: Arc<[u32]>,
    rows: SelectedRows,
    /// For each row group, the number of rows of later row groups in which its samples continue; empty if
    /// none do.
    beyond: Box<[u32]>,
}

impl EpochSamples {
    /// Whether a sample is a row.
    pub(crate) fn are_rows(&self) -> bool {
        self.kind.is_none()
    }

    /// Returns the selected rows to decode for a part (a run of samples of one row group), as a range of
    /// their ordinals: only the rows of the part if samples are rows, otherwise all selected rows of the row
    /// group.
    pub(crate) fn decoded(&self, part: &Part) -> Part {
        match self.kind {
            None => *part,
            Some(_) => Part { group: part.group, start: 0, rows: self.rows.count(part.group as usize) },
        }
    }

    /// The stored rows that are decoded for a part.
    pub(crate) fn rows_of(&self, part: &Part) -> PartRows {
        let Part { group, start, rows } = self.decoded(part);
        PartRows { set: self.rows.row_set(group as usize), ordinals: start..start + rows }
    }

    /// The rows of later row groups in which the samples of `group` continue.
    pub(crate) fn heads(&self, group: usize) -> impl Iterator<Item = Head> + '_ {
        let (mut left, mut at) = (self.beyond.get(group).copied().unwrap_or(0), group);
        std::iter::from_fn(move || {
            while left > 0 && at + 1 < self.rows.len() {
                at += 1;
                let rows = left.min(self.rows.count(at));
                left -= rows;
                if rows > 0 {
                    return Some(Head { group: at as u32, rows });
                }
            }
            None
        })
    }

    /// Returns the row group of a decoded row, and the row's ordinal in it. `row` counts first through the
    /// rows that are decoded for `part`, then through the rows of its [`Head`]s in later row groups.
    pub(crate) fn place(&self, part: &Part, row: u32) -> (usize, u32) {
        let group = part.group as usize;
        let own = self.decoded(part);
        if row < own.rows {
            return (group, self.rows.row_set(group).select(own.start + row));
        }
        let mut beyond = row - own.rows;
        for head in self.heads(group) {
            if beyond < head.rows {
                return (head.group as usize, self.rows.row_set(head.group as usize).select(beyond));
            }
            beyond -= head.rows;
        }
        // A sample has no rows beyond its heads, so this is never reached.
        (group, self.rows.row_set(group).rows())
    }

    /// Returns the stored rows of a head: the first rows of a row group, in which earlier samples continue.
    pub(crate) fn rows_of_head(&self, head: Head) -> PartRows {
        PartRows { set: self.rows.row_set(head.group as usize), ordinals: 0..head.rows }
    }

    /// All samples of a row group; `None` if a sample is a row.
    pub(super) fn all_of_group(&self, group: usize) -> Option<PartSamples> {
        self.samples_of(&Part { group: group as u32, start: 0, rows: self.counts[group] })
    }

    /// The samples of a part; `None` if a sample is a row.
    pub(crate) fn samples_of(&self, part: &Part) -> Option<PartSamples> {
        let (kind, group) = (self.kind.clone()?, part.group as usize);
        let kind = kind.of_group(group).unwrap_or(kind);
        Some(PartSamples { kind, part: *part, selected: self.rows.row_set(group) })
    }
}

/// The stored rows that are decoded for a part.
#[derive(Clone, Debug)]
pub(crate) struct PartRows {
    set: RowSet,
    ordinals: Range<u32>,
}

impl PartRows {
    /// The ordinal in the row group of the `row`-th row that is decoded for the part.
    pub(crate) fn row_in_group(&self, row: u32) -> u32 {
        self.set.select(self.ordinals.start + row)
    }

    /// The selection of rows to decode; `None` for the whole row group.
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
    /// Appends the rows of a sample of this part, numbered among the rows that are decoded for the part.
    pub(crate) fn rows(&self, sample: u32, rows: &mut SampleRows) {
        self.kind.rows(self.part.group as usize, self.part.start + sample, &self.selected, rows);
    }
}
