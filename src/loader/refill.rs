//! Batches of which every row is bad: each has the next row of its rank's that can be delivered, so that none is empty.
//!
//! The row that stands in is a matter of the data and of the plan alone: the first one of the next batch that has any, and
//! after the last batch of the epoch that of its first. So it does not depend on which thread came first, nor on where
//! the epoch was resumed. It is given once more than it would be, and counts as repeated.

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
    /// The global row after it.
    pub(super) end: u64,
    /// Rows of it that another rank has as well, or that stand in for others.
    pub(super) padded: u64,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.made.batch.num_rows() == 0
    }
}

/// A row that can stand in for others.
pub(super) struct StandIn {
    row: RecordBatch,
    number: Option<u64>,
    key: Option<u64>,
}

impl StandIn {
    /// The first row of a batch.
    pub(super) fn first_of(batch: &RecordBatch, numbers: &[u64], keys: Option<&[u64]>) -> Result<Self> {
        let row = repeated(batch, 1)?;
        Ok(StandIn {
            row,
            number: numbers.first().copied(),
            key: keys.and_then(|keys| keys.first().copied()),
        })
    }
}

/// The batches of an epoch on their way to the consumer.
pub(super) struct Refill {
    on_bad_row: OnBadRow,
    /// Whether the last column says which rows count.
    row_mask: bool,
    /// Bad rows that the epoch left out before it was resumed.
    before: u64,
    /// Those since, of all batches that came in.
    bad: Vec<BadRow>,
    /// Batches that were not passed on: empty ones, until one comes that has a row.
    waiting: VecDeque<Taken>,
    /// The row of the epoch that can be delivered first, once it is known.
    first: Option<StandIn>,
}

impl Refill {
    pub(super) fn new(on_bad_row: OnBadRow, row_mask: bool, before: u64, left_out: &[BadRow]) -> Self {
        Refill { on_bad_row, row_mask, before, bad: left_out.to_vec(), waiting: VecDeque::new(), first: None }
    }

    /// Bad rows that the epoch left out before it was resumed.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// Batches that wait to be passed on.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Whether nothing but empty batches waits.
    pub(super) fn is_empty_handed(&self) -> bool {
        self.waiting.back().is_none_or(Taken::is_empty)
    }

    /// All bad rows of the batches that came in.
    pub(super) fn bad(&self) -> &[BadRow] {
        &self.bad
    }

    /// Bad rows that the epoch has left out when it is at one of its rows.
    pub(super) fn skipped_until(&self, end: u64) -> u64 {
        self.before + self.bad.partition_point(|bad| bad.end <= end) as u64
    }

    /// Takes a batch in. `is_whole` says that the epoch began with its first row.
    ///
    /// # Errors
    /// There are more bad rows than may be.
    pub(super) fn push(&mut self, mut taken: Taken, is_whole: bool) -> Result<()> {
        let found = std::mem::take(&mut taken.made.skipped);
        self.bad.extend(found.into_iter().map(|bad| bad.until(taken.end)));
        self.on_bad_row.check(self.before, &self.bad)?;
        taken.padded += taken.made.refilled;
        let waits_for_row = self.waiting.back().is_some_and(Taken::is_empty);
        if !taken.is_empty() && matches!(self.on_bad_row, OnBadRow::Skip { .. }) {
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

    /// Fills the batches that wait with the first row of the epoch; false where it is not known.
    pub(super) fn fill_with_first(&mut self) -> Result<bool> {
        let Some(first) = self.first.take() else { return Ok(false) };
        self.fill(&first)?;
        self.first = Some(first);
        Ok(true)
    }

    /// Says which row of the epoch can be delivered first.
    pub(super) fn set_first(&mut self, first: StandIn) {
        self.first = Some(first);
    }

    fn fill(&mut self, with: &StandIn) -> Result<()> {
        for Taken { made, padded, .. } in self.waiting.iter_mut().filter(|taken| taken.is_empty()) {
            let rows = if self.on_bad_row.refills() { made.samples } else { 1 };
            let batch = repeated(&with.row, rows)?;
            made.batch = if self.row_mask { uncounted(&batch)? } else { batch };
            made.numbers = with.number.into_iter().cycle().take(rows).collect();
            made.keys = with.key.map(|key| std::iter::repeat_n(key, rows).collect());
            *padded += rows as u64;
        }
        Ok(())
    }

    /// The next batch.
    pub(super) fn pop(&mut self) -> Option<Taken> {
        self.waiting.pop_front()
    }
}

/// The first row of a batch so many times, in memory of its own.
fn repeated(batch: &RecordBatch, rows: usize) -> Result<RecordBatch> {
    let first = UInt32Array::from(vec![0; rows]);
    let columns = batch.columns().iter().map(|column| take(column, &first, None).or_fail());
    made(batch, columns.collect::<Result<_>>()?, rows)
}

/// The same rows, of which the last column says that they do not count.
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
