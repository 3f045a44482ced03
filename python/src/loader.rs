//! The loader behind `forebay.Loader`: plain arguments in, epochs and reports out.

use forebay::Stats;
use forebay::stats::Verdict;
use forebay::{Deny, Loader as Inner, LoaderSpec, Position};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::convert::{Place, json, parse_filter, parse_state, place};
use crate::dataset::opened;
use crate::epoch::{Epoch, Step};
use crate::errors::IntoPython;
use crate::home::Home;
use crate::interrupt::{interruptible, reported};
use crate::options;
use crate::pin;
use crate::schema::Schema;

/// The loader as the library has it. `forebay.Loader` checks and keeps the arguments; this one only passes them on.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Loader {
    loader: Home<Inner>,
}

#[pymethods]
impl Loader {
    /// Builds a loader with `options`, the fields of a [`LoaderSpec`], over an open data set. A filter, given as JSON, may
    /// read rows, so it waits without the interpreter. `numbered` has each step say which rows it holds.
    #[new]
    #[pyo3(signature = (dataset, options, filter=None, numbered=false))]
    fn new(
        py: Python<'_>,
        dataset: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        filter: Option<&str>,
        numbered: bool,
    ) -> PyResult<Self> {
        let mut spec: LoaderSpec = options::read(options).or_raise(py)?;
        spec.filter = filter.map(parse_filter).transpose().or_raise(py)?;
        let dataset = opened(dataset)?;
        let build = move || dataset.loader().spec(spec).numbered(numbered).build();
        Ok(Loader { loader: Home::new(interruptible(py, build)?) })
    }

    /// The options with the defaults filled in, as JSON.
    fn spec(&self, py: Python<'_>) -> PyResult<String> {
        json(self.loader.get(py)?.spec()).or_raise(py)
    }

    /// Begins epoch `number`, or the next one; `apart` means that another thread than the user's pulls.
    #[pyo3(signature = (number=None, apart=false))]
    fn epoch(&self, py: Python<'_>, number: Option<u64>, apart: bool) -> PyResult<Epoch> {
        let loader = self.loader.get(py)?;
        let epoch = py.detach(|| match number {
            Some(number) => loader.epoch(number),
            None => loader.next_epoch(),
        });
        Epoch::new(py, epoch, loader.rejections(), apart)
    }

    /// Counts a step, and all before it, as handed over to the user.
    fn handed_over(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.loader.get(py)?.handed_over(step.receipt());
        step.arrived();
        Ok(())
    }

    /// Of each row of a step its ordinal in the data set, and the key that random image operations are drawn from: 8
    /// bytes each, as this machine orders them.
    fn row_keys(&self, py: Python<'_>, step: &Step) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        let seed = self.loader.get(py)?.spec().shuffle.seed();
        let bytes = |of: &[u64]| {
            let all: Vec<u8> = of.iter().flat_map(|number| number.to_ne_bytes()).collect();
            PyBytes::new(py, &all).unbind()
        };
        Ok((bytes(step.receipt().numbers()), bytes(&step.receipt().keys(seed))))
    }

