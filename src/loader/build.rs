//! What a user asks of a loader, checked, and what was left open settled.

mod columns;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow::datatypes::{FieldRef, Schema};

use super::bad_rows::OnBadRow;
use super::buffer_pool::BufferPool;
use super::collate::{Collator, Lengths, Treatment};
use super::dataset::Dataset;
use super::handle::{Inner, Loader, Open};
use super::images::tensor_field;
use super::machine::{default_memory, processors};
use super::pipe::Engine;
use super::sizing::Sizing;
use super::threads::Border;
use super::tiers::Tiers;
use crate::batch::{Fill, delivered};
use crate::cache::{DiskCache, Tier};
use crate::decode::{Image, Workspace};
use crate::error::{Error, Result};
use crate::monitor::{Monitor, Trace};
use crate::paths;
use crate::reader::Filter;
use crate::reader::budget::Budget;
use crate::reader::fetch::Fetcher;
use crate::reader::row_cache::RowCache;
use crate::reader::select;
use crate::samples::{SampleIndex, SingleRows};
use crate::shard::{OrderSpec, Shard, Shuffle, Split};
use columns::{has_images, is_flat, window_row_bytes};

/// Memory that the default window takes: rows as they lie in memory once Parquet is decoded.
const WINDOW_BYTES: u64 = 1 << 30;

/// More threads than any machine has processors only cost memory.
const MAX_THREADS: usize = 1024;

/// Describes a [`Loader`]; made by [`Dataset::loader`].
#[derive(Clone, Debug)]
#[must_use = "nothing is read before build()"]
pub struct LoaderBuilder {
    dataset: Dataset,
    columns: Option<Vec<String>>,
    decode: Vec<(String, Image)>,
    fill_null: Vec<(String, Fill)>,
    filter: Option<Filter>,
    shard: Shard,
    shuffle: Shuffle,
    batch_size: u64,
    drop_last: bool,
    epochs: Option<u64>,
    memory: Option<u64>,
    threads: Option<usize>,
    on_bad_row: OnBadRow,
    cache: Option<DiskCache>,
    tier: Tier,
    trace: Option<PathBuf>,
}

impl LoaderBuilder {
    /// Rows of a batch where none are said: in Rust, in Python and in the program.
    pub const BATCH_SIZE: u64 = 32;

    pub(super) fn new(dataset: Dataset) -> Self {
        LoaderBuilder {
            dataset,
            columns: None,
            decode: Vec::new(),
            fill_null: Vec::new(),
            filter: None,
            shard: Shard::default(),
            shuffle: Shuffle::default(),
            batch_size: LoaderBuilder::BATCH_SIZE,
            drop_last: false,
            epochs: None,
            memory: None,
            threads: None,
            on_bad_row: OnBadRow::default(),
            cache: None,
            tier: Tier::default(),
            trace: None,
        }
    }

    /// The columns to read, in the order of delivery. Default: all.
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Decodes the encoded images of a column to pixels.
    pub fn decode(mut self, column: impl Into<String>, image: Image) -> Self {
        self.decode.push((column.into(), image));
        self
    }

    /// Replaces nulls of a column by a value, which must be one of the column's type: a number, for times in the column's
    /// own unit, for booleans 0 or 1; a text; or bytes. Of binary values of fixed length it stands for each byte. Of lists
    /// it stands for each value that is null; a list that is null becomes an empty one, or where lists have a fixed
    /// length, one of this value alone.
    pub fn fill_null(mut self, column: impl Into<String>, value: impl Into<Fill>) -> Self {
        self.fill_null.push((column.into(), value.into()));
        self
    }

