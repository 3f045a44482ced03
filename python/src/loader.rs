//! The loader behind `forebay.Loader`: plain arguments in, epochs and reports out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forebay::internals::batch::Fill;
use forebay::internals::loader::{Stats, Verdict};
use forebay::{Dataset, DiskCache, Filter, Loader as Inner, OnBadRow, Position, Shard, Shuffle};
use forebay::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::epoch::{Epoch, Step};
use crate::errors::IntoPython;
use crate::home::Home;
use crate::image::Image;
use crate::interrupt::interruptible;
use crate::schema::Schema;

/// `(mixing, seed, window_rows, lanes)` of a `forebay.Shuffle`.
type ShuffleParts = (String, u64, Option<u64>, Option<u32>);

/// The loader as the library has it. `forebay.Loader` checks and remembers the arguments; this one only passes them on.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Loader {
    loader: Home<Inner>,
}

/// What `forebay.Loader` passes on.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Arguments {
    urls: Vec<String>,
    storage_options: BTreeMap<String, String>,
    columns: Option<Vec<String>>,
    decode: Vec<(String, Image)>,
    batch_size: u64,
    drop_last: bool,
    epochs: Option<u64>,
    /// A [`Filter`] as JSON.
    filter: Option<String>,
    shuffle: Option<ShuffleParts>,
    shard: Option<(u32, u32)>,
    memory: Option<u64>,
    threads: Option<usize>,
    skip_at_most: Option<u64>,
    fill_null: Vec<(String, Filler)>,
    /// Folder, most bytes and tier of the row cache.
    cache: Option<(PathBuf, u64, String)>,
    /// The file of a timeline.
    trace: Option<PathBuf>,
}

/// What stands for a null.
#[derive(FromPyObject)]
enum Filler {
    Number(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Filler> for Fill {
    fn from(filler: Filler) -> Self {
        match filler {
            Filler::Number(number) => number.into(),
            Filler::Text(text) => text.into(),
            Filler::Bytes(bytes) => bytes.into(),
        }
    }
}

#[pymethods]
impl Loader {
    /// Opens the data set and builds a loader; reads footers, so it waits without the interpreter.
    #[new]
    fn new(py: Python<'_>, arguments: Arguments) -> PyResult<Self> {
        let loader = interruptible(py, move || build(arguments))?;
        Ok(Loader { loader: Home::new(loader) })
    }

    /// Begins epoch `number`, or the one that is next; `apart` says that another thread than the user's pulls.
    #[pyo3(signature = (number=None, apart=false))]
    fn epoch(&self, py: Python<'_>, number: Option<u64>, apart: bool) -> PyResult<Epoch> {
        let loader = self.loader.get(py)?;
        let epoch = py.detach(|| match number {
            Some(number) => loader.epoch(number),
            None => loader.next_epoch(),
        });
        Epoch::new(py, epoch, apart)
    }

    /// Counts a step, and all before it, as handed over to the user.
    fn handed_over(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.loader.get(py)?.handed_over(step.receipt());
        step.arrived();
        Ok(())
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

    /// What happened so far as text, as JSON and as metrics of Prometheus.
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

    /// A warning about the cache's disk that was not given yet.
    fn take_warning(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.loader.get(py)?.take_warning())
    }

    /// What was handed over, as JSON.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.loader.get(py)?.position()).or_raise(py)
    }

    /// Goes to a position that was saved.
    fn restore(&self, py: Python<'_>, position: &str) -> PyResult<()> {
        let loader = self.loader.get(py)?;
        py.detach(|| loader.restore(&parse(position)?)).or_raise(py)
    }

    /// Ends everything at once. In a forked child there is nothing to end.
    fn close(&self, py: Python<'_>) {
        if let Ok(loader) = self.loader.get(py) {
            py.detach(|| loader.close());
        }
    }
}

fn build(arguments: Arguments) -> forebay::Result<Inner> {
    let dataset = Dataset::open_with_options(arguments.urls, &arguments.storage_options)?;
    let mut builder = dataset.loader().batch_size(arguments.batch_size).drop_last(arguments.drop_last);
    if let Some(epochs) = arguments.epochs {
        builder = builder.epochs(epochs);
    }
    if let Some(columns) = arguments.columns {
        builder = builder.columns(columns);
    }
    for (column, image) in arguments.decode {
        builder = builder.decode(column, image.spec());
    }
    if let Some(filter) = arguments.filter {
        builder = builder.filter(parse_filter(&filter)?);
    }
    if let Some(parts) = arguments.shuffle {
        builder = builder.shuffle(shuffle(parts));
    }
    if let Some((rank, world)) = arguments.shard {
        builder = builder.shard(Shard::new(rank, world)?);
    }
    if let Some(bytes) = arguments.memory {
        builder = builder.memory(bytes);
    }
    if let Some(threads) = arguments.threads {
        builder = builder.threads(threads);
    }
    if let Some(at_most) = arguments.skip_at_most {
        builder = builder.on_bad_row(OnBadRow::skip(at_most));
    }
    for (column, value) in arguments.fill_null {
        builder = builder.fill_null(column, value);
    }
    if let Some((folder, most, tier)) = arguments.cache {
        builder = builder.cache(DiskCache::open(folder, most)?).cache_tier(tier.parse()?);
    }
    if let Some(path) = arguments.trace {
        builder = builder.trace(path);
    }
    builder.build()
}

fn shuffle((mixing, seed, window_rows, lanes): ShuffleParts) -> Shuffle {
    let mut shuffle = match mixing.as_str() {
        "exact" => Shuffle::exact(seed),
        "stored" => Shuffle::stored(),
        _ => Shuffle::seeded(seed),
    };
    if let Some(rows) = window_rows {
        shuffle = shuffle.window_rows(rows);
    }
    if let Some(lanes) = lanes {
        shuffle = shuffle.lanes(lanes);
    }
    shuffle
}

fn parse_filter(filter: &str) -> forebay::Result<Filter> {
    serde_json::from_str(filter).map_err(|error| {
        Error::invalid(format!("this is no filter: {error}")).hint("pass [(column, op, value), ...]")
    })
}

fn json(value: &impl serde::Serialize) -> forebay::Result<String> {
    serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

fn parse(position: &str) -> forebay::Result<Position> {
    serde_json::from_str(position).map_err(|error| {
        Error::new(ErrorKind::StateMismatch, format!("this is no state of a loader: {error}"))
            .hint("pass what state_dict() returned")
    })
}
