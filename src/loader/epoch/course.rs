//! Joins the batches of several sources into the steps of a mix's epoch.
//!
//! Bad and denied rows make a step shorter. If a rank has no row left in a step, its batch gets the first row
//! of the rank's next step; at the end of the epoch it gets the first row of the epoch, as in a loader of one
//! source. To find that row, steps are taken ahead; they are taken again if the mix's weights change
//! meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use forebay_arrow::compute::take;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::feed::Feed;
use crate::loader::bad_rows::{BadRow, OnBadRow};
use crate::loader::collate::{Collated, Whole};
use crate::loader::lifecycle::Reason;
use crate::loader::mix::Mixture;
use crate::loader::pass::{Made, Pass, Step, ended, nothing_to_deliver};
use crate::loader::progress::Receipt;
use crate::loader::refill::{Refill, Taken};
use crate::loader::sources::{PassPlace, PlannedEpoch, Sources};
use crate::shard::Steps;

/// The batches of an epoch over several sources, joined step by step.
pub(super) struct Course {
    sources: Arc<Sources>,
    mixture: Arc<Mixture>,
    epoch: PlannedEpoch,
    /// The passes over each source, one `Feed` for each source.
    feeds: Vec<Feed>,
    steps: Steps,
    /// The number of rows that all sources and ranks deliver up to the end of the current step.
    row: u64,
    /// `awaited` has the source and the pass of each batch of the current step that has not arrived, and
    /// `taken` has the batches that have arrived, each with its source.
    awaited: VecDeque<(usize, u64)>,
    taken: Vec<(usize, Made)>,
    /// For each source, the number of bad rows that were left out of its current pass.
    skipped: Vec<u64>,
    /// The bad rows of the current step.
    bad: Vec<BadRow>,
    /// `refill` has the joined batches that were not returned yet, and `joined` has for each of them the
    /// counts that become current when it is returned.
    refill: Refill,
    joined: VecDeque<Joined>,
    /// The place of the next step to return.
    returned: CoursePlace,
    /// Whether this course begins with the first step of the epoch, and none of its rows may be denied later.
    /// Its first row that can be delivered may then fill empty batches.
    is_whole: bool,
    /// Whether this course runs only to find a row that fills empty batches, so that its rows and bad rows
    /// are not counted.
    stands_in: bool,
    /// A second course from the beginning of the same epoch, which finds the first row that can be delivered.
    beginning: Option<Box<Course>>,
}

/// A place before a step of the epoch.
#[derive(Clone)]
pub(super) struct CoursePlace {
    /// The number of the step.
    pub(super) step: u64,
    /// For each source, the number of bad rows that its pass left out before the step.
    pub(super) skipped: Vec<u64>,
}

/// The counts that become current when a joined batch is returned.
struct Joined {
    /// The place of the step that follows this batch.
    next: CoursePlace,
    bad: Vec<BadRow>,
    /// The number of rows from each source.
    rows: Vec<u64>,
}

impl Course {
    /// Begins the epoch at a step. `stands_in` means that the course runs only to find a row that fills empty
    /// batches.
    pub(super) fn new(
        sources: Arc<Sources>,
        mixture: Arc<Mixture>,
        epoch: PlannedEpoch,
        from: CoursePlace,
        stands_in: bool,
    ) -> Result<Self> {
        let all = sources.all();
        let keeps_shape = all.iter().any(|source| source.collator.on_bad_row.refills());
        // Each source enforces its own limit on bad rows, so the joined batches have no limit.
        let on_bad_row = OnBadRow::Skip { at_most: u64::MAX, refill: keeps_shape };
        let fills = all.iter().any(|source| source.may_deliver_nothing());
        // If rows may be denied from a later step on, the first row may become denied, and must not fill
        // other batches.
        let is_settled = stands_in || all.iter().all(|source| source.withheld.is_empty());
        let steps = epoch.plan.course.steps_from(from.step);
        let mut course = Course {
            is_whole: is_settled && from.step == epoch.plan.not_skipped(0),
            row: steps.taken().iter().sum(),
            refill: Refill::new(on_bad_row, fills, false, 0, &[]),
            skipped: from.skipped.clone(),
            returned: from,
            feeds: Vec::new(),
            awaited: VecDeque::new(),
            taken: Vec::new(),
            bad: Vec::new(),
            joined: VecDeque::new(),
            beginning: None,
            sources,
            mixture,
            epoch,
            steps,
            stands_in,
        };
        course.begin_feeds()?;
        Ok(course)
    }

