//! The work of each stage: the items and bytes that it produced, and its times.

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
    /// The number of items that the stage produced. An item is a file, a row group, a row, an image or a
    /// batch; [`Stages`] says which.
    pub items: u64,
    /// The bytes of these items.
    pub bytes: u64,
    /// The time during which the stage worked. For stages that run on the pool of threads, the times of all
    /// threads are added up.
    pub working: f64,
    /// The time within epochs in which the stage had nothing to work on. `None` for the stages that run on
    /// the pool of threads, whose idle time is in [`Stats::pool`](super::Stats::pool).
    pub starved: Option<f64>,
    /// The time within epochs in which the stage could not go on because there was no space for its results.
    /// Fetching is blocked while it waits for memory, for example.
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
    /// Listing files and reading footers when the data set was opened. `items` counts files, and `bytes` the
    /// bytes that were read.
    pub list: StageStats,
    /// Reading row groups from the store. `items` counts row groups, and `bytes` their column chunks.
    ///
    /// The stage works while any row group is being read. It is blocked if no row group is being read because
    /// the next one waits for memory, or because those that were read wait to be decoded. It is starved if
    /// nothing is left to read.
    pub fetch: StageStats,
    /// The row cache: looking row groups up, and writing rows that are then read from the cache. `items`
    /// counts the row groups that were found, and `bytes` their rows. Memory-mapped rows are read from disk
    /// only when another stage uses them, and that time counts for the other stage.
    pub cache: StageStats,
    /// Decoding Parquet to Arrow, on the pool of threads. `items` counts rows, and `bytes` their arrays.
    pub parquet: StageStats,
    /// Following the plan and listing the rows of each batch, on a thread of its own. `items` counts rows.
    /// The stage is starved while it waits for a row group, and blocked while enough batches wait for the
    /// training loop.
    pub shuffle: StageStats,
    /// Gathering rows into batches (collate), on the pool of threads. `items` counts each row once for each
    /// column, and `bytes` the columns.
    pub gather: StageStats,
    /// Decoding cells, on the pool of threads: images, and the cells of users'
    /// [`Decoder`](crate::column::Decoder)s. `items` counts cells, and `bytes` pixels and other values.
    pub decode: StageStats,
    /// Converting cells to the form in which the cache keeps them, on the pool of threads. `items` counts
    /// cells, and `bytes` the converted cells.
    pub keep: StageStats,
    /// Turning batches into the arrays of Python or of a framework. `items` counts batches, and `bytes` the
    /// new arrays. Zero in Rust.
    pub hand_over: StageStats,
    /// The user's transform, on a thread of its own or in several workers, whose times are added up. `items`
    /// counts batches. The stage is starved while the thread or all workers wait for the loader, and blocked
    /// while the training loop has not taken the results.
    pub transform: StageStats,
    /// Copying batches to a device, as far as the training loop's thread spends time on it. `items` counts
    /// batches, and `bytes` the copied bytes.
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

    /// Adds the work of another loader's stages to these.
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
