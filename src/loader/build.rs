//! Builds a loader: checks the user's options, and fills in the open ones.

mod casts;
pub(super) mod columns;
mod following;
mod null_masks;
mod projection;
mod renames;
mod rewind;
mod samples;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rayon::ThreadPool;

use crate::arrow::datatypes::{DataType, Fields, SchemaRef};

use super::bad_rows::OnBadRow;
use super::buffer_pool::BufferPool;
use super::collate::{Collator, SampleForm};
use super::dataset::Dataset;
use super::deny::{Deny, sets_of};
use super::handle::{Inner, Loader, Open};
use super::lengths::Lengths;
use super::machine::{default_memory, processors};
use super::pipe::{Engine, Means};
use super::plan::RankPlan;
use super::sizing::{Grouping, Sizing};
use super::spec::{CacheSpec, Flatten, LoaderSpec};
use super::threads::{self, IoRuntime};
use super::tiers::Tiers;
use crate::batch::{Fill, is_narrow};
use crate::cache::{DiskCache, Tier};
use crate::catalog::RowId;
use crate::column::{CacheForm, ColumnCodec, Decoder, Encoding, Follow, Pad, Tensor, TextFormat};
use crate::decode::{Image, Workspace};
use crate::error::{Error, Result};
use crate::monitor::{Monitor, Trace};
use crate::paths;
use crate::reader::Filter;
use crate::reader::budget::Budget;
use crate::reader::fetch::{Fetcher, KnownCosts};
use crate::reader::row_cache::RowCache;
use crate::reader::select;
use crate::row_set::RowSet;
use crate::samples::{SampleIndex, Samples};
use crate::shard::{EpochOrder, Mixing, OrderSpec, Portion, Shard, Shuffle, SkippedRows, Split, row_key};
use crate::source::{Reading, Store, no_folder};
use columns::{RowBytes, decodes, is_flat, window_row_bytes};

/// Memory that the default window takes: rows as they are in memory once Parquet is decoded.
const WINDOW_BYTES: u64 = 1 << 30;

/// Of the catalogue of files and footers, the bytes that belong to what a process takes beside its budget: those of some
/// thousand files. Of a larger one the rest is counted.
const CATALOG_BYTES_FREE: u64 = 4 << 20;

/// More threads than any machine has processors only cost memory.
pub(crate) const MAX_THREADS: usize = 1024;

/// The options of a [`Loader`]. [`Dataset::loader`] creates a builder with every option at its default.
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
    dataset: Dataset,
    spec: LoaderSpec,
    /// The user's decoders, which a spec cannot hold.
    decoders: Vec<(String, Arc<dyn Decoder>)>,
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

/// The checked options of a loader with the defaults filled in, before anything is started.
pub(super) struct Settled {
    /// With the defaults filled in.
    pub(super) spec: LoaderSpec,
    /// The values of its shuffle that the user left open.
    pub(super) open: Open,
    threads: usize,
    codecs: Vec<Arc<dyn ColumnCodec>>,
    /// Columns that are decoded.
    decoded: usize,
    pub(super) schema: SchemaRef,
    fetcher: Fetcher,
    /// The files that were opened stay open for the loader.
    reading: Reading,
    selected: SampleIndex,
    pub(super) order: OrderSpec,
    pub(super) split: Split,
    sizing: Sizing,
    /// What the division of the memory depends on.
    batches: Batches,
    needs_deals: bool,
    lengths: RowBytes,
    form: SampleForm,
    /// A hash of the rows that are denied.
    denied: Option<String>,
    warning: Option<String>,
}

