//! Mixes several sources (data sets) in one loader. A plan says how many rows of each source a step has.
//!
//! Each source has a pipe of its own; all pipes share one pool of threads and one memory budget. `join` makes
//! one batch from the batches of the sources, unless these are [made together](super::joint). `masks` checks
//! that all sources or none make a mask for a column, and `caches` adds up the statistics of their caches.

mod caches;
mod join;
mod masks;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, ErrorKind, Result};

use super::spec::LoaderSpec;
use crate::shard::{
    MixSplit, MixedEpoch, Origin, Run, SavedMix, Shard, SkippedSteps, Steps, Weights, damaged,
};
pub(super) use caches::together;
pub(super) use join::Joiner;
pub(super) use masks::{Delivered, check_masks};

/// The largest number of weights in a schedule, counted over all sources. A saved position stores all of
/// them, in less than 64 KiB.
const MAX_WEIGHTS: usize = 4_000;
/// The most that rounding may change the share of a source, relative to it, if weights count a cost.
const MAX_ROUNDING: f64 = 0.05;

/// A step that is at most this many steps after the one that was last asked about is found by going from step
/// to step. A step further away is found by a search.
const MAX_WALKED_STEPS: u64 = 64;

/// The number of planned epochs that are kept: the one under way, the next one, and one that a user asks
/// about.
const PLANNED_EPOCHS: usize = 3;

/// The plan and the options of a loader that mixes several sources, and the number of rows that it delivered.
#[derive(Debug)]
pub(super) struct Mixture {
    pub(super) joiner: Joiner,
    /// For each source, the number of its rows that were made into batches.
    pub(super) delivered: Vec<AtomicU64>,
    /// The options of the loader, with the defaults filled in.
    pub(super) spec: LoaderSpec,
    weights: MixWeights,
    /// The first step of the run for which weights can still be set: batches of all steps before it
    /// were taken, or are being taken.
    begun: AtomicU64,
    plan: Mutex<Plan>,
}

/// The weights in a loader's options.
#[derive(Debug)]
pub(super) struct MixWeights {
    /// The weights of the sources by samples, each list with the step from which it applies.
    pub(super) given: Vec<(u64, Weights)>,
    /// The mean cost of a sample of each source, if the user's weights count a cost.
    pub(super) means: Option<Vec<f64>>,
}

/// The plan in force, with the epochs that were planned last.
#[derive(Debug)]
struct Plan {
    run: Arc<Run>,
    lanes: u32,
    planned: Vec<(u64, Arc<MixedEpoch>)>,
    /// The number of the epoch that [`taken_before`](Plan::taken_before) was last asked about, and an
    /// iterator over its steps that stands at the step asked about. The next question is usually about a step
    /// soon after.
    asked: Option<(u64, Steps)>,
}

/// The progress of an epoch of a mix.
pub(super) struct Reached {
    /// For each source, the number of its first pass (one run through its rows) in the epoch.
    pub(super) passes: Vec<u64>,
    /// For each source, the number of rows that it has given in the epoch.
    pub(super) rows: Vec<u64>,
    pub(super) state: SavedMix,
}

impl Plan {
    fn new(run: Run, lanes: u32, number: u64, first: Arc<MixedEpoch>) -> Self {
        Plan { run: Arc::new(run), lanes, planned: vec![(number, first)], asked: None }
    }

    /// Returns for each source the number of rows that the epoch takes before a step.
    fn taken_before(&mut self, number: u64, epoch: &MixedEpoch, step: u64) -> Vec<u64> {
        let is_near = |(of, steps): &(u64, Steps)| {
            *of == number && (steps.step()..=steps.step() + MAX_WALKED_STEPS).contains(&step)
        };
        let asked = self.asked.take().filter(is_near);
        let (_, mut steps) = asked.unwrap_or_else(|| (number, epoch.course.steps_from(step)));
        while steps.step() < step && steps.next().is_some() {}
        let taken = steps.taken().to_vec();
        self.asked = Some((number, steps));
        taken
    }
}

impl Mixture {
    /// Makes a mixture whose plan is `run`. `first` is the plan of the epoch in which `run` begins, and
    /// `weights` has those of the loader's options.
    pub(super) fn new(
        joiner: Joiner,
        spec: LoaderSpec,
        weights: MixWeights,
        run: Run,
        lanes: u32,
        first: Arc<MixedEpoch>,
    ) -> Self {
        let delivered = run.rule.rows.iter().map(|_| AtomicU64::new(0)).collect();
        let number = run.origin.epoch;
        let plan = Mutex::new(Plan::new(run, lanes, number, first));
        Mixture { joiner, delivered, spec, weights, begun: AtomicU64::new(0), plan }
    }

