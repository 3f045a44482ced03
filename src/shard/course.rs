//! The course of an epoch over several sources: how many rows each source gives to each step.
//!
//! An epoch is a list of stages. In most of them all steps are full, and their rows are shared by weights
//! that stay the same. A stage ends when the weights change, or before a step that would take more rows of a
//! source than it has. That step has the last rows of the source and a matching number of rows of the others,
//! so it is shorter, like the last step of a loader.
//!
//! Rows of a source are counted through the epoch: row `r` is row `r mod n` of the source's pass `r / n`, if
//! it has `n` rows.

use std::sync::Arc;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::apportion::Weights;
use super::random_shares::StepShares;

/// When an epoch over several sources ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// When the first source has no more rows. The remaining rows of the others are not read.
    #[default]
    First,
    /// When each source has given all of its rows. Sources that end earlier are repeated, or left out from
    /// then on.
    Last,
}

/// The inputs that decide how many rows each source gives to each step of every epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CourseRule {
    /// The number of rows of each source.
    pub(crate) rows: Vec<u64>,
    /// The number of rows of a full step.
    pub(crate) global_batch: u64,
    /// The number of rows by which shares are counted: in a full step, each source gives a multiple of it. It
    /// divides the global batch.
    pub(crate) unit: u64,
    pub(crate) stop: Stop,
    /// Whether a source that ends before the epoch begins again.
    pub(crate) repeat: bool,
    /// The most passes over each source in an epoch, if it begins again; empty if there is no limit.
    pub(crate) max_passes: Vec<Option<u64>>,
    /// Whether steps that are not full are left out.
    pub(crate) drop_last: bool,
    /// The weights, each with the step of the run from which they apply, in order; the first entry is for
    /// step 0.
    pub(crate) schedule: Vec<(u64, Weights)>,
    /// The seed with which shares are drawn, if they are random. All epochs draw the same shares, so they
    /// have the same number of steps.
    pub(crate) random_shares: Option<u64>,
}

/// One step: the number of rows of each source before it, and within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MixedStep {
    pub(crate) before: Vec<u64>,
    pub(crate) rows: Vec<u64>,
}

/// Consecutive full steps to which the sources give rows by the same weights, or one shorter step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stage {
    /// The number of the stage's first step in the epoch.
    first: u64,
    /// The number of rows of each source before the stage.
    before: Vec<u64>,
    steps: u64,
    shares: Shares,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shares {
    /// Full steps with these shares.
    Full(StepShares),
    /// One step with this number of rows of each source.
    Short(Vec<u64>),
}

/// The rows that each source gives to each step of an epoch, kept as stages from which any step is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    stages: Vec<Stage>,
    unit: u64,
    steps: u64,
    /// The number of rows of each source in the epoch.
    rows: Vec<u64>,
}

impl CourseRule {
    /// The weights at a step of the run, with 0 for the sources for which `keeps` is false, and the step at
    /// which the weights change next.
    fn weights(&self, step: u64, keeps: impl Fn(usize) -> bool) -> (Option<Weights>, Option<u64>) {
        let next = self.schedule.partition_point(|(from, _)| *from <= step);
        let weights = next.checked_sub(1).and_then(|at| self.schedule[at].1.only(keeps));
        (weights, self.schedule.get(next).map(|(from, _)| *from))
    }

    /// Whether a source had a weight, and has none from this step of the run on.
    pub(super) fn has_ended(&self, source: usize, step: u64) -> bool {
        let next = self.schedule.partition_point(|(from, _)| *from <= step);
        let (before, later) = self.schedule.split_at(next.saturating_sub(1));
        let has_weight = |entries: &[(u64, Weights)]| entries.iter().any(|(_, it)| it.part(source) > 0);
        has_weight(before) && !has_weight(later)
    }

    /// The most rows of a source in an epoch.
    fn most(&self, source: usize) -> u64 {
        let passes = self.max_passes.get(source).copied().flatten().unwrap_or(u64::MAX);
        passes.saturating_mul(self.rows[source])
    }

    /// The last step of the run at which the weights change.
    pub(crate) fn last_change(&self) -> u64 {
        self.schedule.last().map_or(0, |(from, _)| *from)
    }

