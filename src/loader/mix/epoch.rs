//! One epoch of a mix: a blocking iterator that takes the batches of sources in plan order, and joins those of a step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_arrow::array::RecordBatch;
use forebay_base::error::caught;
use forebay_base::{Error, ErrorKind, Result};

use super::Inner;
use crate::loader::bad_rows::BadRow;
use crate::loader::consumer::Consumer;
use crate::loader::epoch::{Epoch, Step, Wait, ended};
use crate::loader::lifecycle::Reason;
use crate::loader::progress::Receipt;
use crate::monitor::Watch;
use crate::shard::{MixSplit, MixedEpoch, Steps};

/// The batches of one rank and epoch of a [`Mix`](crate::Mix), in order. It is used as an [`Epoch`].
///
/// ```no_run
/// # fn run(mix: forebay::Mix) -> forebay::Result<()> {
/// let mut epoch = mix.epoch(0);
/// println!("epoch {} has {} steps", epoch.number(), epoch.remaining());
/// for batch in &mut epoch {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
pub struct MixEpoch {
    mix: Arc<Inner>,
    number: u64,
    generation: u64,
    /// What is left to do; the reason why there is nothing, if it is an error that is still to be returned.
    state: Result<Running, Option<Error>>,
    owed: u64,
    is_consumed: bool,
    skipped: Vec<BadRow>,
}

/// An epoch that is under way.
struct Running {
    plan: Arc<MixedEpoch>,
    split: MixSplit,
    steps: Steps,
    /// Rows of all sources and ranks so far.
    row: u64,
    feeds: Vec<Feed>,
    /// Of the present step: the sources and passes whose rows are still to come, and the batches that came.
    awaited: VecDeque<(usize, u64)>,
    taken: Vec<(usize, Step)>,
    /// Of each source the bad rows that were left out of the pass that is under way.
    skipped: Vec<u64>,
    watch: Watch,
}

/// The passes over one source.
struct Feed {
    /// The pass that is under way, counted in this epoch.
    pass: u64,
    epoch: Option<Epoch>,
    /// Bad rows of it that were reported.
    reported: usize,
}

impl MixEpoch {
    pub(super) fn begin(mix: &Arc<Inner>, number: Option<u64>) -> Self {
        let mut epoch = MixEpoch {
            mix: mix.clone(),
            number: 0,
            generation: 0,
            state: Err(None),
            owed: 0,
            is_consumed: true,
            skipped: Vec::new(),
        };
        epoch.state = epoch.start(number).map_err(Some);
        epoch
    }

    fn start(&mut self, number: Option<u64>) -> Result<Running> {
        let mix = self.mix.clone();
        mix.check_usable()?;
        let (at, generation) = mix.progress.begin(number)?;
        let (number, row) = (at.epoch, at.row);
        (self.number, self.generation) = (number, generation);
        let (run, split) = mix.run();
        let plan = mix.planned(&run, number)?;
        let step = plan.course.step_of(row + if row == 0 { plan.taken.iter().sum() } else { 0 });
        self.owed = plan.course.steps() - step;
        let begun = plan.taken_before(step);
        let watch = Watch::new(&mix.monitor);
        watch.assembled();
        watch.begins();
        let mut feeds = Vec::new();
        for (source, &taken) in begun.iter().enumerate() {
            let size = plan.sizes[source].max(1);
            let mut feed = Feed { pass: taken / size, epoch: None, reported: 0 };
            if feed.pass < plan.passes_of(source) {
                let skipped = at.skipped_of(source);
                feed.epoch =
                    Some(mix.pass(&run, split, number, &plan, source, feed.pass, taken % size, skipped)?);
            }
            feeds.push(feed);
        }
        let steps = plan.course.steps_from(step);
        let row = begun.iter().sum();
        let skipped = (0..feeds.len()).map(|source| at.skipped_of(source)).collect();
        Ok(Running {
            plan,
            split,
            steps,
            row,
            feeds,
            awaited: VecDeque::new(),
            taken: Vec::new(),
            skipped,
            watch,
        })
    }

    /// Which epoch this is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Steps that are still to come.
    pub fn remaining(&self) -> u64 {
        self.owed
    }

    /// Bad rows of this epoch that were left out so far.
    pub fn skipped(&self) -> &[BadRow] {
        &self.skipped
    }

    /// As [`Epoch::consumer`].
    pub fn consumer(&mut self, apart: bool) -> Option<Consumer> {
        self.is_consumed = false;
        Some(Consumer::new(self.state.as_ref().ok()?.watch.clone(), apart))
    }

