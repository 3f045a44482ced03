//! The loader that users hold: it begins epochs, and gives the position, the plan and the statistics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Place, Result};
use forebay_store::catalog::RowPlace;

use super::epoch::Epoch;
use super::mix::{Mixture, together};
use super::plan::{Planned, RankPlan};
use super::progress::{At, Receipt};
use super::rewind::{Mixed, Rewind};
use super::slot::Pages;
use super::source::{Source, Unkept};
use super::sources::Sources;
use super::spec::LoaderSpec;
use super::stats::{MemoryStats, SourceStats, Stats};
use crate::cache::CacheStats;
use crate::shard::{
    CourseRule, MixSplit, OrderSpec, Origin, Portion, Position, Run, SavedMix, SavedSource, Split, damaged,
};

/// Delivers the batches of one process of a training run: from one data set or a mix of several, in a
/// shuffled or stored order, within a memory budget. [`LoaderBuilder::build`](super::LoaderBuilder::build)
/// makes it.
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
///
/// Several data sets can be mixed [by weight](Loader::mix): each step has the share of every source, rounded
/// to whole rows. Rounding errors do not add up: over any number of steps, a source is off by less than one
/// row for each lane (parallel part of the order). A pass over a source has each of its rows once, in the
/// order that the source's own loader would have in that epoch.
#[derive(Clone)]
pub struct Loader {
    pub(super) sources: Arc<Sources>,
}

impl Loader {
    /// Begins epoch `number`, or continues it if a [restored](Self::restore) position is in it. An epoch that
    /// is under way ends.
    ///
    /// If the loader was closed, or belongs to another process, the first batch of the epoch is that error.
    pub fn epoch(&self, number: u64) -> Epoch {
        Epoch::begin(&self.sources, Some(number))
    }

    /// Begins the epoch after the last one that was begun, or continues a [restored](Self::restore) position.
    ///
    /// If the loader was closed, or belongs to another process, the first batch of the epoch is that error.
    pub fn next_epoch(&self) -> Epoch {
        Epoch::begin(&self.sources, None)
    }

    /// The number of batches in a whole epoch. It is exact, and the same on every rank. If [steps are
    /// skipped](super::LoaderBuilder::skip_steps) or weights change, epochs differ in length, and this is the
    /// length of the epoch that is under way or comes next.
    #[allow(clippy::len_without_is_empty, reason = "a loader always has batches: build() sees to it")]
    pub fn len(&self) -> u64 {
        let epoch = self.sources.progress.get().epoch;
        if let Some(mixture) = &self.sources.mixture {
            return mixture.steps(epoch);
        }
        let (source, order) = (self.sources.first(), self.sources.first().order());
        order.steps(epoch, &source.split(&order), 0)
    }

    /// The options that the loader was built with, with the defaults filled in: columns, memory, threads,
    /// window and lanes. A restored position may bring other lanes and another window. In a mix these are the
    /// options of all sources together.
    pub fn spec(&self) -> &LoaderSpec {
        self.sources.spec()
    }

    /// The options of each source, in the form of [`spec`](Self::spec); a loader that is not a mix has one
    /// source.
    pub fn source_specs(&self) -> impl Iterator<Item = &LoaderSpec> {
        self.sources.all().iter().map(|source| &source.spec)
    }

    /// The columns of each source in a batch.
    pub fn source_schemas(&self) -> impl Iterator<Item = SchemaRef> {
        self.sources.all().iter().map(|source| source.collator.schema.clone())
    }

    /// Whether the loader [mixes](Self::mix) sources, even if it has only one.
    pub fn is_mix(&self) -> bool {
        self.sources.mixture.is_some()
    }

    /// The columns of a batch. In a mix they are those of all sources.
    pub fn schema(&self) -> SchemaRef {
        match &self.sources.mixture {
            None => self.sources.first().collator.schema.clone(),
            Some(mixture) => mixture.joiner.schema.clone(),
        }
    }