    /// Plans the rows of each source in each step of an epoch that begins at step `begin` of the run, after
    /// `taken` rows of each source have been given.
    ///
    /// # Errors
    /// All weights are 0, or the epoch has no end.
    pub(crate) fn course(&self, begin: u64, taken: &[u64]) -> Result<Course> {
        let mut making = Making { rule: self, begin, taken: taken.to_vec(), stages: Vec::new(), steps: 0 };
        match self.stop {
            Stop::First => making.until_one_ends()?,
            Stop::Last if self.repeat => making.until_all_ended()?,
            Stop::Last => making.one_after_another()?,
        }
        let Making { taken: rows, stages, steps, .. } = making;
        Ok(Course { stages, unit: self.unit, steps, rows })
    }
}

/// Builds a [`Course`], stage by stage.
struct Making<'a> {
    rule: &'a CourseRule,
    begin: u64,
    taken: Vec<u64>,
    stages: Vec<Stage>,
    steps: u64,
}

/// How a stage of full steps ended.
enum End {
    /// Other weights follow at the next step.
    Changed,
    /// The next step would take too many rows of a source; the variant has the units of all sources in that
    /// step.
    At(Vec<u64>),
}

/// The source that runs out of rows in the next step, and the number of rows that it has left.
#[derive(Clone, Copy)]
struct EndingSource {
    source: usize,
    left: u64,
}

