//! The reports of a layer between the pipe and the training loop, such as a transform.

use crate::monitor::{Stage, Watch};

/// Reports, for one epoch, when the consumer waits and what is done to its batches on the way. Only
/// [`Stats`](super::Stats) uses the reports. Cheap to clone; clones share their state.
///
/// A batch that leaves [`Epoch::next_step`](super::Epoch::next_step) is being [handed over](Stage::HandOver)
/// until another stage is reported.
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

    /// Reports that the consumer asks for a batch. The time since it got the last batch counts as its own.
    pub fn asks(&self) {
        self.watch.asks();
    }

    /// Reports that the consumer has its batch of `rows` rows.
    pub fn has(&self, rows: u64) {
        self.watch.has(rows);
    }

    /// Reports that there is no batch for the consumer: the epoch is over, or failed.
    pub fn gets_nothing(&self) {
        self.watch.gets_nothing();
    }

    /// Reports that the thread that takes batches from the pipe works on one for this stage, until it takes
    /// the next one.
    pub fn works(&self, stage: Stage) {
        self.watch.works(Some(stage));
    }

    /// Reports that one more thread or process works for this stage, beside the one that takes batches from
    /// the pipe, until [`ends_beside`](Self::ends_beside). The times of all such threads and processes are
    /// added up.
    pub fn begins_beside(&self, stage: Stage) {
        self.watch.begins_beside(stage);
    }

    /// Reports the end of the work that [`begins_beside`](Self::begins_beside) reported.
    pub fn ends_beside(&self, stage: Stage) {
        self.watch.ends_beside(stage);
    }

    /// Reports that the batch that the consumer takes next is at this stage; with `None`, that it no longer
    /// is.
    pub fn is_at(&self, stage: Option<Stage>) {
        self.watch.is_at(stage);
    }

    /// Reports that the consumer's own thread works for this stage before it has its batch; with `None`, that
    /// it no longer does.
    pub fn works_near(&self, stage: Option<Stage>) {
        self.watch.works_near(stage);
    }

    /// Reports that the thread that takes batches from the pipe is ahead of the consumer and waits for it.
    pub fn is_full(&self) {
        self.watch.is_full();
    }

    /// Counts the output of a stage.
    pub fn count(&self, stage: Stage, items: u64, bytes: u64) {
        self.watch.count(stage, items, bytes);
    }

    /// Runs work of a stage that is delayed until a batch is first read; `work` also returns the bytes that
    /// it made. If the consumer's thread calls this, the consumer waits meanwhile.
    pub fn looks<T, E>(&self, stage: Stage, work: impl FnOnce() -> Result<(T, u64), E>) -> Result<T, E> {
        let mut looking = self.watch.looks(stage);
        let (made, bytes) = work()?;
        looking.made(bytes);
        Ok(made)
    }
}
