//! The stages that the training loop waited for.

use serde::{Deserialize, Serialize};

use super::NANOS;
use crate::monitor::{STAGES, Stage};

/// Seconds that the training loop waited, by the stage that it waited for.
///
/// Every moment in which the loop is in `next()`, or in which a column of a batch is converted for it, counts
/// for exactly one stage:
///
/// 1. for the stage between the loader and the loop that works on its batch, such as a transform;
/// 2. otherwise, while its batch is being made, for the stages that the pool of threads works on, in equal
///    parts by thread;
/// 3. otherwise, if a batch is ready, for handing it over;
/// 4. otherwise for the stage that the next row group of the plan is in.
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
    /// The wait for memory that other row groups hold.
    pub memory: f64,
    /// The wait for the row cache.
    pub cache: f64,
    /// The wait for Parquet decoding.
    pub parquet: f64,
    /// The wait for the plan of an epoch, and for listing the rows of each batch.
    pub shuffle: f64,
    /// The wait for gathering rows.
    pub gather: f64,
    /// The wait for decoding images.
    pub decode: f64,
    /// The wait for converting images to the form in which the cache keeps them.
    pub keep: f64,
    /// The wait for batches that were ready: until the waiting thread was awake, and for conversion to the
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
    pub fn of(&self, stage: Stage) -> f64 {
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

    /// The sum over all stages, which is within 1 % of a clock around `next()`.
    pub fn total(&self) -> f64 {
        Stage::ALL.into_iter().map(|stage| self.of(stage)).sum()
    }

    /// The sum of these waits and `factor` times the `other` ones.
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

    /// The waits since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Waits) -> Waits {
        self.plus(-1.0, earlier)
    }

    /// Adds the waits of another loader's training loop.
    pub fn add(&mut self, other: &Waits) {
        *self = self.plus(1.0, other);
    }
}
