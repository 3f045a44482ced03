//! Work of each stage.

use serde::{Deserialize, Serialize};

use super::seconds;
use crate::monitor::{Idle, Stage, Timings};

/// The work of one stage since the loader was built. All times are in seconds.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let decode = loader.stats().stages.decode;
/// println!("{} images in {:.1} s of work", decode.items, decode.working);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageStats {
    /// The items that the stage produced: files, row groups, rows, images or batches, as [`Stages`] says.
    pub items: u64,
    /// The bytes of these items.
    pub bytes: u64,
    /// The time during which the stage worked; for the stages of the pool of threads, summed over the
    /// threads.
    pub working: f64,
    /// The time within epochs in which the stage had nothing to work on. `None` for the stages that share the
    /// pool of threads, which have [`Stats::pool`](super::Stats::pool) in common.
    pub starved: Option<f64>,
    /// The time within epochs in which there was no space for the results of the stage; for fetching, no
    /// memory.
    pub blocked: Option<f64>,
}

/// The stages, from storage to the training loop.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// for (name, stage) in loader.stats().stages.named() {
///     println!("{name}: {:.1} s", stage.working);
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Listing files and reading footers when the data set was opened. Items: files; bytes: those that were
    /// read.
    pub list: StageStats,
    /// Reading row groups from the store. Items: row groups; bytes: of their column chunks.
    ///
    /// The stage works while any row group is being read. It is blocked while none is, and the next one waits
    /// for memory or the last ones wait to be decoded. It is starved while there is nothing left to read.
    pub fetch: StageStats,
    /// The row cache: lookups, and writes of rows that are then used from there. Items: row groups that were
    /// found; bytes: of their rows. Mapped rows are read from disk when they are used, within the stage that
    /// uses them.
    pub cache: StageStats,
    /// Decoding Parquet to Arrow, on the pool. Items: rows; bytes: of their arrays.
    pub parquet: StageStats,
    /// The thread that follows the plan and lists the rows of each batch. Items: rows. It is starved while it
    /// waits for a row group, and blocked while enough batches wait for the training loop.
    pub shuffle: StageStats,
    /// Gathering rows into batches (collate), on the pool. Items: rows, once for each column; bytes: of the
    /// columns.
    pub gather: StageStats,
    /// Decoding cells, on the pool: images, and the cells of users' [`Decoder`](crate::column::Decoder)s.
    /// Items: cells; bytes: of pixels and other values.
    pub decode: StageStats,
    /// Converting cells to the form in which the cache keeps them, on the pool. Items: cells; bytes: of that
    /// form.
    pub keep: StageStats,
    /// Turning batches into the arrays of Python or of a framework. Items: batches; bytes: of the new arrays.
    /// Zero in Rust.
    pub hand_over: StageStats,
    /// The user's function, on a thread of its own or in several workers, whose times are added. Items:
    /// batches. It is starved while all of it waits for the loader, and blocked while the training loop has
    /// not taken its results.
    pub transform: StageStats,
    /// Copying batches to a device, if it takes time of the training loop's thread. Items: batches; bytes:
    /// copied.
    pub device: StageStats,
}

impl Stages {
    pub(super) fn read(timings: &Timings, list: StageStats) -> Self {
        let read = |stage: Stage, idle: Option<Idle>| {
            let work = &timings.work[stage as usize];
            StageStats {
                items: work.items,
                bytes: work.bytes,
                working: seconds(work.nanos),
                starved: idle.map(|idle| seconds(idle.starved)),
                blocked: idle.map(|idle| seconds(idle.blocked)),
            }
        };
        let transform = (timings.work[Stage::Transform as usize].items > 0).then_some(timings.transform);
        Stages {
            list,
            fetch: read(Stage::Fetch, Some(timings.fetch)),
            cache: read(Stage::Cache, None),
            parquet: read(Stage::Parquet, None),
            shuffle: read(Stage::Shuffle, Some(timings.shuffle)),
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

    /// Adds the work of another loader's stages.
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
