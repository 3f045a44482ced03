//! The loader as users see it: epochs, position, plan, statistics.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::{Catalog, RowPlace};

use super::bad_rows::BadRow;
use super::collate::Collator;
use super::epoch::{Beginning, Counting, Epoch};
use super::pipe::{Engine, Planned, Work};
use super::plan::RankPlan;
use super::prefetch::PrefetchKey;
use super::progress::{At, Progress, Receipt};
use super::refill::Refill;
use super::rewind::{LastAsked, Rewind};
use super::row_groups::Source;
use super::sizing::Sizing;
use super::slot::Pages;
use super::spec::LoaderSpec;
use super::stats::{MemoryStats, StageStats, Stats};
use super::tiers::Tiers;
use crate::monitor::Monitor;
use crate::reader::fetch::Fetcher;
use crate::reader::reads::Reads;
use crate::samples::SampleIndex;
use crate::shard::{
    CountedFile, Deals, EpochOrder, OrderId, OrderSpec, Position, SavedFiles, SkippedRows, Split, kept_text,
};

/// Feeds one process of a training run: a data set, an order, a share and a memory budget, with the threads that do the
/// work. Made by [`LoaderBuilder::build`](super::LoaderBuilder::build).
///
/// Cheap to clone; clones are the same loader. One epoch is under way at a time: starting another ends it.
///
/// ```no_run
/// use forebay::{Dataset, Position, Shuffle};
///
/// let loader = Dataset::open("data/train/")?.loader().shuffle(Shuffle::seeded(17)).epochs(2).build()?;
/// for epoch in 0..2 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?; // an Arrow RecordBatch
///     }
/// }
/// println!("{}", loader.stats());
///
/// // Later, in a new process: continue after the last batch that was handed over.
/// let saved: Position = loader.position();
/// loader.restore(&saved)?;
/// for batch in loader.next_epoch() {
///     let batch = batch?;
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Loader {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) engine: Arc<Engine>,
    pub(super) fetcher: Fetcher,
    pub(super) selected: Arc<SampleIndex>,
    pub(super) collator: Arc<Collator>,
    pub(super) monitor: Arc<Monitor>,
    /// The statistics of opening the data set.
    pub(super) opened: StageStats,
    pub(super) progress: Arc<Progress>,
    pub(super) sizing: Sizing,
    /// The order that was asked last.
    pub(super) asked: LastAsked,
    /// The order in force: a restored position brings its own lanes and window.
    pub(super) order: Mutex<OrderSpec>,
    /// Whether lanes and window were left to the loader, so that a restored position may bring its own.
    pub(super) open: Open,
    /// The options, with the defaults filled in.
    pub(super) spec: LoaderSpec,
    pub(super) rows: u64,
    /// Rows of which no sample is made, as each epoch counts them.
    pub(super) left_out: Arc<[BadRow]>,
    pub(super) filter: Option<String>,
    /// A hash of the rows that are denied.
    pub(super) denied: Option<String>,
    /// The files of the data set as a position has them, once one is asked for.
    pub(super) files: OnceLock<SavedFiles>,
    /// About the options; returned once.
    pub(super) warning: Mutex<Option<String>>,
    /// The form in which the cache keeps images, if there is a cache.
    pub(super) tiers: Option<Arc<Tiers>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.monitor.flush();
    }
}

/// The files of a data set, as a position counts them.
fn counted_files(catalog: &Catalog) -> impl Iterator<Item = CountedFile<'_>> {
    catalog.files.iter().map(|file| CountedFile { path: &file.relative, content: file.content_hash() })
}

/// An epoch that begins.
pub(super) struct Begun {
    /// The number of its iterator.
    pub(super) generation: u64,
    /// Bad rows that it left out before the row with which it goes on.
    pub(super) skipped: u64,
    /// Its plan, and that of the one that is prepared.
    pub(super) keys: Vec<PrefetchKey>,
}

/// The options that the user left open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) lanes: bool,
    pub(super) window: bool,
    pub(super) skips: bool,
}

