//! The queue of batches on their way to the consumer. Batches enter it in plan order when their work begins,
//! and permits limit how many are in it.

use std::sync::Arc;

use forebay_base::{Error, Result};

use super::admission::{Admission, Stopped};
use super::collate::Collated;
use super::joint::JointStep;
use super::queue::{self, queue};
use super::semaphore::{BatchPermit, BatchSemaphore, BytesPermit};
use crate::monitor::Watch;

/// A batch that is being made.
pub(crate) struct PendingBatch {
    pub(crate) made: queue::Receiver<Result<Collated>>,
    /// The number of the row after the batch, counted over all ranks.
    pub(crate) end: u64,
    pub(crate) padded: u64,
    /// The permit to be in the queue, which is returned when the consumer takes the batch. The first batch of
    /// an epoch needs none.
    pub(crate) permit: Option<BatchPermit>,
    /// The permit for the batch's memory, if its size depends on the lengths of its values. It is returned
    /// when the consumer takes the batch.
    pub(crate) memory: Option<BytesPermit>,
    /// The step of a mix with which the batch is made, if it is.
    pub(crate) joint: Option<JointStep>,
}

impl PendingBatch {
    /// A batch that ends before row `end`, and the channel to which it is sent once it is made.
    pub(super) fn new(end: u64, padded: u64) -> (queue::Sender<Result<Collated>>, Self) {
        let (send, made) = queue();
        (send, PendingBatch { made, end, padded, permit: None, memory: None, joint: None })
    }
}

/// The sending end of the queue of batches. The assembly, which lists the rows of each batch, adds to it.
pub(super) struct HandOver {
    queue: queue::Sender<PendingBatch>,
    permits: BatchSemaphore,
    admission: Arc<Admission>,
    watch: Watch,
    /// Whether no batch was added to the queue yet.
    is_first: bool,
    /// While the consumer has not taken a batch, the batch's memory permit holds a clone of this value. If no
    /// clone exists, the next batch gets its memory at once.
    untaken: Arc<()>,
}

impl HandOver {
    pub(super) fn new(
        permits: BatchSemaphore,
        admission: Arc<Admission>,
        watch: Watch,
    ) -> (Self, queue::Receiver<PendingBatch>) {
        let (queue, batches) = queue();
        (HandOver { queue, permits, admission, watch, is_first: true, untaken: Arc::default() }, batches)
    }

    pub(super) fn permits(&self) -> &BatchSemaphore {
        &self.permits
    }

    /// Adds a batch to the queue as soon as a permit is free. The first batch of an epoch needs none.
    pub(super) fn pass_on(&mut self, pending: PendingBatch) -> Result<(), Stopped> {
        if self.admission.is_stopped() {
            return Err(Stopped);
        }
        let permit = if std::mem::take(&mut self.is_first) { None } else { Some(self.permit()?) };
        self.queue.send(PendingBatch { permit, ..pending }).map_err(|_| Stopped)
    }

    /// Adds an error in place of the batch that ends before row `end`. No batch follows it.
    pub(super) fn fail(&mut self, error: Error, end: u64, padded: u64) -> Result<(), Stopped> {
        let (send, pending) = PendingBatch::new(end, padded);
        let _ = send.send(Err(error));
        self.pass_on(pending)
    }

    /// Waits until `bytes` bytes of memory are free, for batches that are then made.
    pub(super) fn memory(&self, bytes: u64) -> Result<BytesPermit, Stopped> {
        match self.permits.acquire_bytes(bytes, &self.untaken) {
            Some(memory) => Ok(memory),
            None => self.wait(|| self.permits.wait_for_bytes(bytes, &self.untaken)),
        }
    }

    fn permit(&self) -> Result<BatchPermit, Stopped> {
        match self.permits.take() {
            Some(permit) => Ok(permit),
            None => self.wait(|| self.permits.wait()),
        }
    }

    /// Waits for a permit or for memory that the consumer returns. `a_moment` waits a short time for it, and
    /// is called again until it succeeds or the epoch is stopped.
    fn wait<T>(&self, a_moment: impl Fn() -> Option<T>) -> Result<T, Stopped> {
        let _blocked = self.watch.blocked();
        loop {
            if self.admission.is_stopped() {
                return Err(Stopped);
            }
            if let Some(given) = a_moment() {
                return Ok(given);
            }
        }
    }
}
