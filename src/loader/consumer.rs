//! Reports to the statistics what happens to batches after they leave the loader: when the training loop
//! waits, and the work of a layer before it, such as a transform.

use crate::monitor::{Stage, Watch};

/// Reports, for one epoch, when the consumer (the training loop) waits, and which work is done on its batches
/// before it gets them. [`Stats`](super::Stats) shows the result. Cheap to clone; clones share their state.
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

    /// Reports that the thread that takes batches from the loader now does the work of `stage` on one, until
    /// it takes the next.
    pub fn works(&self, stage: Stage) {
        self.watch.works(Some(stage));
    }

    /// Reports that one more thread or process begins to work for `stage`, until
    /// [`ends_beside`](Self::ends_beside). It works beside the thread that takes batches from the loader. The
    /// times of all such threads and processes are added up.
    pub fn begins_beside(&self, stage: Stage) {
        self.watch.begins_beside(stage);
    }

    /// Reports the end of the work that [`begins_beside`](Self::begins_beside) reported.
    pub fn ends_beside(&self, stage: Stage) {
        self.watch.ends_beside(stage);
    }

    /// Reports that `stage` now works on the batch that the consumer gets next. `None` reports that no stage
    /// outside the loader works on it any more.
    pub fn is_at(&self, stage: Option<Stage>) {
        self.watch.is_at(stage);
    }

    /// Reports that the consumer's own thread does the work of `stage` before it has its batch. `None`
    /// reports that this work is done.
    pub fn works_near(&self, stage: Option<Stage>) {
        self.watch.works_near(stage);
    }

    /// Reports that the thread that takes batches from the loader is ahead of the consumer, and waits until
    /// the consumer takes a batch.
    pub fn is_full(&self) {
        self.watch.is_full();
    }

    /// Counts the output of a stage.
    pub fn count(&self, stage: Stage, items: u64, bytes: u64) {
        self.watch.count(stage, items, bytes);
    }

    /// Runs work of a stage that was put off until a batch is first read, and reports its time. `work` also
    /// returns the number of bytes that it made. On the consumer's thread, the time counts as a wait.
    pub fn looks<T, E>(&self, stage: Stage, work: impl FnOnce() -> Result<(T, u64), E>) -> Result<T, E> {
        let mut looking = self.watch.looks(stage);
        let (made, bytes) = work()?;
        looking.made(bytes);
        Ok(made)
    }
}
