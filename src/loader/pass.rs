//! One pass over this rank's rows of a source, a data set of the loader. The pass takes the batches that the
//! pipe makes, and returns them in order.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use forebay_arrow::array::RecordBatch;
use forebay_base::{Error, ErrorKind, Result};

use super::bad_rows::BadRow;
use super::collate::{Collated, Whole};
use super::hand_over::PendingBatch;
use super::lifecycle::Reason;
use super::pipe::BatchReceiver;
use super::progress::Receipt;
use super::refill::{Refill, StandIn, Taken};
use crate::monitor::{Monitor, Watch};

/// A batch, and the receipt that confirms its delivery. See [`Wait`](super::Wait) for an example.
#[derive(Clone, Debug)]
pub struct Step {
    /// The rows of this rank.
    pub batch: RecordBatch,
    /// The receipt to give to [`Loader::handed_over`](super::Loader::handed_over) when the consumer has the
    /// batch.
    pub after: Receipt,
}

/// A batch of a pass, with the numbers of rows to add to the statistics when it is handed over.
pub(super) struct Made {
    pub(super) step: Step,
    /// The number of repeated rows: those that another rank also has, and those that replace bad rows.
    pub(super) padded: u64,
    /// The number of samples of the batch, if all of them were left out and batches must keep their shape;
    /// otherwise 0.
    pub(super) lost: usize,
    /// The batch that has the rows of all sources in the step, if the sources' rows were made together.
    pub(super) whole: Option<Whole>,
}

/// One pass over this rank's rows of a source: its batches are taken in order. Dropping the pass stops its
/// work at once.
pub(super) struct Pass {
    pub(super) number: u64,
    /// The number of batches that are still to be returned. It is an error if the pass ends before it is 0.
    pub(super) owed: u64,
    pub(super) receiver: BatchReceiver,
    pub(super) pending: Option<PendingBatch>,
    pub(super) generation: u64,
    /// Counts the rows that are left out and those that are repeated; `None` if they are counted elsewhere.
    pub(super) monitor: Option<Arc<Monitor>>,
    /// Whether the batches of this pass become parts of other batches, so that the consumer does not take
    /// them directly.
    pub(super) is_part: bool,
    /// The batches that have arrived and were not returned yet, and the bad rows that were found.
    pub(super) refill: Refill,
    /// The number of bad rows that were left out of the batches returned so far.
    pub(super) skipped: usize,
    pub(super) beginning: Beginning,
}

/// The place to look for the first row of the epoch that can be delivered. This row fills batches without a
/// good row at the end of the epoch.
pub(super) enum Beginning {
    /// This pass began with the first row of the epoch, so the row is in its own batches.
    Here,
    /// This pass was resumed at a later row. The function begins another pass at the first row of the epoch.
    Before(Box<dyn FnOnce() -> Result<Option<Pass>> + Send>),
    /// The other pass, which is reading from the first row of the epoch.
    Read(Box<Pass>),
}

impl Pass {
    /// Returns the number of batches that are still to be returned.
    pub(super) fn remaining(&self) -> u64 {
        self.owed
    }

