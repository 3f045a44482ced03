//! The epoch that users iterate over: it blocks until the next batch of its rank is ready. A loader of one
//! source takes its batches from a `feed`; in a mix, a `course` joins the batches of several sources.

mod course;
mod feed;

use std::sync::Arc;
use std::time::Duration;

use forebay_arrow::array::RecordBatch;
use forebay_base::Error;
use forebay_base::Result;
use forebay_base::error::caught;

use self::course::{Course, CoursePlace};
use self::feed::Feed;
use super::bad_rows::BadRow;
use super::consumer::Consumer;
use super::mix::Mixture;
use super::pass::{Pass, Step};
use super::progress::{At, Progress};
use super::sources::{PlannedEpoch, Sources};
use crate::monitor::Watch;

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
///             loader.handed_over(&step.after); // positions saved from here on count the batch
///         }
///         Wait::Pending => println!("nothing yet"),
///         Wait::Finished => break,
///     }
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub enum Wait {
    /// The next batch, or the error that ended the epoch.
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
    /// The row of the epoch that the last returned batch ended with.
    reached: u64,
    /// Whether the caller of [`Epoch::next_step`] is the training loop itself. Otherwise a layer in between
    /// reports when the training loop waits.
    is_consumed: bool,
    /// Whether the first row that this epoch delivers may fill batches without rows at its end.
    is_whole: bool,
    /// The running epoch; once it has ended, the error that the next call returns, if any.
    state: Result<Running, Option<Error>>,
    skipped: Vec<BadRow>,
}

/// An epoch whose batches are being made.
struct Running {
    passes: Passes,
    watch: Watch,
}

/// Where the batches of an epoch come from.
enum Passes {
    /// One pass over the only source.
    Alone(Box<Feed>),
    /// Passes over several sources.
    Mixed(Box<Course>),
}

impl Epoch {
    fn new(sources: &Arc<Sources>) -> Self {
        Epoch {
            progress: sources.progress.clone(),
            number: 0,
            generation: 0,
            owed: 0,
            reached: 0,
            is_consumed: true,
            is_whole: false,
            state: Err(None),
            skipped: Vec::new(),
        }
    }

    pub(super) fn begin(sources: &Arc<Sources>, number: Option<u64>) -> Self {
        let mut epoch = Epoch::new(sources);
        let running = match &sources.mixture {
            None => epoch.start_alone(sources, number),
            Some(mixture) => epoch.start_mixed(sources, mixture, number),
        };
        epoch.state = running.map_err(Some);
        epoch
    }

    /// Begins to read an epoch again from its first row, without counting its rows.
    pub(super) fn again(sources: &Arc<Sources>, number: u64) -> Self {
        // Receipts of this epoch move a progress of its own, which nobody reads.
        let (generation, progress) = (sources.progress.generation(), Arc::default());
        let mut epoch = Epoch { number, generation, progress, ..Epoch::new(sources) };
        let running = match &sources.mixture {
            None => sources.first().read_again(number).map(|pass| epoch.of_pass(pass)),
            Some(mixture) => epoch.mixed_from(sources, mixture, &At::begin(number), true),
        };
        epoch.state = running.map_err(Some);
        epoch
    }

    fn start_alone(&mut self, sources: &Sources, number: Option<u64>) -> Result<Running> {
        let begins = |at: &At, generation| (self.number, self.generation) = (at.epoch, generation);
        let pass = sources.begin_alone(number, begins)?;
        Ok(self.of_pass(pass))
    }

    fn of_pass(&mut self, pass: Pass) -> Running {
        self.owed = pass.remaining();
        self.is_whole = pass.is_whole();
        let watch = pass.watch().clone();
        Running { passes: Passes::Alone(Box::new(Feed::new(0, Some(pass)))), watch }
    }

    fn start_mixed(
        &mut self,
        sources: &Arc<Sources>,
        mixture: &Arc<Mixture>,
        number: Option<u64>,
    ) -> Result<Running> {
        sources.check_usable()?;
        let (at, generation) = sources.progress.begin(number)?;
        (self.number, self.generation, self.reached) = (at.epoch, generation, at.row);
        self.mixed_from(sources, mixture, &at, false)
    }

    /// Begins an epoch of a mix at a row. `stands_in` means that it is read only to find a row that fills
    /// batches without rows.
    fn mixed_from(
        &mut self,
        sources: &Arc<Sources>,
        mixture: &Arc<Mixture>,
        at: &At,
        stands_in: bool,
    ) -> Result<Running> {
        let (run, split) = mixture.run();
        let plan = mixture.planned(&run, at.epoch)?;
        let step = plan.not_skipped(plan.step_of(at.row));
        self.owed = plan.steps_left(step);
        let watch = Watch::new(&sources.first().monitor);
        watch.assembled();
        watch.begins();
        if !stands_in {
            mixture.begins_until(plan.first_step + step);
        }
        let skipped = (0..plan.sizes.len()).map(|source| at.skipped_of(source)).collect();
        let epoch = PlannedEpoch { number: at.epoch, run, split, plan };
        let from = CoursePlace { step, skipped };
        let course = Course::new(sources.clone(), mixture.clone(), epoch, from, stands_in)?;
        self.is_whole = course.is_whole();
        Ok(Running { passes: Passes::Mixed(Box::new(course)), watch })
    }

    /// The number of the epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of steps that are still to come.
    pub fn remaining(&self) -> u64 {
        self.owed
    }

    /// Whether the first row that this epoch delivers may fill batches without rows at its end: the epoch
    /// began with its first row, and none of its rows may be denied at a later step.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The bad rows of this epoch that were left out so far.
    pub fn skipped(&self) -> &[BadRow] {
        &self.skipped
    }

    /// Lets a layer between the epoch and the training loop report when the training loop waits, for
    /// [`Stats`](super::Stats). From then on the epoch itself does not report it. `apart` means that another
    /// thread than the training loop's takes the batches. `None` if the epoch could not begin, or has ended.
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
                Ok(owed) => {
                    self.owed = owed.unwrap_or(self.owed);
                    if self.owed == 0 {
                        self.progress.ends_at(self.generation, self.reached);
                    }
                }
                Err(error) => {
                    self.state = Err(None);
                    return Wait::Step(Err(error));
                }
            }
        }
        if self.owed == 0 {
            // The last batch was taken before, so the time since then is counted as the consumer's own work.
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
                self.reached = step.after.row;
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
        match &self.passes {
            Passes::Alone(feed) => feed.check_process(),
            Passes::Mixed(course) => course.check_process(),
        }
    }

    /// Takes over mixing weights that were set since the last step. Returns the number of steps that are then
    /// left; `None` if the weights are unchanged.
    fn followed(&mut self, generation: u64) -> Result<Option<u64>> {
        match &mut self.passes {
            Passes::Mixed(course) if course.is_outdated(generation) => course.follow().map(Some),
            _ => Ok(None),
        }
    }

    /// Takes the next step; `None` if one of its batches has not arrived in time.
    fn take(
        &mut self,
        generation: u64,
        timeout: Duration,
        skipped: &mut Vec<BadRow>,
    ) -> Result<Option<Step>> {
        match &mut self.passes {
            Passes::Alone(feed) => {
                let taken = feed.take(timeout);
                skipped.extend(feed.found());
                Ok(taken?.map(|made| made.step))
            }
            Passes::Mixed(course) => {
                let taken = course.next(generation, timeout, skipped);
                // Each pass over a source has a watch of its own, which `next` may have begun. From here on,
                // the epoch's watch records the consumer's time.
                self.watch.begins();
                taken
            }
        }
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
