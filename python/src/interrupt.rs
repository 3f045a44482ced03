//! Runs long work of the library so that Ctrl-C can interrupt it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use forebay::Error;
use pyo3::prelude::*;

use crate::errors::{IntoPython, internal};

/// The time between two checks for Ctrl-C during a wait. It is short enough that Ctrl-C takes effect within
/// 0.2 s, and long enough that the checks cost nothing noticeable.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Runs `work` on a separate thread, and waits without the interpreter's lock. Ctrl-C ends the wait; the
/// thread then finishes the work alone, and its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> forebay::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = channel();
    start(py, "forebay-open", move || send.send(work()))?;
    loop {
        let (waited, back) = py.detach(move || (receive.recv_timeout(SLICE), receive));
        match waited {
            Ok(result) => return result.or_raise(py),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(internal("opening ended without a result")),
        }
        receive = back;
    }
}

/// Starts a thread that is never joined.
fn start<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<()> {
    let started = std::thread::Builder::new().name(name.into()).spawn(work);
    started.map(drop).map_err(|error| Error::not_started("a thread", &error)).or_raise(py)
}

/// The progress of long work, and whether its result is still wanted.
#[derive(Debug, Default)]
pub(crate) struct Advance {
    done: AtomicU64,
    of: AtomicU64,
    is_unwanted: AtomicBool,
}

impl Advance {
    /// Records that `done` of `of` steps of the work are done. Returns `Break` if nobody waits for the result
    /// any longer.
    pub(crate) fn note(&self, done: u64, of: u64) -> ControlFlow<()> {
        self.done.store(done, Relaxed);
        self.of.store(of, Relaxed);
        if self.is_unwanted.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs `work` like [`interruptible`], and calls `report` with the progress when it changes. After Ctrl-C, or
/// if `report` raises an exception, the work itself ends early, and not only the wait for it.
pub(crate) fn reported<T: Send + 'static>(
    py: Python<'_>,
    report: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Advance) -> forebay::Result<T> + Send + 'static,
) -> PyResult<T> {
    let advance = Arc::new(Advance::default());
    let its = advance.clone();
    let (send, mut receive) = channel();
    start(py, "forebay-warm", move || send.send(work(&its)))?;
    let mut told = (0, 0);
    loop {
        let (waited, back) = py.detach(move || (receive.recv_timeout(SLICE), receive));
        receive = back;
        let now = (advance.done.load(Relaxed), advance.of.load(Relaxed));
        let mut goes_on = py.check_signals();
        if let Some(report) = report
            && goes_on.is_ok()
            && now != told
        {
            told = now;
            goes_on = report.call1(now).map(|_| ());
        }
        if let Err(raised) = goes_on {
            advance.is_unwanted.store(true, Relaxed);
            // The work ends when it notices `is_unwanted`. This thread waits for that, so that no thread is
            // left behind.
            py.detach(move || drop(receive.recv()));
            return Err(raised);
        }
        match waited {
            Ok(result) => return result.or_raise(py),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(internal("the work ended without a result")),
        }
    }
}
