//! The time that the training loop waited for each stage.

use serde::{Deserialize, Serialize};

use super::NANOS;
use crate::monitor::{STAGES, Stage};

/// The seconds that the training loop waited, by the stage that it waited for.
///
/// The loop waits while it is in `next()`, and while a column of a batch is converted for it. Every moment of
/// a wait is charged by the first of these rules that applies:
///
/// 1. A stage between the loader and the loop, such as a transform, works on the loop's batch: charged to
///    that stage.
/// 2. The batch is being made: charged to the stages that the pool of threads works on, in equal parts by
///    thread.
/// 3. A batch is ready: charged to handing it over.
/// 4. Otherwise: charged to the stage that the next row group of the plan is in or waits for.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let before = loader.stats().waits;
/// // ... an epoch ...
/// let waits = loader.stats().waits.since(&before);
/// println!("{:.1} s, {:.1} s of it for the store", waits.total(), waits.fetch);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The wait for row groups to arrive from the store.
    pub fetch: f64,
    /// The wait for memory that other row groups take.
    pub memory: f64,
    /// The wait for the row cache.
    pub cache: f64,
    /// The wait for Parquet pages to be decoded.
    pub parquet: f64,
    /// The wait for the plan of an epoch to be made, and for the rows of each batch to be listed.
    pub shuffle: f64,
    /// The wait for rows to be gathered into batches.
    pub gather: f64,
    /// The wait for images to be decoded.
    pub decode: f64,
    /// The wait for images to be converted to the form in which the cache keeps them.
    pub keep: f64,
    /// The wait for batches that were ready: for the waiting thread to wake up, and for the conversion to the
    /// arrays of Python or of a framework.
    pub hand_over: f64,
    /// The wait for the user's function.
    pub transform: f64,
    /// The wait for copies to a device.
    pub device: f64,
}

impl Waits {
    pub(super) fn read(nanos: &[f64; STAGES]) -> Self {
        let of = |stage: Stage| nanos[stage as usize] / NANOS;
        Waits {
            fetch: of(Stage::Fetch),
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
    pub fn for_stage(&self, stage: Stage) -> f64 {
        match stage {
            Stage::Fetch => self.fetch,
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

    /// The time that the loop waited for all stages together. It differs by at most 1 % from a clock around
    /// `next()`.
    pub fn total(&self) -> f64 {
        Stage::ALL.into_iter().map(|stage| self.for_stage(stage)).sum()
    }

    /// Adds `factor` times the waits of `other` to these waits, stage by stage.
    fn plus(&self, factor: f64, other: &Waits) -> Waits {
        Waits {
            fetch: self.fetch + factor * other.fetch,
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

    /// The waits since the snapshot `earlier` of the same loader.
    #[must_use]
    pub fn since(&self, earlier: &Waits) -> Waits {
        self.plus(-1.0, earlier)
    }

    /// Adds the waits of another loader's training loop to these.
    pub fn add(&mut self, other: &Waits) {
        *self = self.plus(1.0, other);
    }
}
