//! Several sources in one loader: the plan by which an epoch takes their batches, and how these are joined.
//!
//! Each source has a pipe of its own, over one pool of threads and shares of one memory budget. `join` makes
//! one batch from theirs, `masks` checks that all sources make a mask or none, and `caches` adds up their
//! caches.

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

/// The largest number of weights in a schedule, counted over all sources. A position stores all of them, in
/// less than 64 KiB.
const MAX_WEIGHTS: usize = 4_000;

/// The largest distance, in steps, over which a step is found by going through the steps rather than by a
/// search.
const MAX_WALKED_STEPS: u64 = 64;

/// The number of planned epochs that are kept: the one under way, the next one, and one that a user asks
/// about.
const PLANNED_EPOCHS: usize = 3;

/// How the sources of a loader are mixed.
#[derive(Debug)]
pub(super) struct Mixture {
    pub(super) joiner: Joiner,
    /// For each source, the number of its rows that were made into batches.
    pub(super) delivered: Vec<AtomicU64>,
    /// The options of the loader, with the defaults filled in.
    pub(super) spec: LoaderSpec,
    /// The weights that were given, each with the step from which they hold.
    given: Vec<(u64, Weights)>,
    /// The step of the run after the last one whose batches an epoch began to take.
    begun: AtomicU64,
    plan: Mutex<Plan>,
}

/// The plan in force, with the epochs that were planned last.
#[derive(Debug)]
struct Plan {
    run: Arc<Run>,
    lanes: u32,
    planned: Vec<(u64, Arc<MixedEpoch>)>,
    /// The epoch that [`taken_before`](Plan::taken_before) was last asked about, and its steps from there
    /// on: the next question is usually about a step soon after it.
    asked: Option<(u64, Steps)>,
}

/// The place that an epoch of a mix has reached.
pub(super) struct Reached {
    /// For each source, the number of its first pass in the epoch.
    pub(super) passes: Vec<u64>,
    /// For each source, the number of rows that it has given in the epoch.
    pub(super) rows: Vec<u64>,
    pub(super) state: SavedMix,
}

impl Plan {
    fn new(lanes: u32, first: (u64, Arc<MixedEpoch>), run: Run) -> Self {
        Plan { run: Arc::new(run), lanes, planned: vec![first], asked: None }
    }

