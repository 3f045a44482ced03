//! Measures the time that a row of a data set takes on this processor if it is decoded again, and if it comes
//! from a cache.
//!
//! One row group is decoded. Copies of its rows are then gathered into batches. For a shuffle, narrow columns
//! are first brought into the shuffled order of the row group (its deal), and then gathered in that order.
//! The same is done with rows from a cache, except for an exact shuffle, which gathers them at random
//! places. The copies are larger than the second-level cache of a processor, as the rows of a shuffle window
//! are.

use std::time::Duration;

use forebay_arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use forebay_arrow::compute::take;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use rustix::time::{ClockId, clock_gettime};

use super::settle::Settled;
use crate::batch::{Selection, compact, gather, is_narrow};
use crate::loader::threads::IoRuntime;
use crate::reader;
use crate::shard::{Mixing, Part, row_key};

/// A small row group is copied until the copies have about this number of bytes.
const COPIED_BYTES: usize = 32 << 20;
/// The largest number of copies that are made of a row group.
const MAX_COPIES: usize = 64;
/// The copies take at most the memory for row groups divided by this number.
const COPIES_DIVISOR: u64 = 4;
/// The number of rows that are gathered, or all rows of the copies if these are fewer.
const GATHERED_ROWS: usize = 32_768;
/// The largest number of rows in a batch that is gathered.
const MAX_BATCH_ROWS: usize = 8192;
/// Work is repeated until it has taken this long; the fastest time counts.
const REPEATED: Duration = Duration::from_millis(20);
const MAX_REPEATS: usize = 3;

/// The processor time for a row, in seconds: `again` to decode and gather it, `kept` to gather it from a
/// cache.
pub(super) struct TrialTimes {
    pub(super) again: f64,
    pub(super) kept: f64,
}

impl Settled {
    /// Reads one row group and measures its rows. Returns `None` if it cannot be read.
    pub(super) fn trial(&self, io: &IoRuntime) -> Option<TrialTimes> {
        let samples = self.selected.of_epoch(0);
        let counts = self.selected.row_counts();
        let group = counts.iter().position(|rows| *rows > 0)?;
        let part = Part { group: group as u32, start: 0, rows: counts[group] };
        let reads = self.fetcher.reads.clone();
        let read = io.wait_for(async move { reads.read_pages(group, None).await });
        let chunks = read.ok()?.ok()?;
        let decode = || reader::read(&self.fetcher, &samples, &part, chunks.clone(), self.sizing.row_groups);
        let (decoding, rows) = fastest(decode).ok()?;
        drop(chunks);
        let mixing = self.spec.shuffle.mixing;
        let most = usize::try_from(self.sizing.row_groups / COPIES_DIVISOR).unwrap_or(usize::MAX);
        let batch = usize::try_from(self.spec.batch_size).unwrap_or(MAX_BATCH_ROWS).min(MAX_BATCH_ROWS);
        let gathering = Gathering::of_rows(&rows, most.min(COPIED_BYTES), batch.max(1))?;
        let dealt = gathering.dealt(mixing).ok()?;
        let kept = if mixing == Mixing::Exact { gathering.at_random().ok()? } else { dealt };
        Some(TrialTimes { again: decoding.as_secs_f64() / rows.num_rows() as f64 + dealt, kept })
    }
}

/// The rows to gather, and the places to gather them from.
struct Gathering {
    /// For each column, the column of the row group and its copies.
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    /// For each batch, the sources of its rows as pairs of a copy and a row of this copy, both drawn at
    /// random.
    at_random: Vec<Vec<(u32, u32)>>,
    /// Like `at_random`, but only the copy is drawn at random, and a copy gives its rows in order.
    in_order: Vec<Vec<(u32, u32)>>,
    /// A shuffled order of the row group's rows, into which narrow columns are copied after decoding.
    deal: Vec<u32>,
}

/// The two ways in which the rows of a batch are spread over the copies.
#[derive(Clone, Copy)]
enum GatherOrder {
    /// Each row is the next row of a copy that is drawn at random.
    InOrder,
    AtRandom,
}

