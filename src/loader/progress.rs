//! Which epoch is next, and what of it was handed over.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The receipt of a batch: given to [`Loader::handed_over`](super::Loader::handed_over), it says that the batch, and all
/// before it in its epoch, reached the training loop. See [`Wait`](super::Wait) for an example.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub(super) generation: u64,
    pub(super) epoch: u64,
    pub(super) row: u64,
    pub(super) last: bool,
}

/// Shared by a loader and its epochs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    epoch: u64,
    row: u64,
    /// Whether an iterator over `epoch` was given out: the next one is then of the epoch after.
    begun: bool,
    /// Counts iterators, so that receipts of an abandoned one are not taken for those of its successor.
    generation: u64,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins `epoch`, or the one that is next: the epoch, its first row and the iterator's generation. An epoch that
    /// was restored in the middle is continued.
    pub(super) fn begin(&self, epoch: Option<u64>) -> (u64, u64, u64) {
        let mut state = self.lock();
        let next = epoch.unwrap_or(state.epoch + u64::from(state.begun));
        if state.begun || next != state.epoch {
            state.row = 0;
        }
        state.epoch = next;
        state.begun = true;
        state.generation += 1;
        (state.epoch, state.row, state.generation)
    }

    pub(super) fn handed_over(&self, receipt: &Receipt) {
        let mut state = self.lock();
        let stale =
            receipt.generation != state.generation || (receipt.epoch, receipt.row) < (state.epoch, state.row);
        if stale {
            return;
        }
        if receipt.last {
            (state.epoch, state.row, state.begun) = (receipt.epoch + 1, 0, false);
        } else {
            (state.epoch, state.row) = (receipt.epoch, receipt.row);
        }
    }

    /// The epoch, and the row of it that comes next.
    pub(super) fn get(&self) -> (u64, u64) {
        let state = self.lock();
        (state.epoch, state.row)
    }

    pub(super) fn set(&self, epoch: u64, row: u64) {
        let mut state = self.lock();
        let generation = state.generation + 1;
        *state = State { epoch, row, begun: false, generation };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_follow_each_other_and_a_restored_one_is_continued() {
        let progress = Progress::default();
        let (epoch, row, generation) = progress.begin(None);
        assert_eq!((epoch, row), (0, 0));
        progress.handed_over(&Receipt { generation, epoch: 0, row: 64, last: false });
        assert_eq!(progress.get(), (0, 64));
        // Left early: the next one starts afresh.
        assert_eq!(progress.begin(None).0, 1);
        progress.set(7, 640);
        assert_eq!(progress.get(), (7, 640));
        let (epoch, row, generation) = progress.begin(Some(7));
        assert_eq!((epoch, row), (7, 640));
        progress.handed_over(&Receipt { generation, epoch: 7, row: 1_000, last: true });
        assert_eq!(progress.get(), (8, 0));
        assert_eq!(progress.begin(None).0, 8);
    }

    #[test]
    fn a_receipt_of_an_abandoned_epoch_counts_for_nothing() {
        let progress = Progress::default();
        let (_, _, old) = progress.begin(None);
        progress.begin(None);
        progress.handed_over(&Receipt { generation: old, epoch: 0, row: 64, last: false });
        assert_eq!(progress.get(), (1, 0));
    }
}
