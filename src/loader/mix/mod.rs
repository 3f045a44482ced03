//! Several sources as one loader: each has a pipe of its own, over one pool of threads and shares of one budget of memory, and
//! an epoch takes their batches in plan order.
//!
//! * [`build`](MixBuilder) checks the options, plans the run and divides the memory; [`spec`](MixSpec) has them,
//! * [`epoch`](MixEpoch) takes the batches of sources, `join` makes one of them; `masks` are made by all sources
//!   or none,
//! * [`position`](MixPosition) says how far an epoch got, `report` what it will read.

mod build;
mod caches;
mod epoch;
mod join;
mod masks;
mod position;
mod report;
mod rewind;
mod spec;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::build::LoaderBuilder;
use super::epoch::{Counting, Epoch};
use super::handle::{Begun, Loader};
use super::prefetch::PrefetchKey;
use super::progress::{At, Progress, Receipt};
use super::rejections::Rejections;
use super::stats::{MemoryStats, SourceStats, Stats};
use crate::monitor::Monitor;
use crate::shard::{
    CourseRule, MixSplit, MixedEpoch, Origin, Portion, Position, Run, SavedSplit, Shard, Split, Steps,
};
pub use build::MixBuilder;
pub use epoch::MixEpoch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Place, Result};
use forebay_store::catalog::RowPlace;
use join::Joiner;
pub use position::{MixPosition, SavedSource};
pub use report::{MixPlan, SourcePlan};
pub use spec::MixSpec;

/// Feeds one process of a training run from several sources by weight. Made by [`MixBuilder::build`].
///
/// Each step has its share of every source, rounded to whole rows so that no sum is off by as much as one row of each rank. A
/// pass over a source has its rows once each, in the order that the source's own loader would have in that epoch.
///
/// ```no_run
/// use forebay::{Dataset, Mix, Shuffle, Stop};
///
/// let web = Dataset::open("s3://acme/web/")?.loader().shuffle(Shuffle::seeded(17));
/// let books = Dataset::open("s3://acme/books/")?.loader().shuffle(Shuffle::seeded(17));
/// let mix = Mix::of([(web, 0.7), (books, 0.3)]).stop(Stop::Last).batch_size(256).build()?;
/// for batch in mix.epoch(0) {
///     let batch = batch?; // an Arrow RecordBatch
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Mix {
    inner: Arc<Inner>,
}

/// Shared by a mix and its epochs.
struct Inner {
    sources: Vec<Source>,
    joiner: Joiner,
    progress: Arc<Progress>,
    monitor: Arc<Monitor>,
    spec: MixSpec,
    plan: Mutex<Plan>,
    /// Rows of each source that were made into batches.
    delivered: Vec<AtomicU64>,
}

/// One source.
struct Source {
    loader: Loader,
    /// Rows of the data sets before it.
    first_number: u64,
}

/// The plan in force, with the epochs that were planned last.
struct Plan {
    run: Arc<Run>,
    lanes: u32,
    planned: Vec<(u64, Arc<MixedEpoch>)>,
    /// Where the position was asked for last, to go on from there: the epoch, and its steps from there on.
    asked: Option<(u64, Steps)>,
}

impl Plan {
    fn new(run: Arc<Run>, lanes: u32, first: (u64, Arc<MixedEpoch>)) -> Self {
        Plan { run, lanes, planned: vec![first], asked: None }
    }

    /// Rows of each source before a step of an epoch.
    fn taken_before(&mut self, number: u64, epoch: &MixedEpoch, step: u64) -> Vec<u64> {
        let is_near = |(of, steps): &(u64, Steps)| {
            *of == number && (steps.step()..=steps.step() + NEAR).contains(&step)
        };
        let asked = self.asked.take().filter(is_near);
        let (_, mut steps) = asked.unwrap_or_else(|| (number, epoch.course.steps_from(step)));
        while steps.step() < step && steps.next().is_some() {}
        let taken = steps.taken().to_vec();
        self.asked = Some((number, steps));
        taken
    }
}

/// Steps that are gone through rather than sought.
const NEAR: u64 = 64;

/// Planned epochs that are kept: the one under way and the next, and one that is asked for.
const PLANNED: usize = 3;

