//! One source of a loader: a data set, the order of its rows, and the threads that read and decode them. A
//! loader has one source, or several if it is a mix.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::snapshot::TableVersion;

use super::bad_rows::{BadRow, OnBadRow};
use super::collate::Collator;
use super::dataset::{counted_files, read_row_ids};
use super::joint::JointSource;
use super::pass::{Beginning, Pass};
use super::pipe::{OpenEngine, Planned as PlannedPass, Work};
use super::plan::Planned;
use super::prefetch::PrefetchKey;
use super::refill::Refill;
use super::rewind::{LastAsked, SourceOrder};
use super::row_groups;
use super::sizing::Sizing;
use super::spec::LoaderSpec;
use super::stats::StageStats;
use super::tiers::Tiers;
use super::withheld::{Withheld, place_of};
use crate::cache::DiskCache;
use crate::monitor::Monitor;
use crate::reader::fetch::Fetcher;
use crate::reader::reads::Reads;
use crate::samples::SampleIndex;
use crate::shard::{
    CountedFile, Deals, EpochOrder, OrderId, OrderSpec, SavedFiles, SavedSource, SavedTable, SkippedRows,
    Split, kept_text,
};

/// A source of a loader, with the threads that do its work.
pub(super) struct Source {
    pub(super) engine: Arc<OpenEngine>,
    pub(super) fetcher: Fetcher,
    pub(super) selected: Arc<SampleIndex>,
    pub(super) collator: Arc<Collator>,
    pub(super) monitor: Arc<Monitor>,
    /// The statistics about opening the data set.
    pub(super) opened: StageStats,
    pub(super) sizing: Sizing,
    /// The order of the epoch for which rows were last looked up, kept for the next look-up.
    pub(super) asked: LastAsked,
    /// The current order. Restoring a position may change its lanes and window to those of the position.
    pub(super) order: Mutex<OrderSpec>,
    /// Which options the user left open, so that a restored position may set them.
    pub(super) open: Open,
    /// The options, with the defaults filled in.
    pub(super) spec: LoaderSpec,
    pub(super) rows: u64,
    /// The rows that belong to no sample. Each epoch counts them as bad rows that were left out.
    pub(super) left_out: Arc<[BadRow]>,
    pub(super) filter: Option<String>,
    /// A hash of the rows that are denied in every epoch.
    pub(super) denied: Option<String>,
    /// The rows that are denied only after a given step of the run.
    pub(super) withheld: Withheld,
    /// The files of the data set in the form in which a position stores them, computed when needed.
    pub(super) files: OnceLock<SavedFiles>,
    /// A warning about the options that was not returned to the user yet.
    pub(super) warning: Mutex<Option<String>>,
    /// The choice of the form in which the cache keeps images, if there is a cache.
    pub(super) tiers: Option<Arc<Tiers>>,
    /// The user's cache, if it keeps nothing of this data set. `tiers` is `None` then.
    pub(super) unkept: Option<Unkept>,
    /// The total number of rows in the data sets of the earlier sources of a mix.
    pub(super) first_number: u64,
    /// The way to make batches together with the other sources of a mix, if all of them can.
    pub(super) joint: Option<JointSource>,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.monitor.flush();
    }
}

/// Describes a pass (one run through the rows of a source) that begins.
pub(super) struct Begun {
    /// The number of the iterator that begins the pass, by which the loader recognizes an iterator that is no
    /// longer current.
    pub(super) generation: u64,
    /// The number of bad rows that were left out before the row at which the pass continues.
    pub(super) skipped: u64,
    /// The key that identifies this pass and, if there is a following pass, the key of that one, which is
    /// prepared in advance.
    pub(super) keys: Vec<PrefetchKey>,
    /// Whether the pass is read only to find its first row that can be delivered, which replaces rows in
    /// other batches. Rows that are denied at any step of the pass are then left out from its beginning.
    pub(super) stands_in: bool,
    /// Whether the batches of the pass are joined with those of other sources of a mix. A batch of the pass
    /// may then be empty.
    pub(super) is_joined: bool,
}

/// A cache that the user gave, but that keeps no rows of the data set, for example because reading the files
/// again is faster.
#[derive(Clone)]
pub(super) struct Unkept {
    pub(super) cache: DiskCache,
    /// The reason why the cache keeps nothing, as one line of text.
    pub(super) why: String,
}