    /// Waits at most `timeout` for the next batch, as [`Epoch::next_step`].
    pub fn next_step(&mut self, timeout: Duration) -> Wait {
        let running = match &mut self.state {
            Ok(running) => running,
            Err(failure) => return failure.take().map_or(Wait::Finished, |failure| Wait::Step(Err(failure))),
        };
        let watch = running.watch.clone();
        if self.is_consumed {
            watch.asks();
        } else {
            watch.works(None);
        }
        if self.owed == 0 {
            if self.is_consumed {
                watch.gets_nothing();
            }
            self.state = Err(None);
            return Wait::Finished;
        }
        let taken =
            caught(|| running.take(&self.mix, (self.number, self.generation), timeout, &mut self.skipped));
        // What the consumer does with it is its own.
        watch.begins();
        match taken.and_then(|is_whole| if is_whole { self.joined().map(Some) } else { Ok(None) }) {
            Ok(None) => {
                if self.is_consumed {
                    watch.pauses();
                }
                Wait::Pending
            }
            Ok(Some(step)) => {
                if self.is_consumed {
                    watch.takes();
                } else {
                    watch.hands_over();
                }
                Wait::Step(Ok(step))
            }
            Err(error) => {
                if self.is_consumed {
                    watch.gets_nothing();
                }
                self.state = Err(None);
                Wait::Step(Err(error))
            }
        }
    }

    /// The batches of a step as one.
    fn joined(&mut self) -> Result<Step> {
        let mix = &self.mix;
        let Ok(running) = &mut self.state else {
            return Err(Error::new(ErrorKind::Internal, "an epoch that is over"));
        };
        let taken = std::mem::take(&mut running.taken);
        self.owed -= 1;
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        for (source, step) in &taken {
            let of = &mix.sources[*source];
            running.skipped[*source] = step.after.skipped.first().copied().unwrap_or(0);
            mix.delivered[*source].fetch_add(step.batch.num_rows() as u64, Relaxed);
            numbers.extend(step.after.numbers().iter().map(|number| of.first_number + number));
            keys.extend_from_slice(&step.after.keys(of.loader.inner.collator.seed));
        }
        let batches: Vec<(usize, RecordBatch)> =
            taken.into_iter().map(|(source, step)| (source, step.batch)).collect();
        let batch = mix.joiner.join(&batches)?;
        let after = Receipt {
            generation: self.generation,
            epoch: self.number,
            row: running.row,
            skipped: match running.skipped.iter().any(|skipped| *skipped > 0) {
                true => running.skipped.clone().into(),
                false => Arc::default(),
            },
            last: self.owed == 0,
            numbers: numbers.into(),
            keys: Some(keys.into()),
        };
        Ok(Step { batch, after })
    }
}

impl Running {
    /// Takes the batches of a step; false where one of them is still to come.
    fn take(
        &mut self,
        mix: &Inner,
        (number, generation): (u64, u64),
        timeout: Duration,
        skipped: &mut Vec<BadRow>,
    ) -> Result<bool> {
        let early = || Error::new(ErrorKind::Internal, format!("epoch {number} of the mix ended early"));
        if self.awaited.is_empty() {
            let step = self.steps.next().ok_or_else(early)?;
            self.row += step.rows.iter().sum::<u64>();
            for source in 0..self.feeds.len() {
                let shares = self.plan.share(&step, source, &self.split);
                self.awaited.extend(shares.into_iter().map(|(pass, _)| (source, pass)));
            }
        }
        let began = Instant::now();
        while let Some(&(source, pass)) = self.awaited.front() {
            let feed = &mut self.feeds[source];
            if feed.pass != pass || feed.epoch.is_none() {
                // A pass that begins ends the one of an epoch that was begun since.
                if !mix.progress.is_last_begun(generation) {
                    return Err(ended(number, Reason::Superseded));
                }
                let (run, split) = mix.run();
                feed.epoch = None;
                let epoch = mix.pass(&run, split, number, &self.plan, source, pass, 0, 0)?;
                *feed = Feed { pass, epoch: Some(epoch), reported: 0 };
            }
            let Some(epoch) = &mut feed.epoch else { return Err(early()) };
            let waited = epoch.next_step(timeout.saturating_sub(began.elapsed()));
            let since = epoch.skipped()[feed.reported..].iter();
            skipped.extend(since.map(|bad| bad.clone().until(self.row)));
            feed.reported = epoch.skipped().len();
            match waited {
                Wait::Pending => return Ok(false),
                Wait::Finished => return Err(early()),
                Wait::Step(step) => self.taken.push((source, step?)),
            }
            self.awaited.pop_front();
        }
        Ok(true)
    }
}

impl Iterator for MixEpoch {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        const LONG: Duration = Duration::from_secs(3600);
        loop {
            match self.next_step(LONG) {
                Wait::Pending => {}
                Wait::Finished => return None,
                Wait::Step(step) => {
                    return Some(step.map(|step| {
                        self.mix.progress.handed_over(&step.after);
                        step.batch
                    }));
                }
            }
        }
    }
}

impl std::fmt::Debug for MixEpoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MixEpoch")
            .field("number", &self.number)
            .field("remaining", &self.owed)
            .finish_non_exhaustive()
    }
}
