//! Builds a mix: checks the options, plans the run, and divides the memory among the sources.

use std::sync::Arc;

use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};
use serde_json::Value;

use super::LoaderBuilder;
use super::checks::check_run;
use super::mixing::{OF_MIXES, of_mixes};
use super::settle::{Settled, SourceShare};
use super::start::monitor;
use crate::loader::handle::{Loader, of_source};
use crate::loader::joint::{JointSource, JointSteps};
use crate::loader::machine::{default_memory, processors};
use crate::loader::mix::{Delivered, Joiner, MixWeights, Mixture, check_masks, weights};
use crate::loader::plan::RankPlan;
use crate::loader::sizing::words;
use crate::loader::source::Source;
use crate::loader::sources::Sources;
use crate::loader::spec::LoaderSpec;
use crate::loader::threads::{self, IoRuntime};
use crate::samples::{RowCost, Samples};
use crate::shard::{
    CourseRule, MixSplit, MixedEpoch, Origin, Portion, Run, SHARES_BLOCK, SkippedSteps, Stop, Weights,
};

/// The largest number of sources in a mix. Each source has a pipeline with threads of its own, which limits
/// the number.
const MAX_SOURCES: usize = 64;

/// The options that the mix has for all its sources, and that no source may have.
const OF_ALL: [&str; 9] = [
    "shard",
    "batch_size",
    "global_batch_size",
    "drop_last",
    "epochs",
    "memory",
    "threads",
    "trace",
    "skip_steps",
];

/// A source of a mix, with its checked options.
struct CheckedSource {
    builder: LoaderBuilder,
    io: Arc<IoRuntime>,
    settled: Settled,
    /// The number of rows in the source's data set, including deleted ones.
    stored: u64,
}

/// A mix that was checked and planned, before anything is started.
pub(super) struct CheckedMix {
    /// The options with the defaults filled in.
    spec: LoaderSpec,
    sources: Vec<CheckedSource>,
    joiner: Joiner,
    /// The weights as the user gave them, each with the first step for which they are used.
    given: Vec<(u64, Weights)>,
    /// The mean cost of a sample of each source, if the weights count a cost.
    means: Option<Vec<f64>>,
    run: Run,
    first: Arc<MixedEpoch>,
    split: MixSplit,
    threads: usize,
    memory: u64,
}

impl Loader {
    /// Creates a builder of a loader over several sources by weight; only the ratio of the weights matters.
    /// Options that concern all sources together, such as the size of a batch and the memory, are given to
    /// this builder.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Loader, Shuffle, Stop};
    ///
    /// let web = Dataset::open("s3://acme/web/")?.loader().shuffle(Shuffle::seeded(17));
    /// let books = Dataset::open("s3://acme/books/")?.loader().shuffle(Shuffle::seeded(17));
    /// let loader = Loader::mix([(web, 0.7), (books, 0.3)])?
    ///     .weights_from(10_000, [0.5, 0.5])
    ///     .stop(Stop::Last)
    ///     .batch_size(256)
    ///     .memory(8 << 30)
    ///     .build()?;
    /// for batch in loader.epoch(0) {
    ///     let batch = batch?; // an Arrow RecordBatch
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no source, or there are more than 64; or a source is itself a mix.
    pub fn mix(sources: impl IntoIterator<Item = (LoaderBuilder, f64)>) -> Result<LoaderBuilder> {
        let mixed: Vec<(LoaderBuilder, f64)> = sources.into_iter().collect();
        let Some(dataset) = mixed.first().map(|(first, _)| first.dataset.clone()) else {
            return Err(
                Error::invalid("a mix needs at least one source").hint("give loaders and their weights")
            );
        };
        if mixed.len() > MAX_SOURCES {
            return Err(Error::invalid(format!("a mix of {} sources is too large", mixed.len()))
                .hint(format!("up to {MAX_SOURCES}; open a list of locations as one data set")));
        }
        if let Some(number) = mixed.iter().position(|(source, _)| source.is_mix()) {
            return Err(Error::invalid(format!("source {number} is itself a mix"))
                .hint("give its sources, and multiply their weights"));
        }
        Ok(LoaderBuilder { mixed, ..LoaderBuilder::new(dataset) })
    }
}

impl LoaderBuilder {
    pub(super) fn is_mix(&self) -> bool {
        !self.mixed.is_empty()
    }

    /// Turns this builder into source number `source` of a mix of `among` sources, with the options `spec`.
    fn for_mix(self, spec: LoaderSpec, source: u64, among: u64) -> Self {
        LoaderBuilder { spec, source, among, ..self }
    }

