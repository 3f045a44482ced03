//! One pass over a rank's share: a blocking iterator that takes the batches of sources in plan order and
//! joins those of a step. In a loader of one source, a step is its next batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_arrow::array::RecordBatch;
use forebay_base::error::caught;
use forebay_base::{Error, ErrorKind, Result};

use super::bad_rows::BadRow;
use super::consumer::Consumer;
use super::lifecycle::Reason;
use super::mix::Mixture;
use super::pass::{Pass, Step, ended};
use super::progress::{At, Progress, Receipt};
use super::sources::{PassPlace, PlannedEpoch, Sources};
use crate::monitor::Watch;
use crate::shard::Steps;

/// The result of [`Epoch::next_step`], which waits at most a given time for the next batch.
///
/// ```no_run
/// use std::time::Duration;
///
/// use forebay::{Dataset, Wait};
///
/// let loader = Dataset::open("data/train/")?.loader().build()?;
/// let mut epoch = loader.epoch(0);
/// loop {
///     match epoch.next_step(Duration::from_millis(100)) {
///         Wait::Step(step) => {
///             let step = step?;
///             println!("{} rows", step.batch.num_rows());
///             loader.handed_over(&step.after); // from here on a position counts it
///         }
///         Wait::Pending => println!("nothing yet"),
///         Wait::Finished => break,
///     }
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub enum Wait {
    /// A batch, or the reason why there is none.
    Step(Result<Step>),
    /// There is no batch yet.
    Pending,
    /// All batches of the epoch have been returned.
    Finished,
}

/// The batches of one rank and epoch, in order: a blocking iterator of Arrow `RecordBatch`es. Dropping it
/// stops its work at once.
///
/// As an iterator it counts each batch as handed over. A consumer that prefetches uses
/// [`next_step`](Self::next_step) and counts batches itself. After an error the iterator ends.
///
/// ```no_run
/// let loader = forebay::Dataset::open("data/train/")?.loader().build()?;
/// let mut epoch = loader.epoch(0);
/// println!("epoch {} has {} steps", epoch.number(), epoch.remaining());
/// for batch in &mut epoch {
///     println!("{} rows", batch?.num_rows());
/// }
/// println!("{} bad rows were left out", epoch.skipped().len());
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Epoch {
    progress: Arc<Progress>,
    number: u64,
    generation: u64,
    /// The number of steps still to come.
    owed: u64,
    /// Whether the consumer waits for batches here. If not, a layer in between reports the consumer's waits.
    is_consumed: bool,
    /// The work that is left. When there is none, the error that is still to be returned, if any.
    state: Result<Running, Option<Error>>,
    skipped: Vec<BadRow>,
}

/// An epoch that is under way.
struct Running {
    /// The passes over each source.
    feeds: Vec<Feed>,
    /// The course that says which passes give a step its rows; `None` if one source gives all rows.
    course: Option<Course>,
    watch: Watch,
}

/// The passes over one source.
struct Feed {
    /// The number of the present pass, counted in this epoch.
    number: u64,
    pass: Option<Pass>,
    /// The number of its bad rows that were reported.
    reported: usize,
}

/// The course of an epoch over several sources.
struct Course {
    sources: Arc<Sources>,
    mixture: Arc<Mixture>,
    epoch: PlannedEpoch,
    steps: Steps,
    /// The number of rows of all sources and ranks so far.
    row: u64,
    /// The sources and passes whose rows the present step still waits for, and the batches that have arrived.
    awaited: VecDeque<(usize, u64)>,
    taken: Vec<(usize, Step)>,
    /// For each source, the bad rows that were left out of the present pass.
    skipped: Vec<u64>,
}

impl Epoch {
    pub(super) fn begin(sources: &Arc<Sources>, number: Option<u64>) -> Self {
        let mut epoch = Epoch {
            progress: sources.progress.clone(),
            number: 0,
            generation: 0,
            owed: 0,
            is_consumed: true,
            state: Err(None),
            skipped: Vec::new(),
        };
        let running = match &sources.mixture {
            None => epoch.start_alone(sources, number),
            Some(mixture) => epoch.start_mixed(sources, mixture, number),
        };
        epoch.state = running.map_err(Some);
        epoch
    }