impl Inner {
    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_usable(&self) -> Result<()> {
        self.sources.iter().try_for_each(|source| source.loader.check_usable())
    }

    /// The run that is planned, and this rank's share.
    fn run(&self) -> (Arc<Run>, MixSplit) {
        let plan = self.plan();
        (plan.run.clone(), self.split(plan.lanes, self.spec.shard))
    }

    fn split(&self, lanes: u32, shard: Shard) -> MixSplit {
        MixSplit { shard, lanes, global_batch: self.spec.global_batch() }
    }

    /// The plan of an epoch of the run in force.
    fn planned(&self, run: &Arc<Run>, number: u64) -> Result<Arc<MixedEpoch>> {
        let mut plan = self.plan();
        if let Some((_, found)) =
            plan.planned.iter().find(|(epoch, _)| *epoch == number && Arc::ptr_eq(run, &plan.run))
        {
            return Ok(found.clone());
        }
        let made = Arc::new(run.epoch(number)?);
        if Arc::ptr_eq(run, &plan.run) {
            plan.planned.push((number, made.clone()));
            if plan.planned.len() > PLANNED {
                plan.planned.remove(0);
            }
        }
        Ok(made)
    }

    /// Begins a pass over a source, counted in an epoch, at one of its rows, before which so many bad rows were left out. The pass
    /// after it is prepared.
    #[allow(clippy::too_many_arguments, reason = "an epoch, a source, and a place in it")]
    fn pass(
        &self,
        run: &Arc<Run>,
        split: MixSplit,
        number: u64,
        plan: &Arc<MixedEpoch>,
        source: usize,
        pass: u64,
        start: u64,
        skipped: u64,
    ) -> Result<Epoch> {
        let loader = &self.sources[source].loader;
        let order = loader.order();
        let key = |plan: &Arc<MixedEpoch>, pass: u64, start: u64| {
            let portion = Portion { epoch: plan.clone(), source, split };
            PrefetchKey {
                epoch: plan.passes[source] + pass,
                start,
                order: order.clone().with_portion(portion),
            }
        };
        let mut keys = vec![key(plan, pass, start)];
        if pass + 1 < plan.passes_of(source) {
            keys.push(key(plan, pass + 1, 0));
        } else if self.spec.epochs.is_none_or(|epochs| number + 1 < epochs) {
            // There may be no epoch that far away.
            if let Ok(next) = self.planned(run, number + 1)
                && next.passes_of(source) > 0
            {
                keys.push(key(&next, 0, 0));
            }
        }
        Ok(loader.begin(Counting::Mix, || Ok(Begun { generation: 0, skipped, keys })))
    }
}

impl Mix {
    /// A builder of a mix: sources and their weights, of which only the ratio matters. Of each source's options, those that belong
    /// to all of them together are given here.
    pub fn of(sources: impl IntoIterator<Item = (LoaderBuilder, f64)>) -> MixBuilder {
        MixBuilder::new(sources.into_iter().collect())
    }

    /// Begins epoch `number`, or continues it if a [restored](Self::restore) position is in it. An epoch that is under way ends.
    pub fn epoch(&self, number: u64) -> MixEpoch {
        MixEpoch::begin(&self.inner, Some(number))
    }

    /// Begins the epoch after the last one that was begun, or continues a [restored](Self::restore) position.
    pub fn next_epoch(&self) -> MixEpoch {
        MixEpoch::begin(&self.inner, None)
    }

    /// Batches in a whole epoch: exact, and the same on every rank. Where the weights change, those of the epoch that is under
    /// way, or comes next.
    #[allow(clippy::len_without_is_empty, reason = "a mix always has batches: build() sees to it")]
    pub fn len(&self) -> u64 {
        let (run, _) = self.inner.run();
        let epoch = self.inner.progress.get().epoch;
        let Ok(plan) = self.inner.planned(&run, epoch) else { return 0 };
        // What came before a border is counted in the steps that hold now.
        let before: u64 = plan.taken.iter().sum();
        plan.course.steps() + before.div_ceil(run.rule.global_batch)
    }

