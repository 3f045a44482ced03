//! A queue from the threads that make batches to the loop that takes them.
//!
//! Most channels spin and yield before they sleep. If all processors decode, a thread that yields resumes
//! only after a time slice of several milliseconds; one that sleeps is woken as soon as there is a value. So
//! the consumer only ever waits on a condition variable.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;

/// A queue without a limit. Either end may be dropped first.
pub(crate) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue { state: Mutex::new((VecDeque::new(), Ends::Both)), some: Condvar::new() });
    (Sender(queue.clone()), Receiver(queue))
}

/// The end of a queue that sends values.
pub(crate) struct Sender<T>(Arc<Queue<T>>);

/// The end of a queue that receives values, in the order in which they were sent.
pub(crate) struct Receiver<T>(Arc<Queue<T>>);

struct Queue<T> {
    state: Mutex<(VecDeque<T>, Ends)>,
    some: Condvar,
}

/// The ends of a queue that have not been dropped.
#[derive(PartialEq)]
enum Ends {
    Both,
    One,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<T>, Ends)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends a value; returns it if the receiver is gone.
    pub(crate) fn send(&self, value: T) -> Result<(), T> {
        let mut state = self.0.lock();
        if state.1 == Ends::One {
            return Err(value);
        }
        state.0.push_back(value);
        drop(state);
        self.0.some.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Takes the next value, if there is one.
    pub(crate) fn try_recv(&self) -> Option<T> {
        self.0.lock().0.pop_front()
    }

    /// Waits for the next value, for `timeout` at most.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let mut state = self.0.lock();
        let began = Instant::now();
        loop {
            if let Some(value) = state.0.pop_front() {
                return Ok(value);
            }
            if state.1 == Ends::One {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            state = self.0.some.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().1 = Ends::One;
        self.0.some.notify_one();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Values that are left are dropped outside the lock, since they may be large.
        let left = {
            let mut state = self.0.lock();
            state.1 = Ends::One;
            std::mem::take(&mut state.0)
        };
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn values_come_out_in_order_and_what_was_sent_outlives_the_sender() {
        let (send, receive) = queue();
        assert_eq!(receive.try_recv(), None);
        (0..3).for_each(|number| send.send(number).unwrap());
        drop(send);
        assert_eq!(receive.try_recv(), Some(0));
        assert_eq!((receive.recv_timeout(LONG), receive.recv_timeout(LONG)), (Ok(1), Ok(2)));
        assert_eq!(receive.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn who_waits_is_woken_by_a_value_and_by_the_senders_end() {
        let (send, receive) = queue();
        let waiting = std::thread::spawn(move || (receive.recv_timeout(LONG), receive.recv_timeout(LONG)));
        send.send(7).unwrap();
        drop(send);
        assert_eq!(waiting.join().unwrap(), (Ok(7), Err(RecvTimeoutError::Disconnected)));
    }

    #[test]
    fn a_wait_ends_and_a_value_that_nobody_takes_comes_back() {
        let (send, receive) = queue::<u8>();
        assert_eq!(receive.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
        drop(receive);
        assert_eq!(send.send(7), Err(7));
    }
}