    /// Whether the first row that this pass delivers may fill batches without rows at the end of the epoch.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.beginning, Beginning::Here)
    }

    /// Returns the bad rows that were left out of the batches returned so far.
    pub(super) fn skipped(&self) -> &[BadRow] {
        &self.refill.bad()[..self.skipped]
    }

    /// The record of the pass's waits.
    pub(super) fn watch(&self) -> &Watch {
        &self.receiver.watch
    }

    /// Fails in a forked child process, which has none of the loader's threads.
    pub(super) fn check_process(&self) -> Result<()> {
        self.receiver.check_process()
    }

    /// Waits for the next batch, and returns `None` if it has not arrived after `timeout`. No batch follows
    /// an error.
    pub(super) fn take(&mut self, timeout: Duration) -> Result<Option<Made>> {
        self.check_process()?;
        // After all batches have arrived, it is not an error that this pass was ended: `fill_the_last` begins
        // another pass, and only one pass over a source is under way at a time.
        let all_came = self.refill.waiting() == self.owed;
        if let Some(ended) = self.ended_from_outside().filter(|_| !all_came) {
            return Err(ended);
        }
        if self.is_part {
            self.watch().begins();
        }
        let step = self.next_step(timeout);
        match &step {
            Ok(Some(_)) if self.is_part => self.watch().leaves(),
            Ok(_) => {}
            Err(_) => self.receiver.failed(),
        }
        step
    }

    fn next_step(&mut self, timeout: Duration) -> Result<Option<Made>> {
        let began = Instant::now();
        while self.refill.is_empty_handed() {
            let left = timeout.saturating_sub(began.elapsed());
            let came = match self.refill.waiting() == self.owed {
                true => self.fill_the_last(left),
                false => self.take_in(left),
            };
            // An error ends the pass. The bad rows of batches that are then not returned are listed too.
            let came = came.inspect_err(|_| self.count_skipped(self.refill.bad().len()));
            if !came? {
                return Ok(None);
            }
        }
        let taken = self.refill.pop().ok_or_else(|| self.cut_short())?;
        Ok(Some(self.accept(taken)))
    }

    /// Waits until the rows of the next batch are listed; false if they are not after `timeout`. An error is
    /// left to [`take`](Self::take).
    pub(super) fn is_listed(&mut self, timeout: Duration) -> Result<bool> {
        self.check_process()?;
        if self.pending.is_some() || !self.refill.is_empty_handed() || self.refill.waiting() == self.owed {
            return Ok(true);
        }
        self.watch().begins();
        Ok(!matches!(self.await_listed(timeout), Err(RecvTimeoutError::Timeout)))
    }

    /// Waits for the next pending batch, whose rows are listed.
    fn await_listed(&mut self, timeout: Duration) -> Result<(), RecvTimeoutError> {
        if self.pending.is_none() {
            self.pending = Some(self.receiver.batches.recv_timeout(timeout)?);
        }
        Ok(())
    }

    /// Waits for the next pending batch, and then until it is made.
    fn receive(&mut self, timeout: Duration) -> Result<Result<Collated>, RecvTimeoutError> {
        let began = Instant::now();
        let left = || timeout.saturating_sub(began.elapsed());
        self.await_listed(left())?;
        let Some(PendingBatch { made, joint, .. }) = &self.pending else {
            return Err(RecvTimeoutError::Disconnected);
        };
        match made.try_recv() {
            Some(made) => Ok(made),
            None => {
                joint.iter().for_each(|joint| joint.start());
                self.receiver.watch.making();
                made.recv_timeout(left())
            }
        }
    }

    /// Waits for the next batch and adds it to `refill`. Returns false if it has not arrived after `timeout`.
    fn take_in(&mut self, timeout: Duration) -> Result<bool> {
        let received = match self.receive(timeout) {
            Ok(made) => made,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(self.cut_short()),
        };
        // The permit is returned last, because a thread that waits for it starts work at once, and would take
        // the processor from this thread.
        let (end, padded, _permit) = match self.pending.take() {
            Some(PendingBatch { end, padded, permit, memory, .. }) => (end, padded, (permit, memory)),
            None => (0, 0, (None, None)),
        };
        let is_whole = matches!(self.beginning, Beginning::Here);
        received.and_then(|made| self.refill.push(Taken { made, end, padded }, is_whole)).map(|()| true)
    }

    /// Fills the empty batches at the end of the epoch with the first row of the epoch that can be delivered.
    /// Returns false if that row has not arrived after `timeout`.
    fn fill_the_last(&mut self, timeout: Duration) -> Result<bool> {
        if self.refill.fill_with_first()? {
            return Ok(true);
        }
        self.beginning = match std::mem::replace(&mut self.beginning, Beginning::Here) {
            Beginning::Before(begin) => {
                begin()?.map_or(Beginning::Here, |pass| Beginning::Read(Box::new(pass)))
            }
            other => other,
        };
        let Beginning::Read(pass) = &mut self.beginning else {
            return Err(nothing_to_deliver(self.number, self.refill.bad().first()));
        };
        let Some(made) = pass.take(timeout)? else { return Ok(false) };
        self.refill.set_first(made.step.stand_in()?);
        self.beginning = Beginning::Here;
        Ok(true)
    }

    /// Records that the first `until` bad rows were left out of batches that are returned.
    fn count_skipped(&mut self, until: usize) {
        if let Some(monitor) = &self.monitor {
            monitor.skipped.fetch_add((until - self.skipped) as u64, Relaxed);
        }
        self.skipped = until;
    }

    fn accept(&mut self, Taken { made, end, padded }: Taken) -> Made {
        let skipped = self.refill.skipped_until(end);
        self.count_skipped((skipped - self.refill.before()) as usize);
        if let Some(monitor) = &self.monitor {
            monitor.padded.fetch_add(padded, Relaxed);
        }
        self.owed -= 1;
        if self.owed == 0 {
            self.receiver.finished();
        }
        let after = Receipt {
            generation: self.generation,
            epoch: self.number,
            row: end,
            skipped: if skipped > 0 { [skipped].into() } else { Arc::default() },
            last: false,
            numbers: made.numbers,
            keys: made.keys,
        };
        let lost = if made.batch.num_rows() == 0 && self.refill.keeps_shape() { made.samples } else { 0 };
        Made { step: Step { batch: made.batch, after }, padded, lost, whole: made.whole }
    }

    fn cut_short(&self) -> Error {
        self.ended_from_outside().unwrap_or_else(|| {
            Error::new(ErrorKind::Internal, format!("epoch {} ended {} steps early", self.number, self.owed))
        })
    }

    /// Returns an error if the loader ended the pass, for example because it was closed. Batches that were
    /// already made are then not returned either.
    fn ended_from_outside(&self) -> Option<Error> {
        match self.receiver.abandoned()? {
            Reason::Left | Reason::Failed => None,
            reason => Some(ended(self.number, reason)),
        }
    }
}

