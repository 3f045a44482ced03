//! The wait for the next batch: without the interpreter, and with an ear for Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::loader::Receipt;
use forebay::{Epoch as Inner, Error, ErrorKind, Wait};
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::errors;
use crate::home::Home;
use crate::interrupt::SLICE;

/// One pass over a rank's share.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Epoch {
    /// Locked only while detached: whoever waits for the lock must not hold the interpreter.
    epoch: Home<Mutex<Option<Inner>>>,
    number: u64,
    closed: AtomicBool,
}

/// A batch, and the receipt to count it by.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Step {
    /// The rows.
    #[pyo3(get)]
    batch: Py<Batch>,
    after: Receipt,
}

impl Step {
    pub(crate) fn receipt(&self) -> &Receipt {
        &self.after
    }
}

impl Epoch {
    pub(crate) fn new(epoch: Inner) -> Self {
        let number = epoch.number();
        Epoch { epoch: Home::new(Mutex::new(Some(epoch))), number, closed: AtomicBool::new(false) }
    }
}

#[pymethods]
impl Epoch {
    /// Which epoch this is.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The next step, which does not count as handed over yet; `None` after the last.
    fn pull(&self, py: Python<'_>) -> PyResult<Option<Step>> {
        let epoch = self.epoch.get(py)?;
        loop {
            if self.closed.load(Relaxed) {
                py.detach(|| lock(epoch).take());
                return Err(errors::raise(py, &Error::new(ErrorKind::Closed, "the epoch was closed")));
            }
            let wait = py.detach(|| match lock(epoch).as_mut() {
                Some(epoch) => epoch.next_step(SLICE),
                None => Wait::Finished,
            });
            match wait {
                Wait::Pending => py.check_signals()?,
                Wait::Step(Ok(step)) => {
                    let batch = Py::new(py, Batch::new(py, step.batch))?;
                    return Ok(Some(Step { batch, after: step.after }));
                }
                Wait::Step(Err(error)) => {
                    py.detach(|| lock(epoch).take());
                    return Err(errors::raise(py, &error));
                }
                Wait::Finished => {
                    py.detach(|| lock(epoch).take());
                    return Ok(None);
                }
            }
        }
    }

    /// Ends the epoch. A wait that is going on in another thread ends too, at its next look around.
    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Relaxed);
        if let Ok(epoch) = self.epoch.get(py) {
            py.detach(|| match epoch.try_lock() {
                Ok(mut epoch) => drop(epoch.take()),
                Err(_) => { /* whoever waits has the lock, and drops the epoch */ }
            });
        }
    }
}

/// A thread that panicked left at worst an epoch that ended.
fn lock(epoch: &Mutex<Option<Inner>>) -> MutexGuard<'_, Option<Inner>> {
    epoch.lock().unwrap_or_else(PoisonError::into_inner)
}
