//! Several sources in one order: the epochs of a mix, and each rank's rows of each source.
//!
//! ```text
//! weights ─ course ─► rows of each source in each step
//!                          │        a source's rows, counted through the epoch: its passes, one after the other
//!                          ▼
//!      row r of a source comes from lane r mod L ─ shared among the ranks as the lanes are
//! ```
//!
//! Each pass over a source is an epoch of that source, with an order of its own. The lanes continue from pass
//! to pass: where pass 0 ends with lane 4, pass 1 begins with lane 5. So full steps have the same number of
//! rows of each lane, even if a pass ends in them, and a rank keeps to its lanes. The rows of a step depend
//! on neither rank nor world.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::course::{Course, CourseRule, MixedStep, Steps};
use super::skips::{SkippedSteps, no_step_left};
use super::spec::Shard;
use super::split::{LaneSpan, Share, Split};

/// The step from which the present plan of a run applies: the first step, or the step at which the batches
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    /// The epoch in which the plan begins.
    pub(crate) epoch: u64,
    /// The number of the plan's first step in the run.
    pub(crate) step: u64,
    /// For each source, the number of the pass with which the epoch begins, counted through all epochs.
    pub(crate) passes: Vec<u64>,
    /// The number of rows of each source that the epoch gave before the plan's first step.
    pub(crate) taken: Vec<u64>,
}

/// One epoch of a mix.
#[derive(Clone, Debug)]
pub(crate) struct MixedEpoch {
    pub(crate) course: Arc<Course>,
    /// The number of rows of each source.
    pub(crate) sizes: Arc<[u64]>,
    /// The number of the epoch's first step in the run.
    pub(crate) first_step: u64,
    /// For each source, the number of the pass with which this epoch begins, counted through all epochs.
    pub(crate) passes: Vec<u64>,
    /// The number of rows of each source before the first step of the course.
    pub(crate) taken: Vec<u64>,
    /// The steps of the course that are skipped, as ascending ranges that do not touch.
    pub(crate) skipped: Arc<[Range<u64>]>,
}

/// All epochs of a mix.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) rule: CourseRule,
    pub(crate) origin: Origin,
    /// The steps that are skipped: their rows are counted, but no rank gets them.
    pub(crate) skipped: Arc<[SkippedSteps]>,
    /// The step from which the weights were set during the run; `None` if they were not set.
    pub(crate) set_from: Option<u64>,
}

impl Origin {
    /// The beginning of a run over this number of sources.
    pub(crate) fn of_sources(sources: usize) -> Self {
        Origin { epoch: 0, step: 0, passes: vec![0; sources], taken: vec![0; sources] }
    }
}

impl Run {
    /// The plan of an epoch.
    ///
    /// # Errors
    /// The epoch has no step, or no end, or its steps exceed the range of numbers.
    pub(crate) fn epoch(&self, number: u64) -> Result<MixedEpoch> {
        let sources = self.rule.rows.len();
        let mut origin = self.origin.clone();
        if number < origin.epoch {
            origin = Origin::of_sources(sources);
        }
        let sizes: Arc<[u64]> = self.rule.rows.as_slice().into();
        let far = || {
            Error::invalid(format!("epoch {number} is beyond the last that can be planned"))
                .hint("begin with epoch 0")
        };
        loop {
            let Origin { epoch, step, passes, taken } = origin;
            let course = Arc::new(self.rule.course(step, &taken)?);
            if epoch == number {
                if course.steps() == 0 && taken.iter().all(|taken| *taken == 0) {
                    return Err(Error::invalid(format!(
                        "no step of {} rows can be filled",
                        self.rule.global_batch
                    ))
                    .hint("use smaller batches, or leave out `drop_last`"));
                }
                let skipped = SkippedSteps::of_epoch(&self.skipped, step, course.steps());
                let planned = MixedEpoch { course, sizes, first_step: step, passes, taken, skipped };
                if planned.steps_left(0) == 0 && planned.taken.iter().all(|taken| *taken == 0) {
                    return Err(no_step_left(epoch, planned.course.steps()));
                }
                return Ok(planned);
            }
            // If the weights no longer change and this epoch begins at its first row, all later epochs have
            // the same steps, so `number` is reached in one jump.
            let are_alike = step >= self.rule.last_change() && taken.iter().all(|taken| *taken == 0);
            let times = if are_alike { number - epoch } else { 1 };
            let goes_on = |passes: u64, source: usize| {
                let more = course.rows()[source].div_ceil(sizes[source].max(1));
                more.checked_mul(times).and_then(|more| passes.checked_add(more))
            };
            let passes: Option<Vec<u64>> =
                (0..).zip(passes).map(|(source, passes)| goes_on(passes, source)).collect();
            let step = course.steps().checked_mul(times).and_then(|steps| step.checked_add(steps));
            let (passes, step) = passes.zip(step).ok_or_else(far)?;
            origin = Origin { epoch: epoch + times, step, passes, taken: vec![0; sources] };
        }
    }
}

