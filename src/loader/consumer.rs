//! What lies between the pipe and the training loop, where that is more than an iterator.

use crate::monitor::{Stage, Watch};

/// Says, of one epoch, when the consumer waits and what is done to its batches on the way; for
/// [`Stats`](super::Stats) alone. Cheap to clone; clones are the same.
///
/// A batch that leaves [`Epoch::next_step`](super::Epoch::next_step) is being [handed over](Stage::HandOver) until
/// something else is said.
#[derive(Clone, Debug)]
pub struct Consumer {
    watch: Watch,
}

impl Consumer {
    pub(super) fn new(watch: Watch, apart: bool) -> Self {
        if apart {
            watch.is_apart();
        }
        Consumer { watch }
    }

    /// It asks for a batch. The time since it had the last one was its own.
    pub fn asks(&self) {
        self.watch.asks();
    }

    /// It has what it asked for.
    pub fn has(&self) {
        self.watch.has();
    }

    /// It asked in vain: the epoch is over, or failed.
    pub fn gets_nothing(&self) {
        self.watch.gets_nothing();
    }

    /// What takes batches from the pipe works on one as this stage, until it takes the next one.
    pub fn works(&self, stage: Stage) {
        self.watch.works(Some(stage));
    }

    /// The consumer's own thread works as this stage before it has its batch; with `None`, not any more.
    pub fn works_near(&self, stage: Option<Stage>) {
        self.watch.works_near(stage);
    }

    /// What takes batches from the pipe has made more than that took, and waits until it takes some.
    pub fn is_full(&self) {
        self.watch.is_full();
    }

    /// Counts what was done as this stage.
    pub fn count(&self, stage: Stage, items: u64, bytes: u64) {
        self.watch.count(stage, items, bytes);
    }

    /// Runs what is left of a stage's work until somebody looks at a batch, which says how many bytes it made. If that is
    /// the consumer, it waits meanwhile.
    pub fn looks<T, E>(&self, stage: Stage, work: impl FnOnce() -> Result<(T, u64), E>) -> Result<T, E> {
        let mut looking = self.watch.looks(stage);
        let (made, bytes) = work()?;
        looking.made(bytes);
        Ok(made)
    }
}