    /// The file, row group and row of a row, given its number in the data set. In a mix, rows are counted
    /// through all data sets, as [receipts](Receipt::numbers) do.
    pub fn row_place(&self, number: u64) -> Option<Place> {
        let sources = self.sources.all();
        let after = sources.partition_point(|source| source.first_number <= number);
        let source = sources.get(after.checked_sub(1)?)?;
        source.row_place(number - source.first_number)
    }

    /// A summary of the steps and reads of this rank in an epoch, computed from footers alone.
    ///
    /// # Errors
    /// The mix has no such epoch.
    pub fn plan(&self, epoch: u64) -> Result<RankPlan> {
        if let Some(mixture) = &self.sources.mixture {
            let (run, split) = mixture.run();
            let plan = mixture.planned(&run, epoch)?;
            let memory = mixture.spec.memory.unwrap_or(0);
            let orders: Vec<OrderSpec> = self.sources.all().iter().map(|source| source.order()).collect();
            let sources = self.sources.all().iter().zip(&orders);
            let planned: Vec<Planned<'_>> = sources.map(|(source, order)| source.planned(order)).collect();
            return Ok(RankPlan::of_mix(epoch, &plan, split, memory, &planned));
        }
        let source = self.sources.first();
        Ok(source.planned(&source.order()).plan(epoch))
    }

    /// The statistics of all stages since the loader was built, over all sources.
    pub fn stats(&self) -> Stats {
        let sources = self.sources.all();
        let mut memory = MemoryStats { budget: self.spec().memory.unwrap_or(0), ..MemoryStats::default() };
        for source in sources {
            memory.batches += source.sizing.batches;
            memory.row_groups += source.fetcher.budget.used();
            memory.row_groups_peak += source.fetcher.budget.peak();
            if let Some(row_memory) = &source.fetcher.reads.row_memory {
                memory.staying += row_memory.bytes();
                memory.staying_rows += row_memory.served();
            }
        }
        let unknown = sources.iter().map(|source| source.unknown_values()).sum();
        let cache = together(sources.iter().filter_map(|source| source.cache()))
            .map(|stats| CacheStats { read_again: self.why_read_again(), ..stats });
        let first = self.sources.first();
        let (mut opened, mut traffic) = (first.opened, first.fetcher.reads.store.traffic());
        // Sources over the same data set share its connections, so the requests and the opening of a data set
        // are counted once.
        let mut counted = vec![Arc::as_ptr(&first.fetcher.reads.catalog)];
        for source in sources {
            let catalog = Arc::as_ptr(&source.fetcher.reads.catalog);
            if !counted.contains(&catalog) {
                counted.push(catalog);
                traffic = traffic.and(&source.fetcher.reads.store.traffic());
                opened.items += source.opened.items;
                opened.bytes += source.opened.bytes;
                opened.working += source.opened.working;
            }
        }
        let delivered = self.sources.mixture.iter().flat_map(|mixture| &mixture.delivered);
        let of_sources = delivered.map(|rows| SourceStats { rows: rows.load(Relaxed) }).collect();
        let all = Stats::read(&first.monitor, opened, unknown, memory, traffic, cache);
        Stats { sources: of_sources, ..all }
    }