impl Run {
    /// Refuses to skip whole epochs.
    ///
    /// # Errors
    /// An epoch would have no step; or the errors of [`epoch`](Self::epoch).
    pub(crate) fn check_skipped(&self) -> Result<()> {
        for SkippedSteps { from, to } in self.skipped.iter() {
            let (number, _) = Run { skipped: Arc::default(), ..self.clone() }.locate(*from)?;
            let epoch = self.epoch(number)?;
            // It suffices to check the next epoch: a range that ends even later skips that epoch whole, too.
            if epoch.first_step + epoch.course.steps() < *to {
                self.epoch(number + 1)?;
            }
        }
        Ok(())
    }

    /// The epoch of a step of the run, and the step's number in that epoch.
    ///
    /// # Errors
    /// The errors of [`epoch`](Self::epoch) for the epochs up to that of the step.
    pub(crate) fn locate(&self, step: u64) -> Result<(u64, u64)> {
        // From `origin.step` on, the search begins with the epoch of `origin`, because epochs before it may
        // have had other batches, or other data.
        let mut number = if step >= self.origin.step { self.origin.epoch } else { 0 };
        loop {
            let epoch = self.epoch(number)?;
            let (first, steps) = (epoch.first_step, epoch.course.steps().max(1));
            let Some(into) = step.checked_sub(first) else { return Ok((number, 0)) };
            if into < steps {
                return Ok((number, into));
            }
            let are_alike = first >= self.rule.last_change() && epoch.taken.iter().all(|taken| *taken == 0);
            // The search never jumps past the epoch of `origin`, because a new plan begins in the middle of
            // that epoch.
            let until = self.origin.epoch.checked_sub(number).filter(|more| *more > 0).unwrap_or(u64::MAX);
            number += if are_alike { (into / steps).min(until) } else { 1 };
        }
    }
}

impl MixedEpoch {
    /// The number of the step that follows `row` rows of the epoch, where 0 rows mean that the epoch is about
    /// to begin.
    pub(crate) fn step_of(&self, row: u64) -> u64 {
        let row = if row == 0 { self.taken.iter().sum() } else { row };
        self.course.step_of(row)
    }

    /// The step itself, or the next step that is not skipped.
    pub(crate) fn not_skipped(&self, step: u64) -> u64 {
        self.skipped.iter().find(|range| range.contains(&step)).map_or(step, |range| range.end)
    }

    /// The number of steps from a step on that are not skipped.
    pub(crate) fn steps_left(&self, step: u64) -> u64 {
        let passed = self.skipped.iter().map(|range| range.end.saturating_sub(range.start.max(step)));
        self.course.steps().saturating_sub(step) - passed.sum::<u64>()
    }

    /// The number of rows of each source that are skipped.
    pub(crate) fn rows_skipped(&self) -> Vec<u64> {
        let mut rows = vec![0; self.sizes.len()];
        for range in self.skipped.iter() {
            let (from, to) = (self.taken_before(range.start), self.taken_before(range.end));
            (0..).zip(&mut rows).for_each(|(source, rows)| *rows += to[source] - from[source]);
        }
        rows
    }

    /// The same epoch without skipped steps.
    pub(crate) fn whole(&self) -> Self {
        MixedEpoch { skipped: Arc::default(), ..self.clone() }
    }

    /// The number of rows of each source before a step.
    pub(crate) fn taken_before(&self, step: u64) -> Vec<u64> {
        self.course.steps_from(step).next().map_or(self.course.rows().to_vec(), |step| step.before)
    }

    /// The number of passes over a source that the epoch begins.
    pub(crate) fn passes_of(&self, source: usize) -> u64 {
        self.course.rows()[source].div_ceil(self.sizes[source].max(1))
    }

    /// This rank's rows of a source in a step: one share for each pass over the source that gives it rows,
    /// with the number of the pass, which is 0 for the epoch's first pass.
    pub(crate) fn share(&self, step: &MixedStep, source: usize, split: &MixSplit) -> Vec<(u64, Share)> {
        self.share_of(step, source, split, &split.mine(step))
    }