impl Making<'_> {
    fn left(&self, source: usize) -> u64 {
        self.rule.rows[source].saturating_sub(self.taken[source])
    }

    /// The rows that a source may still give in the epoch, in all of its passes.
    fn room(&self, source: usize) -> u64 {
        self.rule.most(source).saturating_sub(self.taken[source])
    }

    /// Whether a source had a weight before the next step, and never again has one.
    fn has_ended(&self, source: usize) -> bool {
        self.rule.has_ended(source, self.begin + self.steps)
    }

    fn push(&mut self, steps: u64, shares: Shares) {
        if steps == 0 {
            return;
        }
        let before = self.taken.clone();
        match &shares {
            Shares::Full(shares) => {
                let end = shares.clone().at(steps);
                let unit = self.rule.unit;
                (0..).zip(&mut self.taken).for_each(|(source, taken)| *taken += end.so_far(source) * unit);
            }
            Shares::Short(rows) => self.taken.iter_mut().zip(rows).for_each(|(taken, rows)| *taken += rows),
        }
        self.stages.push(Stage { first: self.steps, before, steps, shares });
        self.steps += steps;
    }

    /// Adds full steps with these weights: `most` returns their number, but they end earlier if the weights
    /// change at step `change` of the run.
    fn full(
        &mut self,
        weights: &Weights,
        change: Option<u64>,
        most: impl Fn(&Self, &StepShares) -> u64,
    ) -> End {
        let units = self.rule.global_batch / self.rule.unit;
        let shares = StepShares::new(weights, units, self.rule.random_shares, self.steps);
        let most = most(self, &shares);
        match change.map(|at| at - (self.begin + self.steps)) {
            Some(until) if until <= most => {
                self.push(until, Shares::Full(shares));
                End::Changed
            }
            _ => {
                let next = shares.clone().at(most).next();
                self.push(most, Shares::Full(shares));
                End::At(next)
            }
        }
    }

    /// Adds a step with all rows that the source `ending` has left, and rows of the others in proportion to
    /// `units`, rounded up or down to whole units.
    fn short(&mut self, ending: EndingSource, units: &[u64], up: bool) {
        let unit = self.rule.unit;
        let share = |source: usize| {
            if source == ending.source {
                return ending.left;
            }
            let exact = u128::from(units[source]) * u128::from(ending.left);
            let whole = u128::from(units[ending.source] * unit);
            let units = if up { exact.div_ceil(whole) } else { exact / whole };
            units as u64 * unit
        };
        let rows: Vec<u64> = (0..units.len()).map(share).collect();
        let all: u64 = rows.iter().sum();
        if all == self.rule.global_batch || (all > 0 && !self.rule.drop_last) {
            self.push(1, Shares::Short(rows));
        }
    }

    /// The source that runs out of rows first (or last, if `smallest` is false) when all give rows in
    /// proportion to `units`. Sources without units, and those for which `left` is `None`, do not count.
    fn ending(
        &self,
        units: &[u64],
        left: impl Fn(usize) -> Option<u64>,
        smallest: bool,
    ) -> Option<EndingSource> {
        let gets = |source: &usize| units[*source] > 0 && left(*source).is_some();
        let rows = |source: usize| left(source).unwrap_or(0);
        let product = |source: usize, other: usize| u128::from(rows(source)) * u128::from(units[other]);
        let ending = (0..units.len()).filter(gets).reduce(|one, other| {
            let is_less = product(other, one) < product(one, other);
            let is_more = product(other, one) > product(one, other);
            if if smallest { is_less } else { is_more } { other } else { one }
        });
        ending.map(|source| EndingSource { source, left: rows(source) })
    }

    /// The number of steps for which no source needs more rows than it has.
    fn within(&self, shares: &StepShares) -> u64 {
        let limits = (0..self.taken.len()).map(|source| (source, self.left(source) / self.rule.unit));
        shares.last_before(&limits.collect::<Vec<_>>(), false).unwrap_or(0)
    }

    fn until_one_ends(&mut self) -> Result<()> {
        loop {
            let (weights, change) = self.rule.weights(self.begin + self.steps, |_| true);
            let Some(weights) = weights else { return Err(no_weight()) };
            if let End::At(units) = self.full(&weights, change, Making::within) {
                let ending = self.ending(&units, |source| Some(self.left(source)), true);
                ending.into_iter().for_each(|ending| self.short(ending, &units, false));
                return Ok(());
            }
        }
    }

    fn one_after_another(&mut self) -> Result<()> {
        let mut is_over: Vec<bool> = (0..self.taken.len()).map(|source| self.left(source) == 0).collect();
        loop {
            (0..is_over.len()).for_each(|source| is_over[source] |= self.has_ended(source));
            if is_over.iter().all(|is_over| *is_over) {
                return Ok(());
            }
            let (weights, change) = self.rule.weights(self.begin + self.steps, |source| !is_over[source]);
            let Some(weights) = weights else {
                let source = is_over.iter().position(|is_over| !is_over).unwrap_or(0);
                return Err(never_ends(source, "once the others have ended"));
            };
            if let End::At(units) = self.full(&weights, change, Making::within) {
                if let Some(ending) = self.ending(&units, |source| Some(self.left(source)), true) {
                    self.short(ending, &units, false);
                    is_over[ending.source] = true;
                }
                (0..is_over.len()).for_each(|source| is_over[source] |= self.left(source) == 0);
            }
        }
    }

    fn until_all_ended(&mut self) -> Result<()> {
        let mut is_over: Vec<bool> = (0..self.taken.len()).map(|source| self.room(source) == 0).collect();
        loop {
            let is_awaited =
                |source: &usize| self.left(*source) > 0 && !is_over[*source] && !self.has_ended(*source);
            let awaited: Vec<usize> = (0..self.taken.len()).filter(is_awaited).collect();
            let Some(&first) = awaited.first() else { return Ok(()) };
            let (weights, change) = self.rule.weights(self.begin + self.steps, |source| !is_over[source]);
            let Some(weights) = weights else { return Err(never_ends(first, "once the others have ended")) };
            let idle = awaited.iter().find(|source| weights.part(**source) == 0);
            if let (Some(source), None) = (idle, change) {
                return Err(never_ends(*source, "at the end"));
            }
            // `awaited` are the sources that have not given all of their rows yet. Full steps continue until
            // the next step would use up the last of them, or would exceed the `max_passes` of a source.
            let most = |this: &Self, shares: &StepShares| {
                let unit = this.rule.unit;
                let limit = |&source: &usize| (source, this.left(source).div_ceil(unit) - 1);
                let limits: Vec<_> = awaited.iter().map(limit).collect();
                let rooms: Vec<_> = (0..this.taken.len())
                    .filter(|source| !is_over[*source] && this.rule.most(*source) < u64::MAX)
                    .map(|source| (source, this.room(source) / unit))
                    .collect();
                // `last_before` returns `None` if an awaited source has no weight yet. This source cannot end
                // before the weights change, so the awaited sources set no limit here.
                let all = shares.last_before(&limits, true).unwrap_or(u64::MAX);
                let of_passes = (!rooms.is_empty()).then(|| shares.last_before(&rooms, false)).flatten();
                all.min(of_passes.unwrap_or(u64::MAX))
            };
            let End::At(units) = self.full(&weights, change, most) else { continue };
            let room = |source: usize| (!is_over[source]).then(|| self.room(source));
            let ended = self.ending(&units, room, true);
            if let Some(ended) = ended.filter(|ended| ended.left < units[ended.source] * self.rule.unit) {
                self.short(ended, &units, false);
                is_over[ended.source] = true;
                (0..is_over.len()).for_each(|source| is_over[source] |= self.room(source) == 0);
                continue;
            }
            let left = |source: usize| Some(self.left(source)).filter(|_| awaited.contains(&source));
            if let Some(ending) = self.ending(&units, left, false) {
                self.short(ending, &units, true);
            }
            return Ok(());
        }
    }
}

