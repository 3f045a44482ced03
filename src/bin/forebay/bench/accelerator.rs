//! A simulated accelerator: it takes a batch, is busy for a fixed time, and asks for the next.
//!
//! As MLPerf Storage counts: what matters is how much of the time it is busy. A step ends at an absolute deadline after
//! the batch is in hand. Long steps sleep; the system wakes sleepers tens of microseconds late, so the last
//! millisecond of shorter ones is spun, and the shortest are spun from end to end.

use std::time::{Duration, Instant};

/// From this length on, the lateness of a sleep is lost in the step.
const SLEEPS_FROM: Duration = Duration::from_millis(10);
/// The last part of shorter steps, which is spun. Steps that are not longer are spun whole.
const SPUN: Duration = Duration::from_millis(1);
/// Steps that the harness's own cost is measured over.
const FLOOR_STEPS: u32 = 200;
/// Measuring it takes no longer than this.
const FLOOR_TIME: Duration = Duration::from_millis(300);

/// A device whose every step takes `step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accelerator {
    step: Duration,
}

impl Accelerator {
    pub(super) fn new(step: Duration) -> Self {
        Accelerator { step }
    }

    pub(super) fn step(self) -> Duration {
        self.step
    }

    /// Trains on a batch that came in hand at `began`; returns when the step is over.
    pub(super) fn train(self, began: Instant) {
        let deadline = began + self.step;
        if self.step >= SLEEPS_FROM {
            sleep_until(deadline);
        } else if self.step > SPUN {
            sleep_until(deadline - SPUN);
        }
        while Instant::now() < deadline {
            std::hint::spin_loop();
        }
    }

    /// What a step takes beyond its time when the next batch is always there: the harness, not the loader.
    pub(super) fn floor(self) -> Duration {
        if self.step.is_zero() {
            return Duration::ZERO;
        }
        let fitting = FLOOR_TIME.as_nanos() / self.step.as_nanos();
        let steps = (fitting as u32).clamp(1, FLOOR_STEPS);
        let started = Instant::now();
        for _ in 0..steps {
            self.train(std::hint::black_box(Instant::now()));
        }
        (started.elapsed() / steps).saturating_sub(self.step)
    }
}

#[allow(clippy::disallowed_methods, reason = "the simulated device is busy: there is nothing to wait for")]
fn sleep_until(deadline: Instant) {
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Late by no more than a busy machine's scheduler makes it.
    const LATE: Duration = Duration::from_millis(30);

    #[test]
    fn a_step_ends_at_its_deadline_whatever_its_length() {
        for micros in [0, 50, 900, 1_000, 4_000, 10_000, 25_000] {
            let accelerator = Accelerator::new(Duration::from_micros(micros));
            let began = Instant::now();
            accelerator.train(began);
            let took = began.elapsed();
            assert!(
                took >= accelerator.step() && took < accelerator.step() + LATE,
                "{micros} µs took {took:?}"
            );
        }
    }

    #[test]
    fn time_spent_before_the_step_begins_is_not_waited_for_again() {
        let accelerator = Accelerator::new(Duration::from_millis(20));
        let began = Instant::now() - Duration::from_millis(60);
        let called = Instant::now();
        accelerator.train(began);
        assert!(called.elapsed() < LATE);
    }

    #[test]
    fn the_floor_is_small() {
        assert_eq!(Accelerator::new(Duration::ZERO).floor(), Duration::ZERO);
        assert!(Accelerator::new(Duration::from_micros(500)).floor() < LATE);
    }
}
