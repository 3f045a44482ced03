//! Statistics that show why an accelerator waits: how long each stage worked, which stage the training loop
//! waited for, and how much work is in flight.
//!
//! `table` prints the statistics for people, `verdict` sums them up in a sentence, and `prometheus` writes
//! them for monitoring.

mod prometheus;
mod stages;
mod table;
mod timeline;
mod verdict;
mod waits;

use std::sync::atomic::Ordering::Relaxed;

use forebay_store::source::TrafficStats;
use serde::{Deserialize, Serialize};

use crate::cache::CacheStats;
use crate::monitor::{Monitor, Stage, Timings};

pub use stages::{StageStats, Stages};
pub use timeline::{Bucket, Timeline};
pub use verdict::Verdict;
pub use waits::Waits;

const NANOS: f64 = 1e9;

/// The threads that decode Parquet and images and gather rows, as a whole. All times are in seconds, summed
/// over threads.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let pool = loader.stats().pool;
/// println!("{} threads, {:.1} s of work", pool.threads, pool.working);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolStats {
    /// The number of threads.
    pub threads: u64,
    /// The time during which the threads worked.
    pub working: f64,
    /// The time within epochs in which threads were idle because there was no row group to work on.
    pub starved: f64,
    /// The time within epochs in which threads were idle because enough batches were ready.
    pub blocked: f64,
}

/// How long `next()` took, in seconds. The first batch of the first epoch is in [`first`](Self::first) alone.
///
/// Percentiles come from a log-linear histogram of fixed size, like that of HdrHistogram, and are off by at
/// most 0.8 % of their value; `max`, `sum` and `first` are exact.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let next = loader.stats().next;
/// println!("p99.9 of {} calls: {:.2} ms", next.count, next.p999 * 1e3);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NextStats {
    /// The number of calls that returned a batch.
    pub count: u64,
    /// The sum of the durations of these calls.
    pub sum: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The longest call.
    pub max: f64,
    /// The call that returned the first batch of the first epoch: the start of the pipeline.
    pub first: f64,
}

/// One bar of a histogram of `next()` calls by duration: see [`Stats::next_histogram`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NextBin {
    /// The longest duration in this bin, in seconds.
    pub up_to: f64,
    /// The number of calls that took at most this long, and longer than the longest duration of the bin
    /// before.
    pub calls: u64,
}

/// Work in flight. Means are over the time within epochs.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// println!("{:.1} batches ready on average", loader.stats().queues.batches_ready_mean);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStats {
    /// The number of batches that wait for the training loop now.
    pub batches_ready: u64,
    /// The number of batches that wait for the training loop, averaged over time.
    pub batches_ready_mean: f64,
    /// The number of row groups that have memory, but from which no batches are made yet: they are being
    /// fetched or decoded, or wait for their turn.
    pub row_groups: u64,
    /// The number of row groups that have memory, but from which no batches are made yet, averaged over time.
    pub row_groups_mean: f64,
}

/// The memory that row groups and batches take, in bytes, and the budget for it.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let memory = loader.stats().memory;
/// println!("{} of {} bytes at the peak", memory.row_groups_peak, memory.budget);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// The loader's memory budget, in bytes.
    pub budget: u64,
    /// The bytes of the budget that are set aside for batches.
    pub batches: u64,
    /// The bytes that row groups take now: those that are being fetched or decoded, and those from which
    /// batches are made.
    pub row_groups: u64,
    /// The largest value of `row_groups` so far.
    pub row_groups_peak: u64,
    /// The bytes of rows that are kept in memory from one epoch to the next, so that they are read only once.
    pub staying: u64,
    /// The number of rows that epochs took from these kept rows instead of reading them again.
    pub staying_rows: u64,
}

/// The statistics of one source of a [mix](crate::Loader::mix).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStats {
    /// The number of this source's rows in the batches that this rank took so far.
    pub rows: u64,
}

