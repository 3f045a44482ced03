//! Skipped steps: rows of an epoch's order that no rank gets.
//!
//! The order stays the same: an epoch is walked in segments, from one skipped range to the next, and a
//! position counts skipped rows like the others. A step that would reach into a skipped range ends before it,
//! like the last step of an epoch. This happens if a loader resumes with another batch size than the position
//! was saved with, since its steps then begin at other rows.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::split::{Share, Split};

/// The most skipped ranges that an order may have. The limit exists because a position stores all of them.
const MAX_RANGES: usize = 1_000;

/// Rows of an epoch's order that are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct SkippedRows {
    pub(crate) epoch: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl From<[u64; 3]> for SkippedRows {
    fn from([epoch, from, to]: [u64; 3]) -> Self {
        SkippedRows { epoch, from, to }
    }
}

impl From<SkippedRows> for [u64; 3] {
    fn from(SkippedRows { epoch, from, to }: SkippedRows) -> Self {
        [epoch, from, to]
    }
}

impl SkippedRows {
    /// Converts ranges of steps into ranges of rows. Steps are counted through all epochs, from the first
    /// step of epoch 0. The result ascends, and ranges of steps that touch are joined.
    ///
    /// # Errors
    /// Fails if a range is empty, if there are too many ranges, or if no step of an epoch is left.
    pub(crate) fn of_steps(ranges: &[(u64, u64)], split: &Split) -> Result<Arc<[SkippedRows]>> {
        let (steps, batch) = (split.steps(0).max(1), split.global_batch);
        let mut rows: Vec<SkippedRows> = Vec::new();
        for SkippedSteps { from, to } in SkippedSteps::joined(ranges)? {
            let mut at = from;
            while at < to {
                let epoch = at / steps;
                let end = (epoch + 1).saturating_mul(steps).min(to);
                let (begin, until) = (at - epoch * steps, end - epoch * steps);
                let (from, to) = (begin * batch, (until * batch).min(split.rows));
                if (from, to) == (0, (steps * batch).min(split.rows)) {
                    return Err(no_step_left(epoch, steps));
                }
                rows.push(SkippedRows { epoch, from, to });
                at = end;
            }
        }
        check_number(rows.len())?;
        Ok(rows.into())
    }
}

/// A range of skipped steps, counted through all epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub(crate) struct SkippedSteps {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl From<(u64, u64)> for SkippedSteps {
    fn from((from, to): (u64, u64)) -> Self {
        SkippedSteps { from, to }
    }
}

impl From<SkippedSteps> for (u64, u64) {
    fn from(SkippedSteps { from, to }: SkippedSteps) -> Self {
        (from, to)
    }
}

impl SkippedSteps {
    /// The ranges in ascending order, with ranges that touch joined.
    ///
    /// # Errors
    /// A range is empty, or there are too many.
    pub(crate) fn joined(ranges: &[(u64, u64)]) -> Result<Vec<SkippedSteps>> {
        let mut joined: Vec<SkippedSteps> = Vec::new();
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        for (from, to) in sorted {
            if from >= to {
                return Err(Error::invalid(format!("skip_steps has a range from {from} to {to}"))
                    .hint("a range has its first step, and the step after its last: (4000, 4010)"));
            }
            match joined.last_mut().filter(|last| from <= last.to) {
                Some(last) => last.to = last.to.max(to),
                None => joined.push(SkippedSteps { from, to }),
            }
        }
        check_number(joined.len())?;
        Ok(joined)
    }

    /// The skipped steps of an epoch, counted from its beginning. The epoch has `steps` steps, from step
    /// `first` of the run on.
    pub(super) fn of_epoch(all: &[SkippedSteps], first: u64, steps: u64) -> Arc<[Range<u64>]> {
        let of_epoch = all
            .iter()
            .map(|SkippedSteps { from, to }| from.saturating_sub(first)..to.saturating_sub(first).min(steps));
        of_epoch.filter(|range| range.start < range.end).collect()
    }
}

fn check_number(ranges: usize) -> Result<()> {
    if ranges <= MAX_RANGES {
        return Ok(());
    }
    Err(Error::invalid(format!("skip_steps has {ranges} ranges"))
        .hint(format!("a position holds up to {MAX_RANGES}; leave single rows out with `deny`")))
}

/// The error for an epoch with this number of steps, all of which are skipped.
pub(super) fn no_step_left(epoch: u64, steps: u64) -> Error {
    Error::invalid(format!("skip_steps leaves no step of epoch {epoch}"))
        .hint(format!("an epoch has {steps} steps; leave out whole ones by beginning later"))
}

/// The skipped rows of one epoch, as ascending ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skips(Arc<[Range<u64>]>);