/// For each of these options, whether the user left it open, so that the loader or a restored position sets
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) lanes: bool,
    pub(super) window: bool,
    pub(super) skips: bool,
}

impl Source {
    /// The source's cache, even if it keeps nothing of the data set.
    pub(super) fn cache(&self) -> Option<&DiskCache> {
        let row_cache = self.fetcher.reads.row_cache.as_ref();
        row_cache.map(|row_cache| row_cache.cache()).or(self.unkept.as_ref().map(|unkept| &unkept.cache))
    }

    /// Collects the data of the source from which a plan is made: what a rank would read in this order.
    pub(super) fn planned<'a>(&'a self, order: &'a OrderSpec) -> Planned<'a> {
        let Source { selected: samples, fetcher, sizing, unkept, .. } = self;
        let read_again = unkept.as_ref().map(|unkept| &*unkept.why);
        Planned { samples, order, split: self.split(order), fetcher, sizing, read_again }
    }

    /// Collects what is needed to fetch and decode row groups. `is_exact` means that the shuffle is exact,
    /// and uses all row groups at the same time.
    pub(super) fn row_groups(&self, is_exact: bool) -> Result<row_groups::Source> {
        let (runtime, pool) = self.engine.threads()?;
        let form = self.tiers.as_ref().and_then(|tiers| tiers.form());
        let row_cache =
            self.fetcher.reads.row_cache.as_ref().map(|row_cache| row_cache.in_form(form.clone()));
        Ok(row_groups::Source {
            runtime,
            pool,
            fetcher: self.fetcher.with_cache(row_cache),
            selected: self.selected.clone(),
            collator: self.collator.clone(),
            monitor: self.monitor.clone(),
            limit: self.sizing.row_groups,
            ahead: self.sizing.ahead,
            // With `exchange`, row groups in memory are replaced by their entries in the cache once these are
            // written. In another form, such as pixels, images may take several times the planned memory.
            exchange: is_exact || form.is_some(),
            tiers: self.tiers.clone(),
            joint: self.joint.clone(),
        })
    }

    /// Begins the pass that `begun` describes, and prepares the following pass if `begun` gives its key.
    /// `is_part` means that the consumer does not take the batches of the pass directly: the epoch of a mix
    /// joins them, or only looks for a row in them. The epoch then reports the waits of the consumer.
    pub(super) fn begin(
        self: &Arc<Self>,
        is_part: bool,
        begun: impl FnOnce() -> Result<Begun>,
    ) -> Result<Pass> {
        let mut of_pass = None;
        let receiver = self.engine.begin(|| {
            let Begun { generation, skipped, keys, stands_in, is_joined } = begun()?;
            let Some(PrefetchKey { epoch: number, start, order }) = keys.first().cloned() else {
                return Err(Error::new(ErrorKind::Internal, "an epoch without a plan"));
            };
            if let Some((row_cache, tiers)) = self.fetcher.reads.row_cache.as_ref().zip(self.tiers.as_ref()) {
                row_cache.cache().epoch_begins();
                tiers.epoch_begins(&self.monitor, &self.fetcher.reads, self.rows);
            }
            let split = self.split(&order);
            let owed = order.steps(number, &split, start);
            let (before, left_out) = if start == 0 { (0, &*self.left_out) } else { (skipped, &[][..]) };
            let fills = !is_joined && self.may_deliver_nothing();
            let row_mask = self.collator.row_mask;
            let refill = Refill::new(self.collator.on_bad_row, fills, row_mask, before, left_out);
            let beginning = match start {
                // The first row of a pass fills batches that have no row to deliver. If rows may be denied
                // from a later step on, the first row may be one of them. Then the pass is read again for a
                // row that is never denied.
                0 if stands_in || self.withheld.is_empty() => Beginning::Here,
                _ if is_joined => Beginning::Here,
                _ => self.beginning(number),
            };
            // A batch that is joined with those of other sources does not count the rows that it leaves out,
            // because the joined batch counts them.
            let monitor = (!is_joined).then(|| self.monitor.clone());
            of_pass = Some((number, owed, generation, refill, beginning, monitor));
            let is_exact = order.is_exact();
            let planned = |key: PrefetchKey| {
                let PrefetchKey { epoch, start, order } = key.clone();
                let samples = self.selected.clone();
                let steps = order.steps(epoch, &split, start);
                let deals = Deals::new(move || {
                    EpochOrder::new(samples.of_epoch(epoch).counts.clone(), &order, epoch)
                });
                let (scouted, walked) = (deals.clone(), deals.clone());
                let withheld = self.withheld.of_pass(&key, &split);
                PlannedPass {
                    withheld: if stands_in { withheld.throughout() } else { withheld },
                    key,
                    deals,
                    scout: Box::new(move || scouted.scout(split, start)),
                    walk: Box::new(move || walked.walk(split, start)),
                    next_at: self.sizing.next_at(steps),
                }
            };
            Ok(Work {
                plans: keys.into_iter().map(planned).collect(),
                source: self.row_groups(is_exact)?,
                batches: self.sizing.batches,
            })
        })?;
        let (number, owed, generation, refill, beginning, monitor) =
            of_pass.ok_or_else(|| Error::new(ErrorKind::Internal, "the epoch did not begin"))?;
        Ok(Pass {
            number,
            owed,
            receiver,
            pending: None,
            generation,
            monitor,
            is_part,
            refill,
            skipped: 0,
            beginning,
        })
    }

