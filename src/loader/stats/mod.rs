//! Why an accelerator waits: a reading of what every stage did, of what the training loop waited for, and of what is on
//! its way.
//!
//! `table` shows it to people, `verdict` to those in a hurry, `prometheus` to monitoring.

mod prometheus;
mod table;
mod verdict;

use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use crate::cache::CacheStats;
use crate::monitor::{Idle, Ledger, Monitor, STAGES, Stage};
use crate::source::TrafficStats;

pub use verdict::Verdict;

const NANOS: f64 = 1e9;

/// What one stage did since the loader was built. All times are seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageStats {
    /// What it put out: files, row groups, rows, images or batches, as [`Stages`] says.
    pub items: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Time that it worked. For the stages of the pool the sum over its threads, for all others the time during which
    /// they did.
    pub working: f64,
    /// Time of epochs under way in which it had nothing to work on. `None` for stages that are not told apart in this:
    /// those of the pool have [`Stats::pool`].
    pub starved: Option<f64>,
    /// Time of epochs under way in which there was no room for its results; for fetching, no memory.
    pub blocked: Option<f64>,
}

/// The stages, from storage to the training loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Listing, and reading footers, when the data set was opened. Items: files; bytes: what had to be read.
    pub list: StageStats,
    /// Reading row groups from the store. Items: row groups; bytes: of their column chunks.
    ///
    /// It works while any row group is being read. It is blocked while none is, and the next one waits for memory or
    /// those that came wait to be decoded; and starved while there is nothing left to read.
    pub fetch: StageStats,
    /// The row cache: looking up, and writing what is used from there. Items: row groups that were found; bytes: of
    /// their rows. Rows that are mapped are read from disk when they are used: that time is the using stage's.
    pub cache: StageStats,
    /// Parquet to Arrow, on the pool. Items: rows; bytes: of their arrays.
    pub parquet: StageStats,
    /// The thread that follows the plan and lists the rows of each batch. Items: rows. It is starved while it waits for a
    /// row group, blocked while enough batches wait for the training loop.
    pub shuffle: StageStats,
    /// Gathering rows into batches, on the pool. Items: values' rows, once for each column; bytes: of the columns.
    pub gather: StageStats,
    /// Decoding images, on the pool. Items: images; bytes: of pixels.
    pub decode: StageStats,
    /// Decoding images to be kept as pixels in the cache, on the pool. Items: images; bytes: of what is kept.
    pub keep: StageStats,
    /// Turning batches into the arrays of Python or of a framework. Items: batches; bytes: of the arrays that were
    /// made. Nothing in Rust.
    pub hand_over: StageStats,
    /// The user's function, on a thread of its own. Items: batches. It is starved while it waits for the loader, blocked
    /// while the training loop has not taken what it made.
    pub transform: StageStats,
    /// Copying batches to a device: the time that it takes the training loop's thread. Items: batches; bytes: copied.
    pub device: StageStats,
}

/// The threads that decode Parquet and images and gather rows, as a whole. All times are seconds, summed over threads.
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

/// Seconds that the training loop waited, by what held it up.
///
/// Every moment that it is in `next()`, or that a column of a batch is converted for it, counts for one of them: for the
/// stage that works between the pipe and the loop; else, while its batch is being made, for what the pool's threads work
/// on, shared out among them; else for what the next row group of the plan is waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// For the store.
    pub store: f64,
    /// For memory that other row groups hold.
    pub memory: f64,
    /// For the row cache.
    pub cache: f64,
    /// For Parquet decoding.
    pub parquet: f64,
    /// For the plan of an epoch, and for following it.
    pub shuffle: f64,
    /// For gathering rows.
    pub gather: f64,
    /// For decoding images.
    pub decode: f64,
    /// For decoding images that are kept in the cache.
    pub keep: f64,
    /// For conversion to the arrays of Python or of a framework.
    pub hand_over: f64,
    /// For the user's function.
    pub transform: f64,
    /// For copies to a device.
    pub device: f64,
}

