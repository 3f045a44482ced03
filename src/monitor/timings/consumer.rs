//! The part of the timings that concerns the consumer (the training loop): when it waits for batches, and how
//! much time it spends on its own work.

use super::{Had, Timings};
use crate::monitor::stage::Stage;

/// Says whether the consumer waits for work on a batch that was delayed until the batch is first read.
#[derive(Clone, Copy, Debug)]
pub(in crate::monitor) enum Look {
    /// The consumer is not known to wait for the work.
    Aside,
    /// The consumer waits for the work. `before` is the stage that its thread worked for before, and
    /// `waiting` says whether the consumer was already waiting.
    Near { before: Option<Stage>, waiting: bool },
}

impl Timings {
    /// Records that the consumer asks for a batch. The time since it got the last batch of this epoch counts
    /// as its own work.
    pub(in crate::monitor) fn asks(&mut self, epoch: u64, now: u64) {
        self.settle(now);
        if self.waiting {
            return;
        }
        self.own_time(epoch, now);
        (self.waiting, self.asked) = (true, now);
    }

    /// Records that the consumer stops waiting although its batch has not arrived. The time until it asks
    /// again counts as its own work.
    pub(in crate::monitor) fn pauses(&mut self, epoch: u64, now: u64) {
        self.settle(now);
        if std::mem::take(&mut self.waiting) {
            self.so_far += now.saturating_sub(self.asked);
            self.had = Some(Had { epoch, at: now });
        }
    }

    /// Records that the consumer has got a batch of `rows` rows. Returns how long it waited, and how many
    /// batches of the epoch it had got before.
    pub(in crate::monitor) fn has(&mut self, epoch: u64, now: u64, rows: u64) -> Option<(u64, u64)> {
        self.settle(now);
        if !std::mem::take(&mut self.waiting) {
            return None;
        }
        let waited = std::mem::take(&mut self.so_far) + now.saturating_sub(self.asked);
        match self.start {
            Some(_) => self.next.record(waited),
            None => {
                self.first = waited;
                self.start = Some(self.waits);
            }
        }
        self.had = Some(Had { epoch, at: now });
        self.timeline.deliver(rows, now);
        let epoch = self.epoch(epoch)?;
        epoch.taken += 1;
        Some((waited, epoch.taken - 1))
    }

    /// Records that the consumer stops waiting, because the epoch has no more batches.
    pub(in crate::monitor) fn gets_nothing(&mut self, now: u64) {
        self.settle(now);
        (self.waiting, self.so_far, self.had) = (false, 0, None);
    }

    /// Records that the consumer's own thread begins to work for the stage `near` before it gets a batch;
    /// `None` if it has stopped. Returns the stage that it worked for until now, and when that work began.
    pub(in crate::monitor) fn nears(
        &mut self,
        epoch: u64,
        now: u64,
        near: Option<Stage>,
    ) -> Option<(Stage, u64)> {
        self.settle(now);
        let epoch = self.epoch(epoch)?;
        let before = std::mem::replace(&mut epoch.near, near);
        let since = std::mem::replace(&mut epoch.neared, now);
        near.into_iter().for_each(|stage| self.begins(stage));
        before.into_iter().for_each(|stage| self.ends(stage));
        before.map(|stage| (stage, since))
    }

    /// Records that delayed work for a stage begins, because a batch is read for the first time. If the
    /// consumer reads the batch, it waits meanwhile.
    pub(in crate::monitor) fn looks(&mut self, epoch: u64, now: u64, stage: Stage) -> Look {
        self.settle(now);
        let had = self.had.is_some_and(|had| had.epoch == epoch);
        let waiting = self.waiting;
        match self.epoch(epoch) {
            Some(found) if !found.apart && (waiting || had) => {
                let before = found.near;
                self.nears(epoch, now, Some(stage));
                if !waiting {
                    self.own_time(epoch, now);
                    self.waiting = true;
                }
                Look::Near { before, waiting }
            }
            _ => {
                self.begins(stage);
                Look::Aside
            }
        }
    }

    /// Records that the delayed work for a stage has ended, where `look` is the value that `looks` returned.
    pub(in crate::monitor) fn looked(&mut self, epoch: u64, now: u64, stage: Stage, look: Look) {
        self.settle(now);
        match look {
            Look::Aside => self.ends(stage),
            Look::Near { before, waiting } => {
                self.nears(epoch, now, before);
                if !waiting {
                    self.waiting = false;
                    self.had = Some(Had { epoch, at: now });
                }
            }
        }
    }

    fn own_time(&mut self, epoch: u64, now: u64) {
        if let Some(had) = self.had.take_if(|had| had.epoch == epoch) {
            self.spend(Stage::Consumer, had.at..now.max(had.at), 1.0);
        }
    }
}
