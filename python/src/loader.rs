//! The loader behind `forebay.Loader`: takes plain arguments, gives epochs and reports.

use forebay::Stats;
use forebay::stats::Verdict;
use forebay::{Deny, Loader as Inner, LoaderSpec, Position};
use forebay_base::paths;
use forebay_cli::report::{self, RankReport};
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

/// The library's loader. `forebay.Loader` and `forebay.Mix` check and keep the arguments; this class only
/// passes them on.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Loader {
    loader: Home<Inner>,
}

/// An open data set, the options of its loader, its filter as JSON, and its weight in a mix.
type Source<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>, Option<String>, f64);

#[pymethods]
impl Loader {
    /// Builds a loader of one source. If `mix` is given, builds a loader of several sources, with `mix` as
    /// the options of the whole. Options are the fields of a [`LoaderSpec`]. A filter may read rows, so the
    /// interpreter's lock is released meanwhile. With `numbered`, each step says which rows it holds. The
    /// loader goes on after the position `after`, the beginning of an epoch.
    #[new]
    #[pyo3(signature = (sources, mix=None, numbered=false, after=None))]
    fn new(
        py: Python<'_>,
        sources: Vec<Source<'_>>,
        mix: Option<&Bound<'_, PyDict>>,
        numbered: bool,
        after: Option<&str>,
    ) -> PyResult<Self> {
        let after = after.map(|state| parse(state, mix.is_some())).transpose().or_raise(py)?;
        let mix: Option<LoaderSpec> = mix.map(options::read).transpose().or_raise(py)?;
        let mut builders = Vec::new();
        for (dataset, options, filter, weight) in sources {
            let mut spec: LoaderSpec = options::read(&options).or_raise(py)?;
            spec.filter = filter.as_deref().map(parse_filter).transpose().or_raise(py)?;
            builders.push((opened(&dataset)?.loader().spec(spec), weight));
        }
        let build = move || {
            let builder = match (mix, builders.len()) {
                (None, 1) => builders.swap_remove(0).0,
                (mix, _) => Inner::mix(builders)?.spec(mix.unwrap_or_default()),
            };
            let builder = match &after {
                Some(position) => builder.after(position),
                None => builder,
            };
            builder.numbered(numbered).build()
        };
        Ok(Loader { loader: Home::new(interruptible(py, build)?) })
    }

    /// The options with the defaults filled in, and the options of each source, as JSON.
    fn spec(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let loader = self.loader.get(py)?;
        let of_sources = loader.source_specs().map(|spec| json(spec).or_raise(py));
        Ok((json(loader.spec()).or_raise(py)?, of_sources.collect::<PyResult<_>>()?))
    }

    /// Begins epoch `number`, or the next one. `apart` says that another thread than the user's pulls
    /// batches.
    #[pyo3(signature = (number=None, apart=false))]
    fn epoch(&self, py: Python<'_>, number: Option<u64>, apart: bool) -> PyResult<Epoch> {
        let loader = self.loader.get(py)?;
        let epoch = py.detach(|| match number {
            Some(number) => loader.epoch(number),
            None => loader.next_epoch(),
        });
        Epoch::new(py, epoch, loader, apart)
    }

    /// The number of the epoch that comes next, and the number of the row with which it begins.
    fn upcoming(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        Ok(self.loader.get(py)?.upcoming())
    }

    /// Counts a step, and all steps before it, as handed over to the user.
    fn handed_over(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.loader.get(py)?.handed_over(step.receipt());
        step.arrived();
        Ok(())
    }

    /// For each row of a step, its number among the rows of all data sets, one data set after the other, and
    /// the key from which random image operations are drawn. Numbers and keys have 8 bytes each, in the byte
    /// order of this machine.
    fn row_keys(&self, py: Python<'_>, step: &Step) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        let seed = seed(self.loader.get(py)?);
        let bytes = |of: &[u64]| {
            let all: Vec<u8> = of.iter().flat_map(|number| number.to_ne_bytes()).collect();
            PyBytes::new(py, &all).unbind()
        };
        Ok((bytes(step.receipt().numbers()), bytes(&step.receipt().keys(seed))))
    }