    fn start_alone(&mut self, sources: &Sources, number: Option<u64>) -> Result<Running> {
        let begins = |at: &At, generation| (self.number, self.generation) = (at.epoch, generation);
        let pass = sources.begin_alone(number, begins)?;
        self.owed = pass.remaining();
        let watch = pass.watch().clone();
        Ok(Running { feeds: vec![Feed { number: 0, pass: Some(pass), reported: 0 }], course: None, watch })
    }

    fn start_mixed(
        &mut self,
        sources: &Arc<Sources>,
        mixture: &Arc<Mixture>,
        number: Option<u64>,
    ) -> Result<Running> {
        sources.check_usable()?;
        let (at, generation) = sources.progress.begin(number)?;
        (self.number, self.generation) = (at.epoch, generation);
        let (run, split) = mixture.run();
        let plan = mixture.planned(&run, at.epoch)?;
        let step = plan.not_skipped(plan.step_of(at.row));
        self.owed = plan.steps_left(step);
        let watch = Watch::new(&sources.first().monitor);
        watch.assembled();
        watch.begins();
        mixture.begins_until(plan.first_step + step);
        let epoch = PlannedEpoch { number: at.epoch, run, split, plan };
        let course = Course {
            sources: sources.clone(),
            mixture: mixture.clone(),
            steps: epoch.plan.course.steps_from(step),
            row: epoch.plan.taken_before(step).iter().sum(),
            awaited: VecDeque::new(),
            taken: Vec::new(),
            skipped: (0..epoch.plan.sizes.len()).map(|source| at.skipped_of(source)).collect(),
            epoch,
        };
        Ok(Running { feeds: course.feeds()?, course: Some(course), watch })
    }

    /// The number of the epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of steps that are still to come.
    pub fn remaining(&self) -> u64 {
        self.owed
    }

    /// The bad rows of this epoch that were left out so far.
    pub fn skipped(&self) -> &[BadRow] {
        &self.skipped
    }

    /// Takes over the reports of when the consumer waits, for [`Stats`](super::Stats). From here on the epoch
    /// does not report, because its batches are taken by another thread, or are processed before the consumer
    /// has them. `apart` means that they are taken on another thread than the consumer's. `None` if the epoch
    /// did not begin, or is over.
    pub fn consumer(&mut self, apart: bool) -> Option<Consumer> {
        self.is_consumed = false;
        Some(Consumer::new(self.state.as_ref().ok()?.watch.clone(), apart))
    }

    /// Waits at most `timeout` for the next batch. The batch does not count as handed over until its receipt
    /// is passed to [`Loader::handed_over`](super::Loader::handed_over).
    pub fn next_step(&mut self, timeout: Duration) -> Wait {
        let running = match &mut self.state {
            Ok(running) => running,
            Err(failure) => return failure.take().map_or(Wait::Finished, |failure| Wait::Step(Err(failure))),
        };
        if let Err(forked) = running.check_process() {
            self.state = Err(None);
            return Wait::Step(Err(forked));
        }
        let (watch, is_consumed) = (running.watch.clone(), self.is_consumed);
        if self.owed > 0 {
            match running.followed(self.generation) {
                Ok(owed) => self.owed = owed.unwrap_or(self.owed),
                Err(error) => {
                    self.state = Err(None);
                    return Wait::Step(Err(error));
                }
            }
        }
        if self.owed == 0 {
            // The time since the last batch was the consumer's own.
            if is_consumed {
                watch.asks();
                watch.gets_nothing();
            }
            self.state = Err(None);
            return Wait::Finished;
        }
        if is_consumed {
            watch.asks();
        } else {
            watch.works(None);
        }
        let step = caught(|| running.take(self.generation, timeout, &mut self.skipped));
        match step {
            Ok(None) => {
                if is_consumed {
                    watch.pauses();
                }
                Wait::Pending
            }
            Ok(Some(mut step)) => {
                self.owed -= 1;
                step.after.last = self.owed == 0;
                if is_consumed {
                    watch.takes(step.batch.num_rows() as u64);
                } else {
                    watch.hands_over();
                }
                Wait::Step(Ok(step))
            }
            Err(error) => {
                if is_consumed {
                    watch.gets_nothing();
                }
                self.state = Err(None);
                Wait::Step(Err(error))
            }
        }
    }
}