    /// The options, with the defaults filled in.
    pub fn spec(&self) -> &MixSpec {
        &self.inner.spec
    }

    /// The columns of a batch: those of all sources.
    pub fn schema(&self) -> SchemaRef {
        self.inner.joiner.schema.clone()
    }

    /// The sources as loaders, for their options and plans. Their epochs belong to the mix.
    pub fn sources(&self) -> impl Iterator<Item = &Loader> {
        self.inner.sources.iter().map(|source| &source.loader)
    }

    /// Counts a batch, and all before it, as handed over to the consumer; as [`Loader::handed_over`].
    pub fn handed_over(&self, receipt: &Receipt) {
        self.inner.progress.handed_over(receipt);
    }

    /// Where the rows of a step are stored, in the order of delivery: the number of the source, and the place in it. Of any step
    /// of any epoch, past or to come, and of any rank. Nothing is read. Steps are counted from the beginning of an epoch.
    ///
    /// # Errors
    /// There is no such step or rank; or the epoch is under way and began with other batches, so that its steps cannot be
    /// counted.
    pub fn which(&self, epoch: u64, step: u64, rank: u32) -> Result<Vec<(usize, RowPlace)>> {
        let inner = &*self.inner;
        let (run, split) = inner.run();
        let split = inner.split(split.lanes, Shard::new(rank, split.shard.world())?);
        let plan = inner.planned(&run, epoch)?;
        if plan.taken.iter().any(|taken| *taken > 0) {
            let cause = format!("the steps of epoch {epoch} cannot be counted: it began with other batches");
            return Err(Error::invalid(cause).hint("ask for the next step, or for one of another epoch"));
        }
        self.places(&plan, step, split)?.ok_or_else(|| {
            Error::invalid(format!("there is no step {step} in epoch {epoch}"))
                .hint(format!("it has {}, which are counted from 0", plan.course.steps()))
        })
    }

    /// As [`which`](Self::which), for a step that is counted through all epochs from the first one of epoch 0.
    ///
    /// # Errors
    /// As [`which`](Self::which).
    pub fn which_of_run(&self, step: u64, rank: u32) -> Result<Vec<(usize, RowPlace)>> {
        let (epoch, step) = self.inner.run().0.locate(step)?;
        self.which(epoch, step, rank)
    }

