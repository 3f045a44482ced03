//! The activity of one epoch. It decides to which stage a wait for the next batch is charged.

use std::collections::VecDeque;

use crate::monitor::stage::Stage;

/// The activity of the thread that assembles batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Assembly {
    Working,
    /// The thread waits for a row group.
    Starved,
    /// The thread waits for space in the queue of batches.
    Blocked,
    /// All batches have been assembled.
    Over,
}

/// The phase of a row group, from the request for memory until its rows are in memory.
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

/// The activity of the thread that takes batches from the loader for the consumer, such as the thread of a
/// transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Front {
    /// The thread waits for a batch, or does not exist.
    Waiting,
    /// The thread works for a stage.
    At(Stage),
    /// The thread waits until the consumer takes a batch from it.
    Full,
}

/// The activity of one epoch: of its row groups, of the assembly of its batches, and of their consumer.
#[derive(Debug)]
pub(in crate::monitor) struct EpochTimings {
    pub(in crate::monitor) id: u64,
    /// Whether a thread other than the consumer's takes batches from the loader.
    pub(in crate::monitor) apart: bool,
    pub(in crate::monitor) front: Front,
    /// The stage that the consumer's own thread works for before it gets a batch. `neared` is the time when
    /// that work began.
    pub(super) near: Option<Stage>,
    pub(super) neared: u64,
    /// The stage that works on the batch which the consumer gets next. It is set only for stages that work on
    /// several batches at a time.
    pub(in crate::monitor) next_at: Option<Stage>,
    pub(in crate::monitor) assembly: Assembly,
    /// Whether the batch that the consumer waits for is being made. Otherwise some of its rows have not
    /// arrived.
    pub(in crate::monitor) making: bool,
    /// The phases of the row groups from which no batches are made yet, in the order of the plan.
    pub(in crate::monitor) parts: VecDeque<Phase>,
    /// The number of the first row group in `parts`, counted from the beginning of the epoch.
    pub(in crate::monitor) first: u64,
    /// `ready` is the number of batches that were made and not yet taken. `taken` is the number of batches
    /// that the consumer got.
    pub(in crate::monitor) ready: u64,
    pub(in crate::monitor) taken: u64,
    /// The time when `front` last changed.
    pub(in crate::monitor) turned: u64,
}

/// The stage or stages that a wait is charged to.
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

    /// The stage or stages to which a wait for the next batch is charged at present.
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
