//! Builds a loader: checks the user's options, and fills in the open ones.

mod casts;
mod checked;
mod checks;
pub(super) mod columns;
mod decodings;
mod following;
mod mix;
mod null_masks;
mod options;
mod ordered;
mod patterns;
mod projection;
mod renames;
pub(super) mod rewind;
mod samples;
mod selected;
mod settle;
mod vectors;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use rayon::ThreadPool;

use super::buffer_pool::BufferPool;
use super::collate::Collator;
use super::dataset::Dataset;
use super::handle::Loader;
use super::lengths::Lengths;
use super::pipe::{Engine, Means};
use super::plan::{Planned, RankPlan};
use super::rewind::LastAsked;
use super::source::Source;
use super::sources::Sources;
use super::spec::LoaderSpec;
use super::threads::{self, IoRuntime};
use super::tiers::Tiers;
use crate::cache::{DiskCache, Tier};
use crate::column::{CacheForm, Decoder, Decoding};
use crate::monitor::{Monitor, Trace};
use crate::reader::Filter;
use crate::shard::row_key;
use columns::Delivered;
use forebay_base::promise::Promise;
use forebay_base::{Result, paths};
use forebay_image::Workspace;
use forebay_store::catalog::RowId;
use forebay_store::source::no_folder;
use settle::Settled;

/// The options of a [`Loader`]. [`Dataset::loader`] creates a builder with every option at its default, and
/// [`Loader::mix`] one of several sources.
///
/// ```no_run
/// use forebay::{Dataset, DiskCache, Image, OnBadRow, Shard, Shuffle};
///
/// let loader = Dataset::open("s3://acme/train/")?
///     .loader()
///     .columns(["image", "label"])
///     .decode("image", Image::random_resized_crop(224).flip())
///     .fill_null("label", -1.0)
///     .shuffle(Shuffle::seeded(17).lanes(8))
///     .shard(Shard::new(0, 8)?)
///     .batch_size(256)
///     .drop_last(true)
///     .epochs(90)
///     .memory(8 << 30)
///     .cache(DiskCache::open("/nvme/forebay", 500_000_000_000)?)
///     .on_bad_row(OnBadRow::skip(100))
///     .build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read before build()"]
pub struct LoaderBuilder {
    /// What it reads; of a mix, what its first source reads.
    dataset: Dataset,
    /// The sources of a mix, and their weights.
    mixed: Vec<(LoaderBuilder, f64)>,
    spec: LoaderSpec,
    /// The user's decoders, which a spec cannot hold.
    decoders: Vec<(String, Arc<dyn Decoder>)>,
    /// How the schema beside the files has columns decoded of which the user does not say it, by the names
    /// that are delivered: known once the options are settled.
    decodings: BTreeMap<String, Decoding>,
    /// The cache of the spec, if it is open already.
    cache: Option<DiskCache>,
    /// The tier of the cache, which may be set later.
    tier: Tier,
    /// Whether batches say which rows of the data set they hold.
    numbered: bool,
    /// The rows to read, and no others.
    only: Option<Vec<RowId>>,
    /// Whether nothing will be read, so that it does not matter what is delivered.
    plan_only: bool,
    /// Which source of a mix it is.
    source: u64,
    /// Among how many sources of a mix the memory of the default window is divided.
    among: u64,
}

impl Dataset {
    /// A builder of a loader over this data set, with all options at their defaults.
    pub fn loader(&self) -> LoaderBuilder {
        LoaderBuilder::new(self.clone())
    }
}

impl LoaderBuilder {
    fn new(dataset: Dataset) -> Self {
        LoaderBuilder {
            dataset,
            mixed: Vec::new(),
            spec: LoaderSpec::default(),
            decoders: Vec::new(),
            decodings: BTreeMap::new(),
            cache: None,
            tier: Tier::default(),
            numbered: false,
            only: None,
            plan_only: false,
            source: 0,
            among: 1,
        }
    }

    /// Has each receipt say which rows of the data set its batch holds, for functions of one row in another language.
    pub fn numbered(mut self, numbered: bool) -> Self {
        self.numbered = numbered;
        self
    }

    /// For what the plan says alone: nothing will be read, and it does not matter which columns would be.
    pub(crate) fn plan_only(mut self) -> Self {
        self.plan_only = true;
        self
    }

    /// Reads these rows and no others.
    pub fn only_rows(mut self, ids: impl IntoIterator<Item = RowId>) -> Self {
        self.only = Some(ids.into_iter().collect());
        self
    }

    /// Checks everything, scans the filter's columns if there is a filter, and starts the loader's threads.
    ///
    /// # Errors
    /// A column that does not exist or has an unsupported type, a number that can never work, a filter that selects
    /// nothing, a window or a row group that does not fit the memory, a trace that cannot be written. Of a mix also:
    /// an option that is not where it belongs, a weight that can never work, columns of one name and several types, an
    /// epoch without a step or an end.
    pub fn build(self) -> Result<Loader> {
        if self.is_mix() {
            return self.mix()?.start();
        }
        let this = self.of_folders()?;
        let (io, store) = this.dataset.here()?;
        let settled = this.settle(&io, store)?;
        let monitor = monitor(&settled.spec.trace, settled.threads)?;
        let pool = threads::pool(settled.threads)?;
        Ok(Loader { sources: Sources::one(this.start(settled, io, pool, monitor, 0)) })
    }

