//! Limits how many batches of an epoch may be made before the epoch begins. The thread that assembles the
//! batches waits here.
//!
//! An epoch is prepared while the previous epoch still runs, with the same threads and the same memory
//! budget. It first makes one batch, so that its consumer need not wait until a shuffle window is full. It
//! makes more batches only after all batches of the previous epoch were assembled, or after its own consumer
//! has begun. From then on only the memory budget limits it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The limit on the batches of one epoch. The lifecycle of the loader's epochs raises it, and the thread that
/// assembles the epoch's batches waits until it is raised.
#[derive(Debug, Default)]
pub(super) struct Admission {
    level: Mutex<Level>,
    risen: Condvar,
    stopped: Arc<AtomicBool>,
}

/// The batches that an epoch may make. The level is only ever raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// The epoch may make its first batch.
    #[default]
    FirstBatch,
    /// The epoch may make all batches, though no consumer waits for them.
    Admitted,
    /// The consumer has begun the epoch, which may make all its batches.
    Open,
}

/// The error of a wait that ended because the epoch was stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stopped;

impl Admission {
    /// Lets the epoch make all of its batches, though no consumer has begun it.
    pub(super) fn admit(&self) {
        self.raise(Level::Admitted);
    }

    /// Reports that a consumer has begun the epoch, which may then make all of its batches too.
    pub(super) fn open(&self) {
        self.raise(Level::Open);
    }

    /// Stops the epoch: ends all waiting, and cancels the batches that are being made.
    pub(super) fn stop(&self) {
        let level = self.level();
        self.stopped.store(true, Relaxed);
        drop(level);
        self.risen.notify_all();
    }

    /// Whether the epoch was begun.
    pub(super) fn is_open(&self) -> bool {
        *self.level() == Level::Open
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// A flag that becomes true when the epoch is stopped, for work that checks it from time to time.
    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        self.stopped.clone()
    }

    /// Waits until the epoch may make more batches than the first.
    pub(super) fn wait_admitted(&self) -> Result<(), Stopped> {
        self.wait(Level::Admitted)
    }

    /// Waits until the epoch is begun.
    pub(super) fn wait_open(&self) -> Result<(), Stopped> {
        self.wait(Level::Open)
    }

    fn level(&self) -> MutexGuard<'_, Level> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, level: Level) {
        let mut now = self.level();
        *now = (*now).max(level);
        drop(now);
        self.risen.notify_all();
    }

    fn wait(&self, level: Level) -> Result<(), Stopped> {
        let below = |now: &mut Level| *now < level && !self.is_stopped();
        let reached = self.risen.wait_while(self.level(), below);
        drop(reached.unwrap_or_else(PoisonError::into_inner));
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admitted_epoch_makes_batches_and_an_open_one_has_a_consumer() {
        let admission = Admission::default();
        assert!(!admission.is_open());
        admission.admit();
        assert_eq!((admission.wait_admitted(), admission.is_open()), (Ok(()), false));
        admission.open();
        admission.admit();
        assert_eq!((admission.wait_open(), admission.is_open()), (Ok(()), true), "it never goes back");
    }

    #[test]
    fn who_waits_is_woken_by_being_let_in_and_by_the_end() {
        let admission = Arc::new(Admission::default());
        let waiting = {
            let admission = admission.clone();
            std::thread::spawn(move || (admission.wait_admitted(), admission.wait_open()))
        };
        admission.admit();
        admission.stop();
        let (_, ended) = waiting.join().unwrap();
        assert_eq!(ended, Err(Stopped));
        assert!(admission.is_stopped() && admission.stopped().load(Relaxed));
    }
}
