//! Tracks how far the consumer of a loader got: the epoch, and the number of its rows that were handed over.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, Result};

use crate::shard::{LAST_EPOCH, batch_key, row_key};

/// The number for the next iterator over an epoch in this process. Each iterator has its own number, which
/// its receipts carry, so that receipts of another loader or of an abandoned epoch are recognized.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// The receipt of a batch. Given to [`Loader::handed_over`](super::Loader::handed_over), it says that the
/// batch, and all before it in its epoch, reached the training loop. See [`Wait`](super::Wait) for an
/// example.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub(super) generation: u64,
    pub(super) epoch: u64,
    pub(super) row: u64,
    /// For each source, the number of rows of its pass that were left out so far.
    pub(super) skipped: Arc<[u64]>,
    pub(super) last: bool,
    pub(super) numbers: Arc<[u64]>,
    /// The keys of the batch's rows, if it has rows of several sources or if rows may repeat. Otherwise the
    /// keys are computed from `numbers`.
    pub(super) keys: Option<Arc<[u64]>>,
}

impl Receipt {
    /// The number of the batch's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The ordinals of the batch's rows in the data set, in their order. Empty unless the loader was built to
    /// [number rows](super::LoaderBuilder::numbered).
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The keys for random operations on the batch's rows, for a loader with this seed.
    pub fn keys(&self, seed: u64) -> Arc<[u64]> {
        let key = |&number: &u64| row_key(seed, self.epoch, number);
        self.keys.clone().unwrap_or_else(|| self.numbers.iter().map(key).collect())
    }

    /// The key for random operations on the batch as a whole, for `rank` of a loader with this seed.
    pub fn batch_key(&self, seed: u64, rank: u32) -> u64 {
        batch_key(seed, self.epoch, self.row, rank)
    }

    /// The row of the epoch, counted over all ranks, at which the batch ends.
    pub fn end(&self) -> u64 {
        self.row
    }

    /// Whether the batch is the last one of its epoch.
    pub fn is_last(&self) -> bool {
        self.last
    }
}

/// The place that the consumer has reached: an epoch, and a row in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) epoch: u64,
    /// The next row of the epoch.
    pub(super) row: u64,
    /// For each source, the number of rows of its pass that were left out so far; empty if none were.
    pub(super) skipped: Arc<[u64]>,
}

impl At {
    /// The place before the first row of an epoch.
    pub(super) fn begin(epoch: u64) -> Self {
        At { epoch, ..At::default() }
    }

    /// The number of rows of a pass over a source that were left out so far.
    pub(super) fn skipped_of(&self, source: usize) -> u64 {
        self.skipped.get(source).copied().unwrap_or(0)
    }
}

/// The progress that a loader shares with its epochs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<ProgressState>,
}

#[derive(Clone, Debug, Default)]
struct ProgressState {
    at: At,
    /// Whether an iterator over the epoch of `at` was returned. If so, the next iterator is for the following
    /// epoch.
    begun: bool,
    /// The row at which the epoch of `at` ends, if it ends before the batch that was planned as its last.
    ends_at: Option<u64>,
    /// The number of the iterator whose receipts move `at`. The number also changes when a saved position is
    /// set, so that receipts of earlier iterators are ignored.
    generation: u64,
}

impl ProgressState {
    /// Moves to the beginning of the following epoch.
    fn end(&mut self) {
        (self.at, self.begun, self.ends_at) = (At::begin(self.at.epoch + 1), false, None);
    }
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins `epoch`, or the next epoch if none is given. Returns where it begins, and the number of the
    /// iterator. An epoch that was restored in the middle is continued.
    ///
    /// # Errors
    /// There is no epoch with this number.
    pub(super) fn begin(&self, epoch: Option<u64>) -> Result<(At, u64)> {
        let mut state = self.lock();
        let next = epoch.unwrap_or(state.at.epoch + u64::from(state.begun));
        if next > LAST_EPOCH {
            return Err(Error::invalid(format!("there is no epoch {next}"))
                .hint(format!("epochs are numbered from 0 to {LAST_EPOCH}")));
        }
        if state.begun || next != state.at.epoch {
            state.at = At::begin(next);
        }
        (state.begun, state.ends_at) = (true, None);
        state.generation = new_generation();
        Ok((state.at.clone(), state.generation))
    }

    /// The number of the iterator that was begun last.
    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Returns the epoch that begins next, and the row at which it begins.
    pub(super) fn upcoming(&self) -> (u64, u64) {
        let state = self.lock();
        match state.begun {
            true => (state.at.epoch.saturating_add(1), 0),
            false => (state.at.epoch, state.at.row),
        }
    }

