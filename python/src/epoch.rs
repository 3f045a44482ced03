//! Epochs for Python. The wait for the next batch releases the interpreter's lock, and Ctrl-C interrupts it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use forebay::bindings::{self, Consumer, Rejections, ended};
use forebay::stats::Stage;
use forebay::{BadRow, Epoch as Inner, Error, Loader, Receipt, Wait};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::arrays::nulls::BatchOrigin;
use crate::batch::{self, Batch};
use crate::errors;
use crate::home::Home;
use crate::interrupt::SLICE;

/// An epoch that is under way: an iterator over the batches of this rank.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Epoch {
    /// The mutex is locked only while the thread is detached from the interpreter: a thread that waits for it
    /// must not hold the interpreter's lock.
    epoch: Home<Mutex<Option<Inner>>>,
    /// Records for the statistics when the user waits for a batch; `None` if the epoch could not begin.
    consumer: Home<Option<Consumer>>,
    /// The index of each column by its name, which is the same in all batches.
    places: PyOnceLock<Py<PyDict>>,
    number: u64,
    is_whole: bool,
    /// The origin of the batches: one loader or a mix. Errors about nulls propose remedies for that origin.
    of: BatchOrigin,
    /// The reason for which the epoch was ended early, if it was. Later reasons are ignored.
    ended: OnceLock<Reason>,
    /// The bad rows that were left out of the batches so far.
    skipped: Py<Skipped>,
    /// The rows that the user's functions rejected.
    rejections: Home<Rejections>,
}

/// The reason for which an epoch was ended before its last batch.
#[pyclass(frozen, eq, module = "forebay._forebay", from_py_object)]
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reason {
    /// The user closed the epoch.
    Left,
    /// The loader began another epoch.
    Superseded,
    /// The loader restored a saved state.
    Restored,
    /// The loader was closed.
    Closed,
}

impl From<Reason> for bindings::Reason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Left => bindings::Reason::Left,
            Reason::Superseded => bindings::Reason::Superseded,
            Reason::Restored => bindings::Reason::Restored,
            Reason::Closed => bindings::Reason::Closed,
        }
    }
}

/// The list of the bad rows that an epoch left out so far. The list outlives the epoch.
#[pyclass(frozen, module = "forebay._forebay")]
#[derive(Default)]
pub(crate) struct Skipped {
    /// The rows that the epoch itself left out, and then the rows that the user's functions rejected.
    rows: Mutex<(Vec<BadRow>, Vec<BadRow>)>,
}

/// A bad row: its file, row group, row and column (as far as they are known), the cause, and the row's id.
type SkippedRow = (Option<String>, Option<usize>, Option<u64>, Option<String>, String, i64);

#[pymethods]
impl Skipped {
    /// The bad rows so far, in the order of the epoch.
    fn rows(&self) -> Vec<SkippedRow> {
        let (found, rejected) = &*self.lock();
        let mut rows: Vec<&BadRow> = found.iter().chain(rejected).collect();
        // The sort is stable: within a batch, rows that the epoch itself left out come before rejected ones.
        rows.sort_by_key(|bad| bad.end);
        let row = |bad: &&BadRow| {
            let error = bad.error();
            let place = error.place();
            let text = |part: &Option<Arc<str>>| part.as_deref().map(str::to_owned);
            (
                text(&place.file),
                place.row_group,
                place.row,
                text(&place.column),
                error.cause().to_owned(),
                bad.id.get(),
            )
        };
        rows.iter().map(row).collect()
    }
}

impl Skipped {
    fn lock(&self) -> MutexGuard<'_, (Vec<BadRow>, Vec<BadRow>)> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rows that `epoch` has left out since the last call.
    fn follow(&self, epoch: &Inner) {
        let (mut rows, all) = (self.lock(), epoch.skipped());
        let known = rows.0.len();
        rows.0.extend_from_slice(&all[known..]);
    }
}