    /// Reads only the rows that match. Default: all rows.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// The share of this process. Default: everything.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = shard;
        self
    }

    /// The order of rows. Default: as stored.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Rows of a batch of one rank. Default: [`BATCH_SIZE`](Self::BATCH_SIZE), 32.
    pub fn batch_size(mut self, rows: u64) -> Self {
        self.batch_size = rows;
        self
    }

    /// Leaves out the rows that do not fill a batch on every rank. Default: false, the last batch is shorter.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// How many epochs there will be: `0..epochs`. Nothing is fetched ahead after the last of them. Default: unknown; while
    /// an epoch ends, the beginning of the next one is fetched, which a run that stops there has read in vain.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Bytes for all that is in flight: requests, the window and the lists that mix it, batches made ahead, images while they
    /// are decoded. The process takes at most 150 MiB beside it. Default: 4 GiB, or half of what the machine or container has
    /// if that is less.
    ///
    /// Images may take a quarter of it, and 48 MiB in any case, which no budget is too small for. One that would take more
    /// is a bad row: [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge), with what it takes and the budget that does.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Threads that decode. Default: the processors that this process may use.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Keeps decoded rows on local disk, and reads them from there. Default: none.
    ///
    /// The order of rows does not depend on it, but an exact shuffle over more rows than the memory holds needs it. Its
    /// first epoch then begins when all rows are in the cache.
    pub fn cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// What the cache keeps of images. Default: [`Tier::Auto`].
    ///
    /// With [`Tier::Pixels`] images are not decoded again from the second epoch on, which takes several times the disk:
    /// 3 bytes for each of their pixels, or of the result's where no random crop comes first. With [`Tier::Resized`] they
    /// are kept as JPEGs of the largest size that is needed; an image that would hardly be smaller stays as it is. Row
    /// groups whose images would take more than an eighth of the memory in such a form are kept as rows, and so are all
    /// where entries are not mapped.
    ///
    /// [`Tier::Auto`] begins with files. It changes to another form for the epoch after next when in an epoch the consumer
    /// waited for images to be decoded, the cache has room for all of them in that form, and the disk gives them at least
    /// twice as fast as they came. If they then come slower than before, it goes back. A loader that is ahead of its
    /// consumer is left alone.
    pub fn cache_tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// What to do with a row that cannot be delivered. Default: raise.
    pub fn on_bad_row(mut self, on_bad_row: OnBadRow) -> Self {
        self.on_bad_row = on_bad_row;
        self
    }

    /// Writes a timeline of what the loader did to a file that Perfetto (<https://ui.perfetto.dev>) and
    /// `chrome://tracing` open: JSON trace events of row groups fetched and decoded, batches made, and waits.
    ///
    /// The file is written when the loader is closed or dropped. Of a long run it holds the last 200,000 spans, and says
    /// how many are missing before them. Default: none, which costs nothing.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }

    /// Checks everything, scans the filter's columns if there is a filter, and starts the loader's threads.
    ///
    /// # Errors
    /// A column that does not exist or has a type that is not read, a number that can never work, a filter that selects
    /// nothing, a window or a row group that does not fit the memory, a trace that cannot be written.
    pub fn build(self) -> Result<Loader> {
        self.check_numbers()?;
        let catalog = self.dataset.catalog.clone();
        let projection = Arc::new(self.projection()?);
        let treatments = self.treatments(&projection)?;
        let (border, store) = self.dataset.here()?;
        let threads = self.threads.unwrap_or_else(processors);
        let trace = self.trace.as_ref().map(paths::local).transpose()?;
        let monitor = Monitor::new(threads, trace.as_deref().map(Trace::create).transpose()?);
        let engine = Arc::new(Engine::start(border.clone(), threads)?);

        let memory = self.memory.unwrap_or_else(default_memory);
        let fields =
            projection.schema().fields().iter().zip(&treatments).map(|(field, treatment)| match treatment {
                Treatment::Image(image) => Arc::new(tensor_field(field.name(), image)),
                Treatment::Plain { fill: None } => delivered(field),
                Treatment::Plain { fill: Some(_) } => {
                    Arc::new(delivered(field).as_ref().clone().with_nullable(false))
                }
            });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()));
        let row_bytes = window_row_bytes(&catalog, &projection);
        let batch_bytes = self.batch_size.saturating_mul(self.batch_row_bytes(&treatments, &projection)?);
        let may_group =
            schema.fields().iter().all(|field| is_flat(field.data_type())) && !has_images(&treatments);
        let sizing = Sizing::new(memory, self.batch_size, batch_bytes, may_group, has_images(&treatments))?;

        let mut fetcher = Fetcher {
            store,
            catalog: catalog.clone(),
            projection,
            budget: Budget::new(sizing.row_groups),
            lenient: matches!(self.on_bad_row, OnBadRow::Skip { .. }),
            row_cache: None,
        };
        let selected = self.select(&border, &fetcher, sizing.row_groups)?;
        let sizing = sizing.beside_row_sets(selected.bytes());
        let rows: u64 = selected.counts.iter().map(|&rows| u64::from(rows)).sum();
        let order =
            OrderSpec::new(&self.shuffle, &selected.counts, self.shard.world(), WINDOW_BYTES / row_bytes);
        self.check_rows(rows, &order)?;
        let filter = self.filter.as_ref().map(Filter::canonical);
        let images = self.images(&treatments, fetcher.projection.schema());
        fetcher.row_cache = self.cache.clone().map(|cache| {
            RowCache::new(cache, filter.as_deref(), images, selected.counts.clone(), sizing.row_groups)
        });
        let tiers = fetcher.row_cache.is_some().then(|| Arc::new(Tiers::new(self.tier, &fetcher)));
        let split = Split {
            rows,
            lanes: order.lanes(),
            shard: self.shard,
            batch: self.batch_size,
            drop_last: self.drop_last,
        };
        let lengths = self.lengths(&treatments, &fetcher.projection)?;
        let sizing = sizing.settle(&fetcher, &selected.counts, &order, split, lengths.are_known)?;
        fetcher.budget = Budget::new(sizing.row_groups);

        let images = treatments.iter().filter(|treatment| matches!(treatment, Treatment::Image(_))).count();
        let collator = Collator {
            catalog,
            treatments,
            schema,
            group: sizing.group,
            on_bad_row: self.on_bad_row,
            buffers: BufferPool::new((sizing.ahead + 3) * images),
            workspace: Workspace::of_loader(memory, threads),
            monitor: monitor.clone(),
            seed: self.shuffle.seed(),
            lengths: Lengths {
                columns: lengths.columns,
                others: lengths.others,
                largest: sizing.largest_batch(),
            },
        };
        let inner = Inner {
            engine,
            fetcher,
            selected: Arc::new(selected),
            collator: Arc::new(collator),
            monitor,
            opened: self.dataset.opened,
            progress: Arc::default(),
            sizing,
            order: Mutex::new(order),
            open: Open { lanes: self.shuffle.lanes.is_none(), window: self.shuffle.window_rows.is_none() },
            shard: self.shard,
            batch: self.batch_size,
            drop_last: self.drop_last,
            epochs: self.epochs,
            rows,
            filter,
            tiers,
            closed: false.into(),
        };
        Ok(Loader { inner: Arc::new(inner) })
    }

    fn check_numbers(&self) -> Result<()> {
        if self.batch_size == 0 {
            return Err(Error::invalid("batch_size is 0").hint("a batch has 1 row or more"));
        }
        if self.batch_size > u64::from(u32::MAX) {
            return Err(
                Error::invalid(format!("batch_size is {}", self.batch_size)).hint("up to 2^32 - 1 rows")
            );
        }
        if let Some(threads) = self.threads.filter(|threads| *threads > MAX_THREADS) {
            let hint = format!("up to {MAX_THREADS}; this process may use {} processors", processors());
            return Err(Error::invalid(format!("threads is {threads}")).hint(hint));
        }
        if self.threads == Some(0) {
            return Err(Error::invalid("threads is 0").hint("leave out `threads` to use all processors"));
        }
        if self.epochs == Some(0) {
            return Err(Error::invalid("epochs is 0").hint("leave it out where the number is not known"));
        }
        if self.memory == Some(0) {
            return Err(Error::invalid("memory is 0").hint("give a budget in bytes"));
        }
        self.shuffle.validate()
    }

    fn check_rows(&self, rows: u64, order: &OrderSpec) -> Result<()> {
        if rows == 0 {
            let error = Error::invalid("no row is selected");
            return Err(match self.filter {
                Some(_) => error.hint("the filter matches nothing"),
                None => error.hint("the data set is empty"),
            });
        }
        let global = self.batch_size * u64::from(self.shard.world());
        if self.drop_last && rows < global {
            return Err(Error::invalid(format!(
                "{rows} rows do not fill one step of {global}, and drop_last drops the rest"
            ))
            .hint("use a smaller `batch_size`, or leave out `drop_last`"));
        }
        if rows < u64::from(order.lanes()) {
            return Err(Error::invalid(format!("{rows} rows for {} lanes", order.lanes()))
                .hint("a lane, and so a rank, needs at least one row"));
        }
        Ok(())
    }

    fn select(&self, border: &Border, fetcher: &Fetcher, limit: u64) -> Result<SampleIndex> {
        let catalog = &fetcher.catalog;
        let live = select::live_rows(catalog)?;
        let Some(filter) = &self.filter else {
            return Ok(SampleIndex::new(Arc::new(SingleRows), live));
        };
        filter.validate(catalog)?;
        let columns = filter.columns();
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let projection = Arc::new(catalog.project(&names)?);
        // Which rows there are must be known for sure.
        let fetcher = Fetcher { projection, lenient: false, ..fetcher.clone() };
        let filter = filter.clone();
        let matching = async move { select::matching(&filter, live, &fetcher, limit).await };
        Ok(SampleIndex::new(Arc::new(SingleRows), border.wait_for(matching)??))
    }
}