    /// The reasons why [`Tier::Auto`](crate::Tier::Auto) keeps no rows in the cache, for each source that
    /// keeps none.
    fn why_read_again(&self) -> Option<String> {
        let sources = self.sources.all();
        let unkept =
            sources.iter().enumerate().filter_map(|(at, source)| Some((at, source.unkept.as_ref()?)));
        let reasons = unkept.map(|(number, Unkept { why, .. })| match self.sources.mixture {
            Some(_) => format!("source {number}: {why}"),
            None => why.clone(),
        });
        let reasons: Vec<String> = reasons.collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// The position of the consumer, from which another run can resume; save it with the model.
    pub fn position(&self) -> Position {
        self.position_at(&self.sources.progress.get())
    }

    /// The position at the beginning of an epoch. Pass it to [`after`](super::LoaderBuilder::after) to
    /// continue with a loader over newer data.
    ///
    /// # Errors
    /// The mix has no such epoch.
    pub fn beginning(&self, epoch: u64) -> Result<Position> {
        if let Some(mixture) = &self.sources.mixture {
            let (run, _) = mixture.run();
            mixture.planned(&run, epoch)?;
        }
        Ok(self.position_at(&At::begin(epoch)))
    }

    fn position_at(&self, at: &At) -> Position {
        let Some(mixture) = &self.sources.mixture else {
            let source = self.sources.first();
            let cache_tier = source.tiers.as_ref().map(|tiers| tiers.tier().to_string());
            let mut saved = source.saved(at.epoch, at.row, at.skipped_of(0));
            saved.order.denied_from = source.withheld_at(at.epoch, at.row);
            let split = source.split(&source.order()).into();
            return Position::new(at.epoch, at.row, vec![SavedSource { cache_tier, ..saved }], split, None);
        };
        let reached = mixture.reached(at.epoch, at.row);
        let (_, MixSplit { shard, lanes, global_batch }) = mixture.run();
        let drop_last = mixture.spec.drop_last;
        let split = Split { rows: 0, lanes, shard, global_batch, drop_last };
        let saved = |(number, source): (usize, &Arc<Source>)| {
            let mut saved = source.saved(reached.passes[number], reached.rows[number], at.skipped_of(number));
            saved.order.denied_from = source.withheld.digest(|step| step < reached.state.step);
            saved
        };
        let sources = self.sources.all().iter().enumerate().map(saved).collect();
        let row = reached.rows.iter().sum();
        Position::new(at.epoch, row, sources, split.into(), Some(reached.state))
    }

    /// The number of the next epoch, and the row at which it begins: 0, except in a [restored](Self::restore)
    /// epoch.
    #[doc(hidden)]
    pub fn upcoming(&self) -> (u64, u64) {
        self.sources.progress.upcoming()
    }

    /// The places where the rows of a step are stored, in the order of delivery. The step may be past or to
    /// come, in any epoch and on any rank. No data is read, except the [row ids](Self::rewind) of a table
    /// that stores them. Steps are counted from the beginning of an epoch.
    ///
    /// # Errors
    /// The errors of [`rewind`](Self::rewind) and of [`Rewind::step`], for which this is a shorthand.
    pub fn which(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<RowPlace>> {
        self.rewind()?.step(epoch, step, rank)
    }

    /// The plan of this loader, in which [`Rewind::step`] finds the rows of any step. For a table that tracks
    /// row ids, the first call reads the ids from its files.
    ///
    /// # Errors
    /// A file of such a table cannot be read, two of its rows have one id, or the loader was closed.
    pub fn rewind(&self) -> Result<Rewind> {
        let at = self.sources.progress.get();
        self.sources.all().iter().try_for_each(|source| source.read_row_ids())?;
        Ok(Rewind {
            sources: self.sources.all().iter().map(|source| source.source_order()).collect(),
            mixed: self.sources.mixture.as_ref().map(Mixed::from_mixture),
            at: (at.epoch, at.row),
        })
    }

    /// Moves to a saved position, from which the next epoch continues. Lanes and window are taken from the
    /// position if the options leave them out. With another number of ranks the steps stay the same, as long
    /// as all ranks together take the same number of rows in a step; otherwise the steps after the position
    /// differ. A mix may have other weights after the position.
    ///
    /// # Errors
    /// The position belongs to other data sets, or to another seed, filter, order or weights; or its windows
    /// do not fit the memory.
    pub fn restore(&self, position: &Position) -> Result<()> {
        self.sources.check_usable()?;
        let here = self.sources.mixture.as_ref().map(|mixture| mixture.asked());
        position.check(self.sources.all().len(), here.as_ref())?;
        match (&self.sources.mixture, &position.mix) {
            (Some(mixture), Some(saved)) => self.restore_mix(mixture, position, saved),
            _ => self.restore_alone(position),
        }
    }

    fn restore_alone(&self, position: &Position) -> Result<()> {
        let (source, saved) = (self.sources.first(), &position.sources[0]);
        let Position { epoch, row, .. } = *position;
        let mut order = source.order_of(saved, row)?;
        saved.order.check_denied_from(source.withheld_at(epoch, row))?;
        source.take_skips(&mut order, &saved.order, epoch, row)?;
        source.check_fits(&order)?;
        if let Some((tiers, saved)) = source.tiers.as_ref().zip(saved.cache_tier.as_deref()) {
            tiers.restore(saved)?;
        }
        let is_over = order.steps(epoch, &source.split(&order), row) == 0;
        source.restored(order);
        self.set(position, is_over);
        Ok(())
    }

    fn restore_mix(&self, mixture: &Mixture, position: &Position, saved: &SavedMix) -> Result<()> {
        let mut orders = Vec::new();
        let step = saved.step;
        for (number, (source, saved)) in self.sources.all().iter().zip(&position.sources).enumerate() {
            // In the middle of an epoch the rows must stay the same, so no other row may be denied.
            let row = u64::from(position.row > 0).min(saved.order.rows);
            orders.push(source.order_of(saved, row).map_err(of_source(number))?);
            let withheld = source.withheld.digest(|from| from < step);
            saved.order.check_denied_from(withheld).map_err(of_source(number))?;
        }
        let lanes = orders[0].lanes();
        if orders.iter().any(|order| order.lanes() != lanes) {
            return Err(damaged());
        }
        let (run, split) = mixture.run();
        let split = MixSplit { lanes, ..split };
        let schedule = mixture.schedule(saved)?;
        let rule = CourseRule { unit: split.unit(), schedule, ..run.rule.clone() };
        let is_same = position.split.global_batch_size == split.global_batch
            && position.split.drop_last == mixture.spec.drop_last;
        let origin = saved.origin.clone().unwrap_or_else(|| Origin::of_sources(orders.len()));
        let skipped = mixture.skipped(saved, run.skipped.clone(), is_same)?;
        let mut run = Run { rule, origin, skipped, set_from: saved.set_from };
        let rows = position.sources.iter().map(|source| source.rows);
        if !is_same {
            run.origin = Origin {
                epoch: position.epoch,
                step: saved.step,
                passes: position.sources.iter().map(|source| source.first_pass).collect(),
                taken: rows.clone().collect(),
            };
        }
        let plan = Arc::new(run.epoch(position.epoch)?);
        let step = plan.course.step_of(position.row);
        if !plan.taken_before(step).into_iter().eq(rows) {
            return Err(damaged());
        }
        for (number, (source, order)) in self.sources.all().iter().zip(&orders).enumerate() {
            let portion = Portion { epoch: plan.clone(), source: number, split };
            source.check_fits(&order.clone().with_portion(portion))?;
        }
        for (source, order) in self.sources.all().iter().zip(orders) {
            source.restored(order);
        }
        let is_over = plan.steps_left(step) == 0;
        mixture.replace(run, lanes, position.epoch, plan);
        mixture.begins_until(0);
        self.set(position, is_over);
        Ok(())
    }

    /// Sets the position from which the next epoch continues; `is_over` says that the position's epoch has no
    /// rows left.
    fn set(&self, position: &Position, is_over: bool) {
        let skipped: Vec<u64> = position.sources.iter().map(|source| source.skipped).collect();
        self.sources.progress.set(match is_over {
            true => At::begin(position.epoch + 1),
            false => At {
                epoch: position.epoch,
                row: position.row,
                skipped: if skipped.iter().any(|rows| *rows > 0) { skipped.into() } else { Arc::default() },
            },
        });
    }

    /// Sets the weights of a mix during the run, instead of those of its schedule, until they are set again.
    /// They hold from step `from`, counted from the beginning of the run, or from the next step. The epoch
    /// under way continues with them; its row groups are read again, because other rows are needed. Every
    /// rank must set the same weights at the same step.
    ///
    /// A position stores the weights, so a loader that is built with the same options resumes with them. The
    /// memory was divided according to the weights with which the loader was built: batches of a source take
    /// more than planned if it gets a larger share than any of those weights gave it.
    ///
    /// # Errors
    /// Fails if the loader is not a mix, if a weight cannot work, if the consumer has taken batches of that
    /// step ahead, or if the epoch would never end with these weights.
    pub fn set_weights(&self, weights: &[f64], from: Option<u64>) -> Result<()> {
        self.sources.check_usable()?;
        let Some(mixture) = &self.sources.mixture else {
            return Err(Error::invalid("weights were set, but this is not a mix")
                .hint("mix several with `Loader::mix`"));
        };
        let at = self.sources.progress.get();
        mixture.set_weights(weights, from, at.epoch, at.row)
    }

    /// For each source of a mix, the mean cost of a sample by which its weights were divided; `None` if the
    /// weights count samples, or if this is not a mix. See [`by`](crate::LoaderBuilder::by).
    pub fn mean_costs(&self) -> Option<Vec<f64>> {
        self.sources.mixture.as_ref()?.mean_costs().map(<[f64]>::to_vec)
    }

    /// A warning that was not returned before: the disk of the cache or of the trace failed, denied rows do
    /// not exist, or the index of a folder is not used. Each warning is returned once.
    pub fn take_warning(&self) -> Option<String> {
        self.sources.all().iter().find_map(|source| source.take_warning())
    }

    /// Counts a batch, and all before it, as handed over to the consumer. A receipt of another loader, or of
    /// an epoch before the one that was begun last, has no effect.
    pub fn handed_over(&self, receipt: &Receipt) {
        self.sources.progress.handed_over(receipt);
    }

    /// The memory pages of the buffer that contains this address, if it is a buffer of this loader that can
    /// be registered with a device. The caller must hold a batch that uses the buffer.
    pub fn pages(&self, address: usize) -> Option<Arc<Pages>> {
        self.sources.all().iter().find_map(|source| source.collator.buffers.pages(address))
    }

    /// Fails once the loader was closed, and in a forked child.
    pub(super) fn check_usable(&self) -> Result<()> {
        self.sources.check_usable()
    }

    /// Closes the loader: ends the epoch that is under way at once, and makes every later use an error.
    ///
    /// The threads of the loader end and its files are closed, even if the loader is kept. Threads that
    /// decode end when the batches that are being made are done, and those that wait for storage when the
    /// [`Dataset`](super::Dataset) is dropped too.
    ///
    /// Nothing is written to the cache afterwards. If rows are being written to it now, this waits for them,
    /// but at most a second.
    pub fn close(&self) {
        for source in self.sources.all() {
            source.engine.close();
            if let Some(row_memory) = &source.fetcher.reads.row_memory {
                row_memory.close();
            }
            source.monitor.flush();
        }
    }
}

/// Adds to an error of a mix the number of the source in which it occurred.
pub(super) fn of_source(number: usize) -> impl Fn(Error) -> Error {
    move |error| error.hint_also(&format!("it is source {number} of the mix"))
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.spec();
        let rows: Vec<u64> = self.sources.all().iter().map(|source| source.rows).collect();
        let orders: Vec<_> = self.sources.all().iter().map(|source| source.order()).collect();
        f.debug_struct("Loader")
            .field("rows", &rows)
            .field("batch_size", &spec.batch_size)
            .field("shard", &spec.shard)
            .field("orders", &orders)
            .finish_non_exhaustive()
    }
}
