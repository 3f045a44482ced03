//! The mix behind `forebay.Mix`: what `loader` is for one source, for several.

use forebay::Stats;
use forebay::stats::Verdict;
use forebay::{LoaderSpec, Mix as Inner, MixPosition, MixSpec, RowPlace};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::convert::{Place, json, parse_filter, parse_state, place};
use crate::dataset::opened;
use crate::epoch::{Epoch, Step};
use crate::errors::IntoPython;
use crate::home::Home;
use crate::interrupt::interruptible;
use crate::options;
use crate::pin;
use crate::schema::Schema;

/// Several sources as the library has them, with the methods of `forebay._forebay.Loader`.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Mix {
    mix: Home<Inner>,
}

/// An open data set, the options of its loader, its filter as JSON, and its weight.
type Source<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>, Option<String>, f64);

#[pymethods]
impl Mix {
    /// Builds a mix of sources with `options`, the fields of a [`MixSpec`].
    #[new]
    #[pyo3(signature = (sources, options, numbered=false))]
    fn new(
        py: Python<'_>,
        sources: Vec<Source<'_>>,
        options: &Bound<'_, PyDict>,
        numbered: bool,
    ) -> PyResult<Self> {
        let spec: MixSpec = options::read(options).or_raise(py)?;
        let mut builders = Vec::new();
        for (dataset, options, filter, weight) in sources {
            let mut of_source: LoaderSpec = options::read(&options).or_raise(py)?;
            of_source.filter = filter.as_deref().map(parse_filter).transpose().or_raise(py)?;
            builders.push((opened(&dataset)?.loader().spec(of_source), weight));
        }
        let build = move || Inner::of(builders).spec(spec).numbered(numbered).build();
        Ok(Mix { mix: Home::new(interruptible(py, build)?) })
    }

    /// The options with the defaults filled in, as JSON, and those of each source.
    fn spec(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let mix = self.mix.get(py)?;
        let of_sources = mix.sources().map(|loader| json(loader.spec()).or_raise(py));
        Ok((json(mix.spec()).or_raise(py)?, of_sources.collect::<PyResult<_>>()?))
    }

    /// Begins epoch `number`, or the next one; `apart` means that another thread than the user's pulls.
    #[pyo3(signature = (number=None, apart=false))]
    fn epoch(&self, py: Python<'_>, number: Option<u64>, apart: bool) -> PyResult<Epoch> {
        let mix = self.mix.get(py)?;
        let epoch = py.detach(|| match number {
            Some(number) => mix.epoch(number),
            None => mix.next_epoch(),
        });
        Epoch::new(py, epoch, mix.rejections(), apart)
    }

    /// Counts a step, and all before it, as handed over to the user.
    fn handed_over(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.mix.get(py)?.handed_over(step.receipt());
        step.arrived();
        Ok(())
    }

    /// Of each row of a step its ordinal in the sources, one after the other, and the key that random operations on it are drawn
    /// from: 8 bytes each, as this machine orders them.
    fn row_keys(&self, py: Python<'_>, step: &Step) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        let bytes = |of: &[u64]| {
            let all: Vec<u8> = of.iter().flat_map(|number| number.to_ne_bytes()).collect();
            PyBytes::new(py, &all).unbind()
        };
        Ok((bytes(step.receipt().numbers()), bytes(&step.receipt().keys(0))))
    }

    /// The key that random operations on the batch of a step are drawn from, by the seed of the first source.
    fn batch_key(&self, py: Python<'_>, step: &Step) -> PyResult<u64> {
        let mix = self.mix.get(py)?;
        let seed = mix.sources().next().map_or(0, |loader| loader.spec().shuffle.seed());
        Ok(step.receipt().batch_key(seed, mix.spec().shard.rank()))
    }

    /// File, row group and row of the row with this ordinal in the sources, one after the other.
    fn row_place(&self, py: Python<'_>, row: u64) -> PyResult<Option<(String, usize, u64)>> {
        let place = self.mix.get(py)?.row_place(row);
        Ok(place.and_then(|place| Some((place.file?.to_string(), place.row_group?, place.row?))))
    }

    /// The rows of a step, each with the number of its source, in the order of delivery. A step is counted from the beginning of
    /// its epoch or, without one, from that of epoch 0; without a step it is the one that comes next. Of this rank, unless another one is named.
    #[pyo3(signature = (step=None, epoch=None, rank=None))]
    fn which(
        &self,
        py: Python<'_>,
        step: Option<u64>,
        epoch: Option<u64>,
        rank: Option<u32>,
    ) -> PyResult<Vec<(usize, Place)>> {
        let mix = self.mix.get(py)?;
        let rank = rank.unwrap_or_else(|| mix.spec().shard.rank());
        let rows = py.detach(|| match (step, epoch) {
            (None, _) => mix.which_next(rank),
            (Some(step), None) => mix.which_of_run(step, rank),
            (Some(step), Some(epoch)) => mix.which(epoch, step, rank),
        });
        let placed = |(source, row): (usize, RowPlace)| (source, place(row));
        Ok(rows.or_raise(py)?.into_iter().map(placed).collect())
    }

    /// Raises in a forked child.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        self.mix.get(py).map(|_| ())
    }

    /// Batches in an epoch.
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        let mix = self.mix.get(py)?;
        Ok(py.detach(|| mix.len()))
    }

    /// Names and types of a batch.
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        Ok(Schema::new(self.mix.get(py)?.schema()))
    }

    /// The plan of an epoch as text and as JSON.
    fn plan(&self, py: Python<'_>, epoch: u64) -> PyResult<(String, String)> {
        let mix = self.mix.get(py)?;
        let plan = py.detach(|| mix.plan(epoch)).or_raise(py)?;
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
        let stats = self.mix.get(py)?.stats();
        let (text, metrics, verdict) = (stats.to_string(), stats.to_prometheus(), stats.verdict());
        Ok((text, json(&Judged { stats, verdict }).or_raise(py)?, metrics))
    }

    /// A warning that was not returned yet.
    fn take_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.mix.get(py)?.take_warning())
    }

    /// The position of the training loop, as JSON.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        let mix = self.mix.get(py)?;
        py.detach(|| json(&mix.position())).or_raise(py)
    }

    /// Moves to a saved position.
    fn restore(&self, py: Python<'_>, position: &str) -> PyResult<()> {
        let mix = self.mix.get(py)?;
        py.detach(|| mix.restore(&parse(position)?)).or_raise(py)
    }

    /// Whether the memory at `address`, which the caller keeps in use, is registered with a device by `registrar`. See `pin`.
    fn is_pinned(&self, py: Python<'_>, address: usize, registrar: &Bound<'_, PyAny>) -> PyResult<bool> {
        let pages = self.mix.get(py)?.sources().find_map(|loader| loader.pages(address));
        pin::is_pinned(py, pages, registrar)
    }

    /// Ends everything at once. In a forked child there is nothing to end.
    fn close(&self, py: Python<'_>) {
        if let Ok(mix) = self.mix.get(py) {
            py.detach(|| mix.close());
        }
    }
}

fn parse(position: &str) -> forebay::Result<MixPosition> {
    parse_state(position, "a mix")
}
