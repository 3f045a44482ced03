//! A simulated accelerator: it takes a batch, is busy for a fixed time, and asks for the next one.
//!
//! Utilisation is measured as MLPerf Storage does: as the share of the time that the accelerator is busy. A
//! step ends at an absolute deadline after its batch arrived. The system wakes sleepers tens of microseconds
//! late, so only long steps sleep to their end: shorter steps spin for their last millisecond, and the
//! shortest spin from beginning to end.
//!
//! Steps of real models vary: with a jitter, their times are drawn evenly around the mean. All ranks draw the
//! same time for a step, since an all-reduce makes the steps of all ranks end together.

use std::time::{Duration, Instant};

use crate::random::Random;

/// Steps of at least this length sleep to their end, since the lateness of a sleep is negligible in them.
const SLEEPS_FROM: Duration = Duration::from_millis(10);
/// Steps shorter than [`SLEEPS_FROM`] spin for this long at their end. Steps that are not longer than this
/// spin from beginning to end.
const SPIN_TIME: Duration = Duration::from_millis(1);
/// The most steps that are run to measure the harness's own cost.
const FLOOR_STEPS: u128 = 200;
/// The longest time that measuring the harness's own cost may take.
const FLOOR_TIME: Duration = Duration::from_millis(300);

/// A simulated device whose steps take `step` on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accelerator {
    step: Duration,
    jitter: f32,
    seed: u64,
}

impl Accelerator {
    pub(super) fn new(step: Duration) -> Self {
        Accelerator { step, jitter: 0.0, seed: 0 }
    }

    /// Draws the time of each step evenly between `1 - jitter` and `1 + jitter` times the mean.
    pub(super) fn jitter(self, jitter: f32, seed: u64) -> Self {
        Accelerator { jitter, seed, ..self }
    }

    /// The mean time of a step.
    pub(super) fn step(self) -> Duration {
        self.step
    }

    /// The time of step `number` of the run.
    pub(super) fn length(self, number: u64) -> Duration {
        if self.jitter == 0.0 {
            return self.step;
        }
        self.step.mul_f32(Random::new(self.seed, number).between(1.0 - self.jitter, 1.0 + self.jitter))
    }

    /// Simulates the step of a batch that arrived at `began`; returns when the step is over.
    pub(super) fn train(began: Instant, step: Duration) {
        let deadline = began + step;
        if step >= SLEEPS_FROM {
            sleep_until(deadline);
        } else if step > SPIN_TIME {
            sleep_until(deadline - SPIN_TIME);
        }
        while Instant::now() < deadline {
            std::hint::spin_loop();
        }
    }

    /// How much longer than its time a step takes when the next batch is always ready: the cost of the
    /// harness, not of the loader.
    pub(super) fn floor(self) -> Duration {
        if self.step.is_zero() {
            return Duration::ZERO;
        }
        // A sleep of 10 ms ends as late as a sleep of a second, and many short sleeps give a better
        // measurement than one long sleep.
        let step = self.step.min(SLEEPS_FROM);
        let fitting = FLOOR_TIME.as_nanos() / step.as_nanos();
        let mut costs: Vec<Duration> = (0..fitting.clamp(1, FLOOR_STEPS))
            .map(|_| {
                let began = Instant::now();
                Accelerator::train(std::hint::black_box(began), step);
                began.elapsed().saturating_sub(step)
            })
            .collect();
        costs.sort_unstable();
        // The median is used, because a busy machine delays single wake-ups, in this measurement as in a
        // training loop.
        costs[costs.len() / 2]
    }
}

#[allow(clippy::disallowed_methods, reason = "the simulated device is busy: there is nothing to wait for")]
fn sleep_until(deadline: Instant) {
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the best of several tries, the scheduler of a busy machine delays a step by no more than this.
    const MAX_DELAY: Duration = Duration::from_millis(30);
    const TRIES: usize = 10;

    #[test]
    fn a_step_ends_at_its_deadline_whatever_its_length() {
        for micros in [0, 50, 900, 1_000, 4_000, 10_000, 25_000] {
            let step = Duration::from_micros(micros);
            let took: Vec<Duration> = (0..TRIES)
                .map(|_| {
                    let began = Instant::now();
                    Accelerator::train(began, step);
                    began.elapsed()
                })
                .collect();
            assert!(took.iter().all(|took| *took >= step), "{micros} µs took {took:?}");
            assert!(took.iter().any(|took| *took < step + MAX_DELAY), "{micros} µs took {took:?}");
        }
    }

    #[test]
    fn time_spent_before_the_step_begins_is_not_waited_for_again() {
        let returns_at_once = |_| {
            let called = Instant::now();
            Accelerator::train(called - Duration::from_millis(60), Duration::from_millis(20));
            called.elapsed() < MAX_DELAY
        };
        assert!((0..TRIES).any(returns_at_once));
    }

    #[test]
    fn jitter_spreads_steps_evenly_around_their_mean_and_the_same_each_time() {
        let (step, jitter) = (Duration::from_millis(100), 0.2);
        let accelerator = Accelerator::new(step).jitter(jitter, 7);
        let drawn: Vec<f64> = (0..10_000).map(|i| accelerator.length(i).as_secs_f64()).collect();
        assert!(drawn.iter().all(|time| (0.0799..0.1201).contains(time)), "{drawn:?}");
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 0.1).abs() < 0.001, "{mean}");
        let quarter = drawn.iter().filter(|time| **time < 0.09).count();
        assert!((2_300..2_700).contains(&quarter), "{quarter} of 10,000 in the lowest quarter");
        assert_eq!(accelerator.length(3), Accelerator::new(step).jitter(jitter, 7).length(3));
        assert_ne!(accelerator.length(3), Accelerator::new(step).jitter(jitter, 8).length(3));
        assert_eq!(Accelerator::new(step).length(3), step);
    }

    #[test]
    fn the_floor_is_small() {
        assert_eq!(Accelerator::new(Duration::ZERO).floor(), Duration::ZERO);
        assert!(Accelerator::new(Duration::from_micros(500)).floor() < MAX_DELAY);
    }
}
