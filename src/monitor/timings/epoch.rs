//! The activity of one epoch, which decides the stage that a wait for the next batch is charged to.

use std::collections::VecDeque;

use crate::monitor::stage::Stage;

/// The activity of the thread that assembles batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Assembly {
    Working,
    /// The thread waits for a row group.
    Starved,
    /// The thread waits for room in the consumer's queue.
    Blocked,
    /// All batches have been assembled.
    Over,
}

/// The phase of a row group on its way to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The row group waits for memory.
    Memory,
    /// The row group is looked up in the cache.
    Cache,
    /// The row group is read from the store.
    Fetch,
    /// The row group waits for its turn to be decoded.
    Fetched,
    /// The row group waits for the pool, or a thread of the pool works on it.
    Pool,
    /// The row group is written to the cache, and will be read from there.
    Writing,
    /// The rows of the row group are in memory.
    Ready,
}

impl Phase {
    /// The stage that time in this phase is charged to.
    pub(super) fn stage(self) -> Option<Stage> {
        match self {
            Phase::Memory => Some(Stage::Memory),
            Phase::Cache | Phase::Writing => Some(Stage::Cache),
            Phase::Fetch => Some(Stage::Fetch),
            Phase::Fetched | Phase::Pool | Phase::Ready => None,
        }
    }
}

/// The activity of the thread between the pipe and the consumer, such as the thread of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Front {
    /// The thread waits for the pipe, or does not exist.
    Waiting,
    /// The thread works for a stage.
    At(Stage),
    /// The thread waits for the consumer.
    Full,
}

/// The activity of one epoch.
#[derive(Debug)]
pub(in crate::monitor) struct EpochTimings {
    pub(in crate::monitor) id: u64,
    /// Whether another thread than the consumer's takes batches from the pipe.
    pub(in crate::monitor) apart: bool,
    pub(in crate::monitor) front: Front,
    /// The stage that the consumer's own thread works for before it has a batch, and since when.
    pub(super) near: Option<Stage>,
    pub(super) neared: u64,
    /// The stage that works on the batch which the consumer takes next. It is set only for stages that hold
    /// several batches at a time.
    pub(in crate::monitor) next_at: Option<Stage>,
    pub(in crate::monitor) assembly: Assembly,
    /// Whether the batch that is waited for is being made. If it is not, some of its rows are still missing.
    pub(in crate::monitor) making: bool,
    /// The phases of the row groups on their way, in the order of the plan.
    pub(in crate::monitor) parts: VecDeque<Phase>,
    /// The number of the first row group in `parts`.
    pub(in crate::monitor) first: u64,
    /// The number of batches that were made and not yet taken, and the number that the consumer got.
    pub(in crate::monitor) ready: u64,
    pub(in crate::monitor) taken: u64,
    /// The time at which `front` took its present value.
    pub(in crate::monitor) turned: u64,
}

/// The owner of a wait: the stage or stages that the wait is charged to.
pub(super) enum Owner {
    One(Stage),
    /// The stages that the pool works for, or the given stage if the pool is idle.
    Pool(Stage),
}

impl EpochTimings {
    pub(in crate::monitor) fn new(id: u64) -> Self {
        EpochTimings {
            id,
            apart: false,
            front: Front::Waiting,
            near: None,
            neared: 0,
            next_at: None,
            assembly: Assembly::Working,
            making: false,
            parts: VecDeque::new(),
            first: 0,
            ready: 0,
            taken: 0,
            turned: 0,
        }
    }

    pub(in crate::monitor) fn part(&mut self, number: u64) -> Option<&mut Phase> {
        self.parts.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The owner of a wait for the next batch.
    pub(super) fn owner(&self) -> Owner {
        if let Some(stage) = self.near.or(self.next_at) {
            return Owner::One(stage);
        }
        // A batch that is ready and not taken will be taken as soon as the waiting thread wakes up.
        let otherwise = if self.ready > 0 { Stage::HandOver } else { Stage::Gather };
        match (self.front, self.assembly) {
            (Front::At(stage), _) => Owner::One(stage),
            (Front::Full, _) => Owner::One(Stage::HandOver),
            (Front::Waiting, _) if self.making => Owner::Pool(otherwise),
            (Front::Waiting, _) if self.ready > 0 => Owner::One(Stage::HandOver),
            (Front::Waiting, Assembly::Working) => Owner::One(Stage::Shuffle),
            (Front::Waiting, Assembly::Blocked | Assembly::Over) => Owner::Pool(otherwise),
            (Front::Waiting, Assembly::Starved) => match self.parts.front() {
                Some(Phase::Fetched) => Owner::Pool(Stage::Fetch),
                Some(phase) => phase.stage().map_or(Owner::Pool(Stage::Parquet), Owner::One),
                // No row group is on its way, because the plan of the epoch is being made.
                None => Owner::One(Stage::Shuffle),
            },
        }
    }
}