/// The batches for which memory is divided.
#[derive(Clone, Copy, Debug)]
struct Batches {
    bytes: u64,
    grouping: Grouping,
    uses_workspace: bool,
    /// Bytes of what is kept of the data set.
    beside: u64,
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
            spec: LoaderSpec::default(),
            decoders: Vec::new(),
            cache: None,
            tier: Tier::default(),
            numbered: false,
            only: None,
            plan_only: false,
            source: 0,
            among: 1,
        }
    }

    /// Replaces all options but the decoders of [`decode_with`](Self::decode_with).
    pub fn spec(mut self, spec: LoaderSpec) -> Self {
        self.tier = spec.cache.as_ref().map_or_else(Tier::default, |cache| cache.tier);
        (self.spec, self.cache) = (spec, None);
        self
    }

    /// The columns to read, in the order of delivery; `*`, `?` and `[0-9]` match several: `feature_*`. A column that is also
    /// named is where it is named. `meta.author` is that field of a structure, which is delivered with the fields that are
    /// named alone; the others are not fetched. Default: all.
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.spec.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Delivers the fields of structures as columns of their own, `meta.author`, at any depth: of all structures with `true`,
    /// or of the columns that are named. A field of a structure that is null is null. Options name such a column as it is
    /// delivered. Structures that [`decode`](Self::decode) or a like option names stay whole. Default: none.
    ///
    /// ```no_run
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().flatten(["meta"]).fill_null("meta.year", 0.0).build()
    /// # }
    /// ```
    pub fn flatten(mut self, flatten: impl Into<Flatten>) -> Self {
        self.spec.flatten = flatten.into();
        self
    }

    /// Delivers a column under another name. All other options name it so; [`columns`](Self::columns), `flatten` and a filter have
    /// stored names. Default: names are as stored.
    ///
    /// ```no_run
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().columns(["img", "y"]).rename("img", "image").rename("y", "label").build()
    /// # }
    /// ```
    pub fn rename(mut self, column: impl Into<String>, name: impl Into<String>) -> Self {
        self.spec.rename.insert(column.into(), name.into());
        self
    }

    /// Delivers the numbers of a column as another type, `Float32` or `Int64`: integers, floats, booleans, decimals and text that
    /// is a number, times as integers in their own unit, and the values of lists of these. In names `*`, `?` and `[0-9]` match
    /// several. The other options see the type that the column is cast to; a filter sees what is stored. Default: none.
    ///
    /// A value that the type does not have is a bad row: an integer outside of it, a fraction where it has integers, a finite
    /// number that would be infinite. Between floats, and from integers and decimals to them, numbers are rounded to the
    /// nearest; decimals and text by way of `Float64`.
    ///
    /// ```no_run
    /// use forebay::arrow::datatypes::DataType;
    ///
    /// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
    /// dataset.loader().cast("price", DataType::Float32).cast("feature_*", DataType::Float16).build()
    /// # }
    /// ```
    pub fn cast(mut self, column: impl Into<String>, to: DataType) -> Self {
        self.spec.cast.insert(column.into(), to);
        self
    }

    /// Decodes the encoded images of a column to pixels. Default: no column is decoded; images stay binary.
    pub fn decode(mut self, column: impl Into<String>, image: Image) -> Self {
        self.spec.decode.insert(column.into(), image);
        self
    }

    /// Crops, resizes and mirrors a column with the images that it belongs to: [`Boxes`](crate::Boxes),
    /// [`Keypoints`](crate::Keypoints) or [`Mask`](crate::Mask)s. The column of images is read and
    /// [decoded](Self::decode) as well. Default: none.
    pub fn follow(mut self, column: impl Into<String>, follow: impl Into<Follow>) -> Self {
        self.spec.follow.insert(column.into(), follow.into());
        self
    }

    /// Decodes the cells of a column with your own [`Decoder`]: binary values, text, or `struct<bytes, path>`. They are
    /// delivered as tensors of one shape, as images are. Default: none.
    pub fn decode_with(mut self, column: impl Into<String>, decoder: Arc<dyn Decoder>) -> Self {
        self.decoders.push((column.into(), decoder));
        self
    }

    /// Delivers the cells of a column as tensors of one shape: raw bytes, files of numpy, or lists of numbers. Default: as they
    /// are stored.
    pub fn decode_tensor(mut self, column: impl Into<String>, tensor: Tensor) -> Self {
        self.spec.tensors.insert(column.into(), tensor);
        self
    }

    /// Checks the cells of a column of text, or of binary that holds it: as UTF-8, or as JSON. Another cell is a bad row. Default:
    /// text is delivered as it is stored, and binary too.
    pub fn decode_text(mut self, column: impl Into<String>, format: TextFormat) -> Self {
        self.spec.texts.insert(column.into(), format);
        self
    }

    /// Delivers the values of a column as integer codes: texts, binary values or integers, or lists of these. Default: as they
    /// are stored.
    pub fn encode(mut self, column: impl Into<String>, encoding: impl Into<Encoding>) -> Self {
        self.spec.encode.insert(column.into(), encoding.into());
        self
    }

    /// Delivers lists of numbers as rows of one length: filled up at their end, or cut off. Default: lists are as long as they
    /// are stored.
    pub fn pad(mut self, column: impl Into<String>, pad: Pad) -> Self {
        self.spec.pad.insert(column.into(), pad);
        self
    }

    /// Replaces the nulls of a column by a value of the column's type: a number, for times in the column's own unit, for
    /// booleans 0 or 1; a text; or bytes. In binary values of fixed length it fills each byte. In lists it replaces each
    /// null value; a null list becomes an empty one, or where lists have a fixed length, one of this value alone. Default:
    /// nulls are delivered.
    pub fn fill_null(mut self, column: impl Into<String>, value: impl Into<Fill>) -> Self {
        self.spec.fill_null.insert(column.into(), value.into());
        self
    }

    /// Delivers beside each of these columns which of its values are there: booleans `<name>.mask`, false where it is null,
    /// after the stored columns. The column itself has the value of [`fill_null`](Self::fill_null) there, or else 0, an empty
    /// text or no bytes. For numbers, booleans, times, text, binary, and lists of fixed length, whose mask is for the row; in
    /// names `*`, `?` and `[0-9]` match several. Default: none.
    ///
    /// A null in a list that is there is a bad row, unless `fill_null` gives a value.
    pub fn null_mask<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.spec.null_mask = names.into_iter().map(Into::into).collect();
        self
    }

    /// Delivers which row each one is, as a last column `row_id` of `Int64`: the numbers of [`RowId`](crate::RowId)s.
    /// Default: false.
    pub fn row_id(mut self, row_id: bool) -> Self {
        self.spec.row_id = row_id;
        self
    }

    /// Delivers whether each row is to be counted, as a last column `row_mask` of `Boolean`: each row of an epoch is so once, over
    /// all ranks. It is false for a row that is [repeated](crate::RankPlan::padded) so that no rank is without a batch.
    /// Default: false.
    pub fn row_mask(mut self, row_mask: bool) -> Self {
        self.spec.row_mask = row_mask;
        self
    }

    /// Reads only the rows that match a [`Filter`] or an [expression](crate::filter::Expr). Default: all rows.
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.spec.filter = Some(filter.into());
        self
    }

    /// Leaves rows out of every epoch: those of a list of numbers, or with certain values in a column. Lengths and ranks stay
    /// exact, as with a filter. A position that was saved with another list is taken between two epochs only. Default: none.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Deny};
    ///
    /// let loader = Dataset::open("data/train/")?.loader().deny(Deny::read("bad-rows.txt")?).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn deny(mut self, deny: Deny) -> Self {
        self.spec.deny = deny;
        self
    }

    /// Passes over steps, each a range of the first one and the one after the last. They are counted through all epochs from the
    /// first step of epoch 0, with the batches of this loader, as if none were passed over: as
    /// [`which`](Loader::which) counts them in an epoch. A position that is restored brings its own where none are given.
    /// Default: none.
    ///
    /// ```no_run
    /// let dataset = forebay::Dataset::open("data/train/")?;
    /// let loader = dataset.loader().skip_steps([(4_000, 4_010)]).build()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn skip_steps(mut self, ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        self.spec.skip_steps = ranges.into_iter().collect();
        self
    }

    /// What one sample is: a row, or several of them, such as a [`Window`](crate::Window), a [`Pack`](crate::Pack) or a
    /// [`Bucket`](crate::Bucket). Batches, plans and positions count samples; the window of a shuffle counts rows. Default: a
    /// row.
    pub fn samples(mut self, samples: impl Into<Samples>) -> Self {
        self.spec.samples = samples.into();
        self
    }

    /// The share of this process. Default: everything.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.spec.shard = shard;
        self
    }

    /// The order of rows. Default: as stored.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.spec.shuffle = shuffle;
        self
    }

    /// Rows of a batch of one rank. Default: [`LoaderSpec::BATCH_SIZE`], 32.
    pub fn batch_size(mut self, rows: u64) -> Self {
        self.spec.batch_size = rows;
        self
    }

    /// Rows of a step over all ranks, instead of [`batch_size`](Self::batch_size): any number of ranks shares them, so that
    /// their batches differ by a row at most. With it, steps have the same rows on every world. Default: `batch_size` for
    /// each rank.
    pub fn global_batch_size(mut self, rows: u64) -> Self {
        self.spec.global_batch_size = Some(rows);
        self
    }

    /// Leaves out the rows that do not fill a batch on every rank. Default: false, the last batch is shorter.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.spec.drop_last = drop_last;
        self
    }

    /// How many epochs there will be: `0..epochs`. Nothing is fetched ahead after the last of them. Default: unknown;
    /// toward the end of an epoch, the beginning of the next one is fetched, which is wasted if the run stops there.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.spec.epochs = Some(epochs);
        self
    }

    /// Bytes for everything in flight: requests, the window and the lists that mix it, batches made ahead, images while they
    /// are decoded; and for what is kept of the footers of many files. The process takes at most 150 MiB beyond it. Default:
    /// 4 GiB, or half of the memory of the machine or container if that is less.
    ///
    /// Images may take a quarter of it, and 48 MiB in any case. One that would take more is a bad row:
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge), with the memory that it takes and the budget that is enough.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.spec.memory = Some(bytes);
        self
    }

    /// Threads that decode. Default: the processors that this process may use.
    pub fn threads(mut self, threads: usize) -> Self {
        self.spec.threads = Some(threads);
        self
    }

    /// Keeps decoded rows on local disk, and reads them from there. Default: none.
    ///
    /// The order of rows does not depend on the cache, but an exact shuffle over more rows than the memory holds needs
    /// one. Its first epoch begins when all rows are in the cache.
    pub fn cache(mut self, cache: DiskCache) -> Self {
        let spec = CacheSpec { tier: self.tier, ..CacheSpec::new(cache.folder(), cache.max_bytes()) };
        (self.spec.cache, self.cache) = (Some(spec), Some(cache));
        self
    }

    /// The form in which the cache keeps images. Default: [`Tier::Auto`].
    ///
    /// With [`Tier::Pixels`] images are not decoded again from the second epoch on, which takes several times the disk
    /// space: 3 bytes for each of their pixels, or of the result's where no random crop comes first. With
    /// [`Tier::Resized`] they are kept as JPEGs of the largest size that is needed; an image that would hardly be smaller
    /// stays as it is. With [`Tier::Coefficients`] the coefficients of JPEGs are kept, from which every size and crop is
    /// decoded to the same pixels as from the file, for a quarter to a half more disk space. Row groups whose images would
    /// take more than an eighth of the memory in such a form are kept as rows, and so are all row groups where entries are
    /// not mapped.
    ///
    /// [`Tier::Auto`] begins with files. It changes to another form for the epoch after next if, in an epoch, the consumer
    /// waited for images to be decoded, the cache can hold all of them in that form, and the disk delivers them at least
    /// twice as fast as they came. If they then come slower than before, it changes back. A loader that is ahead of its
    /// consumer keeps its form.
    pub fn cache_tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        if let Some(cache) = &mut self.spec.cache {
            cache.tier = tier;
        }
        self
    }

    /// What to do with a row that cannot be delivered. Default: raise.
    pub fn on_bad_row(mut self, on_bad_row: OnBadRow) -> Self {
        self.spec.on_bad_row = on_bad_row;
        self
    }

    /// Has each receipt say which rows of the data set its batch holds, for functions of one row in another language.
    #[doc(hidden)]
    pub fn numbered(mut self, numbered: bool) -> Self {
        self.numbered = numbered;
        self
    }

    /// For what the plan says alone: nothing will be read, and it does not matter which columns would be.
    pub(crate) fn plan_only(mut self) -> Self {
        self.plan_only = true;
        self
    }

    /// The options so far.
    pub(super) fn options(&self) -> &LoaderSpec {
        &self.spec
    }

    /// What it reads.
    pub(super) fn data_set(&self) -> &Dataset {
        &self.dataset
    }

    /// The same as a source of a mix of so many, with these options.
    pub(super) fn for_mix(self, spec: LoaderSpec, source: u64, among: u64) -> Self {
        LoaderBuilder { spec, source, among, ..self }
    }

    /// Reads these rows and no others.
    pub(crate) fn only_rows(mut self, ids: impl IntoIterator<Item = RowId>) -> Self {
        self.only = Some(ids.into_iter().collect());
        self
    }

    /// Writes a timeline of the loader to a file that Perfetto (<https://ui.perfetto.dev>) and
    /// `chrome://tracing` open: JSON trace events of row groups fetched and decoded, batches made, and waits.
    ///
    /// The file is written when the loader is closed or dropped. Of a long run it holds the last 200,000 spans, and says
    /// how many are missing before them. Default: none, which costs nothing.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.trace = Some(path.into());
        self
    }

    /// Checks everything, scans the filter's columns if there is a filter, and starts the loader's threads.
    ///
    /// # Errors
    /// A column that does not exist or has an unsupported type, a number that can never work, a filter that selects
    /// nothing, a window or a row group that does not fit the memory, a trace that cannot be written.
    pub fn build(self) -> Result<Loader> {
        let this = self.of_folders()?;
        let (io, store) = this.dataset.here()?;
        let settled = this.settle(&io, store)?;
        let monitor = monitor(&settled.spec.trace, settled.threads)?;
        let pool = threads::pool(settled.threads)?;
        Ok(this.start(settled, io, pool, monitor))
    }

    /// Starts a loader of these options on a pool.
    pub(super) fn start(
        self,
        settled: Settled,
        io: Arc<IoRuntime>,
        pool: Arc<ThreadPool>,
        monitor: Arc<Monitor>,
    ) -> Loader {
        let this = self;
        let Settled { spec, threads, codecs, fetcher, selected, order, sizing, lengths, form, .. } = settled;
        let means = Means { io, pool, _reading: settled.reading };
        let engine = Engine::start(means, fetcher.row_cache.clone());
        let tiers = fetcher.row_cache.as_ref().zip(spec.cache.as_ref()).map(|(row_cache, cache)| {
            // Where entries are read into memory, it is planned for cells as they are stored.
            let forms = match row_cache.cache().is_mapped() {
                true => CacheForm::all(&codecs, fetcher.projection.schema()),
                false => Vec::new(),
            };
            Arc::new(Tiers::new(cache.tier, forms, settled.decoded as u64, &fetcher))
        });
        let collator = Collator {
            catalog: this.dataset.catalog.clone(),
            codecs,
            schema: settled.schema,
            form,
            group: sizing.group,
            on_bad_row: spec.on_bad_row,
            needs_deals: settled.needs_deals,
            numbered: this.numbered,
            row_id: spec.row_id,
            row_mask: spec.row_mask,
            keys: lengths.keys,
            buffers: BufferPool::new((sizing.ahead + 3) * settled.decoded),
            workspace: Workspace::of_loader(sizing.memory, threads),
            monitor: monitor.clone(),
            seed: augmentation_seed(spec.shuffle.seed(), this.source),
            lengths: Lengths {
                columns: lengths.columns,
                to_longest: lengths.to_longest,
                others: lengths.others,
                largest: sizing.largest_batch(),
                of_a_sample: spec.samples.rows_of_each(),
            },
        };
        let inner = Inner {
            engine,
            fetcher,
            selected: Arc::new(selected),
            collator: Arc::new(collator),
            monitor,
            opened: this.dataset.opened,
            progress: Arc::default(),
            sizing,
            order: Mutex::new(order),
            open: settled.open,
            rows: settled.split.rows,
            filter: spec.filter.as_ref().map(Filter::canonical),
            denied: settled.denied,
            warning: Mutex::new(settled.warning),
            spec,
            tiers,
        };
        Loader { inner: Arc::new(inner) }
    }

    /// What this rank would read in an epoch, as [`Loader::plan`] of the loader that [`build`](Self::build) makes: from
    /// footers alone, or after a scan of the filter's columns if there is a filter. Starts no thread.
    ///
    /// # Errors
    /// As [`build`](Self::build), but for the trace, which is not written.
    pub fn plan(&self, epoch: u64) -> Result<RankPlan> {
        let this = self.clone().of_folders()?;
        let (io, store) = this.dataset.here()?;
        let Settled { fetcher, selected, order, split, sizing, .. } = this.settle(&io, store)?;
        let rows = EpochOrder::new(&selected.counts, &order, epoch);
        Ok(RankPlan::of(&rows, &selected.counts, split, &order, epoch, &fetcher, &sizing))
    }

    /// Over the folders alone that the filter does not leave out.
    pub(super) fn of_folders(mut self) -> Result<Self> {
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

    /// Checks everything, and fills in the open options.
    pub(super) fn settle(&self, io: &IoRuntime, store: Store) -> Result<Settled> {
        self.check_numbers()?;
        let reading = store.reading();
        let mut spec = self.spec.clone();
        spec.batch_size = spec.most_of_a_rank();
        let open = Open {
            lanes: spec.shuffle.lanes.is_none(),
            window: spec.shuffle.window_rows.is_none(),
            skips: spec.skip_steps.is_empty(),
        };
        let catalog = self.dataset.catalog.clone();
        spec.deny = spec.deny.of(&catalog)?;
        let denied = spec.deny.digest();
        let projection = Arc::new(self.projection()?);
        let (codecs, schema) = self.codecs(&projection)?;
        let (schema, form) = self.form(&projection, schema)?;
        let threads = *spec.threads.get_or_insert_with(processors);
        let memory = *spec.memory.get_or_insert_with(default_memory);
        spec.columns = Some(projection.names(&catalog.schema));
        let default_window = WINDOW_BYTES / self.among / window_row_bytes(&catalog, &projection);
        let row_bytes = self.batch_row_bytes(&codecs, &projection)?;
        let batch_bytes = spec.batch_size.saturating_mul(self.sample_bytes(&form, row_bytes));
        let decoded = codecs.iter().filter(|codec| decodes(codec)).count();
        let mut lengths = self.lengths(&codecs, &projection)?;
        if let SampleForm::Packs(packs) = &form {
            lengths = lengths.all_alike(packs.bytes());
        }
        let with_keys = |fields: &Fields, takes: fn(&DataType) -> bool| {
            let keys = lengths.keys.iter().copied().chain(std::iter::repeat(false));
            fields.iter().zip(keys).all(|(field, is_key)| is_key || takes(field.data_type()))
        };
        let all_flat = with_keys(schema.fields(), is_flat);
        let grouping = match all_flat && decoded == 0 && lengths.columns.is_empty() {
            false => Grouping::Alone,
            true if !spec.samples.are_rows() => Grouping::Alone,
            true if spec.shuffle.mixing == Mixing::Window && spec.cache.is_none() => Grouping::Dealt,
            true => Grouping::Scattered,
        };
        let uses_workspace = codecs.iter().any(|codec| codec.uses_workspace());
        let sizing = Sizing::new(memory, spec.batch_size, batch_bytes, grouping, uses_workspace)?;
        let all_narrow = with_keys(projection.schema().fields(), is_narrow);
        let needs_deals = !all_narrow
            || decoded > 0
            || spec.cache.is_some()
            || !spec.encode.is_empty()
            || !spec.texts.is_empty()
            || !spec.cast.is_empty()
            || self.numbered
            || !spec.samples.are_rows()
            || spec.row_id
            || spec.row_mask
            || !matches!(spec.on_bad_row, OnBadRow::Raise);
        let sizing = sizing.with_deals(needs_deals);

        let mut fetcher = Fetcher {
            store,
            catalog,
            projection,
            budget: Budget::new(sizing.row_groups),
            lenient: matches!(spec.on_bad_row, OnBadRow::Skip { .. }),
            row_cache: None,
            costs: KnownCosts::default(),
            pages: None,
            pieces: Arc::default(),
        };
        let (selected, largest, warning) = self.select(io, &mut fetcher, &spec.deny, sizing.row_groups)?;
        let sizing = match largest {
            Some(rows) => {
                let bytes = batch_bytes.saturating_mul(rows);
                Sizing::new(memory, spec.batch_size, bytes, grouping, uses_workspace)?.with_deals(needs_deals)
            }
            None => sizing,
        };
        // A window of the shuffle is a matter of rows, whatever samples are made of them.
        let row_counts = selected.row_counts();
        let sizing = sizing.with_rows(&row_counts);
        let counted = fetcher.catalog.bytes().saturating_sub(CATALOG_BYTES_FREE);
        let beside = selected.bytes().saturating_add(counted);
        let sizing = sizing.beside(beside);
        let batches = Batches { bytes: batch_bytes, grouping, uses_workspace, beside };
        let rows: u64 = selected.counts.iter().map(|&rows| u64::from(rows)).sum();
        let order = OrderSpec::new(&spec.shuffle, &row_counts, spec.shard.world(), default_window);
        self.check_rows(rows, &order)?;
        let order = self.in_pieces(io, &mut fetcher, &selected, order, sizing.row_groups)?;
        spec.shuffle = spec.shuffle.settled(order.lanes(), default_window);
        let filter = spec.filter.as_ref().map(Filter::canonical);
        fetcher.row_cache = self.open_cache()?.map(|cache| {
            RowCache::new(cache, filter.as_deref(), denied.as_deref(), row_counts, sizing.row_groups)
        });
        let split = Split {
            rows,
            lanes: order.lanes(),
            shard: spec.shard,
            global_batch: spec.global_batch(),
            drop_last: spec.drop_last,
        };
        let order = order.with_skipped(SkippedRows::of_steps(&spec.skip_steps, &split)?);
        let sizing = sizing.settle(&fetcher, &selected.counts, &order, split, lengths.are_known)?;
        fetcher.budget = Budget::new(sizing.row_groups);
        Ok(Settled {
            spec,
            open,
            threads,
            codecs,
            decoded,
            schema,
            fetcher,
            reading,
            selected,
            order,
            split,
            sizing,
            batches,
            needs_deals,
            lengths,
            form,
            denied,
            warning,
        })
    }

    /// The same options as a source of a mix, with `memory` of its memory: batches have up to `rows` rows.
    pub(super) fn divided(
        &self,
        io: &IoRuntime,
        settled: Settled,
        (memory, rows): (u64, u64),
        portion: Portion,
    ) -> Result<Settled> {
        let bytes = settled.row_bytes() * rows;
        let Settled { mut spec, mut fetcher, selected, order, split, batches, .. } = settled;
        (spec.batch_size, spec.memory) = (rows, Some(memory));
        let sizing = Sizing::new(memory, rows, bytes, batches.grouping, batches.uses_workspace)?;
        let sizing = sizing.with_deals(settled.needs_deals).beside(batches.beside);
        let order =
            self.in_pieces(io, &mut fetcher, &selected, order, sizing.row_groups)?.with_portion(portion);
        let split = Split { lanes: order.lanes(), global_batch: spec.global_batch(), ..split };
        fetcher.row_cache = fetcher.row_cache.map(|row_cache| {
            let filter = spec.filter.as_ref().map(Filter::canonical);
            let counts = selected.counts.clone();
            let cache = row_cache.cache().clone();
            RowCache::new(cache, filter.as_deref(), settled.denied.as_deref(), counts, sizing.row_groups)
        });
        let sizing = sizing.settle(&fetcher, &selected.counts, &order, split, settled.lengths.are_known)?;
        fetcher.budget = Budget::new(sizing.row_groups);
        Ok(Settled { spec, fetcher, selected, order: order.alone(), split, sizing, batches, ..settled })
    }

    /// Has row groups that do not fit `memory` read in pieces, where rows are delivered as they are stored.
    fn in_pieces(
        &self,
        io: &IoRuntime,
        fetcher: &mut Fetcher,
        selected: &SampleIndex,
        order: OrderSpec,
        memory: u64,
    ) -> Result<OrderSpec> {
        if self.spec.shuffle.mixing != Mixing::Stored || !selected.are_rows() {
            return Ok(order);
        }
        let largest = Budget::new(memory).largest();
        let groups = (0..selected.counts.len()).filter(|&group| selected.counts[group] > 0);
        let larger = groups.filter(|&group| fetcher.group_cost(group).total() > largest);
        let larger: Vec<_> = larger.map(|group| (group, selected.selected(group).clone())).collect();
        if larger.is_empty() {
            return Ok(order);
        }
        let of_rows = fetcher.clone();
        let cutting = async move { select::pieces(&of_rows, larger, memory).await };
        fetcher.pieces = Arc::new(io.wait_for(cutting)??);
        Ok(order.with_cuts(fetcher.pieces.cuts()))
    }

    /// The cache, opened if it is not open yet.
    fn open_cache(&self) -> Result<Option<DiskCache>> {
        match (&self.cache, &self.spec.cache) {
            (Some(open), _) => Ok(Some(open.clone())),
            (None, Some(spec)) => DiskCache::open(&spec.path, spec.max_bytes).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn check_numbers(&self) -> Result<()> {
        let (batch, world) = (self.spec.most_of_a_rank(), self.spec.shard.world());
        match self.spec.global_batch_size {
            Some(rows) if rows < u64::from(world) => {
                let cause = format!("global_batch_size is {rows}, and the shard is one of {world}");
                return Err(Error::invalid(cause).hint("a step has a row for each rank, or more"));
            }
            None if batch == 0 => {
                return Err(Error::invalid("batch_size is 0").hint("a batch has 1 row or more"));
            }
            _ => {}
        }
        if batch > u64::from(u32::MAX) {
            return Err(Error::invalid(format!("batch_size is {batch}")).hint("up to 2^32 - 1 rows"));
        }
        if let Some(threads) = self.spec.threads.filter(|threads| *threads > MAX_THREADS) {
            let hint = format!("up to {MAX_THREADS}; this process may use {} processors", processors());
            return Err(Error::invalid(format!("threads is {threads}")).hint(hint));
        }
        if self.spec.threads == Some(0) {
            return Err(Error::invalid("threads is 0").hint("leave out `threads` to use all processors"));
        }
        if self.spec.epochs == Some(0) {
            return Err(Error::invalid("epochs is 0").hint("leave it out where the number is not known"));
        }
        if self.spec.memory == Some(0) {
            return Err(Error::invalid("memory is 0").hint("give a budget in bytes"));
        }
        self.spec.shuffle.validate()
    }

    fn check_rows(&self, rows: u64, order: &OrderSpec) -> Result<()> {
        if let (0, Samples::Windows(window)) = (rows, &self.spec.samples) {
            let cause = format!("no row group has {} rows that make a window", window.length());
            return Err(Error::invalid(cause)
                .hint("use shorter windows, a larger `gap`, or a `within` that more rows share"));
        }
        if let (0, Samples::Packs(_)) = (rows, &self.spec.samples) {
            return Err(Error::invalid("all lists are empty, so that there is no pack"));
        }
        if rows == 0 {
            let error = Error::invalid("no row is selected");
            return Err(match self.spec.filter {
                Some(_) => error.hint("the filter matches nothing"),
                None if !self.spec.deny.is_empty() => error.hint("`deny` leaves none"),
                None => error.hint("the data set is empty"),
            });
        }
        let noun = if self.spec.samples.are_rows() { "rows" } else { "samples" };
        let global = self.spec.global_batch();
        if self.spec.drop_last && rows < global {
            return Err(Error::invalid(format!(
                "{rows} {noun} do not fill one step of {global}, and drop_last drops the rest"
            ))
            .hint("use smaller batches, or leave out `drop_last`"));
        }
        if rows < u64::from(order.lanes()) {
            let lanes = order.lanes();
            return Err(Error::invalid(format!(
                "{lanes} lanes need at least {lanes} {noun}; the selection has {rows}"
            ))
            .hint("use fewer `lanes` or fewer ranks"));
        }
        Ok(())
    }

    /// The samples, the most rows of one where that follows from lengths, and a warning about numbers of rows that there are
    /// not. Of row groups with few of the rows `fetcher` reads the pages that hold these from then on.
    fn select(
        &self,
        io: &IoRuntime,
        fetcher: &mut Fetcher,
        deny: &Deny,
        limit: u64,
    ) -> Result<(SampleIndex, Option<u64>, Option<String>)> {
        let catalog = fetcher.catalog.clone();
        let mut selected = select::live_rows(&catalog)?;
        for filter in deny.filter().into_iter().chain(self.spec.filter.clone()) {
            let columns = filter.columns();
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            let projection = Arc::new(catalog.project(&names)?);
            // The rows must be known with certainty, so no row group may be skipped.
            let costs = KnownCosts::default();
            let of_filter = Fetcher { projection, lenient: false, costs, ..fetcher.clone() };
            let live = select::live_rows(&catalog)?;
            let found =
                io.wait_for(async move { select::matching(&filter, live, &of_filter, limit).await })??;
            selected = selected.iter().zip(&found).map(|(one, other)| one.intersection(other)).collect();
        }
        let (mut selected, unknown) = deny.without_rows(&catalog, selected);
        if let Some(only) = &self.only {
            let (wanted, _) = sets_of(&catalog, only);
            let none = |rows: &RowSet| RowSet::none(rows.rows());
            let of_group = |(group, rows): (usize, &RowSet)| match wanted.get(&group) {
                Some(wanted) => rows.intersection(wanted),
                None => none(rows),
            };
            selected = selected.iter().enumerate().map(of_group).collect();
        }
        let is_whole = self.spec.filter.is_none() && deny.is_empty() && self.only.is_none();
        if !is_whole && self.spec.cache.is_none() && self.cache.is_none() {
            let (of_rows, rows) = (fetcher.clone(), selected.clone());
            let pages = io.wait_for(async move { select::pages(&of_rows, &rows).await })??;
            fetcher.pages = (!pages.is_empty()).then(|| Arc::new(pages));
        }
        let warning = (unknown > 0).then(|| {
            format!("{unknown} of the rows that `deny` lists are not in this data set: a row id holds for one root folder")
        });
        let (samples, largest) = self.sample_index(io, fetcher, selected, deny.digest(), limit)?;
        Ok((samples, largest, warning))
    }
}

impl Settled {
    /// The bytes of a row in a batch.
    pub(super) fn row_bytes(&self) -> u64 {
        self.batches.bytes / self.spec.batch_size.max(1)
    }

    /// Rows of each row group that are read.
    pub(super) fn rows(&self) -> u64 {
        self.split.rows
    }

    /// The least memory that it needs as a source of a mix.
    pub(super) fn least(&self, rows: u64, portion: Portion) -> u64 {
        let Batches { grouping, uses_workspace, beside, .. } = self.batches;
        let bytes = self.row_bytes() * rows;
        // Large enough for any batches: the least is sought from below.
        let sizing = Sizing::new(u64::MAX / 4, rows, bytes, grouping, uses_workspace);
        let sizing = sizing.unwrap_or(self.sizing).with_deals(self.needs_deals).beside(beside);
        let order = self.order.clone().with_portion(portion);
        let world = u64::from(self.spec.shard.world());
        let split = Split { lanes: order.lanes(), global_batch: rows * world, ..self.split };
        sizing.least(&self.fetcher, &self.selected.counts, &order, split)
    }
}

/// The seed of what is drawn for a row: another one for each source of a mix, or rows at the same place in two of them would
/// have the same crops.
fn augmentation_seed(seed: u64, source: u64) -> u64 {
    if source == 0 { seed } else { row_key(seed, u64::MAX, source) }
}

/// The record of a loader's activity, with a timeline if there is a file for it.
pub(super) fn monitor(trace: &Option<PathBuf>, threads: usize) -> Result<Arc<Monitor>> {
    let trace = trace.as_ref().map(paths::local).transpose()?;
    Ok(Monitor::new(threads, trace.as_deref().map(Trace::create).transpose()?))
}