    /// Whether a batch may have no row that can be delivered, because all its rows are denied or bad.
    pub(super) fn may_deliver_nothing(&self) -> bool {
        !self.withheld.is_empty() || matches!(self.collator.on_bad_row, OnBadRow::Skip { .. })
    }

    /// Makes a function that reads a pass again from its beginning, to find the first row that can be
    /// delivered.
    fn beginning(self: &Arc<Self>, number: u64) -> Beginning {
        let this = Arc::downgrade(self);
        Beginning::Before(Box::new(move || this.upgrade().map(|this| this.read_again(number)).transpose()))
    }

    /// Reads a pass again from its beginning, without its rows that are denied at any step.
    pub(super) fn read_again(self: &Arc<Self>, number: u64) -> Result<Pass> {
        let key = PrefetchKey { epoch: number, start: 0, order: self.order().clone() };
        let begun = Begun { generation: 0, skipped: 0, keys: vec![key], stands_in: true, is_joined: false };
        // There is no monitor, because the rows of this pass were counted before.
        Ok(Pass { monitor: None, ..self.begin(true, || Ok(begun))? })
    }

    /// Returns the file, the row group and the row in it of the row with this number in the data set.
    /// Receipts identify rows by this number.
    pub(super) fn row_place(&self, number: u64) -> Option<Place> {
        let catalog = &self.collator.catalog;
        let after = catalog.groups.partition_point(|group| group.first_row <= number);
        let group = catalog.groups.get(after.checked_sub(1)?)?;
        let row = (number - group.first_row < group.rows).then(|| number - group.first_row)?;
        Some(catalog.place_of_row(group, row))
    }

    /// Makes the part of a position that describes this source: its data set, its order and its progress. An
    /// epoch begins with row 0 of the pass `first_pass`.
    pub(super) fn saved(&self, first_pass: u64, rows: u64, skipped: u64) -> SavedSource {
        let tables = self.fetcher.reads.catalog.tables.iter();
        let tables = tables.map(|table| SavedTable {
            id: table.id.to_string(),
            version: table.version,
            opened_as: table.other_schema.map(|_| table.opened_as()),
        });
        let tables: Vec<SavedTable> = tables.collect();
        SavedSource {
            fingerprint: self.fetcher.reads.catalog.fingerprint.to_string(),
            files: Some(self.saved_files().clone()),
            table: match &*tables {
                [table] => Some(table.clone()),
                _ => None,
            },
            tables: if tables.len() > 1 { tables } else { Vec::new() },
            order: self.order_id(),
            first_pass,
            rows,
            skipped,
            cache_tier: None,
        }
    }

