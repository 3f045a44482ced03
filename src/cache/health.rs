//! Switches the cache off when the disk fails, and tries again later.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long a cache that failed is not used. After the disk recovers, the cache is used again within this
/// time.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const WARN_AT_MOST_EVERY: Duration = Duration::from_secs(60);

/// The reason why a cache does not read or write at present.
///
/// ```no_run
/// let cache = forebay::DiskCache::open("/nvme/forebay", 500_000_000_000)?;
/// if let Some(off) = cache.stats().writing_off {
///     println!("nothing is kept for {:.0} s: {}", off.seconds, off.why);
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Off {
    /// The operation that failed, and how.
    pub why: String,
    /// The time since the first failure, in seconds.
    pub seconds: f64,
}

/// Reading or writing of the cache; one of them can be switched off while the other works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Read,
    Write,
}

/// Says whether a caller may use the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    On,
    Off,
    /// The disk failed before, and this caller has to try whether it works again.
    Retry,
}

#[derive(Debug)]
pub(super) struct Health {
    retry_after: Duration,
    state: Mutex<HealthState>,
}

#[derive(Debug, Default)]
struct HealthState {
    halves: [Option<Failed>; 2],
    warned: Option<Instant>,
    warning: Option<String>,
}

#[derive(Debug)]
struct Failed {
    why: String,
    since: Instant,
    retry: Instant,
}

impl Health {
    pub(super) fn new() -> Health {
        Health::with_retry(RETRY_AFTER)
    }

    pub(super) fn with_retry(retry_after: Duration) -> Health {
        Health { retry_after, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mode(&self, half: Half) -> Mode {
        let now = Instant::now();
        match &mut self.state().halves[half as usize] {
            None => Mode::On,
            Some(failed) if now < failed.retry => Mode::Off,
            Some(failed) => {
                failed.retry = now + self.retry_after;
                Mode::Retry
            }
        }
    }

    /// Records that `half` of the cache in `folder` failed, which switches it off.
    pub(super) fn failed(&self, half: Half, folder: &Path, why: String) {
        let now = Instant::now();
        let mut state = self.state();
        if state.warned.is_none_or(|warned| now - warned >= WARN_AT_MOST_EVERY) {
            state.warned = Some(now);
            state.warning = Some(format!(
                "{}: the cache of rows is off: {why} (rows come from the data set meanwhile; it is tried again every \
                 {} s)",
                folder.display(),
                self.retry_after.as_secs()
            ));
        }
        let slot = &mut state.halves[half as usize];
        let since = slot.as_ref().map_or(now, |failed| failed.since);
        *slot = Some(Failed { why, since, retry: now + self.retry_after });
    }

    pub(super) fn works(&self, half: Half) {
        self.state().halves[half as usize] = None;
    }

    pub(super) fn off(&self, half: Half) -> Option<Off> {
        let state = self.state();
        let failed = state.halves[half as usize].as_ref()?;
        Some(Off { why: failed.why.clone(), seconds: failed.since.elapsed().as_secs_f64() })
    }

    /// The latest warning that was not yet taken; there is at most one a minute.
    pub(super) fn take_warning(&self) -> Option<String> {
        self.state().warning.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_warns_once_a_minute_and_one_caller_tries_again() {
        let health = Health::with_retry(Duration::ZERO);
        assert_eq!(health.mode(Half::Write), Mode::On);
        for _ in 0..3 {
            health.failed(Half::Write, Path::new("/nvme"), "no space".into());
        }
        assert!(health.take_warning().is_some_and(|warning| warning.starts_with("/nvme: ")));
        assert_eq!(health.take_warning(), None);
        assert_eq!(health.mode(Half::Write), Mode::Retry);
        assert_eq!(health.mode(Half::Read), Mode::On, "the other half still works");
        health.works(Half::Write);
        assert_eq!(health.mode(Half::Write), Mode::On);

        let patient = Health::new();
        patient.failed(Half::Read, Path::new("/nvme"), "x".into());
        assert_eq!(patient.mode(Half::Read), Mode::Off);
        assert_eq!(patient.off(Half::Read).map(|off| off.why), Some("x".into()));
    }
}
