//! The compiled class behind `forebay.Loader` and `forebay.Mix`: it takes plain arguments, and returns epochs
//! and reports.

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

/// Wraps the library's loader. `forebay.Loader` and `forebay.Mix` check and keep the arguments; this class
/// only passes them on.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Loader {
    loader: Home<Inner>,
}

/// An open data set, the options of its loader, its filter as JSON, and its weight in a mix.
type Source<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>, Option<String>, f64);

#[pymethods]
impl Loader {
    /// Builds a loader of one source or, if `mix` is given, of several sources, with `mix` as the options of
    /// the whole mix. Options are the fields of a [`LoaderSpec`]. A filter may read rows, so the
    /// interpreter's lock is released meanwhile. If `numbered` is true, each step contains the numbers of its
    /// rows. If `after` is given, which is a position at the beginning of an epoch, the loader begins with
    /// that epoch.
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

    /// Begins epoch `number`, or the next epoch. `apart` says that a thread other than the user's takes the
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

    /// Reads the rows of this rank in epoch `number` again from the first one, without counting them. It ends
    /// the epoch under way.
    fn read_again(&self, py: Python<'_>, number: u64) -> PyResult<Epoch> {
        let loader = self.loader.get(py)?;
        Epoch::new(py, py.detach(|| loader.read_again(number)), loader, true)
    }

    /// The number of the next epoch, and the number of the row with which it begins. The row is 0 unless a
    /// state in the middle of the epoch was restored.
    fn upcoming(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        Ok(self.loader.get(py)?.upcoming())
    }

    /// Counts a step, and all steps before it, as handed over to the user.
    fn handed_over(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.loader.get(py)?.handed_over(step.receipt());
        step.arrived();
        Ok(())
    }

    /// Returns the number of each row of a step, counted through the rows of all data sets in turn, and the
    /// key from which the row's random image operations are drawn. Numbers and keys have 8 bytes each, in
    /// native byte order.
    fn row_keys(&self, py: Python<'_>, step: &Step) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        let seed = seed(self.loader.get(py)?);
        let bytes = |of: &[u64]| {
            let all: Vec<u8> = of.iter().flat_map(|number| number.to_ne_bytes()).collect();
            PyBytes::new(py, &all).unbind()
        };
        Ok((bytes(step.receipt().numbers()), bytes(&step.receipt().keys(seed))))
    }

