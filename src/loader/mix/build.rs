//! Builds a mix: checks the options, plans the run, and divides the memory among the sources.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use forebay_base::{Error, ErrorKind, Result};

use super::join::Joiner;
use super::masks::{Delivered, check_masks};
use super::{Inner, Mix, MixSpec, Plan, Source};
use crate::loader::build::{LoaderBuilder, Numbers, Settled, monitor};
use crate::loader::machine::{default_memory, processors};
use crate::loader::sizing::words;
use crate::loader::spec::LoaderSpec;
use crate::loader::threads::{self, IoRuntime};
use crate::shard::{
    CourseRule, MixSplit, MixedEpoch, Origin, Portion, Run, SHARES_BLOCK, Shard, Stop, Weights,
};

/// The most sources: each has a pipe with threads of its own.
const MOST: usize = 64;

/// The options of a [`Mix`]. [`Mix::of`] creates a builder with every option at its default.
///
/// ```no_run
/// use forebay::{Dataset, Mix, Stop};
///
/// let (a, b) = (Dataset::open("a/")?.loader(), Dataset::open("b/")?.loader());
/// let mix = Mix::of([(a, 0.7), (b, 0.3)])
///     .weights_from(10_000, [0.5, 0.5])
///     .stop(Stop::Last)
///     .repeat(true)
///     .batch_size(256)
///     .memory(8 << 30)
///     .build()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read before build()"]
pub struct MixBuilder {
    sources: Vec<(LoaderBuilder, f64)>,
    spec: MixSpec,
    numbered: bool,
}

/// A source that was checked.
struct Checked {
    builder: LoaderBuilder,
    io: Arc<IoRuntime>,
    settled: Settled,
    /// Rows of its data set.
    stored: u64,
}

impl MixBuilder {
    pub(super) fn new(sources: Vec<(LoaderBuilder, f64)>) -> Self {
        MixBuilder { sources, spec: MixSpec::default(), numbered: false }
    }

    /// Replaces all options.
    pub fn spec(mut self, spec: MixSpec) -> Self {
        self.spec = spec;
        self
    }

    /// Other weights from a step on, counted through all epochs: one for each source. They are part of the position. Default:
    /// the weights of the sources throughout.
    pub fn weights_from(mut self, step: u64, weights: impl IntoIterator<Item = f64>) -> Self {
        self.spec.schedule.push((step, weights.into_iter().collect()));
        self
    }

    /// Draws the source of each row by chance, from this seed: with a probability that is its weight, so that a step has the
    /// share of a source on average. The first 32 steps together have it exactly, and so have each 32 after them. All epochs
    /// draw the same sources, in units of one row of each lane. Default: each step has the exact share of each source.
    pub fn random_shares(mut self, seed: u64) -> Self {
        self.spec.random_shares = Some(seed);
        self
    }