/// A batch, and the receipt with which the loader counts it as handed over to the training loop.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Step {
    /// The batch; `None` in a step that [`without_batch`](Step::without_batch) or [`settle`](Epoch::settle)
    /// returned.
    #[pyo3(get)]
    batch: Option<Py<Batch>>,
    after: Receipt,
    consumer: Option<Consumer>,
    /// The number of rows in the batch.
    rows: u64,
}

#[pymethods]
impl Step {
    /// Returns the step without its batch, so that the batch's memory can be freed before the step is handed
    /// over.
    fn without_batch(&self) -> Step {
        Step { batch: None, after: self.after.clone(), consumer: self.consumer.clone(), rows: self.rows }
    }

    /// Whether the step is the last of its epoch.
    #[getter]
    fn is_last(&self) -> bool {
        self.after.is_last()
    }
}

impl Step {
    pub(crate) fn receipt(&self) -> &Receipt {
        &self.after
    }

    /// Records for the statistics that the user has received the batch.
    pub(crate) fn arrived(&self) {
        self.consumer.iter().for_each(|consumer| consumer.has(self.rows));
    }
}

impl Epoch {
    /// Wraps an epoch of `loader`. `apart` says that a thread other than the user's takes the batches.
    pub(crate) fn new(py: Python<'_>, mut epoch: Inner, loader: &Loader, apart: bool) -> PyResult<Self> {
        let of = if loader.is_mix() { BatchOrigin::Mix } else { BatchOrigin::Loader };
        let (number, is_whole, consumer) = (epoch.number(), epoch.is_whole(), epoch.consumer(apart));
        Ok(Epoch {
            epoch: Home::new(Mutex::new(Some(epoch))),
            consumer: Home::new(consumer),
            places: PyOnceLock::new(),
            number,
            is_whole,
            of,
            ended: OnceLock::new(),
            skipped: Py::new(py, Skipped::default())?,
            rejections: Home::new(loader.rejections()),
        })
    }

    fn error(&self, reason: Reason) -> Error {
        ended(self.number, reason.into())
    }
}

#[pymethods]
impl Epoch {
    /// The number of the epoch.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Whether the first row that the epoch delivers may fill batches without rows at its end: it began with
    /// its first row, and none of its rows may be denied later.
    #[getter]
    fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The bad rows that were left out of the batches so far.
    #[getter]
    fn skipped(&self, py: Python<'_>) -> Py<Skipped> {
        self.skipped.clone_ref(py)
    }

    /// Waits for the next step, and returns it without counting it as handed over; `None` after the last one.
    /// `asks` is true if the user's own thread calls this.
    #[pyo3(signature = (asks=false))]
    fn pull(&self, py: Python<'_>, asks: bool) -> PyResult<Option<Step>> {
        let epoch = self.epoch.get(py)?;
        let consumer = self.consumer.get(py)?;
        if asks {
            consumer.iter().for_each(Consumer::asks);
        }
        loop {
            if let Err(error) = self.check_open(py) {
                py.detach(|| lock(epoch).take());
                return Err(error);
            }
            let skipped = self.skipped.get();
            let wait = py.detach(|| match lock(epoch).as_mut() {
                Some(epoch) => {
                    let wait = epoch.next_step(SLICE);
                    skipped.follow(epoch);
                    wait
                }
                // Another thread may have ended the epoch after `check_open`.
                None => {
                    self.ended.get().map_or(Wait::Finished, |reason| Wait::Step(Err(self.error(*reason))))
                }
            });
            match wait {
                Wait::Pending => py.check_signals()?,
                Wait::Step(Ok(step)) => {
                    let rows = step.batch.num_rows() as u64;
                    let places = || batch::places(py, step.batch.schema_ref());
                    let places = self.places.get_or_try_init(py, places)?.clone_ref(py);
                    let batch = Py::new(py, Batch::new(step.batch, places, consumer.clone(), self.of))?;
                    return Ok(Some(Step {
                        batch: Some(batch),
                        after: step.after,
                        consumer: consumer.clone(),
                        rows,
                    }));
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

    /// Records the rows of `step` that the user's functions rejected, each as its index in the step and the
    /// reason. Returns a step that counts them as left out, or raises if there are more than the loader
    /// allows.
    fn settle(&self, py: Python<'_>, step: &Step, rejected: Vec<(usize, String)>) -> PyResult<Step> {
        let rejections = self.rejections.get(py)?;
        let mut listed = self.skipped.get().lock();
        let last = listed.0.iter().rfind(|bad| bad.end <= step.after.end());
        let (rows, after) = rejections.settle(&step.after, &rejected, last);
        listed.1.extend(rows);
        drop(listed);
        let after = after.map_err(|error| errors::raise(py, &error))?;
        Ok(Step { batch: None, after, consumer: step.consumer.clone(), rows: step.rows })
    }

    /// Records for the statistics that `rows` rows were repeated to replace rejected ones.
    fn repeats(&self, py: Python<'_>, rows: u64) -> PyResult<()> {
        self.rejections.get(py)?.repeats(rows);
        Ok(())
    }

    /// Raises if the epoch was ended.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        match self.ended.get() {
            Some(reason) => Err(errors::raise(py, &self.error(*reason))),
            None => Ok(()),
        }
    }

    /// Records that the user begins to wait for a batch.
    fn asks(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::asks);
        Ok(())
    }

    /// Records that the user's wait ends without a batch, because the epoch has ended.
    fn gets_nothing(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::gets_nothing);
        Ok(())
    }

