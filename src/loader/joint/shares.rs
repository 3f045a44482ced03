//! Collects the shares of steps, which several threads list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The rows of one source in a step.
pub(super) trait Share {
    /// The number of the source in the mix.
    fn source(&self) -> usize;

    /// Whether the pass that listed the share was ended since.
    fn is_cancelled(&self) -> bool;
}

/// The steps that wait for shares.
pub(super) struct WaitingSteps<S> {
    /// Each step by its number in the run. The batches that wait for it own it.
    steps: Mutex<HashMap<u64, Weak<StepShares<S>>>>,
}

/// The shares of a step that are listed; `None` once they were taken.
pub(super) struct StepShares<S>(Mutex<Option<Vec<S>>>);

impl<S> Default for WaitingSteps<S> {
    fn default() -> Self {
        WaitingSteps { steps: Mutex::default() }
    }
}

impl<S: Share> WaitingSteps<S> {
    /// Adds a share to the step with this number. Returns the step, and how many of its shares are listed.
    pub(super) fn add(&self, number: u64, share: S) -> (Arc<StepShares<S>>, usize) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|_, step| step.strong_count() > 0);
        let share = match steps.get(&number).and_then(Weak::upgrade) {
            Some(step) => match step.add(share) {
                Ok(listed) => return (step, listed),
                Err(share) => share,
            },
            None => share,
        };
        let step = Arc::new(StepShares(Mutex::new(Some(vec![share]))));
        steps.insert(number, Arc::downgrade(&step));
        (step, 1)
    }
}

impl<S: Share> StepShares<S> {
    fn listed(&self) -> MutexGuard<'_, Option<Vec<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a share, and returns how many are listed. Returns the share itself if the step does not wait for
    /// it, because its shares were taken, or because one of them is of a pass that was ended since.
    fn add(&self, share: S) -> Result<usize, S> {
        match self.listed().as_mut() {
            Some(listed)
                if listed.iter().all(|other| other.source() != share.source() && !other.is_cancelled()) =>
            {
                listed.push(share);
                Ok(listed.len())
            }
            _ => Err(share),
        }
    }

    /// Takes the shares that are listed, in the order of their sources; `None` if they were taken before.
    pub(super) fn take(&self) -> Option<Vec<S>> {
        let mut listed = self.listed().take()?;
        listed.sort_by_key(Share::source);
        Some(listed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const SOURCES: usize = 3;
    const STEPS: u64 = 3;

    #[derive(Clone, Debug)]
    struct TestShare {
        source: usize,
        is_cancelled: Arc<AtomicBool>,
    }

    impl Share for TestShare {
        fn source(&self) -> usize {
            self.source
        }

        fn is_cancelled(&self) -> bool {
            self.is_cancelled.load(Ordering::Relaxed)
        }
    }

    fn listed(source: usize) -> TestShare {
        TestShare { source, is_cancelled: Arc::default() }
    }

    /// Lists the shares of all sources, each on a thread of its own. Returns the sources of the shares that
    /// were taken together. A consumer that waits also takes the shares of steps that are not complete.
    fn taken(has_consumer: bool) -> Vec<(u64, Vec<usize>)> {
        let waiting = WaitingSteps::default();
        let taken = Mutex::new(Vec::new());
        let take = |number: u64, step: &StepShares<TestShare>| {
            let shares = step.take().map(|shares| shares.iter().map(Share::source).collect::<Vec<_>>());
            taken.lock().unwrap().extend(shares.map(|shares| (number, shares)));
        };
        // The pending batches that own the steps.
        let pending = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for source in 0..SOURCES {
                let (waiting, take, pending) = (&waiting, &take, &pending);
                scope.spawn(move || {
                    for number in 0..STEPS {
                        let (step, count) = waiting.add(number, listed(source));
                        if count == SOURCES {
                            take(number, &step);
                        }
                        pending.lock().unwrap().push((number, step));
                    }
                });
            }
            if has_consumer {
                scope.spawn(|| {
                    for _ in 0..STEPS {
                        let next = pending.lock().unwrap().last().cloned();
                        next.iter().for_each(|(number, step)| take(*number, step));
                        thread::yield_now();
                    }
                });
            }
        });
        for (number, step) in pending.into_inner().unwrap() {
            take(number, &step);
        }
        let mut taken = taken.into_inner().unwrap();
        taken.sort();
        taken
    }

    #[test]
    fn each_step_is_complete_once() {
        let all: Vec<usize> = (0..SOURCES).collect();
        assert_eq!(taken(false), (0..STEPS).map(|number| (number, all.clone())).collect::<Vec<_>>());
    }

    #[test]
    fn no_share_is_lost_or_taken_twice() {
        let mut shares: Vec<(u64, usize)> = Vec::new();
        for (number, sources) in taken(true) {
            shares.extend(sources.iter().map(|source| (number, *source)));
        }
        shares.sort_unstable();
        let all = (0..STEPS).flat_map(|number| (0..SOURCES).map(move |source| (number, source)));
        assert_eq!(shares, all.collect::<Vec<_>>());
    }

    #[test]
    fn shares_of_an_ended_pass_wait_for_no_others() {
        let waiting = WaitingSteps::default();
        let ended = listed(0);
        let (old, _) = waiting.add(7, ended.clone());
        ended.is_cancelled.store(true, Ordering::Relaxed);
        let (new, count) = waiting.add(7, listed(1));
        assert_eq!(count, 1, "the share of the ended pass is in a step of its own");
        assert_eq!(waiting.add(7, listed(0)).1, 2);
        assert_eq!(waiting.add(7, listed(1)).1, 1, "the source begins its pass again");
        assert_eq!(old.take().unwrap().len(), 1);
        assert_eq!(new.take().unwrap().iter().map(Share::source).collect::<Vec<_>>(), [0, 1]);
        assert!(new.take().is_none());
    }
}