    /// The key from which random operations on this rank's batch of a step are drawn.
    fn batch_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        let loader = self.loader.get(py)?;
        Ok(step.receipt().batch_key(seed(loader), loader.spec().shard.rank()))
    }

    /// The key from which random operations on the batches of a step are drawn; it is the same on all ranks.
    fn step_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        Ok(step.receipt().batch_key(seed(self.loader.get(py)?), u32::MAX))
    }

    /// The file, the row group and the row in it, for the row with this number among the rows of all data
    /// sets, one data set after the other.
    fn row_place(&self, py: Python<'_>, row: u64) -> PyResult<Option<(String, usize, u64)>> {
        let place = self.loader.get(py)?.row_place(row);
        Ok(place.and_then(|place| Some((place.file?.to_string(), place.row_group?, place.row?))))
    }

    /// The rows of a step in the order of delivery, each with the number of its source. A step is counted
    /// from the beginning of its epoch or, without one, from the beginning of epoch 0; without a step, it is
    /// the next one. The rows are those of this rank unless another rank is given.
    #[pyo3(signature = (step=None, epoch=None, rank=None))]
    fn which(
        &self,
        py: Python<'_>,
        step: Option<u64>,
        epoch: Option<u64>,
        rank: Option<u32>,
    ) -> PyResult<Vec<(usize, Place)>> {
        let loader = self.loader.get(py)?;
        let rank = rank.unwrap_or_else(|| loader.spec().shard.rank());
        let rows = py.detach(|| {
            let run = loader.rewind()?;
            match (step, epoch) {
                (None, _) => run.next(rank),
                (Some(step), None) => run.step_of_run(step, rank),
                (Some(step), Some(epoch)) => run.step(epoch, step, rank),
            }
        });
        Ok(rows.or_raise(py)?.into_iter().map(|row| (row.source, place(row))).collect())
    }

    /// Raises in a forked child.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        self.loader.get(py).map(|_| ())
    }

    /// Number of batches in an epoch.
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        let loader = self.loader.get(py)?;
        Ok(py.detach(|| loader.len()))
    }

    /// Names and types of the columns of a batch.
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
        let stats = self.loader.get(py)?.stats();
        let (text, metrics) = (stats.to_string(), stats.to_prometheus());
        Ok((text, json(&Judged::new(stats)).or_raise(py)?, metrics))
    }

    /// The statistics so far as JSON, without the parts that grow with the run.
    fn totals(&self, py: Python<'_>) -> PyResult<String> {
        let mut stats = self.loader.get(py)?.stats();
        stats.timeline.buckets.clear();
        stats.next_histogram.clear();
        json(&Judged::new(stats)).or_raise(py)
    }

    /// Writes a page about the run so far to a file, or to a folder that the ranks share. The page shows
    /// `locations` as the places of the data. Returns the path of the page.
    fn report(&self, py: Python<'_>, to: String, locations: Vec<String>) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        let write = || report::write(&paths::local(to)?, &RankReport::new(loader, locations));
        Ok(py.detach(write).or_raise(py)?.to_string_lossy().into_owned())
    }

    /// Returns a warning that was not returned before; `None` if there is none.
    fn take_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.loader.get(py)?.take_warning())
    }

    /// The position of the training loop, as JSON.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        py.detach(|| json(&loader.position())).or_raise(py)
    }

    /// The position at the beginning of an epoch, as JSON.
    fn beginning(&self, py: Python<'_>, epoch: u64) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        py.detach(|| json(&loader.beginning(epoch)?)).or_raise(py)
    }

    /// Fills the cache, for all ranks or for this rank's `share` of the present or next epoch. Calls `report`
    /// with the number of finished row groups and of all. Returns the statistics of the cache as JSON.
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
        py.detach(|| loader.restore(&parse(position, loader.is_mix())?)).or_raise(py)
    }

    /// Sets the weights of a mix from a step of the run on, or from the next step.
    fn set_weights(&self, py: Python<'_>, weights: Vec<f64>, step: Option<u64>) -> PyResult<()> {
        let loader = self.loader.get(py)?;
        py.detach(|| loader.set_weights(&weights, step)).or_raise(py)
    }

    /// Whether the memory at `address`, which the caller keeps in use, is registered with a device by
    /// `registrar`, as `pin` describes.
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

/// The statistics with the verdict on them.
#[derive(serde::Serialize)]
struct Judged {
    #[serde(flatten)]
    stats: Stats,
    verdict: Verdict,
}

impl Judged {
    fn new(stats: Stats) -> Self {
        let verdict = stats.verdict();
        Judged { stats, verdict }
    }
}

/// Reads a list of rows from a file, and returns it as JSON.
#[pyfunction]
pub(crate) fn denied_rows(py: Python<'_>, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read(&location)?))
}

/// Reads a list of a column's values from a file, and returns it as JSON.
#[pyfunction]
pub(crate) fn denied_values(py: Python<'_>, column: String, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read_values(&column, &location)?))
}

/// The seed from which the user's functions draw: the seed of the first source.
fn seed(loader: &Inner) -> u64 {
    loader.source_specs().next().map_or(0, |spec| spec.shuffle.seed())
}

/// Parses a position that `state_dict` returned, as JSON.
fn parse(state: &str, is_mix: bool) -> forebay::Result<Position> {
    let what = if is_mix { "a mix" } else { "a loader" };
    parse_state(state, what)
}
