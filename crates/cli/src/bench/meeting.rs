//! The barrier at which the ranks of a simulated run wait for each other after each step, as in an
//! all-reduce.
//!
//! It is not `std::sync::Barrier`, because the other ranks must not wait for ever when one rank fails.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A barrier of ranks that any rank can end for all.
pub(super) struct Meeting {
    ranks: usize,
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Default)]
struct MeetingState {
    round: u64,
    here: usize,
    over: bool,
}

impl Meeting {
    pub(super) fn new(ranks: usize) -> Self {
        Meeting { ranks, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all ranks have come. Returns false if one of them ended the run, before or meanwhile.
    pub(super) fn meet(&self) -> bool {
        let mut state = self.lock();
        state.here += 1;
        if state.here == self.ranks {
            state.here = 0;
            state.round += 1;
            self.changed.notify_all();
            return !state.over;
        }
        let round = state.round;
        while state.round == round && !state.over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.round != round || !state.over
    }

    /// Ends the run for all ranks.
    pub(super) fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, MeetingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn nobody_is_a_round_ahead() {
        const RANKS: u64 = 4;
        let (meeting, arrived) = (Meeting::new(RANKS as usize), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..RANKS {
                scope.spawn(|| {
                    for round in 1..=200 {
                        arrived.fetch_add(1, SeqCst);
                        assert!(meeting.meet());
                        assert!(arrived.load(SeqCst) >= round * RANKS);
                    }
                });
            }
        });
    }

    #[test]
    fn a_rank_that_gives_up_frees_the_others() {
        let meeting = Meeting::new(3);
        std::thread::scope(|scope| {
            let others = [scope.spawn(|| meeting.meet()), scope.spawn(|| meeting.meet())];
            meeting.end();
            for other in others {
                assert!(!other.join().unwrap());
            }
        });
        assert!(!meeting.meet());
    }
}