impl Skips {
    /// The skipped rows of one epoch.
    pub(super) fn of_epoch(all: &[SkippedRows], epoch: u64) -> Self {
        Skips(all.iter().filter(|rows| rows.epoch == epoch).map(|rows| rows.from..rows.to).collect())
    }

    /// The first row from `row` on that is not skipped, and the end of its segment if a skipped range
    /// follows.
    fn segment(&self, row: u64) -> (u64, Option<u64>) {
        let at = self.0.partition_point(|range| range.end <= row);
        match self.0.get(at) {
            Some(range) if range.start <= row => (range.end, self.0.get(at + 1).map(|next| next.start)),
            Some(range) => (row, Some(range.start)),
            None => (row, None),
        }
    }

    /// The split of a segment (the rows between two skipped ranges) as if the epoch ended at row `end`, or
    /// the split unchanged if no skipped range follows.
    fn within(split: &Split, end: Option<u64>) -> Split {
        match end {
            Some(rows) => Split { rows, drop_last: false, ..*split },
            None => *split,
        }
    }

    /// A rank's share of the step that begins at the global row `start`; `None` after the last step.
    pub(super) fn share(&self, split: &Split, start: u64) -> Option<Share> {
        let (start, end) = self.segment(start);
        Skips::within(split, end).share(start)
    }

    /// The number of steps from the global row `start` to the end of the epoch, which is the same on every
    /// rank.
    pub(crate) fn steps(&self, split: &Split, start: u64) -> u64 {
        let (mut steps, mut at) = (0, start);
        loop {
            let (begin, end) = self.segment(at);
            steps += Skips::within(split, end).steps(begin);
            match end {
                Some(end) => at = end,
                None => return steps,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::Shard;
    use super::*;

    fn split(rows: u64, batch: u64, drop_last: bool) -> Split {
        Split { rows, lanes: 1, shard: Shard::new(0, 1).unwrap(), global_batch: batch, drop_last }
    }

    fn rows(ranges: &[(u64, u64)], split: &Split) -> Vec<[u64; 3]> {
        SkippedRows::of_steps(ranges, split).unwrap().iter().map(|&rows| rows.into()).collect()
    }

    #[test]
    fn steps_of_a_run_are_rows_of_its_epochs() {
        let split = split(95, 10, false);
        assert_eq!(rows(&[(3, 5)], &split), [[0, 30, 50]]);
        assert_eq!(rows(&[(5, 6), (3, 5)], &split), [[0, 30, 60]], "ranges that touch are one");
        assert_eq!(rows(&[(8, 13)], &split), [[0, 80, 95], [1, 0, 30]], "over the border of an epoch");
        assert_eq!(rows(&[(25, 26)], &split), [[2, 50, 60]]);
        assert!(rows(&[], &split).is_empty());
    }

    #[test]
    fn ranges_that_cannot_be_meant_are_refused() {
        let split = split(95, 10, false);
        for ranges in [&[(4, 4)][..], &[(5, 4)], &[(0, 10)], &[(5, u64::MAX)], &[(0, 5), (5, 10)]] {
            assert!(SkippedRows::of_steps(ranges, &split).is_err(), "{ranges:?}");
        }
        let whole = Split { drop_last: true, ..split };
        let said = SkippedRows::of_steps(&[(0, 9)], &whole).unwrap_err().to_string();
        assert!(said.starts_with("skip_steps leaves no step of epoch 0 (an epoch has 9 steps"), "{said}");
        assert!(SkippedRows::of_steps(&[(0, 8)], &whole).is_ok());
        let many: Vec<(u64, u64)> = (0..1_001).map(|at| (2 * at, 2 * at + 1)).collect();
        assert!(SkippedRows::of_steps(&many, &split).is_err());
    }

    #[test]
    fn each_step_that_is_left_comes_once_from_wherever_it_is_entered() {
        for drop_last in [false, true] {
            let split = split(95, 10, drop_last);
            let skips = Skips::of_epoch(&SkippedRows::of_steps(&[(2, 4), (8, 9)], &split).unwrap(), 0);
            for start in 0..95 {
                let (mut at, mut taken) = (start, Vec::new());
                while let Some(share) = skips.share(&split, at) {
                    taken.push(share.spans[0].from..share.spans[0].to);
                    at = share.end;
                }
                assert_eq!(taken.len() as u64, skips.steps(&split, start), "from {start}");
                let is_left = |row: &u64| !(20..40).contains(row) && !(80..90).contains(row);
                let end = if drop_last { 90 } else { 95 };
                let expected: Vec<u64> = (start..end).filter(is_left).collect();
                assert_eq!(taken.into_iter().flatten().collect::<Vec<_>>(), expected, "from {start}");
            }
        }
    }
}