    /// The key that random operations on the batch of a step are drawn from.
    fn batch_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        let spec = self.loader.get(py)?.spec();
        Ok(step.receipt().batch_key(spec.shuffle.seed(), spec.shard.rank()))
    }

    /// File, row group and row of the row with this ordinal in the data set.
    fn row_place(&self, py: Python<'_>, row: u64) -> PyResult<Option<(String, usize, u64)>> {
        let place = self.loader.get(py)?.row_place(row);
        Ok(place.and_then(|place| Some((place.file?.to_string(), place.row_group?, place.row?))))
    }

    /// The rows of a step, in the order of delivery. A step is counted from the beginning of its epoch or, without one, from
    /// that of epoch 0; without a step it is the one that comes next. Of this rank, unless another one is named.
    #[pyo3(signature = (step=None, epoch=None, rank=None))]
    fn which(
        &self,
        py: Python<'_>,
        step: Option<u64>,
        epoch: Option<u64>,
        rank: Option<u32>,
    ) -> PyResult<Vec<Place>> {
        let loader = self.loader.get(py)?;
        let rank = rank.unwrap_or_else(|| loader.spec().shard.rank());
        py.detach(|| {
            let run = loader.rewind();
            let steps = run.steps().max(1);
            let rows = match step {
                None => run.next(rank),
                Some(step) => match epoch {
                    Some(epoch) => run.step(epoch, step, rank),
                    None => run.step(step / steps, step % steps, rank),
                },
            };
            Ok(rows?.into_iter().map(place).collect())
        })
        .or_raise(py)
    }

    /// Raises in a forked child.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        self.loader.get(py).map(|_| ())
    }

    /// Batches in an epoch.
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.loader.get(py)?.len())
    }

    /// Names and types of a batch.
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        Ok(Schema::new(self.loader.get(py)?.schema()))
    }

    /// The plan of an epoch as text and as JSON.
    fn plan(&self, py: Python<'_>, epoch: u64) -> PyResult<(String, String)> {
        let loader = self.loader.get(py)?;
        let plan = py.detach(|| loader.plan(epoch)).or_raise(py)?;
        Ok((plan.to_string(), json(&plan).or_raise(py)?))
    }

    /// The statistics so far as text, as JSON and as metrics of Prometheus.
    fn stats(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        #[derive(serde::Serialize)]
        struct Judged {
            #[serde(flatten)]
            stats: Stats,
            verdict: Verdict,
        }
        let stats = self.loader.get(py)?.stats();
        let (text, metrics, verdict) = (stats.to_string(), stats.to_prometheus(), stats.verdict());
        Ok((text, json(&Judged { stats, verdict }).or_raise(py)?, metrics))
    }

    /// A warning about the cache's disk that was not returned yet.
    fn take_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.loader.get(py)?.take_warning())
    }

    /// The position of the training loop, as JSON.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.loader.get(py)?.position()).or_raise(py)
    }

    /// Fills the cache, for all ranks or for this rank's `share` of the epoch that is under way or comes next; `report` is
    /// called with the number of finished row groups and of all. Returns the statistics of the cache as JSON.
    #[pyo3(signature = (share=false, report=None))]
    fn warm(&self, py: Python<'_>, share: bool, report: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let loader = self.loader.get(py)?.clone();
        let stats =
            reported(py, report, move |advance| loader.warm_until(share, |done, of| advance.note(done, of)))?;
        json(&stats).or_raise(py)
    }

    /// Moves to a saved position.
    fn restore(&self, py: Python<'_>, position: &str) -> PyResult<()> {
        let loader = self.loader.get(py)?;
        py.detach(|| loader.restore(&parse(position)?)).or_raise(py)
    }

    /// Whether the memory at `address`, which the caller keeps in use, is registered with a device by `registrar`. See `pin`.
    fn is_pinned(&self, py: Python<'_>, address: usize, registrar: &Bound<'_, PyAny>) -> PyResult<bool> {
        pin::is_pinned(py, self.loader.get(py)?.pages(address), registrar)
    }

    /// Ends everything at once. In a forked child there is nothing to end.
    fn close(&self, py: Python<'_>) {
        if let Ok(loader) = self.loader.get(py) {
            py.detach(|| loader.close());
        }
    }
}

/// A list of rows in a file, as JSON.
#[pyfunction]
pub(crate) fn denied_rows(py: Python<'_>, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read(&location)?))
}

/// A list of a column's values in a file, as JSON.
#[pyfunction]
pub(crate) fn denied_values(py: Python<'_>, column: String, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read_values(&column, &location)?))
}

fn parse(position: &str) -> forebay::Result<Position> {
    parse_state(position, "a loader")
}
