//! `--pressure`: threads that keep processors busy beside the run, as other programs on a training machine
//! do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use crate::machine;
use crate::random::Random;

/// A thread generates this many random numbers, which takes about a millisecond, and then checks whether to
/// stop.
const NUMBERS_A_ROUND: u32 = 1 << 20;
const NANOS: f64 = 1e9;

/// Threads that compute without a pause, at the loader's own priority, until this value is dropped. They use
/// processors and hardly any memory.
pub(super) struct Pressure {
    stop: Arc<AtomicBool>,
    burners: Vec<Burner>,
}

struct Burner {
    thread: Option<JoinHandle<()>>,
    /// The processor time that the thread took so far, in nanoseconds.
    nanos: Arc<AtomicU64>,
}

impl Pressure {
    pub(super) fn start(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let burners = (0..threads as u64).map(|number| Burner::start(number, stop.clone())).collect();
        Pressure { stop, burners }
    }

    /// The processor time that all threads took so far, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.burners.iter().map(|burner| burner.nanos.load(Relaxed) as f64 / NANOS).sum()
    }
}

impl Burner {
    fn start(number: u64, stop: Arc<AtomicBool>) -> Self {
        let nanos = Arc::new(AtomicU64::new(0));
        let taken = nanos.clone();
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(0, number);
            while !stop.load(Relaxed) {
                for _ in 0..NUMBERS_A_ROUND {
                    std::hint::black_box(random.bits());
                }
                taken.store((machine::thread_seconds().unwrap_or(0.0) * NANOS) as u64, Relaxed);
            }
        });
        Burner { thread: Some(thread), nanos }
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for burner in &mut self.burners {
            // Burners do not panic, so joining one cannot fail.
            let _ = burner.thread.take().map(JoinHandle::join);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn burners_burn_until_they_are_dropped() {
        let pressure = Pressure::start(1);
        let began = Instant::now();
        while pressure.seconds() == 0.0 && began.elapsed() < Duration::from_secs(120) {
            std::thread::yield_now();
        }
        assert!(pressure.seconds() > 0.0);
        let nanos = pressure.burners[0].nanos.clone();
        drop(pressure);
        assert_eq!(Arc::strong_count(&nanos), 1, "the thread is gone");
    }

    #[test]
    fn no_pressure_costs_nothing() {
        assert_eq!(Pressure::start(0).seconds(), 0.0);
    }
}
