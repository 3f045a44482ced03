//! Batches in which every row is bad: each gets the next good row of its rank, so that no batch is empty.
//!
//! Such a batch is filled with the first good row of the next batch that has one. If no later batch of the
//! epoch has one, it is filled with the first good row of the epoch. The choice depends only on the data and
//! the plan, and neither on the timing of threads nor on where the epoch was resumed. The row is delivered
//! one more time than otherwise, and counts as repeated.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use forebay_arrow::compute::take;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;

use super::bad_rows::{BadRow, OnBadRow};
use super::collate::Collated;

/// A batch that was made, and its place in the epoch.
pub(super) struct Taken {
    pub(super) made: Collated,
    /// The row of the epoch, counted over all ranks, at which the step of the batch ends.
    pub(super) end: u64,
    /// The number of rows of the batch that are repeats of another rank's rows, or that replace bad rows.
    pub(super) padded: u64,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.made.batch.num_rows() == 0
    }
}

/// A row that can fill a batch without good rows.
pub(super) struct StandIn {
    row: RecordBatch,
    number: Option<u64>,
    key: Option<u64>,
}

impl StandIn {
    /// Copies the first row of a batch, to fill other batches with it.
    pub(super) fn first_of(batch: &RecordBatch, numbers: &[u64], keys: Option<&[u64]>) -> Result<Self> {
        let row = repeated(batch, 1)?;
        Ok(StandIn {
            row,
            number: numbers.first().copied(),
            key: keys.and_then(|keys| keys.first().copied()),
        })
    }
}

/// The batches of an epoch that have arrived and wait to be passed on to the consumer. Batches without a good
/// row are filled here.
pub(super) struct Refill {
    on_bad_row: OnBadRow,
    /// Whether batches without a good row are filled, and wait for a row of another batch.
    fills: bool,
    /// Whether the last column of batches is `row_mask`, which is false for rows that only fill a batch.
    row_mask: bool,
    /// The number of bad rows that the epoch left out before it was resumed.
    before: u64,
    /// The bad rows since the epoch was resumed, in all batches that arrived.
    bad: Vec<BadRow>,
    /// The batches that arrived and were not passed on yet. Empty ones wait until a batch with a row arrives.
    waiting: VecDeque<Taken>,
    /// The first row of the epoch that can be delivered, once it is known.
    first: Option<StandIn>,
}

impl Refill {
    /// Makes an empty queue. `fills` says whether batches without a good row are filled. `before` is the
    /// number of bad rows before the epoch was resumed, and `left_out` has rows that count as bad from the
    /// start.
    pub(super) fn new(
        on_bad_row: OnBadRow,
        fills: bool,
        row_mask: bool,
        before: u64,
        left_out: &[BadRow],
    ) -> Self {
        Refill {
            on_bad_row,
            fills,
            row_mask,
            before,
            bad: left_out.to_vec(),
            waiting: VecDeque::new(),
            first: None,
        }
    }

    /// The number of bad rows that the epoch left out before it was resumed.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// The number of batches that wait to be passed on.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Whether no batch can be passed on.
    pub(super) fn is_empty_handed(&self) -> bool {
        self.waiting.back().is_none_or(|taken| self.fills && taken.is_empty())
    }

    /// Whether batches keep their shape if rows are left out.
    pub(super) fn keeps_shape(&self) -> bool {
        self.on_bad_row.refills()
    }

    /// Drops the batches that wait to be passed on.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Returns all bad rows of the batches that arrived.
    pub(super) fn bad(&self) -> &[BadRow] {
        &self.bad
    }

    /// The number of bad rows that the epoch left out before row `end`.
    pub(super) fn skipped_until(&self, end: u64) -> u64 {
        self.before + self.bad.partition_point(|bad| bad.end <= end) as u64
    }

    /// Adds a batch that arrived. `is_whole` says whether the batches began with the first row of the epoch.
    ///
    /// # Errors
    /// Fails if more rows are bad than the user allows.
    pub(super) fn push(&mut self, mut taken: Taken, is_whole: bool) -> Result<()> {
        let found = std::mem::take(&mut taken.made.skipped);
        self.bad.extend(found.into_iter().map(|bad| bad.until(taken.end)));
        self.on_bad_row.check(self.before, &self.bad)?;
        taken.padded += taken.made.refilled;
        let waits_for_row = self.waiting.back().is_some_and(Taken::is_empty);
        if !taken.is_empty() && self.fills {
            let of_this = || {
                let Collated { batch, numbers, keys, .. } = &taken.made;
                StandIn::first_of(batch, numbers, keys.as_deref())
            };
            if waits_for_row {
                self.fill(&of_this()?)?;
            }
            if self.first.is_none() && is_whole {
                self.first = Some(of_this()?);
            }
        }
        self.waiting.push_back(taken);
        Ok(())
    }

    /// Fills the waiting batches with the first good row of the epoch. Returns false if that row is not known
    /// yet.
    pub(super) fn fill_with_first(&mut self) -> Result<bool> {
        let Some(first) = self.first.take() else { return Ok(false) };
        self.fill(&first)?;
        self.first = Some(first);
        Ok(true)
    }

    /// Sets the first row of the epoch that can be delivered.
    pub(super) fn set_first(&mut self, first: StandIn) {
        self.first = Some(first);
    }

    fn fill(&mut self, with: &StandIn) -> Result<()> {
        for Taken { made, padded, .. } in self.waiting.iter_mut().filter(|taken| taken.is_empty()) {
            let rows = if self.on_bad_row.refills() { made.samples } else { 1 };
            let batch = repeated(&with.row, rows)?;
            made.batch = if self.row_mask { uncounted(&batch)? } else { batch };
            made.whole = None;
            made.numbers = with.number.into_iter().cycle().take(rows).collect();
            made.keys = with.key.map(|key| std::iter::repeat_n(key, rows).collect());
            *padded += rows as u64;
        }
        Ok(())
    }

    /// Removes and returns the first of the waiting batches.
    pub(super) fn pop(&mut self) -> Option<Taken> {
        self.waiting.pop_front()
    }
}

/// Returns a new batch that has the first row of `batch` `rows` times.
fn repeated(batch: &RecordBatch, rows: usize) -> Result<RecordBatch> {
    let first = UInt32Array::from(vec![0; rows]);
    let columns = batch.columns().iter().map(|column| take(column, &first, None).or_fail());
    made(batch, columns.collect::<Result<_>>()?, rows)
}

/// Sets the last column, `row_mask`, to false in all rows, because they only fill a batch.
fn uncounted(batch: &RecordBatch) -> Result<RecordBatch> {
    let (mut columns, rows) = (batch.columns().to_vec(), batch.num_rows());
    if let Some(mask) = columns.last_mut() {
        *mask = Arc::new(BooleanArray::from(vec![false; rows]));
    }
    made(batch, columns, rows)
}

fn made(of: &RecordBatch, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(of.schema(), columns, &options).or_fail()
}