fn no_weight() -> Error {
    Error::invalid("all weights are 0").hint("give one source a weight above 0")
}

fn never_ends(source: usize, when: &str) -> Error {
    Error::invalid(format!("source {source} never ends: it has no weight {when}"))
        .hint("give it a weight, or stop at the first source to end")
}

impl Course {
    /// The number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// For each source, the number of rows that it gives in the epoch, including rows given before the course
    /// begins.
    pub(crate) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The steps from `step` on.
    pub(crate) fn steps_from(self: &Arc<Self>, step: u64) -> Steps {
        let at = self.stages.partition_point(|stage| stage.first + stage.steps <= step);
        self.enter(at, step)
    }

    /// The steps from the one that contains row `row` of a source, and the number of that step.
    pub(crate) fn from_row(self: &Arc<Self>, source: usize, row: u64) -> (u64, Steps) {
        let end = |at: usize| self.stages.get(at + 1).map_or(self.rows[source], |stage| stage.before[source]);
        let at = (0..self.stages.len()).find(|at| end(*at) > row).unwrap_or(self.stages.len());
        let step = match self.stages.get(at) {
            None => self.steps,
            Some(Stage { first, shares: Shares::Short(_), .. }) => *first,
            Some(Stage { first, before, shares: Shares::Full(shares), .. }) => {
                first + shares.last_within(source, (row - before[source]) / self.unit).unwrap_or(0)
            }
        };
        (step, self.enter(at, step))
    }

    /// The step that follows `rows` rows of all sources together. `rows` must be the end of a step.
    pub(crate) fn step_of(&self, rows: u64) -> u64 {
        let sum = |rows: &[u64]| rows.iter().sum::<u64>();
        let at = self.stages.partition_point(|stage| sum(&stage.before) <= rows);
        let Some(stage) = at.checked_sub(1).map(|at| &self.stages[at]) else { return 0 };
        let into = rows - sum(&stage.before);
        match &stage.shares {
            Shares::Short(_) => stage.first + u64::from(into > 0),
            Shares::Full(shares) => {
                let units =
                    (0..self.rows.len()).map(|source| shares.clone().at(1).so_far(source)).sum::<u64>();
                (stage.first + into / (units * self.unit).max(1)).min(stage.first + stage.steps)
            }
        }
    }

    fn enter(self: &Arc<Self>, at: usize, step: u64) -> Steps {
        let mut steps = Steps { course: self.clone(), stage: at, step, before: Vec::new(), shares: None };
        steps.begin();
        steps
    }
}

/// An iterator over the steps of a [`Course`].
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    course: Arc<Course>,
    stage: usize,
    step: u64,
    before: Vec<u64>,
    shares: Option<Shares>,
}

impl Steps {
    /// The number of the next step.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// The number of rows of each source before the next step.
    pub(crate) fn taken(&self) -> &[u64] {
        &self.before
    }

    /// Prepares `before` and `shares` for the present step, which is in the present stage.
    fn begin(&mut self) {
        let Some(stage) = self.course.stages.get(self.stage) else {
            self.before.clone_from(&self.course.rows);
            return self.shares = None;
        };
        self.before.clone_from(&stage.before);
        self.shares = Some(match &stage.shares {
            Shares::Short(rows) => Shares::Short(rows.clone()),
            Shares::Full(shares) => {
                let shares = shares.clone().at(self.step - stage.first);
                let unit = self.course.unit;
                (0..).zip(&mut self.before).for_each(|(source, rows)| *rows += shares.so_far(source) * unit);
                Shares::Full(shares)
            }
        });
    }
}

impl Iterator for Steps {
    type Item = MixedStep;

    fn next(&mut self) -> Option<MixedStep> {
        let before = self.before.clone();
        let rows = match self.shares.as_mut()? {
            Shares::Short(rows) => std::mem::take(rows),
            Shares::Full(shares) => shares.next().into_iter().map(|units| units * self.course.unit).collect(),
        };
        self.before.iter_mut().zip(&rows).for_each(|(before, rows)| *before += rows);
        self.step += 1;
        let stage = &self.course.stages[self.stage];
        if self.step == stage.first + stage.steps {
            self.stage += 1;
            self.begin();
        }
        Some(MixedStep { before, rows })
    }
}
