//! Records which stages work, which wait and for what, while a loader runs.
//!
//! ```text
//! fetching  ─ RowGroupWatch ─┐
//! the pool  ─ Task ──────────┼─► Timings ─► loader::stats     always on: one short lock for each change
//! assembly  ─ Watch ─────────┤
//! consumer  ─ Watch ─────────┘   Trace ───► a file            if requested
//! ```
//!
//! The monitor decides nothing: no other module behaves differently because of these records.

mod histogram;
mod row_group;
mod stage;
mod timings;
mod trace;
mod watch;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) use row_group::RowGroupWatch;
pub use stage::Stage;
pub(crate) use timings::{Idle, Phase, STAGES, TimeStretch, Timeline, Timings};
pub(crate) use trace::Trace;
pub(crate) use watch::Watch;

use trace::{Span, TraceTracks, Track};

/// The record of one loader's activity: its timings, and a trace if one was requested.
#[derive(Debug)]
pub(crate) struct Monitor {
    origin: Instant,
    process: u32,
    timings: Mutex<Timings>,
    trace: Option<Tracing>,
    epochs: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) padded: AtomicU64,
}

/// The trace that is being recorded, with the track numbers that are in use.
#[derive(Debug)]
struct Tracing {
    trace: Trace,
    fetches: Mutex<TraceTracks>,
    assemblies: Mutex<TraceTracks>,
}

impl Monitor {
    /// The monitor of a loader with `threads` threads in its pool.
    pub(crate) fn new(threads: usize, trace: Option<Trace>) -> Arc<Self> {
        Arc::new(Monitor {
            origin: Instant::now(),
            process: std::process::id(),
            timings: Mutex::new(Timings::new(threads as u32)),
            trace: trace.map(|trace| Tracing {
                trace,
                fetches: Mutex::default(),
                assemblies: Mutex::default(),
            }),
            epochs: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            padded: AtomicU64::new(0),
        })
    }

    /// Locks the timings and returns them, brought up to the present time.
    pub(crate) fn timings(&self) -> MutexGuard<'_, Timings> {
        self.enter(|timings, now| timings.settle(now));
        self.lock()
    }

    /// Writes the trace to its file, if there is a trace.
    pub(crate) fn flush(&self) {
        if let Some(tracing) = &self.trace {
            tracing.trace.flush();
        }
    }

    /// Takes the reason why the trace could not be written; `None` if it was taken before.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.trace.as_ref()?.trace.take_failure()
    }

    /// Records that a thread of the pool works for `stage`, until the returned task is [done](Task::done) or
    /// dropped.
    pub(crate) fn task(&self, stage: Stage, about: Option<(&'static str, u64)>) -> Task<'_> {
        let since = self.enter(|timings, now| {
            timings.settle(now);
            timings.begins(stage);
            now
        });
        Task { monitor: self, stage, about, since, items: 0, bytes: 0 }
    }

    /// Adds to the numbers of items and bytes that a stage produced.
    pub(crate) fn count(&self, stage: Stage, items: u64, bytes: u64) {
        let mut timings = self.lock();
        let work = &mut timings.work[stage as usize];
        work.items += items;
        work.bytes += bytes;
    }

    /// Whether this process is a forked child. In a child, the lock may be held for ever, by a thread that
    /// only the parent has.
    fn is_foreign(&self) -> bool {
        self.process != std::process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Timings> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `entry` with the timings and the present time. The clock is read while the lock is held, so the
    /// times of successive calls never decrease.
    fn enter<T>(&self, entry: impl FnOnce(&mut Timings, u64) -> T) -> T {
        let mut timings = self.lock();
        let now = self.origin.elapsed().as_nanos() as u64;
        entry(&mut timings, now)
    }

    fn span(&self, name: &'static str, track: Track, start: u64, end: u64, about: About) {
        if let Some(tracing) = &self.trace {
            tracing.trace.add(Span { name, track, start, end, about });
        }
    }
}

/// The subject of a span, as a name and a number, such as ("row_group", 7).
type About = Option<(&'static str, u64)>;

/// A piece of work that a thread of the pool is doing.
pub(crate) struct Task<'a> {
    monitor: &'a Monitor,
    stage: Stage,
    about: About,
    since: u64,
    items: u64,
    bytes: u64,
}

impl Task<'_> {
    /// Ends the task and counts what it produced.
    pub(crate) fn done(mut self, items: u64, bytes: u64) {
        (self.items, self.bytes) = (items, bytes);
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let now = self.monitor.enter(|timings, now| {
            timings.settle(now);
            timings.ends(self.stage);
            let work = &mut timings.work[self.stage as usize];
            work.items += self.items;
            work.bytes += self.bytes;
            now
        });
        if let (Some(_), Some(thread)) = (&self.monitor.trace, rayon::current_thread_index()) {
            let track = Track::Pool(thread as u32);
            self.monitor.span(self.stage.name(), track, self.since, now, self.about);
        }
    }
}