    /// Begins a pass over each source at the row where the next step continues.
    fn begin_feeds(&mut self) -> Result<()> {
        // Beginning a pass ends the previous pass over its source, so the old passes are of no use any more.
        self.feeds.clear();
        for (source, (&taken, &skipped)) in self.steps.taken().iter().zip(&self.skipped).enumerate() {
            let size = self.epoch.plan.sizes[source].max(1);
            let place = PassPlace { source, pass: taken / size, row: taken % size, skipped };
            let is_in_epoch = place.pass < self.epoch.plan.passes_of(source);
            let pass = is_in_epoch.then(|| self.begin_pass(place)).transpose()?;
            self.feeds.push(Feed::new(place.pass, pass));
        }
        Ok(())
    }

    fn begin_pass(&self, place: PassPlace) -> Result<Pass> {
        self.sources.begin_part(&self.mixture, &self.epoch, place, self.stands_in)
    }

    /// Whether the first row that this course delivers may fill empty batches at the end of the epoch.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Fails in a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        self.feeds.iter().try_for_each(Feed::check_process)
    }

    /// Whether the weights were changed since this epoch was planned, and the next step can already follow
    /// them.
    pub(super) fn is_outdated(&self, generation: u64) -> bool {
        self.awaited.is_empty()
            && !self.mixture.is_in_force(&self.epoch.run)
            && self.sources.progress.is_last_begun(generation)
    }

    /// Switches to the plan with the new weights, and returns the number of steps that are left.
    pub(super) fn follow(&mut self) -> Result<u64> {
        let (run, split) = self.mixture.run();
        let plan = self.mixture.planned(&run, self.epoch.number)?;
        let CoursePlace { step, skipped } = self.returned.clone();
        let step = plan.not_skipped(step);
        self.steps = plan.course.steps_from(step);
        let left = plan.steps_left(step);
        self.epoch = PlannedEpoch { run, split, plan, ..self.epoch };
        self.refill.forget();
        self.joined.clear();
        self.skipped = skipped;
        self.begin_feeds()?;
        Ok(left)
    }

    /// Returns the next step, and adds the bad rows before it to `skipped`; `None` if one of its batches has
    /// not arrived in time.
    pub(super) fn next(
        &mut self,
        generation: u64,
        timeout: Duration,
        skipped: &mut Vec<BadRow>,
    ) -> Result<Option<Step>> {
        if !self.stands_in {
            let plan = &self.epoch.plan;
            self.mixture.begins_until(plan.first_step + plan.not_skipped(self.returned.step) + 1);
        }
        let began = Instant::now();
        while self.refill.is_empty_handed() {
            let left = timeout.saturating_sub(began.elapsed());
            let came = match self.all_came() {
                true => self.fill_the_last(generation, left),
                false => self.take_in(generation, left),
            };
            // If the step fails, the bad rows that were found until then are still reported.
            let came = came.inspect_err(|_| self.list_all(skipped));
            if !came? {
                return Ok(None);
            }
        }
        let (taken, joined) = self.refill.pop().zip(self.joined.pop_front()).ok_or_else(|| self.early())?;
        Ok(Some(self.accept(taken, joined, generation, skipped)))
    }

    fn early(&self) -> Error {
        Error::new(ErrorKind::Internal, format!("epoch {} of the mix ended early", self.epoch.number))
    }

    /// Whether the batches of all steps have arrived.
    fn all_came(&self) -> bool {
        self.awaited.is_empty() && self.epoch.plan.steps_left(self.steps.step()) == 0
    }

    /// Collects the batches of the next step from all sources, and joins them; false if one has not arrived
    /// in time.
    fn take_in(&mut self, generation: u64, timeout: Duration) -> Result<bool> {
        if self.awaited.is_empty() {
            let (number, plan) = (self.steps.step(), &self.epoch.plan);
            let next = plan.not_skipped(number);
            if next > number {
                self.steps = plan.course.steps_from(next);
            }
            let step = self.steps.next().ok_or_else(|| self.early())?;
            self.row = step.before.iter().chain(&step.rows).sum();
            for source in 0..self.feeds.len() {
                let shares = self.epoch.plan.share(&step, source, &self.epoch.split);
                self.awaited.extend(shares.into_iter().map(|(pass, _)| (source, pass)));
            }
        }
        let began = Instant::now();
        let left = || timeout.saturating_sub(began.elapsed());
        // The rows of all sources are listed before the first is waited for, since they may be made together.
        for at in 0..self.awaited.len() {
            let (source, pass) = self.awaited[at];
            let is_second = self.awaited.iter().take(at).any(|(other, _)| *other == source);
            if !is_second {
                self.enter(source, pass, generation)?;
                if !self.feeds[source].is_listed(left())? {
                    return Ok(false);
                }
            }
        }
        while let Some(&(source, pass)) = self.awaited.front() {
            self.enter(source, pass, generation)?;
            let taken = self.feeds[source].take(left());
            self.bad.extend(self.feeds[source].found().into_iter().map(|bad| bad.until(self.row)));
            let Some(made) = taken? else { return Ok(false) };
            self.taken.push((source, made));
            self.awaited.pop_front();
        }
        self.join().map(|()| true)
    }

    /// Begins a pass over a source, unless it is under way.
    fn enter(&mut self, source: usize, pass: u64, generation: u64) -> Result<()> {
        if self.feeds[source].is_in(pass) {
            return Ok(());
        }
        self.check_last_begun(generation)?;
        self.feeds[source].end();
        let begun = self.begin_pass(PassPlace { source, pass, row: 0, skipped: 0 })?;
        self.feeds[source] = Feed::new(pass, Some(begun));
        Ok(())
    }

    /// Fails if another epoch was begun since. A new pass of this epoch would end a pass of the other.
    fn check_last_begun(&self, generation: u64) -> Result<()> {
        match self.sources.progress.is_last_begun(generation) {
            true => Ok(()),
            false => Err(ended(self.epoch.number, Reason::Superseded)),
        }
    }

    /// Joins the batches of a step.
    fn join(&mut self) -> Result<()> {
        let taken = std::mem::take(&mut self.taken);
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        let mut rows = vec![0; self.feeds.len()];
        let mut padded = 0;
        for (source, made) in &taken {
            let (of, step) = (&self.sources.all()[*source], &made.step);
            self.skipped[*source] = step.after.skipped.first().copied().unwrap_or(0);
            rows[*source] += step.batch.num_rows() as u64;
            padded += made.padded;
            numbers.extend(step.after.numbers().iter().map(|number| of.first_number + number));
            keys.extend_from_slice(&step.after.keys(of.collator.seed));
        }
        let parts: Vec<(usize, usize)> =
            taken.iter().map(|(_, made)| (made.step.batch.num_rows(), made.lost)).collect();
        let lost: usize = parts.iter().map(|(_, lost)| lost).sum();
        let whole = whole_of(&taken);
        let batches: Vec<(usize, RecordBatch)> =
            taken.into_iter().map(|(source, made)| (source, made.step.batch)).collect();
        let mut batch = self.mixture.joiner.join(&batches, whole)?;
        let refilled = if batch.num_rows() > 0 { lost } else { 0 };
        if refilled > 0 {
            let kept = nearest_for_lost(&parts);
            let of =
                |values: &[u64]| kept.iter().filter_map(|row| values.get(*row as usize)).copied().collect();
            (numbers, keys) = (of(&numbers), of(&keys));
            batch = taken_rows(&batch, kept)?;
        }
        let made = Collated {
            batch,
            skipped: Vec::new(),
            samples: lost.max(1),
            refilled: refilled as u64,
            numbers: numbers.into(),
            keys: Some(keys.into()),
            whole: None,
        };
        self.joined.push_back(Joined {
            next: CoursePlace { step: self.steps.step(), skipped: self.skipped.clone() },
            bad: std::mem::take(&mut self.bad),
            rows,
        });
        self.refill.push(Taken { made, end: self.row, padded }, self.is_whole)
    }

    /// Fills the empty batches at the end of the epoch with the first row of the epoch that can be delivered;
    /// false if that row has not arrived in time.
    fn fill_the_last(&mut self, generation: u64, timeout: Duration) -> Result<bool> {
        if self.refill.fill_with_first()? {
            return Ok(true);
        }
        if self.is_whole {
            let bad = self.joined.iter().flat_map(|joined| &joined.bad).next();
            return Err(nothing_to_deliver(self.epoch.number, bad));
        }
        self.check_last_begun(generation)?;
        let beginning = match &mut self.beginning {
            Some(beginning) => beginning,
            none => {
                // All batches of this epoch have arrived, so its passes can end.
                self.feeds.iter_mut().for_each(Feed::end);
                let (step, skipped) = (self.epoch.plan.not_skipped(0), vec![0; self.feeds.len()]);
                let from = CoursePlace { step, skipped };
                let (sources, mixture) = (self.sources.clone(), self.mixture.clone());
                let course = Course::new(sources, mixture, self.epoch.clone(), from, true)?;
                none.insert(Box::new(course))
            }
        };
        // The bad rows that `beginning` finds are dropped, because they were reported earlier in the epoch.
        let Some(step) = beginning.next(generation, timeout, &mut Vec::new())? else { return Ok(false) };
        self.refill.set_first(step.stand_in()?);
        self.beginning = None;
        Ok(true)
    }

    /// Reports and counts all bad rows that were found so far.
    fn list_all(&mut self, skipped: &mut Vec<BadRow>) {
        let waiting = self.joined.iter_mut().flat_map(|joined| std::mem::take(&mut joined.bad));
        let found: Vec<BadRow> = waiting.chain(std::mem::take(&mut self.bad)).collect();
        self.list(found, skipped);
    }

    fn list(&self, found: Vec<BadRow>, skipped: &mut Vec<BadRow>) {
        if !self.stands_in {
            self.sources.first().monitor.skipped.fetch_add(found.len() as u64, Relaxed);
        }
        skipped.extend(found);
    }

    fn accept(&mut self, taken: Taken, joined: Joined, generation: u64, skipped: &mut Vec<BadRow>) -> Step {
        let Taken { made, end, padded } = taken;
        self.list(joined.bad, skipped);
        if !self.stands_in {
            self.sources.first().monitor.padded.fetch_add(padded, Relaxed);
            for (delivered, rows) in self.mixture.delivered.iter().zip(joined.rows) {
                delivered.fetch_add(rows, Relaxed);
            }
        }
        let of_sources: Arc<[u64]> = match joined.next.skipped.iter().any(|skipped| *skipped > 0) {
            true => joined.next.skipped.as_slice().into(),
            false => Arc::default(),
        };
        self.returned = joined.next;
        let after = Receipt {
            generation,
            epoch: self.epoch.number,
            row: end,
            skipped: of_sources,
            last: false,
            numbers: made.numbers,
            keys: made.keys,
        };
        Step { batch: made.batch, after }
    }
}

