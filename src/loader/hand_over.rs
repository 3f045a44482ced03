//! Batches on their way to the consumer: they are in plan order from the moment they are started, and permits
//! limit their number.

use std::sync::Arc;

use forebay_base::{Error, Result};

use super::admission::{Admission, Stopped};
use super::collate::Collated;
use super::queue::{self, queue};
use super::semaphore::{BatchPermit, BatchSemaphore, BytesPermit};
use crate::monitor::Watch;

/// A batch that is being made.
pub(crate) struct PendingBatch {
    pub(crate) made: queue::Receiver<Result<Collated>>,
    /// The global row at which the batch ends.
    pub(crate) end: u64,
    pub(crate) padded: u64,
    /// The permit, returned when the consumer has the batch; the first batch of an epoch has none.
    pub(crate) permit: Option<BatchPermit>,
    /// The permit for the memory of the batch, if its size depends on the lengths of its values. It is
    /// returned together with the other permit.
    pub(crate) memory: Option<BytesPermit>,
}

impl PendingBatch {
    /// A batch that ends at a row, and the channel to send it to when it is made.
    pub(super) fn new(end: u64, padded: u64) -> (queue::Sender<Result<Collated>>, Self) {
        let (send, made) = queue();
        (send, PendingBatch { made, end, padded, permit: None, memory: None })
    }
}

/// The assembly's end of the queue of batches.
pub(super) struct HandOver {
    queue: queue::Sender<PendingBatch>,
    permits: BatchSemaphore,
    admission: Arc<Admission>,
    watch: Watch,
    /// Whether no batch has been handed over yet.
    is_first: bool,
    /// A value of which every batch that the consumer has not taken holds a clone.
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

    /// Hands over a batch once it has a permit, which the first batch of an epoch does not need.
    pub(super) fn pass_on(&mut self, pending: PendingBatch) -> Result<(), Stopped> {
        if self.admission.is_stopped() {
            return Err(Stopped);
        }
        let permit = if std::mem::take(&mut self.is_first) { None } else { Some(self.permit()?) };
        self.queue.send(PendingBatch { permit, ..pending }).map_err(|_| Stopped)
    }

    /// Hands over the reason why there will be no batch that ends at this row, nor any after it.
    pub(super) fn fail(&mut self, error: Error, end: u64, padded: u64) -> Result<(), Stopped> {
        let (send, pending) = PendingBatch::new(end, padded);
        let _ = send.send(Err(error));
        self.pass_on(pending)
    }

    /// Waits for the memory of batches, before any of them is made.
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

    /// Waits, in short intervals, for something that the consumer returns.
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
