//! The stages that a training loop may wait for.

use serde::{Deserialize, Serialize};

/// Something that a training loop may wait for: a stage between storage and the training step, memory, or the
/// loop itself.
///
/// ```
/// use forebay::stats::{Stage, Waits};
///
/// let waits = Waits::default();
/// for stage in Stage::ALL {
///     println!("{}: {:.3} s", stage.name(), waits.for_stage(stage));
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Reading the bytes of row groups from the store.
    Fetch,
    /// Waiting for memory: batches that are being made, and the row groups from which batches are made, take
    /// all that row groups may take.
    Memory,
    /// The row cache: looking rows up, waiting while another process fetches them, and writing rows that are
    /// then read from the cache.
    Cache,
    /// Decoding Parquet to Arrow.
    Parquet,
    /// Following the plan to list the rows of the next batch.
    Shuffle,
    /// Gathering the rows of a batch, column by column.
    Gather,
    /// Decoding images, and any other cells that are decoded one by one.
    Decode,
    /// Converting cells to the form in which the row cache stores them.
    Keep,
    /// Handing a batch over: waking the thread that waits for it, and converting the batch to arrays of
    /// Python or of a framework.
    HandOver,
    /// A user's function between the loader and the training loop.
    Transform,
    /// Copying a batch to a device.
    Device,
    /// The training loop itself.
    Consumer,
}

impl Stage {
    /// All stages, from storage to the training loop.
    pub const ALL: [Stage; 12] = [
        Stage::Fetch,
        Stage::Memory,
        Stage::Cache,
        Stage::Parquet,
        Stage::Shuffle,
        Stage::Gather,
        Stage::Decode,
        Stage::Keep,
        Stage::HandOver,
        Stage::Transform,
        Stage::Device,
        Stage::Consumer,
    ];

    /// The stages that run on the loader's pool of threads.
    pub(super) const POOL: [Stage; 4] = [Stage::Parquet, Stage::Gather, Stage::Decode, Stage::Keep];

    /// The name of the stage in reports: lower case with underscores, such as `hand_over`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Fetch => "fetch",
            Stage::Memory => "memory",
            Stage::Cache => "cache",
            Stage::Parquet => "parquet",
            Stage::Shuffle => "shuffle",
            Stage::Gather => "gather",
            Stage::Decode => "decode",
            Stage::Keep => "keep",
            Stage::HandOver => "hand_over",
            Stage::Transform => "transform",
            Stage::Device => "device",
            Stage::Consumer => "consumer",
        }
    }
}