    /// As [`which`](Self::which), for the step that comes next: empty where the epoch is over.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn which_next(&self, rank: u32) -> Result<Vec<(usize, RowPlace)>> {
        let inner = &*self.inner;
        let (run, split) = inner.run();
        let split = inner.split(split.lanes, Shard::new(rank, split.shard.world())?);
        let At { epoch, row, .. } = inner.progress.get();
        let plan = inner.planned(&run, epoch)?;
        Ok(self.places(&plan, plan.course.step_of(row), split)?.unwrap_or_default())
    }

    fn places(
        &self,
        plan: &Arc<MixedEpoch>,
        step: u64,
        split: MixSplit,
    ) -> Result<Option<Vec<(usize, RowPlace)>>> {
        let Some(mixed) = plan.course.steps_from(step).next() else { return Ok(None) };
        let mut places = Vec::new();
        for (source, of) in self.inner.sources.iter().enumerate() {
            for (pass, _) in plan.share(&mixed, source, &split) {
                let portion = Portion { epoch: plan.clone(), source, split };
                let order = of.loader.order().with_portion(portion);
                let start = mixed.before[source].saturating_sub(pass * plan.sizes[source]);
                let rows = of.loader.rewind().of_portion(
                    &order,
                    plan.passes[source] + pass,
                    start,
                    split.shard.rank(),
                )?;
                places.extend(rows.into_iter().map(|row| (source, row)));
            }
        }
        Ok(Some(places))
    }

    /// How far the consumer got: save it with the model.
    pub fn position(&self) -> MixPosition {
        let inner = &*self.inner;
        let (run, split) = inner.run();
        let at = inner.progress.get();
        let (epoch, row) = (at.epoch, at.row);
        let sources = inner.sources.len();
        // Without a plan nothing of the epoch was given.
        let (passes, rows, step) = match inner.planned(&run, epoch) {
            Ok(plan) => {
                let row = if row == 0 { plan.taken.iter().sum() } else { row };
                let step = plan.course.step_of(row);
                (plan.passes.clone(), inner.plan().taken_before(epoch, &plan, step), plan.first_step + step)
            }
            Err(_) => (vec![0; sources], vec![0; sources], 0),
        };
        let source = |(number, source): (usize, &Source)| SavedSource {
            fingerprint: source.loader.inner.fetcher.reads.catalog.fingerprint.to_string(),
            files: Some(source.loader.saved_files().clone()),
            order: source.loader.order_id(),
            first_pass: passes[number],
            rows: rows[number],
            skipped: at.skipped_of(number),
        };
        let CourseRule { stop, repeat, schedule, random_shares, .. } = &run.rule;
        let parts = |(from, weights): &(u64, crate::shard::Weights)| {
            (*from, (0..weights.len()).map(|source| weights.part(source)).collect())
        };
        let global_batch = Split {
            rows: 0,
            lanes: split.lanes,
            shard: split.shard,
            global_batch: split.global_batch,
            drop_last: inner.spec.drop_last,
        };
        MixPosition {
            version: MixPosition::version(),
            epoch,
            row: rows.iter().sum(),
            step,
            sources: inner.sources.iter().enumerate().map(source).collect(),
            stop: *stop,
            repeat: *repeat,
            schedule: schedule.iter().map(parts).collect(),
            random_shares: *random_shares,
            origin: (run.origin != Origin::of_sources(sources)).then(|| run.origin.clone().into()),
            split: SavedSplit::from(global_batch),
        }
    }

    /// Moves to a saved position; the next epoch begins there. Another world resumes the same steps as long as the rows of a
    /// step over all ranks stay as many; with other batches the steps are others from there on. Other weights may hold from
    /// there on as well.
    ///
    /// # Errors
    /// The position belongs to other data sets, orders or weights, or its windows do not fit the memory.
    pub fn restore(&self, position: &MixPosition) -> Result<()> {
        let inner = &*self.inner;
        inner.check_usable()?;
        position.check(&self.position())?;
        let mut orders = Vec::new();
        for (number, (source, saved)) in inner.sources.iter().zip(&position.sources).enumerate() {
            let in_source = |error: Error| error.hint_also(&format!("it is source {number} of the mix"));
            let loader = &source.loader;
            // In the middle of an epoch its rows are the same: none is denied that was not.
            let row = u64::from(position.row > 0).min(saved.order.rows);
            let of_source = Position::new(saved.fingerprint.clone(), saved.order.clone(), 0, row);
            let of_source = Position { files: saved.files.clone(), ..of_source };
            loader.check_position(&of_source).map_err(in_source)?;
            orders.push(loader.adopted(&saved.order).map_err(in_source)?);
        }
        let lanes = orders[0].lanes();
        if orders.iter().any(|order| order.lanes() != lanes) {
            return Err(position::damaged());
        }
        let (run, _) = inner.run();
        let split = inner.split(lanes, inner.spec.shard);
        let rule = CourseRule { unit: split.unit(), ..run.rule.clone() };
        let sources = inner.sources.len();
        let origin = position.origin.clone().map_or_else(|| Origin::of_sources(sources), Origin::from);
        let mut run = Run { rule, origin };
        let is_same = position.split.global_batch_size == split.global_batch
            && position.split.drop_last == inner.spec.drop_last;
        if !is_same {
            run.origin = Origin {
                epoch: position.epoch,
                step: position.step,
                passes: position.sources.iter().map(|source| source.first_pass).collect(),
                taken: position.sources.iter().map(|source| source.rows).collect(),
            };
        }
        let plan = run.epoch(position.epoch)?;
        let step = plan.course.step_of(position.row);
        let rows = position.sources.iter().map(|source| source.rows);
        if !plan.taken_before(step).into_iter().eq(rows) {
            return Err(position::damaged());
        }
        let plan = Arc::new(plan);
        for (source, order) in orders.iter().enumerate() {
            let of = &inner.sources[source].loader.inner;
            let order = order.clone().with_portion(Portion { epoch: plan.clone(), source, split });
            let split = inner.sources[source].loader.split(&order);
            of.sizing.check(&of.fetcher.reads, &of.selected, &order, split)?;
        }
        for (source, order) in inner.sources.iter().zip(orders) {
            source.loader.inner.engine.restored();
            *source.loader.inner.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        }
        let is_over = step == plan.course.steps();
        *inner.plan() = Plan::new(Arc::new(run), lanes, (position.epoch, plan));
        match is_over {
            true => inner.progress.set(At::begin(position.epoch + 1)),
            false => inner.progress.set(At {
                epoch: position.epoch,
                row: position.row,
                skipped: position.sources.iter().map(|source| source.skipped).collect(),
            }),
        }
        Ok(())
    }

    /// The statistics of all stages since the mix was built, over all sources, and the rows of each.
    pub fn stats(&self) -> Stats {
        let inner = &*self.inner;
        let loaders = || inner.sources.iter().map(|source| &*source.loader.inner);
        let mut memory = MemoryStats::default();
        memory.budget = inner.spec.memory.unwrap_or(0);
        for of in loaders() {
            memory.batches += of.sizing.batches;
            memory.row_groups += of.fetcher.budget.used();
            memory.row_groups_peak += of.fetcher.budget.peak();
        }
        let unknown = loaders().flat_map(|of| &of.collator.codecs).map(|codec| codec.unknown_values()).sum();
        let cache =
            caches::together(loaders().filter_map(|of| Some(of.fetcher.reads.row_cache.as_ref()?.cache())));
        let mut stats = loaders()
            .map(|of| (Arc::as_ptr(&of.fetcher.reads.catalog), of.opened, of.fetcher.reads.store.traffic()));
        let Some((catalog, mut opened, mut traffic)) = stats.next() else {
            return Stats::default();
        };
        // Sources over one data set share its connections.
        let mut counted = vec![catalog];
        for (catalog, also_opened, more) in stats {
            if !counted.contains(&catalog) {
                counted.push(catalog);
                traffic = traffic.and(&more);
                opened.items += also_opened.items;
                opened.bytes += also_opened.bytes;
                opened.working += also_opened.working;
            }
        }
        let sources = inner.delivered.iter().map(|rows| SourceStats { rows: rows.load(Relaxed) }).collect();
        let all = Stats::read(&inner.monitor, opened, unknown, memory, traffic, cache);
        Stats { sources, ..all }
    }

    /// The plan of an epoch, from footers alone.
    ///
    /// # Errors
    /// There is no such epoch.
    pub fn plan(&self, epoch: u64) -> Result<MixPlan> {
        let (run, split) = self.inner.run();
        let plan = self.inner.planned(&run, epoch)?;
        Ok(MixPlan::of(epoch, &plan, split, self.inner.spec.memory.unwrap_or(0)))
    }

    /// File, row group and row of the row with this ordinal in the sources, one after the other.
    pub fn row_place(&self, number: u64) -> Option<Place> {
        let after = self.inner.sources.partition_point(|source| source.first_number <= number);
        let source = self.inner.sources.get(after.checked_sub(1)?)?;
        source.loader.row_place(number - source.first_number)
    }

    /// The rows that functions reject of the epoch that begins.
    pub fn rejections(&self) -> Rejections {
        let sources = self.inner.sources.iter().map(|source| (&source.loader, source.first_number));
        Rejections::new(self.inner.monitor.clone(), sources)
    }

    /// A warning that was not returned yet, as [`Loader::take_warning`].
    pub fn take_warning(&self) -> Option<String> {
        self.inner.sources.iter().find_map(|source| source.loader.take_warning())
    }

    /// Fails once the mix was closed, and in a forked child.
    pub fn check_usable(&self) -> Result<()> {
        self.inner.check_usable()
    }

    /// Ends the epoch that is under way, at once. Every later use is an error.
    pub fn close(&self) {
        self.inner.sources.iter().for_each(|source| source.loader.close());
    }
}

impl fmt::Debug for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, split) = self.inner.run();
        f.debug_struct("Mix")
            .field("rows", &run.rule.rows)
            .field("stop", &run.rule.stop)
            .field("split", &split)
            .finish_non_exhaustive()
    }
}