impl Running {
    /// Fails in a forked child.
    fn check_process(&self) -> Result<()> {
        self.feeds.iter().filter_map(|feed| feed.pass.as_ref()).try_for_each(Pass::check_process)
    }

    /// Changes to weights that were set since the last step. Returns the number of steps that are then left;
    /// `None` if no such weights exist.
    fn followed(&mut self, generation: u64) -> Result<Option<u64>> {
        let Some(course) = self.course.as_mut().filter(|course| course.is_outdated(generation)) else {
            return Ok(None);
        };
        let owed = course.follow()?;
        // A pass ends when the next one begins, so none of the old ones is needed.
        self.feeds.clear();
        self.feeds = course.feeds()?;
        Ok(Some(owed))
    }

    /// Takes the next step; `None` if a part of it has not arrived yet.
    fn take(
        &mut self,
        generation: u64,
        timeout: Duration,
        skipped: &mut Vec<BadRow>,
    ) -> Result<Option<Step>> {
        let Some(course) = &mut self.course else { return self.feeds[0].take(timeout, None, skipped) };
        let taken = course.take(&mut self.feeds, generation, timeout, skipped);
        // The time that the consumer spends from now on is its own.
        self.watch.begins();
        if taken? { course.joined(generation).map(Some) } else { Ok(None) }
    }
}

impl Feed {
    /// Takes the next batch; `None` if it has not arrived yet. Also lists the bad rows before it; in a step
    /// with several sources, they come before the next row.
    fn take(
        &mut self,
        timeout: Duration,
        end: Option<u64>,
        skipped: &mut Vec<BadRow>,
    ) -> Result<Option<Step>> {
        let Some(pass) = &mut self.pass else {
            return Err(Error::new(ErrorKind::Internal, "a source that gives no rows"));
        };
        let step = pass.take(timeout);
        let since = pass.skipped()[self.reported..].iter().cloned();
        skipped.extend(since.map(|bad| match end {
            Some(end) => bad.until(end),
            None => bad,
        }));
        self.reported = pass.skipped().len();
        step
    }
}

impl Course {
    /// The passes over the sources from the next step on.
    fn feeds(&self) -> Result<Vec<Feed>> {
        let Course { sources, mixture, epoch, steps, skipped, .. } = self;
        let begun = steps.taken().iter().zip(skipped).enumerate();
        let feed = |(source, (&taken, &skipped)): (usize, (&u64, &u64))| {
            let size = epoch.plan.sizes[source].max(1);
            let place = PassPlace { source, pass: taken / size, row: taken % size, skipped };
            let is_in_epoch = place.pass < epoch.plan.passes_of(source);
            let pass = is_in_epoch.then(|| sources.begin_part(mixture, epoch, place)).transpose()?;
            Ok(Feed { number: place.pass, pass, reported: 0 })
        };
        begun.map(feed).collect()
    }

    /// Whether other weights were set since the plan of this epoch was made, and the next step can have them.
    fn is_outdated(&self, generation: u64) -> bool {
        self.awaited.is_empty()
            && !self.mixture.is_in_force(&self.epoch.run)
            && self.sources.progress.is_last_begun(generation)
    }

