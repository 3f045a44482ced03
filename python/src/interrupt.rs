//! Long work of the library that Ctrl-C can interrupt.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::{IntoPython, internal};

/// The time between two checks for Ctrl-C during a wait: a quarter of the promised 0.2 s, and long enough to cost
/// nothing.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own, without the interpreter. Ctrl-C ends the wait; the work then ends by itself, and
/// its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> forebay::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = channel();
    std::thread::Builder::new().name("forebay-open".into()).spawn(move || send.send(work()))?;
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