    /// Starts a source of these options on a pool. `first_number` are the rows of the data sets before it.
    fn start(
        self,
        settled: Settled,
        io: Arc<IoRuntime>,
        pool: Arc<ThreadPool>,
        monitor: Arc<Monitor>,
        first_number: u64,
    ) -> Source {
        let Settled { spec, threads, columns, fetcher, selected, order, sizing, .. } = settled;
        let Delivered { codecs, decoded, schema, form, lengths, .. } = columns;
        let promise = Promise::new(sizing.promised());
        let means = Means { io, pool, _reading: settled.reading, _promise: promise };
        let engine = Engine::start(means, fetcher.reads.row_cache.clone());
        let tiers = fetcher.reads.row_cache.as_ref().zip(spec.cache.as_ref()).map(|(row_cache, cache)| {
            // Where entries are read into memory, it is planned for cells as they are stored.
            let forms = match row_cache.cache().is_mapped() {
                true => CacheForm::all(&codecs, fetcher.reads.projection.schema()),
                false => Vec::new(),
            };
            Arc::new(Tiers::new(cache.tier, forms, decoded as u64, &fetcher.reads))
        });
        let collator = Collator {
            tags: self.tags(&codecs, &fetcher.reads.projection),
            catalog: self.dataset.catalog.clone(),
            codecs,
            schema,
            form,
            group: sizing.group,
            on_bad_row: spec.on_bad_row,
            needs_deals: settled.batches.needs_deals,
            numbered: self.numbered,
            row_id: spec.row_id,
            row_mask: spec.row_mask,
            keys: lengths.keys,
            buffers: BufferPool::new((sizing.ahead + 3) * decoded),
            workspace: Workspace::of_loader(sizing.memory, threads),
            monitor: monitor.clone(),
            seed: augmentation_seed(spec.shuffle.seed(), self.source),
            lengths: Lengths {
                columns: lengths.columns,
                to_longest: lengths.to_longest,
                expanded: lengths.expanded,
                by_cell: lengths.by_cell,
                others: lengths.others,
                largest: sizing.largest_batch(),
                of_a_sample: spec.samples.rows_of_each(),
            },
        };
        Source {
            engine,
            fetcher,
            selected: Arc::new(selected),
            collator: Arc::new(collator),
            monitor,
            opened: self.dataset.opened,
            sizing,
            asked: LastAsked::default(),
            order: Mutex::new(order),
            open: settled.open,
            rows: settled.split.rows,
            left_out: settled.left_out,
            filter: spec.filter.as_ref().map(Filter::canonical),
            denied: settled.denied,
            files: OnceLock::new(),
            warning: Mutex::new(settled.warning),
            spec,
            tiers,
            first_number,
        }
    }

    /// What this rank would read in an epoch, as [`Loader::plan`] of the loader that [`build`](Self::build) makes: from
    /// footers alone, or after a scan of the filter's columns if there is a filter. Starts no thread.
    ///
    /// # Errors
    /// As [`build`](Self::build), but for the trace, which is not written.
    pub fn plan(&self, epoch: u64) -> Result<RankPlan> {
        if self.is_mix() {
            return self.mix()?.plan(epoch);
        }
        let this = self.clone().of_folders()?;
        let (io, store) = this.dataset.here()?;
        let Settled { fetcher, selected, order, split, sizing, .. } = this.settle(&io, store)?;
        let planned =
            Planned { samples: &selected, order: &order, split, reads: &fetcher.reads, sizing: &sizing };
        Ok(planned.plan(epoch))
    }

    /// Over the folders alone that the filter does not leave out.
    fn of_folders(mut self) -> Result<Self> {
        if let Some(filter) = &self.spec.filter {
            let catalog = &self.dataset.catalog;
            filter.validate(catalog)?;
            if let Some(kept) = catalog.of_folders(|constants| filter.keeps(constants))? {
                if kept.files.is_empty() {
                    return Err(no_folder());
                }
                self.dataset.catalog = Arc::new(kept);
            }
        }
        self.spec.samples.check()?;
        self.columns_of_samples()?;
        Ok(self)
    }
}

/// The seed of what is drawn for a row: another one for each source of a mix, or rows at the same place in two of them would
/// have the same crops.
fn augmentation_seed(seed: u64, source: u64) -> u64 {
    if source == 0 { seed } else { row_key(seed, u64::MAX, source) }
}

/// The record of a loader's activity, with a timeline if there is a file for it.
fn monitor(trace: &Option<PathBuf>, threads: usize) -> Result<Arc<Monitor>> {
    let trace = trace.as_ref().map(paths::local).transpose()?;
    Ok(Monitor::new(threads, trace.as_deref().map(Trace::create).transpose()?))
}