    /// The mean cost of a sample of each source, if the weights count a cost.
    pub(super) fn mean_costs(&self) -> Option<&[f64]> {
        self.weights.means.as_deref()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the plan in force, and the rule that gives this rank its share of the rows of each step.
    pub(super) fn run(&self) -> (Arc<Run>, MixSplit) {
        let plan = self.plan();
        (plan.run.clone(), self.split(plan.lanes, self.spec.shard))
    }

    /// Whether `run` is the plan in force.
    pub(super) fn is_in_force(&self, run: &Arc<Run>) -> bool {
        Arc::ptr_eq(run, &self.plan().run)
    }

    /// Records that an epoch takes the batches of all steps of the run before `step`.
    pub(super) fn begins_until(&self, step: u64) {
        self.begun.store(step, Relaxed);
    }

    /// Returns the rule that gives a rank its share of the rows of each step, if the order of each source has
    /// `lanes` lanes (interleaved sequences of rows).
    pub(super) fn split(&self, lanes: u32, shard: Shard) -> MixSplit {
        MixSplit { shard, lanes, global_batch: self.spec.global_batch() }
    }

    /// Returns the plan of an epoch of `run`. The result is kept for the next call if `run` is in force.
    pub(super) fn planned(&self, run: &Arc<Run>, number: u64) -> Result<Arc<MixedEpoch>> {
        let mut plan = self.plan();
        if let Some((_, found)) =
            plan.planned.iter().find(|(epoch, _)| *epoch == number && Arc::ptr_eq(run, &plan.run))
        {
            return Ok(found.clone());
        }
        let made = Arc::new(run.epoch(number)?);
        if Arc::ptr_eq(run, &plan.run) {
            plan.planned.push((number, made.clone()));
            if plan.planned.len() > PLANNED_EPOCHS {
                plan.planned.remove(0);
            }
        }
        Ok(made)
    }

    /// Replaces the plan in force by `run`. `first` is the epoch `number` of `run`, which is planned already.
    pub(super) fn replace(&self, run: Run, lanes: u32, number: u64, first: Arc<MixedEpoch>) {
        *self.plan() = Plan::new(run, lanes, number, first);
    }

    /// Returns the number of steps of an epoch. If the batch size changed within the epoch, the rows before
    /// that change count as steps of the present size.
    pub(super) fn steps(&self, number: u64) -> u64 {
        let (run, _) = self.run();
        let Ok(plan) = self.planned(&run, number) else { return 0 };
        let before: u64 = plan.taken.iter().sum();
        plan.steps_left(0) + before.div_ceil(run.rule.global_batch)
    }

    /// Sets the weights that apply from step `from` of the run, or from the next step if it is `None`.
    /// `epoch` is the present epoch, and `row` the number of its rows that were handed over.
    ///
    /// # Errors
    /// Fails if the weights are invalid, or if batches of the step have been made or taken.
    pub(super) fn set_weights(&self, weights: &[f64], from: Option<u64>, epoch: u64, row: u64) -> Result<()> {
        let (run, _) = self.run();
        let plan = self.planned(&run, epoch)?;
        let now = plan.first_step + plan.step_of(row);
        let step = from.unwrap_or(now);
        if step < now {
            return Err(Error::invalid(format!(
                "weights are set from step {step}, and the run is at step {now}"
            ))
            .hint("give a step that has not come, or leave it out for the next one"));
        }
        let begun = self.begun.load(Relaxed);
        if step < begun {
            let cause =
                format!("weights are set from step {step}, and batches were made ahead up to step {begun}");
            return Err(Error::invalid(cause).hint(format!(
                "give a later step, the same on every rank, such as {}",
                now.saturating_add(2 * (begun - now))
            )));
        }
        let sources = run.rule.rows.len();
        if weights.len() != sources {
            return Err(Error::invalid(format!("{} weights were given", weights.len()))
                .hint(format!("there are {sources} sources")));
        }
        // Weights that were set earlier with this method for a later step are kept. Weights that the options
        // give for a later step are dropped.
        let is_set = |at: u64| run.set_from.is_some_and(|first| at >= first);
        let stays = |(at, _): &&(u64, Weights)| *at < step || (*at > step && is_set(*at));
        let mut schedule: Vec<_> = run.rule.schedule.iter().filter(stays).cloned().collect();
        check_length(sources, schedule.len())?;
        let place = schedule.partition_point(|(at, _)| *at < step);
        schedule.insert(place, (step, by_samples(weights, self.mean_costs())?));
        let mut run = Run { set_from: Some(run.set_from.unwrap_or(step).min(step)), ..Run::clone(&run) };
        run.rule.schedule = schedule;
        if row == 0 && plan.taken.iter().all(|taken| *taken == 0) {
            // At the beginning of an epoch, the run's plan starts at that epoch. If it still started at an
            // earlier one, that epoch would be planned again with the new weights, and might end elsewhere.
            run.origin =
                Origin { epoch, step: plan.first_step, passes: plan.passes.clone(), taken: vec![0; sources] };
        }
        let first = Arc::new(run.epoch(epoch)?);
        let lanes = self.plan().lanes;
        self.replace(run, lanes, epoch, first);
        Ok(())
    }

    /// Returns the weights of a run that continues from a saved position. If weights were set during the run,
    /// the position's weights apply from the first step that they were set for; before it, and if none were
    /// set, those of the loader's options apply.
    pub(super) fn schedule(&self, saved: &SavedMix) -> Result<Vec<(u64, Weights)>> {
        schedule_after(&self.weights.given, saved, self.delivered.len())
    }

    /// Returns the rule of the mix as the loader's options give it, in the form in which a position stores
    /// it.
    pub(super) fn asked(&self) -> SavedMix {
        let (run, _) = self.run();
        SavedMix { schedule: parts_of(&self.weights.given), set_from: None, ..saved(&run, 0) }
    }

    /// Returns the steps to skip in a run that continues from a saved position: those of the position if the
    /// loader's options skip no steps, otherwise those of the loader, `here`. `is_same` says whether the
    /// loader's batches equal those of the position.
    ///
    /// # Errors
    /// Fails if the position skips later steps that are missing in the loader's options, unless these skip no
    /// steps, or that have other rows in the loader.
    pub(super) fn skipped(
        &self,
        saved: &SavedMix,
        here: Arc<[SkippedSteps]>,
        is_same: bool,
    ) -> Result<Arc<[SkippedSteps]>> {
        let is_open = self.spec.skip_steps.is_empty();
        let missing = saved.skipped.iter().filter(|steps| steps.to > saved.step);
        let missing = missing.into_iter().find(|steps| !is_same || !(is_open || here.contains(steps)));
        let Some(SkippedSteps { from, to }) = missing else {
            return Ok(if is_open { saved.skipped.clone().into() } else { here });
        };
        let (cause, hint) = match is_same {
            true => (
                format!("the state skips steps {from} to {to}, but this mix does not"),
                "leave out `skip_steps` to use the ranges of the state, or give all of them".to_owned(),
            ),
            false => (
                format!("the state skips steps {from} to {to}, which have other rows in this mix"),
                format!("keep `global_batch_size` and `drop_last` of the state until step {to}"),
            ),
        };
        Err(Error::new(ErrorKind::StateMismatch, cause).hint(hint))
    }

    /// Returns the progress of an epoch after its first `row` rows.
    pub(super) fn reached(&self, epoch: u64, row: u64) -> Reached {
        let (run, _) = self.run();
        let sources = run.rule.rows.len();
        // An epoch that cannot be planned has delivered nothing.
        let (passes, rows, step) = match self.planned(&run, epoch) {
            Ok(plan) => {
                let step = plan.step_of(row);
                (plan.passes.clone(), self.plan().taken_before(epoch, &plan, step), plan.first_step + step)
            }
            Err(_) => {
                let before = epoch.checked_sub(1).and_then(|before| self.planned(&run, before).ok());
                let step = before.map_or(0, |plan| plan.first_step + plan.course.steps());
                (vec![0; sources], vec![0; sources], step)
            }
        };
        let state = saved(&run, step);
        Reached { passes, rows, state }
    }
}

/// Makes the part of a position that only a mix has, for a run that is at `step`.
fn saved(run: &Run, step: u64) -> SavedMix {
    SavedMix {
        step,
        stop: run.rule.stop,
        repeat: run.rule.repeat,
        schedule: parts_of(&run.rule.schedule),
        random_shares: run.rule.random_shares,
        set_from: run.set_from,
        max_passes: run.rule.max_passes.clone(),
        skipped: run.skipped.to_vec(),
        origin: (run.origin != Origin::of_sources(run.rule.rows.len())).then(|| run.origin.clone()),
    }
}

/// Returns the rule of a run with its present weights, in the form in which a position stores it.
pub(super) fn asked(run: &Run) -> SavedMix {
    saved(run, 0)
}

/// Returns the weights of a run that continues from a saved position. If weights were set during the run, the
/// position's weights apply from the first step that they were set for; before it, and if none were set, the
/// weights in `given` apply.
pub(super) fn schedule_after(
    given: &[(u64, Weights)],
    saved: &SavedMix,
    sources: usize,
) -> Result<Vec<(u64, Weights)>> {
    let Some(set_from) = saved.set_from else { return Ok(given.to_vec()) };
    let mut schedule: Vec<_> = given.iter().filter(|(from, _)| *from < set_from).cloned().collect();
    for (from, parts) in saved.schedule.iter().filter(|(from, _)| *from >= set_from) {
        schedule.push((*from, Weights::of_parts(parts, sources).ok_or_else(damaged)?));
    }
    Ok(schedule)
}

/// Converts each list of weights to whole numbers, with the step from which the list applies.
fn parts_of(schedule: &[(u64, Weights)]) -> Vec<(u64, Vec<u64>)> {
    let parts = |(from, weights): &(u64, Weights)| {
        (*from, (0..weights.len()).map(|source| weights.part(source)).collect())
    };
    schedule.iter().map(parts).collect()
}

/// Fails if a schedule has more weights than a saved position may store.
fn check_length(sources: usize, changes: usize) -> Result<()> {
    let weights = sources.saturating_mul(changes);
    if weights <= MAX_WEIGHTS {
        return Ok(());
    }
    let cause = format!("the schedule has {weights} weights: {changes} changes of {sources} sources");
    Err(Error::invalid(cause)
        .hint(format!("a position holds up to {MAX_WEIGHTS}; change the weights less often")))
}

/// Returns the lists of weights, each with the step of the run from which it applies: `first` from step 0,
/// then those of `schedule`. If the weights count a cost, `means` has the mean cost of a sample of each
/// source.
///
/// # Errors
/// Fails if a weight is invalid, if a list does not have one weight for each source, or if the steps do not
/// ascend.
pub(super) fn weights(
    first: &[f64],
    schedule: &[(u64, Vec<f64>)],
    means: Option<&[f64]>,
) -> Result<Vec<(u64, Weights)>> {
    check_length(first.len(), schedule.len())?;
    let mut all = vec![(0, by_samples(first, means)?)];
    for (step, weights) in schedule {
        if weights.len() != first.len() {
            let cause = format!("the schedule has {} weights at step {step}", weights.len());
            return Err(Error::invalid(cause).hint(format!("there are {} sources", first.len())));
        }
        if all.last().is_some_and(|(before, _)| step <= before) {
            return Err(Error::invalid(format!("the schedule has step {step} in the wrong place"))
                .hint("its steps ascend, and are 1 or more: the weights of the sources hold from step 0"));
        }
        all.push((*step, by_samples(weights, means)?));
    }
    Ok(all)
}

/// Turns weights into weights that count samples. If they count a cost, each is divided by the mean cost of a
/// sample of its source.
///
/// # Errors
/// Fails if a weight is invalid, or if rounding would change the share of a source considerably.
fn by_samples(weights: &[f64], means: Option<&[f64]>) -> Result<Weights> {
    let given = Weights::new(weights)?;
    let Some(means) = means else { return Ok(given) };
    let divided: Vec<f64> = weights.iter().zip(means).map(|(weight, mean)| weight / mean).collect();
    let samples = Weights::new(&divided)?;
    let (sum, all): (f64, f64) = (weights.iter().sum(), divided.iter().sum());
    for (source, (weight, divided)) in weights.iter().zip(&divided).enumerate() {
        let share = samples.part(source) as f64 / samples.sum() as f64;
        if (share - divided / all).abs() > MAX_ROUNDING * divided / all {
            let of_samples = divided / all;
            let cause = format!(
                "source {source} would have to give {of_samples:.7} of the samples for {:.4} of the cost, and \
                 shares of samples are rounded to 100,000ths",
                weight / sum
            );
            return Err(Error::invalid(cause).hint(
                "give it a larger weight, or make its samples smaller; without `by`, weights count samples",
            ));
        }
    }
    Ok(samples)
}
