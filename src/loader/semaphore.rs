//! Limits the number and the memory of the batches that are made ahead of the consumer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A waiting thread checks for a free permit at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The most batches that the consumer is assumed to hold: the current one and the previous one.
pub(super) const WITH_CONSUMER: u64 = 2;

/// Limits how many batches may be in the making or ready at once, and how many bytes they may take. The
/// current epoch and the following one share the limit.
///
/// A thread that waits for a permit polls at an interval, and is woken only when most permits are free. If
/// every step of the consumer woke a thread, the consumer would lose its processor to that thread for some
/// milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct BatchSemaphore(Arc<Permits>);

#[derive(Debug)]
struct Permits {
    state: Mutex<SemaphoreState>,
    /// The number of free permits at which a waiting thread is woken.
    wake_at: usize,
    /// The memory for batches in bytes, including the batches that the consumer holds.
    bytes: u64,
    freed: Condvar,
}

#[derive(Debug)]
struct SemaphoreState {
    free: usize,
    /// The bytes of the batches that are being made or are ready.
    reserved: u64,
}

impl Permits {
    fn state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit to make one batch, which is returned when this is dropped.
#[derive(Debug)]
pub(crate) struct BatchPermit(Arc<Permits>);

/// The permit for the memory of a batch. It is taken before the batch is made, and returned when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct BytesPermit {
    permits: Arc<Permits>,
    bytes: u64,
    _epoch: Arc<()>,
}

impl BatchSemaphore {
    pub(crate) fn new(permits: usize, bytes: u64) -> Self {
        let state = Mutex::new(SemaphoreState { free: permits, reserved: 0 });
        BatchSemaphore(Arc::new(Permits {
            state,
            wake_at: (permits * 3).div_ceil(4),
            bytes,
            freed: Condvar::new(),
        }))
    }

    /// Takes a permit, if one is free.
    pub(crate) fn take(&self) -> Option<BatchPermit> {
        self.taken(&mut self.0.state())
    }

    /// Waits for a permit for at most [`POLL_INTERVAL`].
    pub(crate) fn wait(&self) -> Option<BatchPermit> {
        let waited = self
            .0
            .freed
            .wait_timeout_while(self.0.state(), POLL_INTERVAL, |state| state.free < self.0.wake_at);
        self.taken(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Whether there is memory for another batch of `bytes` bytes, if the consumer holds two of this size.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.has(&self.0.state(), bytes)
    }

    fn has(&self, state: &SemaphoreState, bytes: u64) -> bool {
        let with_consumer = bytes.saturating_mul(WITH_CONSUMER);
        state.reserved.saturating_add(bytes).saturating_add(with_consumer) <= self.0.bytes
    }

    /// Reserves memory for a batch of `bytes` bytes; `None` if there is not enough. If no other batch of the
    /// epoch has memory, the memory is always granted: the consumer waits for this batch, and returns nothing
    /// until it gets the batch. Each permit holds a clone of `epoch`, a value that belongs to one epoch, so
    /// its reference count tells whether other batches of the epoch have memory.
    pub(crate) fn acquire_bytes(&self, bytes: u64, epoch: &Arc<()>) -> Option<BytesPermit> {
        let mut state = self.0.state();
        let is_first = Arc::strong_count(epoch) == 1;
        if !is_first && !self.has(&state, bytes) {
            return None;
        }
        state.reserved += bytes;
        Some(BytesPermit { permits: self.0.clone(), bytes, _epoch: epoch.clone() })
    }

    /// Waits for memory for at most [`POLL_INTERVAL`].
    pub(crate) fn wait_for_bytes(&self, bytes: u64, epoch: &Arc<()>) -> Option<BytesPermit> {
        let has_none = |state: &mut SemaphoreState| !self.has(state, bytes);
        drop(self.0.freed.wait_timeout_while(self.0.state(), POLL_INTERVAL, has_none));
        self.acquire_bytes(bytes, epoch)
    }

    fn taken(&self, state: &mut SemaphoreState) -> Option<BatchPermit> {
        state.free = state.free.checked_sub(1)?;
        Some(BatchPermit(self.0.clone()))
    }
}

impl Drop for BatchPermit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.free += 1;
        let wakes = state.free == self.0.wake_at;
        drop(state);
        if wakes {
            self.0.freed.notify_one();
        }
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.permits.state().reserved -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_and_come_back() {
        let semaphore = BatchSemaphore::new(2, 0);
        let (first, second) = (semaphore.take(), semaphore.take());
        assert!(
            first.is_some() && second.is_some() && semaphore.take().is_none() && semaphore.wait().is_none()
        );
        drop(first);
        assert!(semaphore.wait().is_some());
    }

    #[test]
    fn a_thread_that_waits_gets_a_permit_though_few_are_free() {
        let semaphore = BatchSemaphore::new(8, 0);
        let mut taken: Vec<BatchPermit> = std::iter::from_fn(|| semaphore.take()).collect();
        assert_eq!(taken.len(), 8);
        let waiting = {
            let semaphore = semaphore.clone();
            std::thread::spawn(move || std::iter::repeat_with(|| semaphore.wait()).find_map(|permit| permit))
        };
        taken.pop();
        assert!(waiting.join().unwrap().is_some(), "one is free");
        drop(taken);
        let again: Vec<BatchPermit> = std::iter::from_fn(|| semaphore.take()).collect();
        assert_eq!(again.len(), 8);
    }

    #[test]
    fn batches_share_memory_with_those_of_the_consumer_and_the_first_always_passes() {
        let semaphore = BatchSemaphore::new(8, 100);
        let (this, next) = (Arc::new(()), Arc::new(()));
        let first = semaphore.acquire_bytes(200, &this);
        assert!(first.is_some() && semaphore.acquire_bytes(1, &this).is_none());
        let other = semaphore.acquire_bytes(20, &next);
        assert!(other.is_some(), "the first of the epoch after");
        drop(first);
        assert!(
            semaphore.acquire_bytes(200, &this).is_some(),
            "the first again, since nothing else of it waits"
        );
        let kept: Vec<BytesPermit> = std::iter::from_fn(|| semaphore.acquire_bytes(20, &next)).collect();
        assert_eq!(kept.len(), 2, "20 bytes are there already, and two of the consumer's");
        drop(other);
        assert!(semaphore.wait_for_bytes(20, &next).is_some());
    }
}
