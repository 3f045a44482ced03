//! Who works, who waits, and for whom: what a loader notes about itself while it runs.
//!
//! ```text
//! fetching  ─ Stay ─┐
//! the pool  ─ Task ─┼─► Ledger ─► loader::stats     always on: one short lock for each change
//! assembly  ─ Watch ┤
//! consumer  ─ Watch ┘    Trace ─► a file            where it was asked for
//! ```
//!
//! It decides nothing: no other room behaves differently for what is written here.

mod histogram;
mod ledger;
mod stage;
mod stay;
mod trace;
mod watch;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) use ledger::{Idle, Ledger, Phase, STAGES};
pub use stage::Stage;
pub(crate) use stay::Stay;
pub(crate) use trace::Trace;
pub(crate) use watch::Watch;

use trace::{Places, Span, Track};

/// The books of one loader.
#[derive(Debug)]
pub(crate) struct Monitor {
    origin: Instant,
    process: u32,
    ledger: Mutex<Ledger>,
    trace: Option<Tracing>,
    epochs: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) padded: AtomicU64,
}

/// A timeline in the making.
#[derive(Debug)]
struct Tracing {
    trace: Trace,
    fetches: Mutex<Places>,
    assemblies: Mutex<Places>,
}

impl Monitor {
    /// Opens the books of a loader with so many threads in its pool.
    pub(crate) fn new(threads: usize, trace: Option<Trace>) -> Arc<Self> {
        Arc::new(Monitor {
            origin: Instant::now(),
            process: std::process::id(),
            ledger: Mutex::new(Ledger::new(threads as u32)),
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

    /// The books, settled until now.
    pub(crate) fn books(&self) -> MutexGuard<'_, Ledger> {
        self.enter(|ledger, now| ledger.settle(now));
        self.lock()
    }

    /// Writes the trace, where there is one.
    pub(crate) fn flush(&self) {
        if let Some(tracing) = &self.trace {
            tracing.trace.flush();
        }
    }

    /// Why a trace was not written, once.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.trace.as_ref()?.trace.take_failure()
    }

    /// Notes that a thread of the pool works for `stage`, until what this returns is [done](Task::done) or dropped.
    pub(crate) fn task(&self, stage: Stage, about: Option<(&'static str, u64)>) -> Task<'_> {
        let since = self.enter(|ledger, now| {
            ledger.settle(now);
            ledger.begins(stage);
            now
        });
        Task { monitor: self, stage, about, since, items: 0, bytes: 0 }
    }

    /// Counts what a stage put out.
    pub(crate) fn count(&self, stage: Stage, items: u64, bytes: u64) {
        let mut ledger = self.lock();
        let work = &mut ledger.work[stage as usize];
        work.items += items;
        work.bytes += bytes;
    }

    /// Whether this is a forked child, where somebody who is not here may hold the lock.
    fn is_foreign(&self) -> bool {
        self.process != std::process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an entry at the time that it is then: entries are made one after the other.
    fn enter<T>(&self, entry: impl FnOnce(&mut Ledger, u64) -> T) -> T {
        let mut ledger = self.lock();
        let now = self.origin.elapsed().as_nanos() as u64;
        entry(&mut ledger, now)
    }

    fn span(&self, name: &'static str, track: Track, (start, end): (u64, u64), about: About) {
        if let Some(tracing) = &self.trace {
            tracing.trace.add(Span { name, track, start, end, about });
        }
    }
}

/// What a span was about.
type About = Option<(&'static str, u64)>;

/// Work of a thread of the pool.
pub(crate) struct Task<'a> {
    monitor: &'a Monitor,
    stage: Stage,
    about: About,
    since: u64,
    items: u64,
    bytes: u64,
}

impl Task<'_> {
    /// It put out so much.
    pub(crate) fn done(mut self, items: u64, bytes: u64) {
        (self.items, self.bytes) = (items, bytes);
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let now = self.monitor.enter(|ledger, now| {
            ledger.settle(now);
            ledger.ends(self.stage);
            let work = &mut ledger.work[self.stage as usize];
            work.items += self.items;
            work.bytes += self.bytes;
            now
        });
        if let (Some(_), Some(thread)) = (&self.monitor.trace, rayon::current_thread_index()) {
            let track = Track::Pool(thread as u32);
            self.monitor.span(self.stage.name(), track, (self.since, now), self.about);
        }
    }
}