    /// When an epoch ends. Default: with the first source that ends.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.spec.stop = stop;
        self
    }

    /// Whether a source that ends before the epoch begins again, where it stops with the [last](Stop::Last) one. If not, the
    /// others share the steps from then on, and each row comes once. Default: true.
    pub fn repeat(mut self, repeat: bool) -> Self {
        self.spec.repeat = repeat;
        self
    }

    /// Delivers the number of each row's source, from 0, as a last column `source` of `Int64`. Default: false.
    pub fn source(mut self, source: bool) -> Self {
        self.spec.source = source;
        self
    }

    /// The share of this process. Default: everything.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.spec.shard = shard;
        self
    }

    /// Rows of a batch of one rank, of all sources together. Default: 32.
    pub fn batch_size(mut self, rows: u64) -> Self {
        self.spec.batch_size = rows;
        self
    }

    /// Rows of a step over all ranks, instead of [`batch_size`](Self::batch_size).
    pub fn global_batch_size(mut self, rows: u64) -> Self {
        self.spec.global_batch_size = Some(rows);
        self
    }

    /// Leaves out steps that are not full: the last rows of a source that do not fill its share of one. Default: false.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.spec.drop_last = drop_last;
        self
    }

    /// How many epochs there will be. Default: unknown.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.spec.epochs = Some(epochs);
        self
    }

    /// Bytes for everything in flight, of all sources together. Default: as for a loader.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.spec.memory = Some(bytes);
        self
    }

    /// Threads that decode, for all sources. Default: the processors that this process may use.
    pub fn threads(mut self, threads: usize) -> Self {
        self.spec.threads = Some(threads);
        self
    }

    /// Writes a timeline of all sources to a file, as [`LoaderBuilder::trace`]. Default: none.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.trace = Some(path.into());
        self
    }

    /// Has each receipt say which rows its batch holds, as [`LoaderBuilder::numbered`].
    pub fn numbered(mut self, numbered: bool) -> Self {
        self.numbered = numbered;
        self
    }

    /// Checks everything, plans the run, and starts the threads.
    ///
    /// # Errors
    /// As [`LoaderBuilder::build`] for each source. An option of a source belongs to the mix; a weight can never work;
    /// columns of one name have several types; an epoch has no step or no end; the windows do not fit the memory together.
    pub fn build(self) -> Result<Mix> {
        let mut spec = self.spec.clone();
        self.check_numbers()?;
        let weights: Vec<f64> = self.sources.iter().map(|(_, weight)| *weight).collect();
        let schedule = spec.weights(&weights)?;
        let threads = *spec.threads.get_or_insert_with(processors);
        let memory = *spec.memory.get_or_insert_with(default_memory);
        spec.batch_size = spec.global_batch().div_ceil(spec.shard.world().into());
        let checked = self.checked(&spec)?;
        let lanes = checked[0].settled.order.lanes();
        let split = MixSplit { shard: spec.shard, lanes, global_batch: spec.global_batch() };
        let rows: Vec<u64> = checked.iter().map(|source| source.settled.rows()).collect();
        let sources = rows.len();
        let rule = CourseRule {
            rows,
            global_batch: split.global_batch,
            unit: split.unit(),
            stop: spec.stop,
            repeat: spec.repeat,
            drop_last: spec.drop_last,
            schedule,
            random_shares: spec.random_shares,
        };
        let run = Run { rule, origin: Origin::of_sources(sources) };
        let first = Arc::new(run.epoch(0)?);
        let schemas: Vec<_> = checked.iter().map(|source| source.settled.schema().clone()).collect();
        let delivered = checked
            .iter()
            .map(|Checked { settled, .. }| Delivered { spec: &settled.spec, schema: settled.schema() });
        check_masks(&delivered.collect::<Vec<_>>())?;
        let joiner = Joiner::new(&schemas, spec.source)?;
        let divided = divide(checked, memory, &run, split, &first)?;
        let (monitor, pool) = (monitor(&spec.trace, threads)?, threads::pool(threads)?);
        let mut first_number = 0;
        let started = divided.into_iter().map(|Checked { builder, io, settled, stored }| {
            let loader = builder.start(settled, io, pool.clone(), monitor.clone());
            first_number += stored;
            Source { loader, first_number: first_number - stored }
        });
        let inner = Inner {
            sources: started.collect(),
            joiner,
            progress: Arc::default(),
            monitor,
            spec,
            plan: Mutex::new(Plan::new(Arc::new(run), lanes, (0, first))),
            delivered: (0..sources).map(|_| AtomicU64::new(0)).collect(),
        };
        Ok(Mix { inner: Arc::new(inner) })
    }

    fn check_numbers(&self) -> Result<()> {
        if self.sources.is_empty() {
            return Err(Error::invalid("a mix without sources").hint("give it loaders and their weights"));
        }
        if self.sources.len() > MOST {
            return Err(Error::invalid(format!("a mix of {} sources", self.sources.len()))
                .hint(format!("up to {MOST}; open a list of locations as one data set")));
        }
        let MixSpec { shard, batch_size, global_batch_size, epochs, memory, threads, .. } = self.spec;
        Numbers { world: shard.world(), batch_size, global_batch_size, epochs, memory, threads }.check()
    }

    /// The sources, each checked by itself.
    fn checked(&self, spec: &MixSpec) -> Result<Vec<Checked>> {
        let given = self.sources.iter().map(|(builder, _)| builder.options().shuffle.lanes);
        let mut lanes: Vec<u32> = given.flatten().collect();
        lanes.dedup();
        if let [one, other, ..] = lanes[..] {
            return Err(Error::invalid(format!("one source has {one} lanes, another {other}"))
                .hint("give all of them as many, or none"));
        }
        let check = |(number, (builder, _)): (usize, &(LoaderBuilder, f64))| {
            let in_source = |error: Error| error.hint_also(&format!("it is source {number} of the mix"));
            let mut options = builder.options().clone();
            check_source(number, &options)?;
            options.shard = spec.shard;
            options.batch_size = spec.batch_size;
            (options.memory, options.threads) = (spec.memory, spec.threads);
            options.shuffle.lanes = lanes.first().copied();
            let (source, among) = (number as u64, self.sources.len() as u64);
            let builder = builder.clone().for_mix(options, source, among).numbered(self.numbered);
            let builder = builder.of_folders().map_err(in_source)?;
            let (io, store) = builder.data_set().here()?;
            let settled = builder.settle(&io, store).map_err(in_source)?;
            let stored = builder.data_set().rows();
            Ok(Checked { builder, io, settled, stored })
        };
        self.sources.iter().enumerate().map(check).collect()
    }
}