    /// Changes to the plan that is in force now, and returns the number of steps that are left.
    fn follow(&mut self) -> Result<u64> {
        let (run, split) = self.mixture.run();
        let plan = self.mixture.planned(&run, self.epoch.number)?;
        let step = plan.not_skipped(self.steps.step());
        self.steps = plan.course.steps_from(step);
        let left = plan.steps_left(step);
        self.epoch = PlannedEpoch { run, split, plan, ..self.epoch };
        Ok(left)
    }

    /// Takes the batches of a step; false if one of them has not arrived yet.
    fn take(
        &mut self,
        feeds: &mut [Feed],
        generation: u64,
        timeout: Duration,
        skipped: &mut Vec<BadRow>,
    ) -> Result<bool> {
        let number = self.epoch.number;
        let early = || Error::new(ErrorKind::Internal, format!("epoch {number} of the mix ended early"));
        if self.awaited.is_empty() {
            let (number, plan) = (self.steps.step(), &self.epoch.plan);
            let next = plan.not_skipped(number);
            if next > number {
                self.steps = plan.course.steps_from(next);
            }
            self.mixture.begins_until(plan.first_step + self.steps.step() + 1);
            let step = self.steps.next().ok_or_else(early)?;
            self.row = step.before.iter().chain(&step.rows).sum();
            for source in 0..feeds.len() {
                let shares = self.epoch.plan.share(&step, source, &self.epoch.split);
                self.awaited.extend(shares.into_iter().map(|(pass, _)| (source, pass)));
            }
        }
        let began = Instant::now();
        while let Some(&(source, pass)) = self.awaited.front() {
            let feed = &mut feeds[source];
            if feed.number != pass || feed.pass.is_none() {
                // A new pass would end the pass of an epoch that was begun since.
                if !self.sources.progress.is_last_begun(generation) {
                    return Err(ended(number, Reason::Superseded));
                }
                feed.pass = None;
                let place = PassPlace { source, pass, row: 0, skipped: 0 };
                let begun = self.sources.begin_part(&self.mixture, &self.epoch, place)?;
                *feed = Feed { number: pass, pass: Some(begun), reported: 0 };
            }
            let left = timeout.saturating_sub(began.elapsed());
            let Some(step) = feed.take(left, Some(self.row), skipped)? else { return Ok(false) };
            self.taken.push((source, step));
            self.awaited.pop_front();
        }
        Ok(true)
    }

    /// Joins the batches of a step into one.
    fn joined(&mut self, generation: u64) -> Result<Step> {
        let taken = std::mem::take(&mut self.taken);
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        for (source, step) in &taken {
            let of = &self.sources.all()[*source];
            self.skipped[*source] = step.after.skipped.first().copied().unwrap_or(0);
            self.mixture.delivered[*source].fetch_add(step.batch.num_rows() as u64, Relaxed);
            numbers.extend(step.after.numbers().iter().map(|number| of.first_number + number));
            keys.extend_from_slice(&step.after.keys(of.collator.seed));
        }
        let batches: Vec<(usize, RecordBatch)> =
            taken.into_iter().map(|(source, step)| (source, step.batch)).collect();
        let batch = self.mixture.joiner.join(&batches)?;
        let after = Receipt {
            generation,
            epoch: self.epoch.number,
            row: self.row,
            skipped: match self.skipped.iter().any(|skipped| *skipped > 0) {
                true => self.skipped.clone().into(),
                false => Arc::default(),
            },
            last: false,
            numbers: numbers.into(),
            keys: Some(keys.into()),
        };
        Ok(Step { batch, after })
    }
}

impl Iterator for Epoch {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        const LONG: Duration = Duration::from_secs(3600);
        loop {
            match self.next_step(LONG) {
                Wait::Pending => {}
                Wait::Finished => return None,
                Wait::Step(step) => {
                    return Some(step.map(|step| {
                        self.progress.handed_over(&step.after);
                        step.batch
                    }));
                }
            }
        }
    }
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch")
            .field("number", &self.number)
            .field("remaining", &self.owed)
            .finish_non_exhaustive()
    }
}