impl Inner {
    /// The source of row groups; `is_exact` means that all of them are used at once.
    pub(super) fn source(&self, is_exact: bool) -> Result<Source> {
        let (runtime, pool) = self.engine.threads()?;
        let form = self.tiers.as_ref().and_then(|tiers| tiers.form());
        let row_cache =
            self.fetcher.reads.row_cache.as_ref().map(|row_cache| row_cache.in_form(form.clone()));
        Ok(Source {
            runtime,
            pool,
            fetcher: self.fetcher.with_cache(row_cache),
            selected: self.selected.clone(),
            collator: self.collator.clone(),
            monitor: self.monitor.clone(),
            limit: self.sizing.row_groups,
            ahead: self.sizing.ahead,
            // Pixels take several times the planned memory, so they are used from the cache.
            exchange: is_exact || form.is_some(),
            tiers: self.tiers.clone(),
        })
    }
}

impl Loader {
    /// Begins epoch `number`, or continues it if a [restored](Self::restore) position is in it.
    ///
    /// A loader that was closed, or belongs to another process, gives an epoch whose first batch is that error.
    pub fn epoch(&self, number: u64) -> Epoch {
        self.start(Some(number))
    }

    /// Begins the epoch after the last one that was begun, or continues a [restored](Self::restore) position.
    ///
    /// A loader that was closed, or belongs to another process, gives an epoch whose first batch is that error.
    pub fn next_epoch(&self) -> Epoch {
        self.start(None)
    }

    /// File, row group and row of the row with this ordinal in the data set, as [receipts](Receipt::numbers) have it.
    pub fn row_place(&self, number: u64) -> Option<Place> {
        let catalog = &self.inner.collator.catalog;
        let after = catalog.groups.partition_point(|group| group.first_row <= number);
        let group = catalog.groups.get(after.checked_sub(1)?)?;
        let row = (number - group.first_row < group.rows).then(|| number - group.first_row)?;
        let file = catalog.files.get(group.file)?;
        Some(Place::file(file.location.clone()).row_group(group.index).row(row))
    }

    fn start(&self, number: Option<u64>) -> Epoch {
        let inner = &*self.inner;
        self.begin(Counting::Consumer, || {
            // Not before it is sure that the epoch begins: a position does not move for one that does not.
            let (at, generation) = inner.progress.begin(number)?;
            let (number, start, skipped) = (at.epoch, at.row, at.skipped_of(0));
            let order = self.order();
            let last = inner.spec.epochs;
            let following = number.checked_add(1).filter(|next| last.is_none_or(|epochs| *next < epochs));
            let epochs = std::iter::once((number, start)).chain(following.map(|next| (next, 0)));
            let keys = epochs.map(|(epoch, start)| PrefetchKey { epoch, start, order: order.clone() });
            Ok(Begun { generation, skipped, keys: keys.collect() })
        })
    }

    /// Begins an epoch; the one after it, if it is named, is prepared.
    pub(super) fn begin(&self, counting: Counting, begun: impl FnOnce() -> Result<Begun>) -> Epoch {
        let inner = &*self.inner;
        let refill = |before: u64, left_out: &[BadRow]| {
            Refill::new(inner.collator.on_bad_row, inner.collator.row_mask, before, left_out)
        };
        let mut epoch = Epoch {
            number: 0,
            owed: 0,
            receiver: Err(None),
            pending: None,
            progress: inner.progress.clone(),
            generation: 0,
            monitor: inner.monitor.clone(),
            counting,
            refill: refill(0, &[]),
            skipped: 0,
            beginning: Beginning::Here,
        };
        epoch.receiver = inner
            .engine
            .begin(|| {
                let Begun { generation, skipped, keys } = begun()?;
                let Some(PrefetchKey { epoch: number, start, order }) = keys.first().cloned() else {
                    return Err(Error::new(ErrorKind::Internal, "an epoch without a plan"));
                };
                if let Some((row_cache, tiers)) =
                    inner.fetcher.reads.row_cache.as_ref().zip(inner.tiers.as_ref())
                {
                    row_cache.cache().epoch_begins();
                    tiers.epoch_begins(&inner.monitor, &inner.fetcher.reads, inner.rows);
                }
                let split = self.split(&order);
                (epoch.number, epoch.owed, epoch.generation) =
                    (number, order.steps(number, &split, start), generation);
                epoch.refill = match start {
                    0 => refill(0, &inner.left_out),
                    _ => refill(skipped, &[]),
                };
                if start > 0 {
                    epoch.beginning =
                        self.beginning(PrefetchKey { epoch: number, start: 0, order: order.clone() });
                }
                let is_exact = order.is_exact();
                let planned = |key: PrefetchKey| {
                    let PrefetchKey { epoch, start, order } = key.clone();
                    let samples = inner.selected.clone();
                    let steps = order.steps(epoch, &split, start);
                    let deals = Deals::new(move || {
                        EpochOrder::new(samples.of_epoch(epoch).counts.clone(), &order, epoch)
                    });
                    let (scouted, walked) = (deals.clone(), deals.clone());
                    Planned {
                        key,
                        deals,
                        scout: Box::new(move || scouted.scout(split, start)),
                        walk: Box::new(move || walked.walk(split, start)),
                        next_at: inner.sizing.next_at(steps),
                    }
                };
                Ok(Work {
                    plans: keys.into_iter().map(planned).collect(),
                    source: inner.source(is_exact)?,
                    batches: inner.sizing.batches,
                })
            })
            .map_err(Some);
        epoch
    }