/// A snapshot of the measurements of a loader since it was built: see
/// [`Loader::stats`](super::Loader::stats).
///
/// All times are in seconds. [`Display`](std::fmt::Display) prints a table, and below it the
/// [verdict](Self::verdict).
///
/// ```no_run
/// let loader = forebay::Dataset::open("data/train/")?.loader().build()?;
/// for batch in loader.epoch(0) {
///     batch?;
/// }
/// let stats = loader.stats();
/// println!("{stats}");
/// println!("waited {:.1} s, {:.1} s of it for images", stats.waits.total(), stats.waits.decode);
/// println!("p99 of next(): {:.1} ms", stats.next.p99 * 1e3);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The work of each stage.
    pub stages: Stages,
    /// The work of the threads that decode and gather.
    pub pool: PoolStats,
    /// The time that the training loop waited, by the stage that it waited for.
    pub waits: Waits,
    /// The part of `waits` that the training loop spent waiting for the first batch of the first epoch.
    pub waits_first: Waits,
    /// The time that the training loop spent on its own work: from getting a batch until it asked for the
    /// next one of the epoch.
    pub consumer: f64,
    /// How long `next()` took.
    pub next: NextStats,
    /// The calls of `next()` by their duration, in ten bins per power of ten.
    pub next_histogram: Vec<NextBin>,
    /// The waits and the work of the training loop in each stretch of the run.
    pub timeline: Timeline,
    /// The batches and row groups in flight.
    pub queues: QueueStats,
    /// The number of bad rows that were skipped.
    pub skipped_rows: u64,
    /// The number of rows that were delivered twice so that all ranks have a batch in every step.
    pub padded_rows: u64,
    /// The number of values in batches so far that were not in the vocabulary of their column, and so were
    /// replaced by its code for unknown values.
    pub unknown_values: u64,
    /// The memory that row groups and batches take, and the budget.
    pub memory: MemoryStats,
    /// The requests to the stores since the data set was opened.
    pub traffic: TrafficStats,
    /// The lookups and writes of the row cache since it was opened; `None` if the loader has no row cache.
    pub cache: Option<CacheStats>,
    /// The statistics of each source of a mix, in the order of the sources; empty for a loader of one data
    /// set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceStats>,
}

impl Stats {
    pub(super) fn read(
        monitor: &Monitor,
        list: StageStats,
        unknown_values: u64,
        memory: MemoryStats,
        traffic: TrafficStats,
        cache: Option<CacheStats>,
    ) -> Self {
        let timings = monitor.timings();
        let over = |sum: u128| sum as f64 / (timings.active_nanos.max(1)) as f64;
        Stats {
            stages: Stages::read(&timings, list),
            pool: PoolStats {
                threads: timings.threads.into(),
                working: [Stage::Parquet, Stage::Gather, Stage::Decode, Stage::Keep]
                    .into_iter()
                    .map(|stage| seconds(timings.work[stage as usize].nanos))
                    .sum(),
                starved: seconds(timings.pool.starved),
                blocked: seconds(timings.pool.blocked),
            },
            waits: Waits::read(&timings.waits),
            waits_first: timings.start.as_ref().map(Waits::read).unwrap_or_default(),
            consumer: timings.waits[Stage::Consumer as usize] / NANOS,
            next: NextStats::read(&timings),
            next_histogram: NextBin::read(&timings),
            timeline: Timeline::read(&timings),
            queues: QueueStats {
                batches_ready: timings.ready(),
                batches_ready_mean: over(timings.ready_nanos),
                row_groups: timings.under_way,
                row_groups_mean: over(timings.under_way_nanos),
            },
            skipped_rows: monitor.skipped.load(Relaxed),
            padded_rows: monitor.padded.load(Relaxed),
            unknown_values,
            memory,
            traffic,
            cache,
            sources: Vec::new(),
        }
    }

    /// Sums up the statistics: the stage that the training loop waits for most, and a remedy.
    pub fn verdict(&self) -> Verdict {
        Verdict::from_ranks(std::slice::from_ref(self))
    }

    /// Sums up the statistics of several ranks in one verdict.
    pub fn verdict_of(ranks: &[Stats]) -> Verdict {
        Verdict::from_ranks(ranks)
    }
}

impl NextStats {
    fn read(timings: &Timings) -> Self {
        let at = |share| seconds(timings.next.quantile(share));
        NextStats {
            count: timings.next.count(),
            sum: seconds(timings.next.sum()),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: seconds(timings.next.max()),
            first: seconds(timings.first),
        }
    }
}

impl NextBin {
    fn read(timings: &Timings) -> Vec<Self> {
        let bins = timings.next.bins().into_iter();
        bins.map(|bin| NextBin { up_to: bin.up_to / NANOS, calls: bin.count }).collect()
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS
}
