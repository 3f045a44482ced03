//! Stores a set of rows as runs of consecutive rows.

use std::ops::Range;

/// A run of consecutive rows. Its length is `before` of the next run minus its own `before`. For the last
/// run, it is the number of rows in the set minus `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowRun {
    /// The first row of the run.
    pub(super) start: u32,
    /// The number of rows of the set before this run, which is the ordinal (number in the set) of its first
    /// row.
    pub(super) before: u32,
}

/// A set of rows as runs, in ascending order, with at least one row between two runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowRuns {
    runs: Box<[RowRun]>,
    count: u32,
}

impl RowRuns {
    pub(super) fn new(runs: Vec<RowRun>, count: u32) -> Self {
        RowRuns { runs: runs.into(), count }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.runs) as u64
    }

    pub(super) fn select(&self, ordinal: u32) -> u32 {
        let run = self.runs[self.holding(ordinal) as usize];
        run.start + (ordinal - run.before)
    }

    pub(super) fn rank(&self, row: u32) -> u32 {
        match self.runs.partition_point(|run| run.start < row).checked_sub(1) {
            Some(at) => self.runs[at].before + (row - self.runs[at].start).min(self.length(at)),
            None => 0,
        }
    }

    /// The index of the run that contains the row with this ordinal (number in the set).
    pub(super) fn holding(&self, ordinal: u32) -> u32 {
        (self.runs.partition_point(|run| run.before <= ordinal) - 1) as u32
    }

    /// Returns the rows from ordinal `at`, at most `most`, in the run with index `cursor`, and moves `cursor`
    /// to the next run.
    pub(super) fn run(&self, cursor: &mut u32, at: u32, most: u32) -> Range<u32> {
        let index = *cursor as usize;
        let (run, length) = (self.runs[index], self.length(index));
        let start = run.start + (at - run.before);
        *cursor += 1;
        start..(run.start + length).min(start + most)
    }

    fn length(&self, at: usize) -> u32 {
        self.runs.get(at + 1).map_or(self.count, |next| next.before) - self.runs[at].before
    }
}