impl Step {
    /// Copies the first row of the batch, to fill batches that have no good row.
    pub(super) fn stand_in(&self) -> Result<StandIn> {
        StandIn::first_of(&self.batch, &self.after.numbers, self.after.keys.as_deref())
    }
}

/// The error for an epoch in which a rank has no row to deliver; `bad` is the first of its bad rows.
pub(super) fn nothing_to_deliver(epoch: u64, bad: Option<&BadRow>) -> Error {
    let cause = format!("no row of this rank in epoch {epoch} can be delivered");
    match bad {
        Some(bad) => bad
            .error()
            .of_kind(ErrorKind::BadRow)
            .about(&format!("{cause}, the first because"))
            .hint_if_none("repair the rows, or leave them out with `deny`"),
        None => Error::invalid(format!("{cause}: `deny_from` denies all of them"))
            .hint("deny fewer rows, or begin a run without them with `deny`"),
    }
}

/// The error for a request for a batch of an epoch that was ended early.
pub fn ended(number: u64, reason: Reason) -> Error {
    let (why, next) = match reason {
        Reason::Closed => return Error::closed(),
        Reason::Left => ("it was closed", "iterate over the loader again"),
        Reason::Superseded => (
            "another epoch was started",
            "a loader has one epoch at a time; make another loader for a second one",
        ),
        Reason::Restored => ("a state was loaded", "iterate over the loader again"),
        Reason::Warmed => ("the cache was warmed", "iterate over the loader again"),
        Reason::Failed => ("a batch could not be made", "see the error of that batch"),
    };
    Error::new(ErrorKind::Closed, format!("epoch {number} was ended: {why}")).hint(next)
}