    pub(super) fn handed_over(&self, receipt: &Receipt) {
        let mut state = self.lock();
        let stale = receipt.generation != state.generation
            || (receipt.epoch, receipt.row) < (state.at.epoch, state.at.row);
        if stale {
            return;
        }
        state.at = At { epoch: receipt.epoch, row: receipt.row, skipped: receipt.skipped.clone() };
        if receipt.last || state.ends_at == Some(receipt.row) {
            state.end();
        }
    }

    /// Ends the epoch of an iterator at the row that its last batch ended with. Weights that were set during
    /// the epoch left no further step.
    pub(super) fn ends_at(&self, generation: u64, row: u64) {
        let mut state = self.lock();
        if generation != state.generation || !state.begun {
            return;
        }
        state.ends_at = Some(row);
        if state.at.row == row {
            state.end();
        }
    }

    /// Whether the iterator with this number is the last that was returned, and no position was set after it.
    pub(super) fn is_last_begun(&self, generation: u64) -> bool {
        self.lock().generation == generation
    }

    pub(super) fn get(&self) -> At {
        self.lock().at.clone()
    }

    pub(super) fn set(&self, at: At) {
        *self.lock() = ProgressState { at, begun: false, ends_at: None, generation: new_generation() };
    }
}

fn new_generation() -> u64 {
    GENERATIONS.fetch_add(1, Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_follow_each_other_and_a_restored_one_is_continued() {
        let progress = Progress::default();
        let (at, generation) = progress.begin(None).unwrap();
        assert_eq!(at, At::begin(0));
        progress.handed_over(&Receipt {
            generation,
            epoch: 0,
            row: 64,
            last: false,
            skipped: [3].into(),
            numbers: Arc::default(),
            keys: None,
        });
        assert_eq!(progress.get(), At { epoch: 0, row: 64, skipped: [3].into() });
        // The epoch was left early, so the next one starts afresh.
        assert_eq!(progress.begin(None).unwrap().0, At::begin(1));
        let restored = At { epoch: 7, row: 640, skipped: [2].into() };
        progress.set(restored.clone());
        assert_eq!(progress.get(), restored);
        let (at, generation) = progress.begin(Some(7)).unwrap();
        assert_eq!(at, restored);
        progress.handed_over(&Receipt {
            generation,
            epoch: 7,
            row: 1_000,
            last: true,
            skipped: Arc::default(),
            numbers: Arc::default(),
            keys: None,
        });
        assert_eq!(progress.get(), At::begin(8));
        assert_eq!(progress.begin(None).unwrap().0, At::begin(8));
    }

    #[test]
    fn a_receipt_of_an_abandoned_epoch_counts_for_nothing() {
        let progress = Progress::default();
        let (_, old) = progress.begin(None).unwrap();
        progress.begin(None).unwrap();
        progress.handed_over(&Receipt {
            generation: old,
            epoch: 0,
            row: 64,
            last: false,
            skipped: Arc::default(),
            numbers: Arc::default(),
            keys: None,
        });
        assert_eq!(progress.get(), At::begin(1));
    }

    #[test]
    fn a_receipt_of_another_loader_counts_for_nothing() {
        let (here, there) = (Progress::default(), Progress::default());
        here.begin(None).unwrap();
        let (_, generation) = there.begin(None).unwrap();
        here.handed_over(&Receipt {
            generation,
            epoch: 0,
            row: 64,
            last: false,
            skipped: Arc::default(),
            numbers: Arc::default(),
            keys: None,
        });
        assert_eq!(here.get(), At::begin(0));
    }

    #[test]
    fn no_epoch_follows_the_last_one() {
        let progress = Progress::default();
        let (at, generation) = progress.begin(Some(LAST_EPOCH)).unwrap();
        progress.handed_over(&Receipt {
            generation,
            epoch: at.epoch,
            row: 64,
            last: true,
            skipped: Arc::default(),
            numbers: Arc::default(),
            keys: None,
        });
        assert_eq!(progress.get(), At::begin(u64::MAX));
        for next in [None, Some(u64::MAX)] {
            let error = progress.begin(next).unwrap_err().to_string();
            assert!(
                error.starts_with("there is no epoch 18446744073709551615 (epochs are numbered"),
                "{error}"
            );
        }
        assert_eq!(progress.begin(Some(0)).unwrap().0, At::begin(0));
    }
}