    /// Checks the options of a mix, and plans its run.
    pub(super) fn mix(&self) -> Result<CheckedMix> {
        let mut spec = self.spec.clone();
        check_run(&spec)?;
        self.check_of_all()?;
        check_passes(&spec, self.mixed.len())?;
        self.check_by()?;
        let first: Vec<f64> = self.mixed.iter().map(|(_, weight)| *weight).collect();
        // Costs are known only after the sources are read, so the weights themselves are checked first.
        let by_samples = weights(&first, &spec.schedule, None)?;
        let threads = *spec.threads.get_or_insert_with(processors);
        let memory = *spec.memory.get_or_insert_with(default_memory);
        spec.batch_size = spec.most_of_a_rank();
        let checked = self.sources(&spec)?;
        let means: Option<Vec<f64>> = checked.iter().map(|source| source.settled.mean_cost).collect();
        let schedule = match &means {
            Some(means) => weights(&first, &spec.schedule, Some(means))?,
            None => by_samples,
        };
        let lanes = checked[0].settled.order.lanes();
        let split = MixSplit { shard: spec.shard, lanes, global_batch: spec.global_batch() };
        let rule = CourseRule {
            rows: checked.iter().map(|source| source.settled.rows()).collect(),
            global_batch: split.global_batch,
            unit: split.unit(),
            stop: spec.stop,
            repeat: spec.repeat,
            max_passes: spec.max_passes.clone(),
            drop_last: spec.drop_last,
            schedule,
            random_shares: spec.random_shares,
        };
        let skipped = SkippedSteps::joined(&spec.skip_steps)?;
        let given = rule.schedule.clone();
        let run =
            Run { rule, origin: Origin::of_sources(checked.len()), skipped: skipped.into(), set_from: None };
        let run = self.run_after(run)?;
        run.check_skipped()?;
        let first = Arc::new(run.epoch(run.origin.epoch)?);
        check_packs(&checked)?;
        let schemas: Vec<_> = checked.iter().map(|source| source.settled.schema().clone()).collect();
        let delivered = checked
            .iter()
            .map(|CheckedSource { settled, .. }| Delivered { spec: &settled.spec, schema: settled.schema() });
        check_masks(&delivered.collect::<Vec<_>>())?;
        let joiner = Joiner::new(&schemas, spec.source)?;
        let sources = divide(checked, memory, &run, split, &first)?;
        Ok(CheckedMix { spec, sources, joiner, given, means, run, first, split, threads, memory })
    }

    /// Refuses options of a mix that only its sources may have.
    fn check_of_all(&self) -> Result<()> {
        let found = if self.decoders.is_empty() { None } else { Some("decode_with".to_owned()) };
        let found =
            found.or_else(|| given(&self.spec).find(|name| is_none_of(name, [&OF_ALL[..], &OF_MIXES])));
        match found {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!("the mix has `{name}`, which belongs to a source"))
                .hint("give it to the sources, and leave it out of the mix")),
        }
    }

    /// Refuses costs in `by` that do not fit the mix.
    fn check_by(&self) -> Result<()> {
        let (by, sources) = (&self.spec.by, self.mixed.len());
        by.iter().try_for_each(RowCost::check)?;
        if by.len() > 1 && by.len() != sources {
            let cause = format!("`by` has {} costs, for {sources} sources", by.len());
            return Err(Error::invalid(cause).hint("give one for all sources, or one for each"));
        }
        if !by.is_empty() && self.after.is_some() {
            let cause = "`by` was given, and the mix goes on after an epoch over other data";
            return Err(Error::invalid(cause).hint(
                "leave out `by`: the mean costs of the sources change with the data, and the weights too",
            ));
        }
        Ok(())
    }

    /// Checks the sources, each by itself.
    fn sources(&self, spec: &LoaderSpec) -> Result<Vec<CheckedSource>> {
        let given = self.mixed.iter().map(|(builder, _)| builder.spec.shuffle.lanes);
        let mut lanes: Vec<u32> = given.flatten().collect();
        lanes.dedup();
        if let [one, other, ..] = lanes[..] {
            return Err(Error::invalid(format!("one source has {one} lanes, another {other}"))
                .hint("give all sources the same number of lanes, or leave `lanes` out"));
        }
        let check = |(number, (builder, _)): (usize, &(LoaderBuilder, f64))| {
            let mut options = builder.spec.clone();
            check_source(number, &options)?;
            options.shard = spec.shard;
            options.batch_size = spec.batch_size;
            (options.memory, options.threads) = (spec.memory, spec.threads);
            options.shuffle.lanes = lanes.first().copied();
            let (source, among) = (number as u64, self.mixed.len() as u64);
            let mut builder = builder.clone().for_mix(options, source, among).numbered(self.numbered);
            builder.weighed_by = spec.by.get(number).or(spec.by.first()).cloned();
            builder.plan_only |= self.plan_only;
            builder.after = self.after.clone();
            let builder = builder.of_kept_files().map_err(of_source(number))?;
            let (io, store) = builder.dataset.here()?;
            let settled = builder.settle(&io, store).map_err(of_source(number))?;
            let stored = builder.dataset.catalog.rows();
            Ok(CheckedSource { builder, io, settled, stored })
        };
        self.mixed.iter().enumerate().map(check).collect()
    }
}