impl Gathering {
    /// Copies the rows of a row group, and draws at random the places to gather rows from. Returns `None` if
    /// there are no rows.
    fn of_rows(rows: &RecordBatch, bytes: usize, batch: usize) -> Option<Self> {
        let count = rows.num_rows();
        let more = (bytes / rows.get_array_memory_size().max(1)).min(MAX_COPIES);
        let copies = 1 + more;
        let all = UInt32Array::from_iter_values(0..count as u32);
        let copied = |column: &ArrayRef| -> Result<Vec<ArrayRef>> {
            let more = (0..more).map(|_| compact(&take(column, &all, None).or_fail()?));
            std::iter::once(Ok(column.clone())).chain(more).collect()
        };
        let columns = rows.columns().iter().map(copied).collect::<Result<_>>().ok()?;
        // Each row is the next one of a copy that is drawn at random.
        let mut next = vec![0u32; copies];
        let random = |number: u64, below: usize| (row_key(0, number, 0) % below as u64) as u32;
        let gathered = GATHERED_ROWS.min(count * copies) as u64;
        let places = (0..gathered).map(|number| {
            let source = random(number, copies);
            let row = next[source as usize];
            next[source as usize] = (row + 1) % count as u32;
            (source, row)
        });
        let in_order: Vec<(u32, u32)> = places.collect();
        let at_random =
            (0..gathered).map(|number| (random(number, copies), random(gathered + number, count)));
        let at_random: Vec<(u32, u32)> = at_random.collect();
        let mut deal: Vec<u32> = (0..count as u32).collect();
        deal.sort_by_cached_key(|row| row_key(0, u64::MAX, (*row).into()));
        let batches = |places: Vec<(u32, u32)>| places.chunks(batch).map(<[_]>::to_vec).collect();
        (count > 0).then(|| Gathering {
            columns,
            rows: count,
            at_random: batches(at_random),
            in_order: batches(in_order),
            deal,
        })
    }

    /// The time, in seconds, to gather a row from row groups whose narrow columns are first copied into a
    /// shuffled order, unless rows are delivered in stored order.
    fn dealt(&self, mixing: Mixing) -> Result<f64> {
        if mixing == Mixing::Stored {
            return self.gather(GatherOrder::InOrder, |_| true);
        }
        let is_dealt = |column: &Vec<ArrayRef>| is_narrow(column[0].data_type());
        let deal = Selection::of_one(self.deal.clone());
        let narrow = || self.columns.iter().filter(|column| is_dealt(column));
        let (dealing, _) =
            fastest(|| narrow().try_for_each(|column| gather(&[&column[0]], &deal, None).map(drop)))?;
        let others = self.gather(GatherOrder::AtRandom, |column| !is_dealt(column))?;
        Ok(dealing.as_secs_f64() / self.rows as f64 + self.gather(GatherOrder::InOrder, is_dealt)? + others)
    }

    /// The time, in seconds, to gather a row from row groups in stored order.
    fn at_random(&self) -> Result<f64> {
        self.gather(GatherOrder::AtRandom, |_| true)
    }

    /// The time, in seconds, to gather a row from `places`, in the columns for which `is_wanted` is true.
    fn gather(&self, places: GatherOrder, is_wanted: impl Fn(&Vec<ArrayRef>) -> bool) -> Result<f64> {
        let batches = match places {
            GatherOrder::InOrder => &self.in_order,
            GatherOrder::AtRandom => &self.at_random,
        };
        let columns: Vec<Vec<&dyn Array>> = self
            .columns
            .iter()
            .filter(|column| is_wanted(column))
            .map(|column| column.iter().map(|copy| copy.as_ref()).collect())
            .collect();
        if columns.is_empty() {
            return Ok(0.0);
        }
        let sources: Vec<u32> = (0..columns[0].len() as u32).collect();
        let (took, _) = fastest(|| {
            batches.iter().try_for_each(|rows| {
                let selection = match places {
                    GatherOrder::InOrder => Selection::near(rows.clone(), &sources),
                    GatherOrder::AtRandom => Selection::new(rows.clone()),
                };
                columns.iter().try_for_each(|copies| gather(copies, &selection, None).map(drop))
            })
        })?;
        let rows: usize = batches.iter().map(Vec::len).sum();
        Ok(took.as_secs_f64() / rows.max(1) as f64)
    }
}

/// Runs `work`, several times if it takes little time. Returns the shortest processor time, and the last
/// result.
fn fastest<T>(mut work: impl FnMut() -> Result<T>) -> Result<(Duration, T)> {
    let (mut least, mut all) = (Duration::MAX, Duration::ZERO);
    let mut repeats = 0;
    loop {
        let started = processor_time();
        let done = work()?;
        let took = processor_time().saturating_sub(started);
        (least, all, repeats) = (least.min(took), all + took, repeats + 1);
        if all >= REPEATED || repeats >= MAX_REPEATS {
            return Ok((least, done));
        }
    }
}

/// The processor time that this thread has used. Time in which other threads or processes run does not count.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