    /// The key from which random operations on this rank's batch of a step are drawn; it differs between
    /// ranks.
    fn batch_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        let loader = self.loader.get(py)?;
        Ok(step.receipt().batch_key(seed(loader), loader.spec().shard.rank()))
    }

    /// The key from which random operations on a step's batches are drawn if they must be equal on all ranks.
    fn step_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        Ok(step.receipt().batch_key(seed(self.loader.get(py)?), u32::MAX))
    }

    /// The file, the row group and the row within it for a row number, which counts through the rows of all
    /// data sets in turn.
    fn row_place(&self, py: Python<'_>, row: u64) -> PyResult<Option<(String, usize, u64)>> {
        let place = self.loader.get(py)?.row_place(row);
        Ok(place.and_then(|place| Some((place.file?.to_string(), place.row_group?, place.row?))))
    }

    /// Returns the rows of a rank's batch in the order of delivery, each with the number of its source.
    /// `step` counts from the beginning of `epoch`, or from the beginning of the run if `epoch` is missing;
    /// if `step` is missing, it is the next step. `rank` is this rank by default.
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

    /// Raises an exception in a forked child process, which has no threads of the loader.
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

    /// The statistics so far as JSON, without the time line and the histogram, whose size grows with the run.
    fn totals(&self, py: Python<'_>) -> PyResult<String> {
        let mut stats = self.loader.get(py)?.stats();
        stats.timeline.buckets.clear();
        stats.next_histogram.clear();
        json(&Judged::new(stats)).or_raise(py)
    }

    /// Writes an HTML report on the run so far to a file, or to a folder that the ranks share, and returns
    /// its path. The report shows `locations` as the origin of the data.
    fn report(&self, py: Python<'_>, to: String, locations: Vec<String>) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        let write = || report::write(&paths::local(to)?, &RankReport::new(loader, locations));
        Ok(py.detach(write).or_raise(py)?.to_string_lossy().into_owned())
    }

    /// Returns a warning that was not returned before, or `None`.
    fn take_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.loader.get(py)?.take_warning())
    }

    /// The position that the training loop has reached, as JSON.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        py.detach(|| json(&loader.position())).or_raise(py)
    }

    /// The position at the beginning of an epoch, as JSON.
    fn beginning(&self, py: Python<'_>, epoch: u64) -> PyResult<String> {
        let loader = self.loader.get(py)?;
        py.detach(|| json(&loader.beginning(epoch)?)).or_raise(py)
    }

    /// Fills the cache with all row groups, or with those that this rank reads in the present or next epoch
    /// if `share` is true. Calls `report` with the numbers of finished and of all row groups. Returns the
    /// statistics of the cache as JSON.
    #[pyo3(signature = (share=false, report=None))]
    fn warm(&self, py: Python<'_>, share: bool, report: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let loader = self.loader.get(py)?.clone();
        let stats =
            reported(py, report, move |advance| loader.warm_until(share, |done, of| advance.note(done, of)))?;
        json(&stats).or_raise(py)
    }

    /// Moves to a saved position, from which the next epoch continues.
    fn restore(&self, py: Python<'_>, position: &str) -> PyResult<()> {
        let loader = self.loader.get(py)?;
        py.detach(|| loader.restore(&parse(position, loader.is_mix())?)).or_raise(py)
    }

    /// Sets the weights of a mix, which apply from the given step of the run on, or else from the next step.
    fn set_weights(&self, py: Python<'_>, weights: Vec<f64>, step: Option<u64>) -> PyResult<()> {
        let loader = self.loader.get(py)?;
        py.detach(|| loader.set_weights(&weights, step)).or_raise(py)
    }

    /// For each source of a mix, the mean cost of a sample; `None` if the weights count samples.
    fn mean_costs(&self, py: Python<'_>) -> PyResult<Option<Vec<f64>>> {
        Ok(self.loader.get(py)?.mean_costs())
    }

    /// Whether the memory at `address` is registered with a device. The first call for this memory registers
    /// it with `registrar`, as `pin::is_pinned` describes; the caller keeps the memory in use meanwhile.
    fn is_pinned(&self, py: Python<'_>, address: usize, registrar: &Bound<'_, PyAny>) -> PyResult<bool> {
        pin::is_pinned(py, self.loader.get(py)?.pages(address), registrar)
    }

    /// Ends the loader's threads and closes its files. A forked child has nothing to close.
    fn close(&self, py: Python<'_>) {
        if let Ok(loader) = self.loader.get(py) {
            py.detach(|| loader.close());
        }
    }
}

/// The statistics, and the verdict: the stage that slows the training loop down.
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

/// Reads from a file the list of rows that a loader must leave out, and returns it as JSON.
#[pyfunction]
pub(crate) fn denied_rows(py: Python<'_>, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read(&location)?))
}

/// Reads from a file the values of `column` whose rows a loader must leave out, and returns them as JSON.
#[pyfunction]
pub(crate) fn denied_values(py: Python<'_>, column: String, location: String) -> PyResult<String> {
    interruptible(py, move || json(&Deny::read_values(&column, &location)?))
}

/// The seed for random draws of the user's functions, which is that of the first source.
fn seed(loader: &Inner) -> u64 {
    loader.source_specs().next().map_or(0, |spec| spec.shuffle.seed())
}

/// Parses the JSON of a position, which `state_dict` returned.
fn parse(state: &str, is_mix: bool) -> forebay::Result<Position> {
    let what = if is_mix { "a mix" } else { "a loader" };
    parse_state(state, what)
}