    /// For each source, the number of its rows in an epoch before a step.
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
    /// The mixture that begins with `first`, the epoch in which the plan of `run` begins; with the weights
    /// that were given.
    pub(super) fn new(
        joiner: Joiner,
        spec: LoaderSpec,
        (given, run): (Vec<(u64, Weights)>, Run),
        lanes: u32,
        first: Arc<MixedEpoch>,
    ) -> Self {
        Mixture {
            joiner,
            delivered: run.rule.rows.iter().map(|_| AtomicU64::new(0)).collect(),
            spec,
            given,
            begun: AtomicU64::new(0),
            plan: Mutex::new(Plan::new(lanes, (run.origin.epoch, first), run)),
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run whose plan is in force, and this rank's share of it.
    pub(super) fn run(&self) -> (Arc<Run>, MixSplit) {
        let plan = self.plan();
        (plan.run.clone(), self.split(plan.lanes, self.spec.shard))
    }

    /// Whether a run is the one whose plan is in force.
    pub(super) fn is_in_force(&self, run: &Arc<Run>) -> bool {
        Arc::ptr_eq(run, &self.plan().run)
    }

    /// Records that an epoch takes the batches of all steps of the run before `step`.
    pub(super) fn begins_until(&self, step: u64) {
        self.begun.store(step, Relaxed);
    }

    /// The share of a rank, in orders of `lanes` lanes.
    pub(super) fn split(&self, lanes: u32, shard: Shard) -> MixSplit {
        MixSplit { shard, lanes, global_batch: self.spec.global_batch() }
    }

    /// The plan of an epoch of the run in force.
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

    /// Puts another run in force as the plan, of which one epoch is planned already.
    pub(super) fn replace(&self, run: Run, lanes: u32, first: (u64, Arc<MixedEpoch>)) {
        *self.plan() = Plan::new(lanes, first, run);
    }

    /// The number of steps of an epoch. Rows before the place where batches changed their size are counted in
    /// steps of the present size.
    pub(super) fn steps(&self, number: u64) -> u64 {
        let (run, _) = self.run();
        let Ok(plan) = self.planned(&run, number) else { return 0 };
        let before: u64 = plan.taken.iter().sum();
        plan.steps_left(0) + before.div_ceil(run.rule.global_batch)
    }

    /// Sets the weights from a step of the run on, or from the next step. `at` is where the run is: the
    /// epoch, and how many rows of it were handed over.
    ///
    /// # Errors
    /// The weights cannot work, or batches of the step were taken already.
    pub(super) fn set_weights(&self, weights: &[f64], from: Option<u64>, at: (u64, u64)) -> Result<()> {
        let (run, _) = self.run();
        let (epoch, row) = at;
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
        // Weights that were set for a later step still apply from that step; those of the schedule do not.
        let is_set = |at: u64| run.set_from.is_some_and(|first| at >= first);
        let stays = |(at, _): &&(u64, Weights)| *at < step || (*at > step && is_set(*at));
        let mut schedule: Vec<_> = run.rule.schedule.iter().filter(stays).cloned().collect();
        check_length(sources, schedule.len())?;
        let place = schedule.partition_point(|(at, _)| *at < step);
        schedule.insert(place, (step, Weights::new(weights)?));
        let mut run = Run { set_from: Some(run.set_from.unwrap_or(step).min(step)), ..Run::clone(&run) };
        run.rule.schedule = schedule;
        if row == 0 && plan.taken.iter().all(|taken| *taken == 0) {
            // Weights that change where an epoch ended must not continue that epoch.
            run.origin =
                Origin { epoch, step: plan.first_step, passes: plan.passes.clone(), taken: vec![0; sources] };
        }
        let first = Arc::new(run.epoch(epoch)?);
        let lanes = self.plan().lanes;
        self.replace(run, lanes, (epoch, first));
        Ok(())
    }

    /// The weights of a run from a saved position on: those that were given, and those that were set.
    pub(super) fn schedule(&self, saved: &SavedMix) -> Result<Vec<(u64, Weights)>> {
        schedule_after(&self.given, saved, self.delivered.len())
    }

    /// The rule that was given, in the form of a position at step 0.
    pub(super) fn asked(&self) -> SavedMix {
        let (run, _) = self.run();
        SavedMix { schedule: parts_of(&self.given), set_from: None, ..saved(&run, 0) }
    }

    /// The steps that a run skips from a saved position on: those of the position, unless the loader has its
    /// own. `here` has the steps that the loader itself skips, and whether its batches are those of the
    /// position.
    ///
    /// # Errors
    /// Fails if the position skips later steps that the loader does not skip, or that have other rows here.
    pub(super) fn skipped(
        &self,
        saved: &SavedMix,
        here: (Arc<[SkippedSteps]>, bool),
    ) -> Result<Arc<[SkippedSteps]>> {
        let (here, is_same) = here;
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

    /// The place that an epoch has reached after its first `row` rows.
    pub(super) fn reached(&self, epoch: u64, row: u64) -> Reached {
        let (run, _) = self.run();
        let sources = run.rule.rows.len();
        // Without a plan, nothing of the epoch was given.
        let (passes, rows, step) = match self.planned(&run, epoch) {
            Ok(plan) => {
                let step = plan.step_of(row);
                (plan.passes.clone(), self.plan().taken_before(epoch, &plan, step), plan.first_step + step)
            }
            Err(_) => (vec![0; sources], vec![0; sources], 0),
        };
        let state = saved(&run, step);
        Reached { passes, rows, state }
    }
}

/// The part of a position that only a mix has, at a step of a run.
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

/// The rule of a run with the weights that were given, in the form of a position at step 0.
pub(super) fn asked(run: &Run) -> SavedMix {
    saved(run, 0)
}

/// The weights of a run from a saved position on: those that were given, and those that were set.
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

/// Weights as whole parts, by the step from which they hold.
fn parts_of(schedule: &[(u64, Weights)]) -> Vec<(u64, Vec<u64>)> {
    let parts = |(from, weights): &(u64, Weights)| {
        (*from, (0..weights.len()).map(|source| weights.part(source)).collect())
    };
    schedule.iter().map(parts).collect()
}

/// Refuses a schedule that is too long for a position.
fn check_length(sources: usize, changes: usize) -> Result<()> {
    let weights = sources.saturating_mul(changes);
    if weights <= MAX_WEIGHTS {
        return Ok(());
    }
    let cause = format!("the schedule has {weights} weights: {changes} changes of {sources} sources");
    Err(Error::invalid(cause)
        .hint(format!("a position holds up to {MAX_WEIGHTS}; change the weights less often")))
}

/// The weights with the steps of the run from which they hold: first those of the sources, then those of a
/// schedule.
///
/// # Errors
/// Fails if a weight cannot work, if the number of weights is not that of the sources, or if a step does not
/// come after the one before.
pub(super) fn weights(first: &[f64], schedule: &[(u64, Vec<f64>)]) -> Result<Vec<(u64, Weights)>> {
    check_length(first.len(), schedule.len())?;
    let mut all = vec![(0, Weights::new(first)?)];
    for (step, weights) in schedule {
        if weights.len() != first.len() {
            let cause = format!("the schedule has {} weights at step {step}", weights.len());
            return Err(Error::invalid(cause).hint(format!("there are {} sources", first.len())));
        }
        if all.last().is_some_and(|(before, _)| step <= before) {
            return Err(Error::invalid(format!("the schedule has step {step} in the wrong place"))
                .hint("its steps ascend, and are 1 or more: the weights of the sources hold from step 0"));
        }
        all.push((*step, Weights::new(weights)?));
    }
    Ok(all)
}
