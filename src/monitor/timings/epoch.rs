//! The activity of one epoch, and so the stage that a wait for its next batch counts for.

use std::collections::VecDeque;

use crate::monitor::stage::Stage;

/// The activity of the thread that assembles batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Assembly {
    Working,
    /// It waits for a row group.
    Starved,
    /// It waits for room in the consumer's queue.
    Blocked,
    /// All batches are on their way.
    Over,
}

/// The phase of a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for memory.
    Memory,
    /// It is looked up in the cache.
    Cache,
    /// It is read from the store.
    Fetch,
    /// It waits for its turn to be decoded.
    Fetched,
    /// It waits for the pool, or is worked on there.
    Pool,
    /// It is written to the cache, to be used from there.
    Writing,
    /// Its rows are here.
    Ready,
}

impl Phase {
    /// The stage that its time counts for.
    pub(super) fn stage(self) -> Option<Stage> {
        match self {
            Phase::Memory => Some(Stage::Memory),
            Phase::Cache | Phase::Writing => Some(Stage::Cache),
            Phase::Fetch => Some(Stage::Fetch),
            Phase::Fetched | Phase::Pool | Phase::Ready => None,
        }
    }
}

/// The activity of the thread between the pipe and the consumer, such as that of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::monitor) enum Front {
    /// It waits for the pipe, or does not exist.
    Waiting,
    /// It works.
    At(Stage),
    /// It waits for the consumer.
    Full,
}

/// The activity of one epoch.
#[derive(Debug)]
pub(in crate::monitor) struct EpochTimings {
    pub(in crate::monitor) id: u64,
    /// Whether batches are taken from the pipe on another thread than the consumer's.
    pub(in crate::monitor) apart: bool,
    pub(in crate::monitor) front: Front,
    /// What the consumer's own thread works on before it has a batch, and since when.
    pub(super) near: Option<Stage>,
    pub(super) neared: u64,
    /// The stage that has the batch that the consumer takes next, where several batches are at one.
    pub(in crate::monitor) next_at: Option<Stage>,
    pub(in crate::monitor) assembly: Assembly,
    /// Whether the batch that is waited for is being made; if not, its rows are not even at hand.
    pub(in crate::monitor) making: bool,
    /// Row groups on their way, in plan order.
    pub(in crate::monitor) parts: VecDeque<Phase>,
    /// The number of the first of them.
    pub(in crate::monitor) first: u64,
    /// Batches that were made and not taken, and that the consumer got.
    pub(in crate::monitor) ready: u64,
    pub(in crate::monitor) taken: u64,
    /// Since when `front` is what it is.
    pub(in crate::monitor) turned: u64,
}

/// The stage that a wait counts for.
pub(super) enum Owner {
    One(Stage),
    /// The stages that the pool works on; this one, if it works on none.
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

    /// The owner of the wait for the next batch.
    pub(super) fn owner(&self) -> Owner {
        if let Some(stage) = self.near.or(self.next_at) {
            return Owner::One(stage);
        }
        // A batch that is ready and not taken is about to be: the thread that waits for it has still to wake
        // up.
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
                // The plan of an epoch is being made.
                None => Owner::One(Stage::Shuffle),
            },
        }
    }
}