    /// Records that the user's function begins to transform a batch.
    fn transforms(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.works(Stage::Transform));
        Ok(())
    }

    /// Records that the user's function turned the batch into this many bytes.
    fn transformed(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.count(Stage::Transform, 1, bytes));
        Ok(())
    }

    /// Records that the thread which transforms batches waits until the user takes one.
    fn is_full(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(Consumer::is_full);
        Ok(())
    }

    /// Records that one of several workers begins to transform a batch.
    fn transform_begins(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.begins_beside(Stage::Transform));
        Ok(())
    }

    /// Records that one of several workers has transformed a batch.
    fn transform_ends(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.ends_beside(Stage::Transform));
        Ok(())
    }

    /// Records whether the batch that the user gets next is still being transformed by a worker.
    fn awaits_transform(&self, py: Python<'_>, awaits: bool) -> PyResult<()> {
        let stage = awaits.then_some(Stage::Transform);
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.is_at(stage));
        Ok(())
    }

    /// Records that the user's own thread begins to convert a batch, or to copy it to a device.
    fn converts(&self, py: Python<'_>, to_device: bool) -> PyResult<()> {
        let stage = if to_device { Stage::Device } else { Stage::HandOver };
        self.consumer.get(py)?.iter().for_each(|consumer| consumer.works_near(Some(stage)));
        Ok(())
    }

    /// Records that the conversion of a batch, or its copy to a device, is done. `copied` is the number of
    /// bytes that were copied to the device.
    #[pyo3(signature = (copied=None))]
    fn converted(&self, py: Python<'_>, copied: Option<u64>) -> PyResult<()> {
        if let Some(consumer) = self.consumer.get(py)? {
            consumer.works_near(None);
            copied.into_iter().for_each(|bytes| consumer.count(Stage::Device, 1, bytes));
        }
        Ok(())
    }

    /// Ends the epoch. A thread that waits for a batch stops at its next check.
    fn close(&self, py: Python<'_>, reason: Reason) {
        // `set` keeps the first reason and ignores later ones.
        let _ = self.ended.set(reason);
        if let Ok(epoch) = self.epoch.get(py) {
            py.detach(|| match epoch.try_lock() {
                Ok(mut epoch) => drop(epoch.take()),
                Err(_) => { /* the thread that waits has the lock, and drops the epoch */ }
            });
        }
    }
}

/// Locks the epoch, even after a panic in a thread that held the lock: at worst, the epoch has then ended.
fn lock(epoch: &Mutex<Option<Inner>>) -> MutexGuard<'_, Option<Inner>> {
    epoch.lock().unwrap_or_else(PoisonError::into_inner)
}