    /// The error for a position that was saved with another version of a table; `None` if the versions are
    /// the same or the tables differ.
    fn other_version(&self, saved: &SavedSource) -> Option<Error> {
        let here = &self.fetcher.reads.catalog.tables;
        let saved: Vec<&SavedTable> = saved.table.iter().chain(&saved.tables).collect();
        if saved.len() != here.len() {
            return None;
        }
        let is_another = |(saved, here): &(&&SavedTable, &TableVersion)| {
            saved.id == *here.id && saved.version != here.version
        };
        let (one, other) = saved.iter().zip(&**here).find(is_another)?;
        let (version, other_version) = (one.version, other.version);
        let which = if saved.len() == 1 { "the table".to_owned() } else { other.location.to_string() };
        let cause = format!(
            "the state was saved with version {version} of {which}, this loader has version {other_version}"
        );
        let hint = match saved.len() {
            1 => format!("open it with `version={version}`"),
            _ => "open each table at its version of the state, as `OpenOptions::versions` takes them"
                .to_owned(),
        };
        Some(Error::new(ErrorKind::StateMismatch, cause).hint(hint))
    }

    /// Reads the row ids that the files of a table store, unless they were read already.
    pub(super) fn read_row_ids(&self) -> Result<()> {
        let Reads { store, catalog, .. } = &self.fetcher.reads;
        if catalog.has_row_ids() {
            return Ok(());
        }
        read_row_ids(&*self.engine.io()?, store, catalog)
    }

    /// The order of the source in the form in which rows are looked up without reading any file.
    pub(super) fn source_order(&self) -> SourceOrder {
        let order = self.order();
        SourceOrder {
            catalog: self.fetcher.reads.catalog.clone(),
            selected: self.selected.clone(),
            split: self.split(&order),
            order,
            last: self.asked.clone(),
        }
    }

    /// Returns the order of a saved source, if this source can continue with it. The saved source is at `row`
    /// of a pass.
    ///
    /// # Errors
    /// Fails if the saved source is another data set, or if its order is not possible with the options of
    /// this source.
    pub(super) fn order_of(&self, saved: &SavedSource, row: u64) -> Result<OrderSpec> {
        let fingerprint = self.fetcher.reads.catalog.fingerprint.to_string();
        match &saved.files {
            Some(files) if saved.fingerprint != fingerprint => {
                return Err(self.other_version(saved).unwrap_or_else(|| self.other_data(files, row)));
            }
            _ => saved.check(row, &fingerprint, &self.order_id())?,
        }
        self.adopted(&saved.order)
    }

    /// Refuses a saved source that this one cannot continue over other data, because its seed, shuffle,
    /// filter, samples or lanes differ.
    pub(super) fn check_rule(&self, saved: &SavedSource) -> Result<()> {
        saved.check_rule(&self.order_id())?;
        self.check_lanes(&saved.order, &self.order())
    }

    /// Takes over the ranges of rows that a saved order skips, if the user gave no `skip_steps`. Fails if the
    /// user's `skip_steps` lack a saved range that ends after row `row` of `epoch`.
    pub(super) fn take_skips(
        &self,
        order: &mut OrderSpec,
        saved: &OrderId,
        epoch: u64,
        row: u64,
    ) -> Result<()> {
        if self.open.skips {
            order.skipped = saved.skipped.clone().into();
        }
        let is_ahead = |rows: &&SkippedRows| (rows.epoch, rows.to) > (epoch, row);
        let missing = saved.skipped.iter().filter(is_ahead).find(|rows| !order.skipped.contains(rows));
        let Some(SkippedRows { epoch, from, to }) = missing else { return Ok(()) };
        let cause = format!("the state skips rows {from} to {to} of epoch {epoch}, but this loader does not");
        Err(Error::new(ErrorKind::StateMismatch, cause)
            .hint("leave out `skip_steps` to use the ranges of the state, or give all of them"))
    }

    /// A hash of the denied rows that this source withheld before a row of an epoch. It is used only
    /// if the source is not part of a mix.
    pub(super) fn withheld_at(&self, epoch: u64, row: u64) -> Option<String> {
        let split = self.split(&self.order());
        self.withheld.digest(|step| place_of(step, &split) < (epoch, row))
    }

    /// Checks that an order fits the memory.
    pub(super) fn check_fits(&self, order: &OrderSpec) -> Result<()> {
        self.sizing.check(&self.fetcher.reads, &self.selected, order, self.split(order))
    }

    /// Whether an order fits if `bytes` of the memory for row groups are used for other things.
    fn fits_beside(&self, bytes: u64, order: &OrderSpec) -> bool {
        let split = self.split(order);
        self.sizing.fits_beside(bytes, &self.fetcher.reads, &self.selected, order, split)
    }