/// The batch that has the rows of all sources in a step, if they were made together.
fn whole_of(taken: &[(usize, Made)]) -> Option<RecordBatch> {
    let Whole { batch, from } = taken.first()?.1.whole.as_ref()?;
    let mut end = *from;
    for (_, made) in taken {
        let of = made.whole.as_ref().filter(|of| Arc::ptr_eq(&of.batch, batch) && of.from == end)?;
        end = of.from + made.step.batch.num_rows();
    }
    Some(batch.slice(*from, end - from))
}

/// The indices of the rows to deliver from a joined batch. In place of each row that a source left out, the
/// nearest row is repeated: the row before it, or else the one after it. `parts` has, for each of the batches
/// that were joined, its number of rows and the number of rows left out of it.
fn nearest_for_lost(parts: &[(usize, usize)]) -> Vec<u32> {
    let (mut kept, mut early, mut next) = (Vec::new(), 0, 0);
    for &(rows, lost) in parts {
        match kept.last() {
            Some(&before) => kept.extend(std::iter::repeat_n(before, lost)),
            None => early += lost,
        }
        if rows > 0 {
            kept.extend(std::iter::repeat_n(next, std::mem::take(&mut early)));
            kept.extend(next..next + rows as u32);
            next += rows as u32;
        }
    }
    kept
}

/// The batch with only these rows, in this order.
fn taken_rows(batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let rows = UInt32Array::from(rows);
    let columns = batch.columns().iter().map(|column| take(column, &rows, None).or_fail());
    RecordBatch::try_new_with_options(batch.schema(), columns.collect::<Result<_>>()?, &options).or_fail()
}

#[cfg(test)]
mod tests {
    use super::nearest_for_lost;

    #[test]
    fn the_nearest_row_takes_the_place_of_lost_ones() {
        assert_eq!(nearest_for_lost(&[(2, 0), (0, 2), (1, 0)]), [0, 1, 1, 1, 2]);
        assert_eq!(nearest_for_lost(&[(0, 2), (0, 1), (2, 0), (0, 1)]), [0, 0, 0, 0, 1, 1]);
        assert_eq!(nearest_for_lost(&[(1, 0), (1, 0)]), [0, 1]);
    }
}