    /// How to read an epoch that is under way from its beginning, once it is done but for that.
    fn beginning(&self, key: PrefetchKey) -> Beginning {
        let inner = Arc::downgrade(&self.inner);
        Beginning::Before(Box::new(move || {
            let loader = Loader { inner: inner.upgrade()? };
            let begun = || Ok(Begun { generation: 0, skipped: 0, keys: vec![key] });
            // What it counts was counted before.
            Some(Epoch { monitor: Monitor::new(1, None), ..loader.begin(Counting::Mix, begun) })
        }))
    }

    /// Batches in a whole epoch: exact, and the same on every rank. Where [steps are passed
    /// over](super::LoaderBuilder::skip_steps), those of the epoch that is under way, or comes next.
    #[allow(clippy::len_without_is_empty, reason = "a loader always has batches: build() sees to it")]
    pub fn len(&self) -> u64 {
        let (order, epoch) = (self.order(), self.inner.progress.get().epoch);
        order.steps(epoch, &self.split(&order), 0)
    }

    /// The options that it was built with, with the defaults filled in: columns, memory, threads, window and lanes. A position
    /// that is restored may bring other lanes and another window.
    pub fn spec(&self) -> &LoaderSpec {
        &self.inner.spec
    }

    /// The columns of a batch.
    pub fn schema(&self) -> SchemaRef {
        self.inner.collator.schema.clone()
    }

    /// The plan of this rank for an epoch, from footers alone.
    ///
    /// # Errors
    /// None at present; kept for plans that need more than footers.
    pub fn plan(&self, epoch: u64) -> Result<RankPlan> {
        let spec = self.order();
        let Inner { selected, fetcher, sizing, .. } = &*self.inner;
        let samples = selected.of_epoch(epoch);
        let order = EpochOrder::new(samples.counts.clone(), &spec, epoch);
        let (split, may_cut) = (self.split(&spec), selected.are_rows());
        Ok(RankPlan::of(&order, &samples.counts, split, &spec, epoch, &fetcher.reads, sizing, may_cut))
    }

    /// The statistics of all stages since the loader was built.
    pub fn stats(&self) -> Stats {
        let sizing = &self.inner.sizing;
        let Fetcher { reads: Reads { store, row_cache, .. }, budget, .. } = &self.inner.fetcher;
        let memory = MemoryStats {
            budget: sizing.memory,
            batches: sizing.batches,
            row_groups: budget.used(),
            row_groups_peak: budget.peak(),
        };
        let cache = row_cache.as_ref().map(|row_cache| row_cache.cache().stats());
        let unknown = self.inner.collator.codecs.iter().map(|codec| codec.unknown_values()).sum();
        Stats::read(&self.inner.monitor, self.inner.opened, unknown, memory, store.traffic(), cache)
    }

