//! Why an accelerator waits: a reading of what every stage did, of what the training loop waited for, and of what is on
//! its way.
//!
//! `table` shows it to people, `verdict` to those in a hurry, `prometheus` to monitoring.

mod prometheus;
mod stages;
mod table;
mod verdict;
mod waits;

use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use crate::cache::CacheStats;
use crate::monitor::{Monitor, Stage, Timings};
use crate::source::TrafficStats;

pub use stages::{StageStats, Stages};
pub use verdict::Verdict;
pub use waits::Waits;

const NANOS: f64 = 1e9;

/// The threads that decode Parquet and images and gather rows, as a whole. All times are seconds, summed over threads.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PoolStats {
    /// How many they are.
    pub threads: u64,
    /// Time that they worked.
    pub working: f64,
    /// Time of epochs under way in which they were idle because row groups, or work on them, were lacking.
    pub starved: f64,
    /// Time of epochs under way in which they were idle because enough batches were ready.
    pub blocked: f64,
}

/// How long `next()` took, in seconds, the first batch of all apart.
///
/// From a log-linear histogram of fixed size, as HdrHistogram has it: percentiles are off by at most 0.8 % of their
/// value, `max`, `sum` and `first` are exact.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NextStats {
    /// Calls that gave a batch.
    pub count: u64,
    /// All of them together.
    pub sum: f64,
    /// Half of the calls took no longer.
    pub p50: f64,
    /// 95 % of the calls took no longer.
    pub p95: f64,
    /// 99 % of the calls took no longer.
    pub p99: f64,
    /// 99.9 % of the calls took no longer.
    pub p999: f64,
    /// The longest call.
    pub max: f64,
    /// The call that gave the first batch of the first epoch: the start of the pipe, which is in none of the others.
    pub first: f64,
}

/// What is on its way. Means are over the time of epochs under way.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueueStats {
    /// Batches that are made and not taken, now.
    pub batches_ready: u64,
    /// The same, on average.
    pub batches_ready_mean: f64,
    /// Row groups that were granted memory and are not in the window yet, now.
    pub row_groups: u64,
    /// The same, on average.
    pub row_groups_mean: f64,
}

/// Bytes in flight against what they may be.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryStats {
    /// The loader's memory budget.
    pub budget: u64,
    /// Of it, bytes kept free for batches.
    pub batches: u64,
    /// Bytes of row groups in flight and in the window now.
    pub row_groups: u64,
    /// The most that they were so far.
    pub row_groups_peak: u64,
}

/// A reading of what a loader noted since it was built.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// What each stage did.
    pub stages: Stages,
    /// The threads that decode.
    pub pool: PoolStats,
    /// What the training loop waited for.
    pub waits: Waits,
    /// Of it, what it waited for the first batch of all.
    pub waits_first: Waits,
    /// The training loop's own time, in seconds: between a batch and the request for the next one of the epoch.
    pub consumer: f64,
    /// How long `next()` took.
    pub next: NextStats,
    /// What is on its way.
    pub queues: QueueStats,
    /// Bad rows that were skipped.
    pub skipped_rows: u64,
    /// Rows that were repeated to keep ranks equal.
    pub padded_rows: u64,
    /// The memory budget.
    pub memory: MemoryStats,
    /// What was asked of the stores since the data set was opened.
    pub traffic: TrafficStats,
    /// What the row cache did since it was opened.
    pub cache: Option<CacheStats>,
}

impl Stats {
    pub(super) fn read(
        monitor: &Monitor,
        list: StageStats,
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
            queues: QueueStats {
                batches_ready: timings.ready(),
                batches_ready_mean: over(timings.ready_nanos),
                row_groups: timings.under_way,
                row_groups_mean: over(timings.under_way_nanos),
            },
            skipped_rows: monitor.skipped.load(Relaxed),
            padded_rows: monitor.padded.load(Relaxed),
            memory,
            traffic,
            cache,
        }
    }

    /// What holds the training loop up, and the next move.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(std::slice::from_ref(self))
    }

    /// The same for several ranks together.
    pub fn verdict_of(ranks: &[Stats]) -> Verdict {
        Verdict::of(ranks)
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

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS
}
