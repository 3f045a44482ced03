//! Waits for locks of other processes. Such locks have no wait with a timeout, so a waiter naps and tries
//! again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const MIN_NAP: Duration = Duration::from_micros(200);
/// The longest nap, which is how late a waiter may notice that another process is done.
const MAX_NAP: Duration = Duration::from_millis(10);

/// Lets threads of this process nap while they wait for a lock; the thread that releases the lock wakes them.
#[derive(Debug, Default)]
pub(super) struct Pause {
    lock: Mutex<()>,
    over: Condvar,
}

impl Pause {
    pub(super) fn naps(&self) -> Naps<'_> {
        Naps { pause: self, next: MIN_NAP }
    }

    pub(super) fn wake(&self) {
        self.over.notify_all();
    }
}

/// The naps of one thread that waits; each nap is twice as long as the one before, up to [`MAX_NAP`].
pub(super) struct Naps<'a> {
    pause: &'a Pause,
    next: Duration,
}

impl Naps<'_> {
    pub(super) fn nap(&mut self) {
        let guard = self.pause.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.pause.over.wait_timeout(guard, self.next);
        self.next = (2 * self.next).min(MAX_NAP);
    }
}