/// How long `next()` took, in seconds, the first batch of all apart.
///
/// From a log-linear histogram of fixed size, as HdrHistogram has it: percentiles are off by at most 0.8 % of their
/// value, `max`, `sum` and `first` are exact.
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
        let books = monitor.books();
        let over = |sum: u128| sum as f64 / (books.active_nanos.max(1)) as f64;
        Stats {
            stages: Stages::read(&books, list),
            pool: PoolStats {
                threads: books.threads.into(),
                working: [Stage::Parquet, Stage::Gather, Stage::Decode, Stage::Keep]
                    .into_iter()
                    .map(|stage| seconds(books.work[stage as usize].nanos))
                    .sum(),
                starved: seconds(books.pool.starved),
                blocked: seconds(books.pool.blocked),
            },
            waits: Waits::read(&books.waits),
            waits_first: books.start.as_ref().map(Waits::read).unwrap_or_default(),
            consumer: books.waits[Stage::Consumer as usize] / NANOS,
            next: NextStats::read(&books),
            queues: QueueStats {
                batches_ready: books.ready(),
                batches_ready_mean: over(books.ready_nanos),
                row_groups: books.under_way,
                row_groups_mean: over(books.under_way_nanos),
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

impl Stages {
    fn read(books: &Ledger, list: StageStats) -> Self {
        let read = |stage: Stage, idle: Option<Idle>| {
            let work = &books.work[stage as usize];
            StageStats {
                items: work.items,
                bytes: work.bytes,
                working: seconds(work.nanos),
                starved: idle.map(|idle| seconds(idle.starved)),
                blocked: idle.map(|idle| seconds(idle.blocked)),
            }
        };
        let transform = (books.work[Stage::Transform as usize].items > 0).then_some(books.transform);
        Stages {
            list,
            fetch: read(Stage::Store, Some(books.fetch)),
            cache: read(Stage::Cache, None),
            parquet: read(Stage::Parquet, None),
            shuffle: read(Stage::Shuffle, Some(books.shuffle)),
            gather: read(Stage::Gather, None),
            decode: read(Stage::Decode, None),
            keep: read(Stage::Keep, None),
            hand_over: read(Stage::HandOver, None),
            transform: read(Stage::Transform, transform),
            device: read(Stage::Device, None),
        }
    }

    /// The stages with their names, from storage to the training loop.
    pub fn named(&self) -> [(&'static str, StageStats); 11] {
        [
            ("list", self.list),
            ("fetch", self.fetch),
            ("cache", self.cache),
            ("parquet", self.parquet),
            ("shuffle", self.shuffle),
            ("gather", self.gather),
            ("decode", self.decode),
            ("keep", self.keep),
            ("hand_over", self.hand_over),
            ("transform", self.transform),
            ("device", self.device),
        ]
    }

    /// Adds what another loader's stages did.
    pub fn add(&mut self, other: &Stages) {
        let pairs = [
            (&mut self.list, other.list),
            (&mut self.fetch, other.fetch),
            (&mut self.cache, other.cache),
            (&mut self.parquet, other.parquet),
            (&mut self.shuffle, other.shuffle),
            (&mut self.gather, other.gather),
            (&mut self.decode, other.decode),
            (&mut self.keep, other.keep),
            (&mut self.hand_over, other.hand_over),
            (&mut self.transform, other.transform),
            (&mut self.device, other.device),
        ];
        for (sum, more) in pairs {
            let add = |one: Option<f64>, two: Option<f64>| match (one, two) {
                (None, None) => None,
                (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
            };
            *sum = StageStats {
                items: sum.items + more.items,
                bytes: sum.bytes + more.bytes,
                working: sum.working + more.working,
                starved: add(sum.starved, more.starved),
                blocked: add(sum.blocked, more.blocked),
            };
        }
    }
}

impl Waits {
    fn read(nanos: &[f64; STAGES]) -> Self {
        let of = |stage: Stage| nanos[stage as usize] / NANOS;
        Waits {
            store: of(Stage::Store),
            memory: of(Stage::Memory),
            cache: of(Stage::Cache),
            parquet: of(Stage::Parquet),
            shuffle: of(Stage::Shuffle),
            gather: of(Stage::Gather),
            decode: of(Stage::Decode),
            keep: of(Stage::Keep),
            hand_over: of(Stage::HandOver),
            transform: of(Stage::Transform),
            device: of(Stage::Device),
        }
    }

    /// The wait for one stage; 0 for [`Stage::Consumer`].
    pub fn of(&self, stage: Stage) -> f64 {
        match stage {
            Stage::Store => self.store,
            Stage::Memory => self.memory,
            Stage::Cache => self.cache,
            Stage::Parquet => self.parquet,
            Stage::Shuffle => self.shuffle,
            Stage::Gather => self.gather,
            Stage::Decode => self.decode,
            Stage::Keep => self.keep,
            Stage::HandOver => self.hand_over,
            Stage::Transform => self.transform,
            Stage::Device => self.device,
            Stage::Consumer => 0.0,
        }
    }

    /// All waiting: within 1 % of what a clock around `next()` shows.
    pub fn total(&self) -> f64 {
        Stage::ALL.into_iter().map(|stage| self.of(stage)).sum()
    }

    /// These and others, times `factor`.
    fn plus(&self, factor: f64, other: &Waits) -> Waits {
        Waits {
            store: self.store + factor * other.store,
            memory: self.memory + factor * other.memory,
            cache: self.cache + factor * other.cache,
            parquet: self.parquet + factor * other.parquet,
            shuffle: self.shuffle + factor * other.shuffle,
            gather: self.gather + factor * other.gather,
            decode: self.decode + factor * other.decode,
            keep: self.keep + factor * other.keep,
            hand_over: self.hand_over + factor * other.hand_over,
            transform: self.transform + factor * other.transform,
            device: self.device + factor * other.device,
        }
    }

    /// What came to it after an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Waits) -> Waits {
        self.plus(-1.0, earlier)
    }

    /// Adds what another loader's consumer waited for.
    pub fn add(&mut self, other: &Waits) {
        *self = self.plus(1.0, other);
    }
}

impl NextStats {
    fn read(books: &Ledger) -> Self {
        let at = |share| seconds(books.next.quantile(share));
        NextStats {
            count: books.next.count(),
            sum: seconds(books.next.sum()),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: seconds(books.next.max()),
            first: seconds(books.first),
        }
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS
}