    /// How far the consumer got: save it with the model.
    pub fn position(&self) -> Position {
        let at = self.inner.progress.get();
        let (epoch, row, skipped) = (at.epoch, at.row, at.skipped_of(0));
        let fingerprint = self.inner.fetcher.reads.catalog.fingerprint.to_string();
        let cache_tier = self.inner.tiers.as_ref().map(|tiers| tiers.tier().to_string());
        let split = Some(self.split(&self.order()).into());
        let files = Some(self.saved_files().clone());
        let bare = Position::new(fingerprint, self.order_id(), epoch, row);
        Position { skipped, cache_tier, split, files, ..bare }
    }

    /// Where the rows of a step are stored, in the order of delivery: of any step of any epoch, past or to come, and of any
    /// rank. Nothing is read. Steps are counted from the beginning of an epoch.
    ///
    /// # Errors
    /// As [`Rewind::step`], of which this is the short form.
    pub fn which(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        self.rewind().step(epoch, step, rank)
    }

    /// The plan from which this loader takes its rows.
    pub fn rewind(&self) -> Rewind {
        let (inner, order, at) = (&self.inner, self.order(), self.inner.progress.get());
        Rewind {
            catalog: inner.fetcher.reads.catalog.clone(),
            selected: inner.selected.clone(),
            split: self.split(&order),
            order,
            at: (at.epoch, at.row),
            last: inner.asked.clone(),
        }
    }

    /// Moves to a saved position; the next epoch begins there. Lanes and window are taken from it where they were
    /// left open.
    ///
    /// # Errors
    /// The position belongs to another data set, seed, filter or order, or its window does not fit the budget.
    pub fn restore(&self, position: &Position) -> Result<()> {
        let inner = &*self.inner;
        self.check_usable()?;
        self.check_position(position)?;
        let mut order = self.adopted(&position.order)?;
        let saved = &position.order;
        if inner.open.skips {
            order.skipped = saved.skipped.clone().into();
        }
        let is_ahead = |rows: &&SkippedRows| (rows.epoch, rows.to) > (position.epoch, position.row);
        if let Some(missing) =
            saved.skipped.iter().filter(is_ahead).find(|rows| !order.skipped.contains(rows))
        {
            let SkippedRows { epoch, from, to } = missing;
            let cause =
                format!("the state passes over rows {from} to {to} of epoch {epoch}, this loader does not");
            return Err(Error::new(ErrorKind::StateMismatch, cause)
                .hint("leave out `skip_steps`, to take it over from the state, or give all of its ranges"));
        }
        inner.sizing.check(&inner.fetcher.reads, &inner.selected, &order, self.split(&order))?;
        if let Some((tiers, saved)) = inner.tiers.as_ref().zip(position.cache_tier.as_deref()) {
            tiers.restore(saved)?;
        }
        inner.engine.restored();
        let steps = order.steps(position.epoch, &self.split(&order), position.row);
        *inner.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        match steps {
            0 => inner.progress.set(At::begin(position.epoch + 1)),
            _ => inner.progress.set(At {
                epoch: position.epoch,
                row: position.row,
                skipped: if position.skipped > 0 { [position.skipped].into() } else { Arc::default() },
            }),
        }
        Ok(())
    }

    /// The order of this loader with the lanes and the window of a saved one, where they were left open.
    pub(super) fn adopted(&self, saved: &OrderId) -> Result<OrderSpec> {
        let inner = &*self.inner;
        let mut order = self.order();
        let mismatch = |what: &str, saved: u32, here: u32| {
            Error::new(
                ErrorKind::StateMismatch,
                format!("the state was saved with {what} {saved}, this loader has {here}"),
            )
            .hint("leave it out, to take it over from the state")
        };
        if saved.lanes != order.lanes && !inner.open.lanes {
            return Err(mismatch("lanes", saved.lanes, order.lanes));
        }
        if saved.pool != order.pool && !inner.open.window {
            return Err(mismatch("a window in row groups of", saved.pool, order.pool));
        }
        (order.lanes, order.pool) = (saved.lanes, saved.pool);
        Ok(order)
    }