    /// Ends the current pass. The next pass has this order.
    pub(super) fn restored(&self, order: OrderSpec) {
        self.engine.restored();
        let Reads { row_memory, .. } = &self.fetcher.reads;
        // The new window may need the memory that is set aside for keeping rows between epochs.
        if let Some(row_memory) = row_memory
            && !self.fits_beside(row_memory.room(), &order)
        {
            row_memory.close();
        }
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
    }

    /// Returns the order of this loader with the lanes and the window of a saved order. Fails if they differ
    /// from those that the user set.
    fn adopted(&self, saved: &OrderId) -> Result<OrderSpec> {
        let mut order = self.order();
        self.check_lanes(saved, &order)?;
        if saved.pool != order.pool && !self.open.window {
            return Err(asked_otherwise("a window in row groups of", saved.pool, order.pool));
        }
        (order.lanes, order.pool) = (saved.lanes, saved.pool);
        Ok(order)
    }

    /// Fails if the user set another number of lanes than a saved order has.
    fn check_lanes(&self, saved: &OrderId, order: &OrderSpec) -> Result<()> {
        match saved.lanes == order.lanes || self.open.lanes {
            true => Ok(()),
            false => Err(asked_otherwise("lanes", saved.lanes, order.lanes)),
        }
    }

    /// A warning that has not been returned yet.
    pub(super) fn take_warning(&self) -> Option<String> {
        self.cache()
            .and_then(DiskCache::take_warning)
            .or_else(|| self.monitor.take_failure())
            .or_else(|| self.warning.lock().unwrap_or_else(PoisonError::into_inner).take())
            .or_else(|| self.fetcher.reads.store.take_warning())
    }

    /// The number of values that were not in the vocabulary of their column.
    pub(super) fn unknown_values(&self) -> u64 {
        self.collator.codecs.iter().map(|codec| codec.unknown_values()).sum()
    }

    /// The files of the data set in the form in which a position stores them, computed once.
    fn saved_files(&self) -> &SavedFiles {
        let catalog = &self.fetcher.reads.catalog;
        self.files.get_or_init(|| SavedFiles::new(catalog.rows(), counted_files(catalog)))
    }

    /// The error for a position that was saved with other files, at `row` of an epoch.
    fn other_data(&self, saved: &SavedFiles, row: u64) -> Error {
        let here = self.saved_files();
        if saved == here {
            let cause =
                "the state is of another data set: the files are the same, but their columns or keys differ";
            return Error::new(ErrorKind::StateMismatch, cause).hint("open them as the run did");
        }
        let files: Vec<CountedFile> = counted_files(&self.fetcher.reads.catalog).collect();
        let cause = format!("the state is of another data set: {}", saved.differences(here, &files));
        Error::new(ErrorKind::StateMismatch, cause).hint(match here.files > saved.files {
            _ if row == 0 => {
                "the state is between two epochs: to train on the files that are there now, follow the folder; \
                 or bring back the earlier files, or start again without the state"
            }
            true => {
                "to finish the epoch, open the earlier files only, by a list or a glob, or follow the folder; to \
                 train on all of them, start a run without the state"
            }
            false => {
                "bring back the earlier files to finish the epoch, or start again without the state; a state \
                 between two epochs continues without them if the folder is followed"
            }
        })
    }

    pub(super) fn order(&self) -> OrderSpec {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn order_id(&self) -> OrderId {
        let Source { rows, filter, denied, spec, .. } = self;
        let order = OrderId::new(&self.order(), *rows, filter.clone(), denied.clone());
        let stored = |name: &str| spec.stored_name(name).to_owned();
        let balance = spec.balance.iter().map(|cost| cost.renamed(&stored).to_string()).collect();
        OrderId { samples: spec.samples.canonical(stored).map(kept_text), balance, ..order }
    }

    pub(super) fn split(&self, order: &OrderSpec) -> Split {
        self.spec.split(self.rows, order)
    }
}

/// The error for an option of the order that the user set to another value than a saved order has.
fn asked_otherwise(what: &str, saved: u32, here: u32) -> Error {
    let cause = format!("the state was saved with {what} {saved}, this loader has {here}");
    Error::new(ErrorKind::StateMismatch, cause).hint("leave it out to use that of the state")
}