impl CheckedMix {
    /// The plan of an epoch for this rank: which rows it reads in which step.
    pub(super) fn plan(&self, epoch: u64) -> Result<RankPlan> {
        let planned: Vec<_> = self.sources.iter().map(|source| source.settled.planned()).collect();
        Ok(RankPlan::of_mix(epoch, &Arc::new(self.run.epoch(epoch)?), self.split, self.memory, &planned))
    }

    /// Starts the sources, which share one pool of threads.
    pub(super) fn start(self) -> Result<Loader> {
        let CheckedMix { spec, sources, joiner, given, means, run, first, split, threads, .. } = self;
        let (monitor, pool) = (monitor(&spec.trace, threads)?, threads::pool(threads)?);
        let mut first_number = 0;
        let started = sources.into_iter().map(|CheckedSource { builder, io, settled, stored }| {
            let source = builder.start(settled, io, pool.clone(), monitor.clone(), first_number);
            first_number += stored;
            source
        });
        let mut started: Vec<Source> = started.collect();
        join_steps(&mut started);
        let mixture = Mixture::new(joiner, spec, MixWeights { given, means }, run, split.lanes, first);
        Ok(Loader { sources: Sources::mixed(started, mixture) })
    }
}

/// Lets the sources of a mix make the batch of a step together, if all of them make the same columns.
fn join_steps(sources: &mut [Source]) {
    let stored = |source: &Source| source.fetcher.reads.projection.schema().clone();
    let types = |source: &Source| -> Vec<DataType> {
        stored(source).fields().iter().map(|field| field.data_type().clone()).collect()
    };
    let Some((first, others)) = sources.split_first() else { return };
    let is_same = |other: &Source| first.collator.makes_same(&other.collator) && types(first) == types(other);
    if others.is_empty() || !others.iter().all(is_same) {
        return;
    }
    let steps = Arc::<JointSteps>::default();
    for (number, source) in sources.iter_mut().enumerate() {
        source.joint = Some(JointSource { steps: steps.clone(), number });
    }
}

/// The names of the options that differ from their defaults.
fn given(spec: &LoaderSpec) -> impl Iterator<Item = String> {
    let fields = |spec: &LoaderSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let default = fields(&LoaderSpec::default());
    fields(spec)
        .into_iter()
        .filter(move |(name, value)| default.get(name) != Some(value))
        .map(|(name, _)| name)
}

fn is_none_of<const N: usize>(name: &str, lists: [&[&str]; N]) -> bool {
    !lists.iter().any(|list| list.contains(&name))
}

/// Refuses options of a source that only the mix may have.
fn check_source(number: usize, options: &LoaderSpec) -> Result<()> {
    let default = LoaderSpec::default();
    let of_all = [
        options.shard != default.shard,
        options.batch_size != default.batch_size,
        options.global_batch_size.is_some(),
        options.drop_last,
        options.epochs.is_some(),
        options.memory.is_some(),
        options.threads.is_some(),
        options.trace.is_some(),
        !options.skip_steps.is_empty(),
    ];
    let of_all = OF_ALL.into_iter().zip(of_all).find(|(_, given)| *given).map(|(name, _)| name);
    if let Some(name) = of_all.or_else(|| of_mixes(options)) {
        return Err(Error::invalid(format!("source {number} has `{name}`, which belongs to the mix"))
            .hint("give it to the mix, and leave it out of the source"));
    }
    if options.row_mask {
        return Err(Error::invalid(format!("source {number} has `row_mask`, which a mix does not have"))
            .hint("leave it out of the source"));
    }
    Ok(())
}

/// Refuses limits of `max_passes` that do not fit the mix.
fn check_passes(spec: &LoaderSpec, sources: usize) -> Result<()> {
    if spec.max_passes.is_empty() {
        return Ok(());
    }
    if spec.stop == Stop::First || !spec.repeat {
        let cause = "`max_passes` was given, but no source begins again";
        return Err(Error::invalid(cause).hint("set stop=\"last\" and repeat, or leave `max_passes` out"));
    }
    if spec.max_passes.len() != sources {
        let cause = format!("max_passes has {} numbers, for {sources} sources", spec.max_passes.len());
        return Err(Error::invalid(cause).hint("give one for each source, or none where there is no limit"));
    }
    match spec.max_passes.iter().position(|passes| *passes == Some(0)) {
        Some(source) => Err(Error::invalid(format!("max_passes of source {source} is 0"))
            .hint("leave the source out of the mix, or give it a weight of 0 from a step on")),
        None => Ok(()),
    }
}

