//! The wait for the next batch: without the interpreter, and interrupted by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::internals::loader::{Consumer, Receipt, Stage};
use forebay::{BadRow, Epoch as Inner, Error, ErrorKind, Wait};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::batch::{self, Batch};
use crate::errors;
use crate::home::Home;
use crate::interrupt::SLICE;

/// One pass over a rank's share.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Epoch {
    /// Locked only while detached: a thread that waits for the lock must not hold the interpreter.
    epoch: Home<Mutex<Option<Inner>>>,
    /// The consumer of the batches; `None` where the epoch did not begin.
    consumer: Home<Option<Consumer>>,
    /// The places of the columns; all batches have the same.
    places: PyOnceLock<Py<PyDict>>,
    number: u64,
    closed: AtomicBool,
    /// Rows that were left out so far.
    skipped: Py<Skipped>,
}

/// The rows that an epoch left out so far. It stays when the epoch is gone.
#[pyclass(frozen, module = "forebay._forebay")]
#[derive(Default)]
pub(crate) struct Skipped {
    rows: Mutex<Vec<BadRow>>,
}

/// File, row group, row and column, as far as they are known, and the cause.
type SkippedRow = (Option<String>, Option<usize>, Option<u64>, Option<String>, String);

#[pymethods]
impl Skipped {
    /// All rows so far, in the order of the epoch.
    fn rows(&self) -> Vec<SkippedRow> {
        let rows = self.lock();
        let row = |BadRow { error, .. }: &BadRow| {
            let place = error.place();
            let text = |part: &Option<Arc<str>>| part.as_deref().map(str::to_owned);
            (text(&place.file), place.row_group, place.row, text(&place.column), error.cause().to_owned())
        };
        rows.iter().map(row).collect()
    }
}

impl Skipped {
    fn lock(&self) -> MutexGuard<'_, Vec<BadRow>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what `epoch` has more of.
    fn follow(&self, epoch: &Inner) {
        let (mut rows, all) = (self.lock(), epoch.skipped());
        let known = rows.len();
        rows.extend_from_slice(&all[known..]);
    }
}

/// A batch, and the receipt to count it by.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Step {
    /// The rows.
    #[pyo3(get)]
    batch: Py<Batch>,
    after: Receipt,
    consumer: Option<Consumer>,
}

impl Step {
    pub(crate) fn receipt(&self) -> &Receipt {
        &self.after
    }

    /// Notes that the user has the batch.
    pub(crate) fn arrived(&self) {
        self.consumer.iter().for_each(Consumer::has);
    }
}

impl Epoch {
    /// `apart` says that batches are pulled on another thread than the user's.
    pub(crate) fn new(py: Python<'_>, mut epoch: Inner, apart: bool) -> PyResult<Self> {
        let (number, consumer) = (epoch.number(), epoch.consumer(apart));
        Ok(Epoch {
            epoch: Home::new(Mutex::new(Some(epoch))),
            consumer: Home::new(consumer),
            places: PyOnceLock::new(),
            number,
            closed: AtomicBool::new(false),
            skipped: Py::new(py, Skipped::default())?,
        })
    }
}

#[pymethods]
impl Epoch {
    /// Which epoch this is.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The rows that were left out so far.
    #[getter]
    fn skipped(&self, py: Python<'_>) -> Py<Skipped> {
        self.skipped.clone_ref(py)
    }

    /// The next step, which does not count as handed over yet; `None` after the last. `asks` says that it is the user
    /// who asks.
    #[pyo3(signature = (asks=false))]
    fn pull(&self, py: Python<'_>, asks: bool) -> PyResult<Option<Step>> {
        let epoch = self.epoch.get(py)?;
        let consumer = self.consumer.get(py)?;
        if asks {
            consumer.iter().for_each(Consumer::asks);
        }
        loop {
            if self.closed.load(Relaxed) {
                py.detach(|| lock(epoch).take());
                return Err(errors::raise(py, &closed()));
            }
            let skipped = self.skipped.get();
            let wait = py.detach(|| match lock(epoch).as_mut() {
                Some(epoch) => {
                    let wait = epoch.next_step(SLICE);
                    skipped.follow(epoch);
                    wait
                }
                // Another thread may have closed it since it was looked at.
                None if self.closed.load(Relaxed) => Wait::Step(Err(closed())),
                None => Wait::Finished,
            });
            match wait {
                Wait::Pending => py.check_signals()?,
                Wait::Step(Ok(step)) => {
                    let places = || batch::places(py, step.batch.schema_ref());
                    let places = self.places.get_or_try_init(py, places)?.clone_ref(py);
                    let batch = Py::new(py, Batch::new(step.batch, places, consumer.clone()))?;
                    return Ok(Some(Step { batch, after: step.after, consumer: consumer.clone() }));
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

    /// The user asks for a batch.
    fn asks(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::asks);
        Ok(())
    }

    /// The user gets none.
    fn gets_nothing(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::gets_nothing);
        Ok(())
    }

    /// A batch that was pulled is in the user's function now.
    fn transforms(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.works(Stage::Transform));
        Ok(())
    }

    /// The function made so many bytes of it.
    fn transformed(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.count(Stage::Transform, 1, bytes));
        Ok(())
    }

    /// What was made waits until the user takes what was made before.
    fn is_full(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::is_full);
        Ok(())
    }

    /// The user's own thread begins to convert a batch, or to copy it to a device.
    fn converts(&self, py: Python<'_>, to_device: bool) -> PyResult<()> {
        let stage = if to_device { Stage::Device } else { Stage::HandOver };
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.works_near(Some(stage)));
        Ok(())
    }

    /// That is done; `copied` says how many bytes went to the device, where that began with them.
    #[pyo3(signature = (copied=None))]
    fn converted(&self, py: Python<'_>, copied: Option<u64>) -> PyResult<()> {
        if let Some(consumer) = self.consumer.get(py)? {
            consumer.works_near(None);
            copied.into_iter().for_each(|bytes| consumer.count(Stage::Device, 1, bytes));
        }
        Ok(())
    }

    /// Ends the epoch. A wait that is going on in another thread ends too, at its next check.
    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Relaxed);
        if let Ok(epoch) = self.epoch.get(py) {
            py.detach(|| match epoch.try_lock() {
                Ok(mut epoch) => drop(epoch.take()),
                Err(_) => { /* the thread that waits has the lock, and drops the epoch */ }
            });
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the epoch was closed")
        .hint("a loader has one epoch at a time, and beginning another closes it")
}

/// A thread that panicked left at worst an epoch that ended.
fn lock(epoch: &Mutex<Option<Inner>>) -> MutexGuard<'_, Option<Inner>> {
    epoch.lock().unwrap_or_else(PoisonError::into_inner)
}