/// Refuses options of a source that belong to all of them together.
fn check_source(number: usize, options: &LoaderSpec) -> Result<()> {
    let default = LoaderSpec::default();
    let given = [
        ("shard", options.shard != default.shard),
        ("batch_size", options.batch_size != default.batch_size),
        ("global_batch_size", options.global_batch_size.is_some()),
        ("drop_last", options.drop_last),
        ("epochs", options.epochs.is_some()),
        ("memory", options.memory.is_some()),
        ("threads", options.threads.is_some()),
        ("trace", options.trace.is_some()),
    ];
    if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
        return Err(Error::invalid(format!("source {number} has `{name}`, which belongs to the mix"))
            .hint("give it to the mix, and leave it out of the source"));
    }
    let refused = [
        ("skip_steps", !options.skip_steps.is_empty()),
        ("row_mask", options.row_mask),
        ("samples", !options.samples.are_single_rows()),
    ];
    if let Some((name, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(Error::invalid(format!("source {number} has `{name}`, which a mix does not have"))
            .hint("leave it out of the source"));
    }
    Ok(())
}

/// The most rows of a source in a rank's batch.
fn most_rows(rule: &CourseRule, split: MixSplit, source: usize) -> u64 {
    let world = u64::from(split.shard.world());
    let all = split.global_batch.div_ceil(world);
    if rule.stop == Stop::Last && !rule.repeat {
        // The others share the steps when one has ended.
        return all;
    }
    let units = u128::from(rule.global_batch / rule.unit);
    let of = |weights: &Weights| {
        // By chance the units of a block of steps may meet in one.
        let together = if rule.random_shares.is_some() { u128::from(SHARES_BLOCK) } else { 1 };
        let part = u128::from(weights.part(source)) * units * together;
        part.div_ceil(u128::from(weights.sum())).min(units) as u64 * rule.unit
    };
    let most = rule.schedule.iter().map(|(_, weights)| of(weights)).max().unwrap_or(0);
    (most.div_ceil(world) + 1).min(all).max(1)
}

/// Gives each source what it needs of the memory, and its share of the rest.
fn divide(
    checked: Vec<Checked>,
    memory: u64,
    run: &Run,
    split: MixSplit,
    first: &Arc<MixedEpoch>,
) -> Result<Vec<Checked>> {
    let portion = |source| Portion { epoch: first.clone(), source, split };
    let rows: Vec<u64> = (0..checked.len()).map(|source| most_rows(&run.rule, split, source)).collect();
    let needs = checked.iter().enumerate().map(|(at, source)| source.settled.least(rows[at], portion(at)));
    let needs: Vec<u64> = needs.collect();
    // Batches of several sources are copied into one.
    let copy =
        checked.iter().zip(&rows).map(|(source, rows)| source.settled.row_bytes().saturating_mul(*rows));
    let copy = if checked.len() > 1 { copy.sum() } else { 0 };
    let needed = needs.iter().fold(copy, |sum, need| sum.saturating_add(*need));
    if needed > memory {
        let cause = format!(
            "the windows and batches of {} sources need {} of memory together, over the budget of {}",
            checked.len(),
            words(needed),
            words(memory)
        );
        let hint = format!("raise `memory` to {}, or give the sources smaller windows", words(needed));
        return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
    }
    let (rest, all) = (u128::from(memory - needed), u128::from((needed - copy).max(1)));
    let divided = checked.into_iter().enumerate().map(|(at, source)| {
        let Checked { builder, io, settled, stored } = source;
        let share = needs[at] + (rest * u128::from(needs[at]) / all) as u64;
        let settled = builder.divided(&io, settled, (share, rows[at]), portion(at));
        let in_source = |error: Error| error.hint_also(&format!("it is source {at} of the mix"));
        Ok(Checked { settled: settled.map_err(in_source)?, builder, io, stored })
    });
    divided.collect()
}
