//! Runs ranks against the simulated accelerator, and takes the time of everything.

use std::ops::Range;
use std::time::{Duration, Instant};

use forebay::loader::Waits;
use forebay::{Loader, Result};

use super::accelerator::Accelerator;
use super::meeting::Meeting;
use super::tally::Lap;

/// What is run.
pub(super) struct Course {
    pub(super) accelerator: Accelerator,
    pub(super) epochs: Range<u64>,
    /// Stop after so many steps,
    pub(super) steps: Option<u64>,
    /// or when so much time has passed.
    pub(super) at_most: Option<Duration>,
}

/// What one rank did.
#[derive(Default)]
pub(super) struct Run {
    /// Its steps, in seconds since the run's origin.
    pub(super) laps: Vec<Lap>,
    /// What it had waited for when its first batch was in hand: a start, which says little about the rest.
    pub(super) first_wait: Waits,
}

/// Runs all ranks, each on a thread of its own, with times since `origin`. `on_step` hears of the steps of
/// rank 0.
pub(super) fn drive(
    loaders: &[Loader],
    course: &Course,
    origin: Instant,
    mut on_step: impl FnMut() + Send,
) -> Result<Vec<Run>> {
    let meeting = Meeting::new(loaders.len());
    let Some((first, others)) = loaders.split_first() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|loader| scope.spawn(|| rank(loader, course, origin, &meeting, || ())))
            .collect();
        let mut ranks = vec![rank(first, course, origin, &meeting, &mut on_step)];
        for other in others {
            ranks.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        ranks.into_iter().collect()
    })
}

/// One rank; whatever ends it ends the others too.
fn rank(
    loader: &Loader,
    course: &Course,
    origin: Instant,
    meeting: &Meeting,
    on_step: impl FnMut(),
) -> Result<Run> {
    /// Also when a panic ends it.
    struct Leave<'a>(&'a Meeting);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let _leave = Leave(meeting);
    steps(loader, course, origin, meeting, on_step)
}

fn steps(
    loader: &Loader,
    course: &Course,
    origin: Instant,
    meeting: &Meeting,
    mut on_step: impl FnMut(),
) -> Result<Run> {
    let mut run = Run::default();
    let since = |instant: Instant| instant.duration_since(origin).as_secs_f64();
    let started = Instant::now();
    for number in course.epochs.clone() {
        // Beginning an epoch is part of the wait for its first batch.
        let mut asked = Instant::now();
        let epoch = loader.epoch(number);
        let mut first = true;
        for batch in epoch {
            let batch = std::hint::black_box(batch?);
            let got = Instant::now();
            if run.laps.is_empty() {
                run.first_wait = loader.stats().waits;
            }
            if !meeting.meet() {
                return Ok(run);
            }
            let began = Instant::now();
            course.accelerator.train(began);
            let (rows, ended) = (batch.num_rows() as u64, Instant::now());
            drop(batch);
            run.laps.push(Lap {
                asked: since(asked),
                got: since(got),
                began: since(began),
                ended: since(ended),
                rows,
                first,
            });
            on_step();
            let full = course.steps.is_some_and(|most| run.laps.len() as u64 >= most);
            let late = course.at_most.is_some_and(|most| started.elapsed() >= most);
            if full || late {
                return Ok(run);
            }
            first = false;
            asked = Instant::now();
        }
    }
    Ok(run)
}
