//! The index of samples: how many samples each row group gives, and the stored rows that a sample is made of.
//!
//! Composed before anything is planned, and pure. First the rows of each row group are chosen as a [`RowSet`]: without
//! those that a table has deleted, then those of them that a filter selects. A [`SampleKind`] then defines one sample.
//! The plan permutes counts of samples and depends on neither, so order, exact lengths, equal steps and resuming on
//! another world hold for any kind.
//!
//! ```text
//! stored rows ─ deleted ─► live rows ─ filter ─► selected rows ─ kind ─► samples ─► counts, to be planned
//!      0 1 2 3 4 5 6          0 2 3 4 6             0 2 4 6       pairs    2
//! part of the plan: samples 1..2 of the row group ─► selected rows 2..4 ─► stored rows 4, 6
//! ```

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;

use crate::row_set::RowSet;
use crate::shard::Part;

/// Defines a sample: the selected rows of one row group that it is made of.
///
/// Samples ascend: neither the first nor the last row of one is before that of the previous sample.
pub(crate) trait SampleKind: fmt::Debug + Send + Sync {
    /// Samples that `rows` selected rows of a row group give: at most one for each.
    fn count(&self, group: usize, rows: u32) -> u32;

    /// The selected rows of a sample, by ordinal; at least one.
    fn rows(&self, group: usize, sample: u32) -> Range<u32>;

    /// The selected rows of consecutive samples, each row once, as ranges that ascend and do not touch.
    fn runs(&self, group: usize, samples: Range<u32>) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for rows in samples.map(|sample| self.rows(group, sample)) {
            match runs.last_mut().filter(|last| rows.start <= last.end) {
                Some(last) => last.end = last.end.max(rows.end),
                None => runs.push(rows),
            }
        }
        runs
    }
}

/// One sample is one row.
#[derive(Debug)]
pub(crate) struct SingleRows;

impl SampleKind for SingleRows {
    fn count(&self, _: usize, rows: u32) -> u32 {
        rows
    }

    fn rows(&self, _: usize, sample: u32) -> Range<u32> {
        sample..sample + 1
    }

    fn runs(&self, _: usize, samples: Range<u32>) -> Vec<Range<u32>> {
        vec![samples]
    }
}

/// The samples of a data set, by row group.
#[derive(Debug)]
pub(crate) struct SampleIndex {
    kind: Arc<dyn SampleKind>,
    /// The number of samples of each row group, which is what the plan permutes.
    pub(crate) counts: Arc<[u32]>,
    /// The selected rows of each row group.
    rows: Box<[RowSet]>,
}

impl SampleIndex {
    /// Samples of one kind over the selected rows of each row group.
    pub(crate) fn new(kind: Arc<dyn SampleKind>, rows: Vec<RowSet>) -> Self {
        let counts = rows.iter().enumerate().map(|(group, rows)| kind.count(group, rows.count()));
        SampleIndex { counts: counts.collect(), kind, rows: rows.into() }
    }

    /// The selected rows of a row group.
    pub(crate) fn selected(&self, group: usize) -> &RowSet {
        &self.rows[group]
    }

    /// Memory that the sets of rows take.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.iter().map(RowSet::bytes).sum()
    }

    /// The stored rows that the samples of a part are made of.
    pub(crate) fn rows_of(&self, part: &Part) -> PartRows {
        let group = part.group as usize;
        let set = &self.rows[group];
        let runs = self.kind.runs(group, part.start..part.start + part.rows);
        match &*runs {
            [run] => PartRows { set: set.clone(), ordinals: run.clone() },
            _ => {
                let set = set.compose(&RowSet::from_runs(set.count(), runs));
                PartRows { ordinals: 0..set.count(), set }
            }
        }
    }

    /// The rows of a part's sample among those that the part is decoded to.
    #[cfg_attr(not(test), expect(dead_code, reason = "a sample of a loader is one row"))]
    pub(crate) fn decoded_rows_of(&self, part: &Part, sample: u32) -> Range<u32> {
        let group = part.group as usize;
        let rows = self.kind.rows(group, part.start + sample);
        let before: u32 = self
            .kind
            .runs(group, part.start..part.start + part.rows)
            .iter()
            .map(|run| rows.start.clamp(run.start, run.end) - run.start)
            .sum();
        before..before + (rows.end - rows.start)
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