    /// The shares that [`share`](Self::share) returns. `mine` has this rank's rows of each source in the
    /// step.
    fn share_of(
        &self,
        step: &MixedStep,
        source: usize,
        split: &MixSplit,
        mine: &[(u64, u64)],
    ) -> Vec<(u64, Share)> {
        let is_empty = mine.iter().all(|(from, to)| from == to);
        // A rank without rows in a step repeats an earlier row from one of its lanes, so that all ranks have
        // the same number of steps.
        if is_empty && step.rows.iter().position(|rows| *rows > 0) == Some(source) {
            return vec![self.repeated(step, source, split)];
        }
        let (from, to) = mine[source];
        self.cut(step, source, from..to, split)
    }

    /// The number of sources of which this rank has rows in a step; `None` if only one has any, or if a
    /// source may give rows of two passes. `mine` has this rank's rows of each source in the step.
    fn shares_in(&self, step: &MixedStep, mine: &[(u64, u64)]) -> Option<usize> {
        let given = (0..mine.len()).filter(|source| mine[*source].0 < mine[*source].1);
        let is_of_one_pass = |source: usize| {
            let passes = self.passes_in(step, source);
            passes.start() == passes.end()
        };
        (given.clone().count() > 1 && given.clone().all(is_of_one_pass)).then(|| given.count())
    }

    /// The passes over a source that contribute rows to a step.
    fn passes_in(&self, step: &MixedStep, source: usize) -> RangeInclusive<u64> {
        let (before, size) = (step.before[source], self.sizes[source].max(1));
        before / size..=(before + step.rows[source]).saturating_sub(1) / size
    }

    /// A range of a source's rows in a step, sorted by lane.
    fn cut(&self, step: &MixedStep, source: usize, rows: Range<u64>, split: &MixSplit) -> Vec<(u64, Share)> {
        if rows.is_empty() {
            return Vec::new();
        }
        let (lanes, size) = (u64::from(split.lanes), self.sizes[source].max(1));
        let (begin, end) = (step.before[source], step.before[source] + step.rows[source]);
        let mut shares: Vec<(u64, Share)> = Vec::new();
        for pass in self.passes_in(step, source) {
            let end = end.min((pass + 1) * size) - pass * size;
            shares.push((pass, Share { spans: Vec::new(), padded: 0, end }));
        }
        let mut before = 0;
        for lane in 0..lanes {
            for (pass, share) in &mut shares {
                let first = *pass * size;
                // The pass begins with lane `first % lanes`, which is lane 0 in the order of the pass.
                let number = (lane + lanes - first % lanes) % lanes;
                let from = lane_position(number, lanes, begin.saturating_sub(first));
                let count = lane_position(number, lanes, share.end) - from;
                let (mine_from, mine_to) = (rows.start.max(before), rows.end.min(before + count));
                if mine_from < mine_to {
                    share.spans.push(LaneSpan {
                        lane: number as u32,
                        from: from + mine_from - before,
                        to: from + mine_to - before,
                    });
                }
                before += count;
            }
        }
        shares.retain(|(_, share)| !share.spans.is_empty());
        shares
    }

    fn repeated(&self, step: &MixedStep, source: usize, split: &MixSplit) -> (u64, Share) {
        let pass = *self.passes_in(step, source).end();
        let size = self.sizes[source].max(1);
        let lanes = u64::from(split.lanes);
        let lane = u64::from(split.shard.rank()) * lanes / u64::from(split.shard.world());
        let number = (lane + lanes - pass * size % lanes) % lanes;
        let end = step.before[source] + step.rows[source] - pass * size;
        let from = lane_position(number, lanes, end).saturating_sub(1);
        let span = LaneSpan { lane: number as u32, from, to: from + 1 };
        (pass, Share { spans: vec![span], padded: 1, end })
    }
}

/// The rule by which the ranks share the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MixSplit {
    pub(crate) shard: Shard,
    pub(crate) lanes: u32,
    pub(crate) global_batch: u64,
}

impl MixSplit {
    /// The number of rows by which the shares of sources are counted. If each rank has lanes of its own, a
    /// unit has one row from each lane.
    pub(crate) fn unit(&self) -> u64 {
        super::apportion::gcd(self.global_batch, self.lanes.into())
    }

    /// Whether each rank has lanes of its own.
    pub(crate) fn by_lanes(&self) -> bool {
        self.lanes.is_multiple_of(self.shard.world()) && self.unit() == u64::from(self.lanes)
    }