    /// A warning that was not returned yet: how the disk of the cache or of the trace failed, that denied rows are not there, or
    /// why the index of a folder is not used.
    pub fn take_warning(&self) -> Option<String> {
        let of_the_cache = self
            .inner
            .fetcher
            .reads
            .row_cache
            .as_ref()
            .and_then(|row_cache| row_cache.cache().take_warning());
        let of_the_options = || self.inner.warning.lock().unwrap_or_else(PoisonError::into_inner).take();
        of_the_cache
            .or_else(|| self.inner.monitor.take_failure())
            .or_else(of_the_options)
            .or_else(|| self.inner.fetcher.reads.store.take_warning())
    }

    /// Counts a batch, and all before it, as handed over to the consumer. A receipt of another loader, or of an epoch before
    /// the one that was begun last, counts for nothing.
    pub fn handed_over(&self, receipt: &Receipt) {
        self.inner.progress.handed_over(receipt);
    }

    /// The pages of the slot that has this address, if it is one of this loader's that can be registered with a device. The
    /// caller keeps a batch that is in the slot.
    pub fn pages(&self, address: usize) -> Option<Arc<Pages>> {
        self.inner.collator.buffers.pages(address)
    }

    /// Ends the epoch that is under way, at once. Every later use is an error.
    ///
    /// Its threads end and its files are closed, also while it is kept: those that decode once the batches that are being made
    /// are done, those that wait for storage once the [`Dataset`](super::Dataset) is dropped too.
    ///
    /// Nothing is written to the folder of the cache after it; for rows that are being written it waits for a second at most.
    pub fn close(&self) {
        self.inner.engine.close();
        self.inner.monitor.flush();
    }

    /// Fails once the loader was closed, and in a forked child.
    pub(super) fn check_usable(&self) -> Result<()> {
        self.inner.engine.check_usable()
    }

    /// Refuses a position of another data set or order.
    pub(super) fn check_position(&self, position: &Position) -> Result<()> {
        let fingerprint = self.inner.fetcher.reads.catalog.fingerprint.to_string();
        match &position.files {
            Some(saved) if position.fingerprint != fingerprint => Err(self.other_data(saved)),
            _ => position.check(&fingerprint, &self.order_id()),
        }
    }

    /// The files of the data set, as a position has them.
    pub(super) fn saved_files(&self) -> &SavedFiles {
        let catalog = &self.inner.fetcher.reads.catalog;
        self.inner.files.get_or_init(|| SavedFiles::of(catalog.rows(), counted_files(catalog)))
    }

    /// The refusal of a position that was saved with other files.
    fn other_data(&self, saved: &SavedFiles) -> Error {
        let here = self.saved_files();
        if saved == here {
            let cause =
                "the state is of another data set: the files are the same, and their columns or keys are not";
            return Error::new(ErrorKind::StateMismatch, cause).hint("open them as the run did");
        }
        let files: Vec<CountedFile> = counted_files(&self.inner.fetcher.reads.catalog).collect();
        let cause = format!("the state is of another data set: {}", saved.differences(here, &files));
        Error::new(ErrorKind::StateMismatch, cause).hint(match here.files > saved.files {
            true => {
                "to finish the epoch, open the files of then alone, by a list or a glob; to train on all of them, begin a run \
                 without the state"
            }
            false => "bring back the files of then, or start again without the state",
        })
    }

    pub(super) fn order(&self) -> OrderSpec {
        self.inner.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn order_id(&self) -> OrderId {
        let Inner { rows, filter, denied, spec, .. } = &*self.inner;
        let order = OrderId::new(&self.order(), *rows, filter.clone(), denied.clone());
        let stored = |name: &str| spec.stored_name(name).to_owned();
        OrderId { samples: spec.samples.canonical(stored).map(kept_text), ..order }
    }

    pub(super) fn split(&self, order: &OrderSpec) -> Split {
        self.inner.spec.split(self.inner.rows, order)
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { spec, rows, .. } = &*self.inner;
        f.debug_struct("Loader")
            .field("rows", rows)
            .field("batch_size", &spec.batch_size)
            .field("shard", &spec.shard)
            .field("order", &self.order())
            .finish_non_exhaustive()
    }
}