/// Refuses packs of different lengths, since one array cannot hold them.
fn check_packs(sources: &[CheckedSource]) -> Result<()> {
    let length = |(number, source): (usize, &CheckedSource)| match &source.settled.spec.samples {
        Samples::Packs(pack) => Some((number, pack.length())),
        _ => None,
    };
    let mut packs = sources.iter().enumerate().filter_map(length);
    let Some((first, length)) = packs.next() else { return Ok(()) };
    match packs.find(|(_, other)| *other != length) {
        None => Ok(()),
        Some((number, other)) => Err(Error::invalid(format!(
            "source {first} has packs of {length} values, source {number} of {other}"
        ))
        .hint("give all packs of a mix one length")),
    }
}

/// The largest number of rows of one source that a batch of one rank may have.
fn most_rows(rule: &CourseRule, split: MixSplit, source: usize) -> u64 {
    let world = u64::from(split.shard.world());
    let all = split.global_batch.div_ceil(world);
    if rule.stop == Stop::Last && !(rule.repeat && rule.max_passes.is_empty()) {
        // After a source has ended, the other sources share its part of each step, so a batch may come from
        // one source alone.
        return all;
    }
    let units = u128::from(rule.global_batch / rule.unit);
    let of = |weights: &Weights| {
        // If shares are random, one step may get all units (groups of rows) that the source has in its block
        // of steps.
        let together = if rule.random_shares.is_some() { u128::from(SHARES_BLOCK) } else { 1 };
        let part = u128::from(weights.part(source)) * units * together;
        part.div_ceil(u128::from(weights.sum())).min(units) as u64 * rule.unit
    };
    let most = rule.schedule.iter().map(|(_, weights)| of(weights)).max().unwrap_or(0);
    (most.div_ceil(world) + 1).min(all).max(1)
}

/// Gives each source the memory that it needs, and a share of the rest.
fn divide(
    checked: Vec<CheckedSource>,
    memory: u64,
    run: &Run,
    split: MixSplit,
    first: &Arc<MixedEpoch>,
) -> Result<Vec<CheckedSource>> {
    let portion = |source| Portion { epoch: first.clone(), source, split };
    let rows: Vec<u64> = (0..checked.len()).map(|source| most_rows(&run.rule, split, source)).collect();
    let needs = checked.iter().enumerate().map(|(at, source)| source.settled.least(rows[at], portion(at)));
    let needs: Vec<u64> = needs.collect();
    // `copy` is the memory of a batch into which the rows of several sources are copied.
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
        let CheckedSource { builder, io, settled, stored } = source;
        let memory = needs[at] + (rest * u128::from(needs[at]) / all) as u64;
        let share = SourceShare { memory, rows: rows[at], portion: portion(at) };
        let settled = builder.divided(&io, settled, share);
        Ok(CheckedSource { settled: settled.map_err(of_source(at))?, builder, io, stored })
    });
    divided.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use forebay_arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
    use forebay_arrow::datatypes::Int32Type;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::Dataset;
    use crate::samples::{Bucket, Pack};

    #[test]
    fn sources_with_the_same_packs_make_the_batch_of_a_step_together() {
        let folder = tempfile::tempdir().unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let lists = (0..100).map(|id| Some((0..1 + id % 3).map(Some)));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let batch = RecordBatch::try_from_iter([("id", ids), ("list", lists)]).unwrap();
        let file = File::create(folder.path().join("a.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let packs =
            |length: u32| dataset.loader().columns(["id", "list"]).samples(Pack::best_fit(["list"], length));
        let buckets = || dataset.loader().samples(Bucket::tokens("list", 16));
        let are_joint = |sources: [LoaderBuilder; 2]| {
            let mix = Loader::mix(sources.map(|source| (source, 1.0))).unwrap();
            let mix = mix.batch_size(4).memory(64 << 20).build().unwrap();
            let numbers = mix.sources.all().iter().map(|source| Some(source.joint.as_ref()?.number));
            match numbers.collect::<Option<Vec<_>>>() {
                Some(numbers) => numbers == [0, 1],
                None => false,
            }
        };
        assert!(are_joint([packs(8), packs(8)]));
        assert!(!are_joint([packs(8), packs(8).fill_null("id", 0)]));
        assert!(!are_joint([packs(8), packs(8).columns(["list"])]));
        assert!(!are_joint([packs(8), packs(8).on_bad_row(crate::OnBadRow::skip(3))]));
        assert!(!are_joint([buckets(), buckets()]));
    }
}