    /// This rank's rows of each source in a step, sorted by lane: the first row, and the row after the last.
    fn mine(&self, step: &MixedStep) -> Vec<(u64, u64)> {
        let (rank, world) = (u64::from(self.shard.rank()), u64::from(self.shard.world()));
        let lanes = u64::from(self.lanes);
        if self.by_lanes() {
            let own = rank * (lanes / world)..(rank + 1) * (lanes / world);
            let rows = |begin: u64, end: u64, lane: u64| {
                lane_position(lane, lanes, end) - lane_position(lane, lanes, begin)
            };
            let mine = |(begin, count): (&u64, &u64)| {
                let end = begin + count;
                let before = (0..own.start).map(|lane| rows(*begin, end, lane)).sum::<u64>();
                (before, before + own.clone().map(|lane| rows(*begin, end, lane)).sum::<u64>())
            };
            return step.before.iter().zip(&step.rows).map(mine).collect();
        }
        // Rows are dealt one by one, so that ranks differ by at most one row, in each source and in total.
        let before_rank = |rows: u64, rank: u64| rows / world * rank + (rows % world).min(rank);
        let mut first = 0;
        let mine = |rows: &u64| {
            let (begin, end) = (first, first + rows);
            first = end;
            let of = |rank: u64| before_rank(end, rank) - before_rank(begin, rank);
            (of(rank), of(rank + 1))
        };
        step.rows.iter().map(mine).collect()
    }
}

/// The number of rows before `row` that belong to `lane`.
fn lane_position(lane: u64, lanes: u64, row: u64) -> u64 {
    (row + lanes - 1 - lane) / lanes
}

/// The rows of one source in an epoch of a mix, and the rule by which the ranks share them.
#[derive(Clone, Debug)]
pub(crate) struct Portion {
    pub(crate) epoch: Arc<MixedEpoch>,
    pub(crate) source: usize,
    pub(crate) split: MixSplit,
}

impl PartialEq for Portion {
    fn eq(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.epoch.first_step, one.epoch.passes[one.source], one.source, one.split);
        key(self) == key(other)
            && self.epoch.taken == other.epoch.taken
            && (Arc::ptr_eq(&self.epoch.course, &other.epoch.course)
                || self.epoch.course == other.epoch.course)
            && self.epoch.skipped == other.epoch.skipped
    }
}

impl Eq for Portion {}

impl Portion {
    /// This rank's rows of each step in a pass, from the row `start` of the pass on. `pass` counts all passes
    /// over the source.
    pub(super) fn shares(&self, pass: u64, start: u64) -> PortionShares {
        let pass = pass.saturating_sub(self.epoch.passes[self.source]);
        let first = pass * self.epoch.sizes[self.source];
        let (_, steps) = self.epoch.course.from_row(self.source, first + start);
        PortionShares { portion: self.clone(), pass, steps }
    }

    /// The most lanes of a pass that this rank reads.
    pub(super) fn lanes_of_a_rank(&self, split: &Split) -> u64 {
        let (lanes, world) = (u64::from(self.split.lanes), u64::from(self.split.shard.world()));
        if self.split.by_lanes() {
            return lanes / world;
        }
        // A rank without lanes of its own may also take rows of lanes beside those that `split` gives it.
        (split.lanes_of_a_rank() + NEIGHBOUR_LANES).min(lanes)
    }
}

/// The number of lanes beside a rank's own in which its share may begin or end, since steps differ in their
/// number of rows.
const NEIGHBOUR_LANES: u64 = 2;

/// A step of a mix in which several sources have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepOfMix {
    /// The number of the step in the run.
    pub(crate) number: u64,
    /// The number of sources that have rows in it.
    pub(crate) shares: usize,
}

/// The shares of one pass, in order.
#[derive(Clone, Debug)]
pub(super) struct PortionShares {
    portion: Portion,
    pass: u64,
    steps: Steps,
}

impl Iterator for PortionShares {
    type Item = (Share, Option<StepOfMix>);

    fn next(&mut self) -> Option<Self::Item> {
        let Portion { epoch, source, split } = &self.portion;
        let end = ((self.pass + 1) * epoch.sizes[*source]).min(epoch.course.rows()[*source]);
        loop {
            let number = self.steps.step();
            let next = epoch.not_skipped(number);
            if next > number {
                self.steps = epoch.course.steps_from(next);
            }
            let number = self.steps.step();
            let step = self.steps.next()?;
            if step.before[*source] >= end {
                return None;
            }
            let mine = split.mine(&step);
            let shares = epoch.share_of(&step, *source, split, &mine);
            if let Some((_, share)) = shares.into_iter().find(|(pass, _)| *pass == self.pass) {
                let shares = epoch.shares_in(&step, &mine);
                let of_mix = shares.map(|shares| StepOfMix { number: epoch.first_step + number, shares });
                return Some((share, of_mix));
            }
        }
    }
}

#[cfg(test)]
mod tests;
