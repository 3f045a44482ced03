//! What each stage did, and what the consumer waited for.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::cache::CacheStats;
use crate::source::TrafficStats;

/// A stage of the pipe that the consumer may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Bytes of row groups.
    Fetch,
    /// Parquet to Arrow.
    Rows,
    /// Gathering rows and decoding images.
    Batch,
}

/// Counters of one stage.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    items: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl Counter {
    pub(crate) fn add(&self, items: u64, bytes: u64, seconds: f64) {
        self.items.fetch_add(items, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.nanos.fetch_add((seconds * NANOS) as u64, Relaxed);
    }

    fn read(&self) -> StageStats {
        let seconds = self.nanos.load(Relaxed) as f64 / NANOS;
        StageStats { items: self.items.load(Relaxed), bytes: self.bytes.load(Relaxed), seconds }
    }
}

const NANOS: f64 = 1e9;

/// Counters that the pipe writes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) fetch: Counter,
    pub(crate) rows: Counter,
    pub(crate) gather: Counter,
    pub(crate) decode: Counter,
    pub(crate) keep: Counter,
    pub(crate) batches: Counter,
    pub(crate) skipped: AtomicU64,
    pub(crate) padded: AtomicU64,
    /// Nanoseconds that the consumer waited, by [`Stage`].
    waited: [AtomicU64; 3],
    /// What the assembly of batches waits for at present: a [`Stage`].
    owner: AtomicU8,
}

impl Counters {
    pub(crate) fn owned_by(&self, stage: Stage) {
        self.owner.store(stage as u8, Relaxed);
    }

    /// Adds a wait of the consumer: to `stage` where it is known, else to the stage that holds up assembly now.
    pub(crate) fn waited(&self, stage: Option<Stage>, seconds: f64) {
        let stage = stage.map_or_else(|| self.owner.load(Relaxed), |stage| stage as u8);
        self.waited[usize::from(stage)].fetch_add((seconds * NANOS) as u64, Relaxed);
    }

    /// Images that were decoded, images that were brought into another form to be kept, and seconds that the consumer
    /// waited for batches in the making.
    pub(crate) fn images(&self) -> (u64, u64, f64) {
        let waited = self.waited[Stage::Batch as usize].load(Relaxed) as f64 / NANOS;
        (self.decode.items.load(Relaxed), self.keep.items.load(Relaxed), waited)
    }

    pub(crate) fn read(
        &self,
        memory: MemoryStats,
        traffic: TrafficStats,
        cache: Option<CacheStats>,
    ) -> Stats {
        let waited = |stage: Stage| self.waited[stage as usize].load(Relaxed) as f64 / NANOS;
        Stats {
            fetch: self.fetch.read(),
            rows: self.rows.read(),
            gather: self.gather.read(),
            decode: self.decode.read(),
            keep: self.keep.read(),
            batches: self.batches.read(),
            waits: Waits {
                fetch: waited(Stage::Fetch),
                rows: waited(Stage::Rows),
                batch: waited(Stage::Batch),
            },
            skipped_rows: self.skipped.load(Relaxed),
            padded_rows: self.padded.load(Relaxed),
            memory,
            traffic,
            cache,
        }
    }
}

/// What one stage did since the loader was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageStats {
    /// Row groups, rows, images or batches, as the stage counts.
    pub items: u64,
    /// Bytes that it put out.
    pub bytes: u64,
    /// Time that it worked, summed over threads.
    pub seconds: f64,
}

/// Seconds that the consumer waited for a batch, by the stage that held it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// For bytes from storage.
    pub fetch: f64,
    /// For Parquet decoding.
    pub rows: f64,
    /// For gathering rows and decoding images.
    pub batch: f64,
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
}

/// A reading of a loader's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Row groups fetched.
    pub fetch: StageStats,
    /// Rows decoded from Parquet.
    pub rows: StageStats,
    /// Rows gathered into batches.
    pub gather: StageStats,
    /// Images decoded.
    pub decode: StageStats,
    /// Images brought into another form to be kept.
    pub keep: StageStats,
    /// Batches handed over.
    pub batches: StageStats,
    /// What the consumer waited for.
    pub waits: Waits,
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

impl Waits {
    /// All waiting.
    pub fn total(&self) -> f64 {
        self.fetch + self.rows + self.batch
    }

    /// The stage that the consumer waited for most, in words; `None` where it hardly waited.
    pub fn bottleneck(&self) -> Option<&'static str> {
        const HARDLY: f64 = 1e-3;
        let stages = [(self.fetch, "fetch"), (self.rows, "rows"), (self.batch, "batch")];
        let (most, name) = stages.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        (most > HARDLY).then_some(name)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8} {:>12} {:>12} {:>10} {:>10}", "stage", "items", "MB", "worked s", "waited s")?;
        let rows = [
            ("fetch", self.fetch, Some(self.waits.fetch)),
            ("rows", self.rows, Some(self.waits.rows)),
            ("gather", self.gather, None),
            ("decode", self.decode, Some(self.waits.batch)),
            ("batches", self.batches, None),
        ];
        for (name, stage, waited) in rows {
            let waited = waited.map_or(String::new(), |seconds| format!("{seconds:.3}"));
            let megabytes = stage.bytes as f64 / 1e6;
            writeln!(
                f,
                "{name:<8} {:>12} {megabytes:>12.1} {:>10.3} {waited:>10}",
                stage.items, stage.seconds
            )?;
        }
        let MemoryStats { budget, batches, row_groups } = self.memory;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "memory   {:.0} MB of row groups in flight, {:.0} MB kept for batches, budget {:.0} MB",
            megabytes(row_groups),
            megabytes(batches),
            megabytes(budget)
        )?;
        write!(f, "\nstore    {}", self.traffic)?;
        if let Some(cache) = &self.cache {
            write!(f, "\ncache    {cache}")?;
        }
        if self.skipped_rows + self.padded_rows > 0 {
            write!(f, "\nrows     {} skipped, {} repeated", self.skipped_rows, self.padded_rows)?;
        }
        Ok(())
    }
}
