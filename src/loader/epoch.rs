//! One pass over a rank's share: a blocking iterator of batches.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use forebay_arrow::array::RecordBatch;
use forebay_base::{Error, ErrorKind, Result};

use super::bad_rows::BadRow;
use super::collate::Collated;
use super::consumer::Consumer;
use super::hand_over::PendingBatch;
use super::lifecycle::Reason;
use super::pipe::BatchReceiver;
use super::progress::{Progress, Receipt};
use super::refill::{Refill, StandIn, Taken};
use crate::monitor::Monitor;

/// A batch, and its receipt. See [`Wait`] for an example.
#[derive(Clone, Debug)]
pub struct Step {
    /// The rows of this rank.
    pub batch: RecordBatch,
    /// Pass it to [`Loader::handed_over`](super::Loader::handed_over) when the consumer has the batch.
    pub after: Receipt,
}

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
    /// Nothing yet.
    Pending,
    /// All batches of the epoch were returned.
    Finished,
}

/// Whose waits the waits for batches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// The consumer's.
    Consumer,
    /// Those of a layer before it, which reports the consumer's.
    Layer,
    /// Those of an epoch that takes the batches of several sources.
    Mix,
}

/// The batches of one rank and epoch, in order: a blocking iterator of Arrow `RecordBatch`es. Dropping it stops its work at
/// once.
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
    pub(super) number: u64,
    /// Steps still to come: an epoch that ends before them is an error.
    pub(super) owed: u64,
    /// The pipe; once it is gone, the error that is still to be returned, if any.
    pub(super) receiver: Result<BatchReceiver, Option<Error>>,
    pub(super) pending: Option<PendingBatch>,
    pub(super) progress: Arc<Progress>,
    pub(super) generation: u64,
    pub(super) monitor: Arc<Monitor>,
    pub(super) counting: Counting,
    /// The batches that came in.
    pub(super) refill: Refill,
    /// Bad rows of the batches that were returned.
    pub(super) skipped: usize,
    pub(super) beginning: Beginning,
}

/// The beginning of the epoch, where the first row that can be delivered is.
pub(super) enum Beginning {
    /// It is in this iterator.
    Here,
    /// It is before the row at which this iterator began; how to begin there.
    Before(Box<dyn FnOnce() -> Option<Epoch> + Send>),
    /// It is being read.
    Read(Box<Epoch>),
}

impl Epoch {
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
        &self.refill.bad()[..self.skipped]
    }

    /// Takes over reporting when the consumer waits, for [`Stats`](super::Stats). From here on the epoch does not,
    /// because its batches are taken by another thread, or are processed before the consumer has them. `apart` means
    /// that they are taken on another thread than the consumer's. `None` if the epoch did not begin, or is over.
    pub fn consumer(&mut self, apart: bool) -> Option<Consumer> {
        self.counting = Counting::Layer;
        Some(Consumer::new(self.receiver.as_ref().ok()?.watch.clone(), apart))
    }

    /// Waits at most `timeout` for the next batch. The batch does not count as handed over until its receipt is
    /// passed to [`Loader::handed_over`](super::Loader::handed_over).
    pub fn next_step(&mut self, timeout: Duration) -> Wait {
        let receiver = match &mut self.receiver {
            Ok(receiver) => receiver,
            Err(failure) => return failure.take().map_or(Wait::Finished, |failure| Wait::Step(Err(failure))),
        };
        if let Err(forked) = receiver.check_process() {
            self.receiver = Err(None);
            return Wait::Step(Err(forked));
        }
        if self.owed == 0 {
            // The time since the last batch was the consumer's own.
            if self.counting == Counting::Consumer {
                receiver.watch.asks();
                receiver.watch.gets_nothing();
            }
            self.receiver = Err(None);
            return Wait::Finished;
        }
        // The beginning of the epoch is read once the last batch of it came.
        let all_came = self.refill.waiting() == self.owed;
        if let Some(ended) = ended_from_outside(receiver, self.number).filter(|_| !all_came) {
            self.receiver = Err(None);
            return Wait::Step(Err(ended));
        }
        let watch = receiver.watch.clone();
        match self.counting {
            Counting::Consumer => watch.asks(),
            Counting::Layer => watch.works(None),
            Counting::Mix => watch.begins(),
        }
        let began = Instant::now();
        let mut step = Ok(None);
        while self.refill.is_empty_handed() {
            let left = timeout.saturating_sub(began.elapsed());
            let came = match self.refill.waiting() == self.owed {
                true => self.fill_the_last(left),
                false => self.take_in(left),
            };
            match came {
                Ok(true) => {}
                Ok(false) => {
                    if self.counting == Counting::Consumer {
                        watch.pauses();
                    }
                    return Wait::Pending;
                }
                Err(error) => {
                    // Those of batches that cannot be returned are listed too.
                    self.count_skipped(self.refill.bad().len());
                    step = Err(error);
                    break;
                }
            }
        }
        if step.is_ok() {
            step = Ok(self.refill.pop());
        }
        let step = match step {
            Ok(Some(taken)) => Ok(self.accept(taken)),
            Ok(None) => Err(self.cut_short()),
            Err(error) => Err(error),
        };
        match step {
            Ok(step) => {
                match self.counting {
                    Counting::Consumer => watch.takes(),
                    Counting::Layer => watch.hands_over(),
                    Counting::Mix => watch.leaves(),
                }
                Wait::Step(Ok(step))
            }
            Err(error) => {
                if self.counting == Counting::Consumer {
                    watch.gets_nothing();
                }
                if let Ok(receiver) = &self.receiver {
                    receiver.failed();
                }
                self.receiver = Err(None);
                Wait::Step(Err(error))
            }
        }
    }

    /// Waits for the next pending batch, and then until it is made.
    fn receive(&mut self, timeout: Duration) -> Result<Result<Collated>, RecvTimeoutError> {
        let Ok(receiver) = &self.receiver else { return Err(RecvTimeoutError::Disconnected) };
        let began = Instant::now();
        let left = || timeout.saturating_sub(began.elapsed());
        if self.pending.is_none() {
            self.pending = Some(receiver.batches.recv_timeout(left())?);
        }
        let Some(PendingBatch { made, .. }) = &self.pending else {
            return Err(RecvTimeoutError::Disconnected);
        };
        match made.try_recv() {
            Some(made) => Ok(made),
            None => {
                receiver.watch.making();
                made.recv_timeout(left())
            }
        }
    }

    /// Waits for the next batch and takes it in; false where it is still to come.
    fn take_in(&mut self, timeout: Duration) -> Result<bool> {
        let received = match self.receive(timeout) {
            Ok(made) => made,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(self.cut_short()),
        };
        // The permit is returned last: a thread that waits for it starts work at once, and would take the processor
        // from this one.
        let (end, padded, _permit) = match self.pending.take() {
            Some(PendingBatch { end, padded, permit, memory, .. }) => (end, padded, (permit, memory)),
            None => (0, 0, (None, None)),
        };
        let is_whole = matches!(self.beginning, Beginning::Here);
        received.and_then(|made| self.refill.push(Taken { made, end, padded }, is_whole)).map(|()| true)
    }

    /// Fills the last batches of the epoch, which are empty, with its first row that can be delivered; false where that is still
    /// to come.
    fn fill_the_last(&mut self, timeout: Duration) -> Result<bool> {
        if self.refill.fill_with_first()? {
            return Ok(true);
        }
        if let Beginning::Before(begin) = std::mem::replace(&mut self.beginning, Beginning::Here)
            && let Some(epoch) = begin()
        {
            self.beginning = Beginning::Read(Box::new(epoch));
        }
        let Beginning::Read(epoch) = &mut self.beginning else { return Err(self.nothing_to_deliver()) };
        let waited = epoch.next_step(timeout);
        match waited {
            Wait::Pending => Ok(false),
            Wait::Finished => Err(self.nothing_to_deliver()),
            Wait::Step(step) => {
                let Step { batch, after } = step?;
                self.refill.set_first(StandIn::first_of(&batch, &after.numbers, after.keys.as_deref())?);
                self.beginning = Beginning::Here;
                Ok(true)
            }
        }
    }

    fn nothing_to_deliver(&self) -> Error {
        let cause = format!("no row of this rank's in epoch {} can be delivered", self.number);
        let error = match self.refill.bad().first() {
            Some(first) => {
                first.error().of_kind(ErrorKind::BadRow).about(&format!("{cause}, the first because"))
            }
            None => Error::new(ErrorKind::BadRow, cause),
        };
        error.hint_if_none("mend the rows, or leave them out with `deny`")
    }

    /// Counts the bad rows until so many were returned.
    fn count_skipped(&mut self, until: usize) {
        self.monitor.skipped.fetch_add((until - self.skipped) as u64, Relaxed);
        self.skipped = until;
    }

    fn accept(&mut self, Taken { made, end, padded }: Taken) -> Step {
        let skipped = self.refill.skipped_until(end);
        self.count_skipped((skipped - self.refill.before()) as usize);
        self.monitor.padded.fetch_add(padded, Relaxed);
        self.owed -= 1;
        if let (0, Ok(receiver)) = (self.owed, &self.receiver) {
            receiver.finished();
        }
        let after = Receipt {
            generation: self.generation,
            epoch: self.number,
            row: end,
            skipped: if skipped > 0 { [skipped].into() } else { Arc::default() },
            last: self.owed == 0,
            numbers: made.numbers,
            keys: made.keys,
        };
        Step { batch: made.batch, after }
    }

    fn cut_short(&self) -> Error {
        let ended =
            self.receiver.as_ref().ok().and_then(|receiver| ended_from_outside(receiver, self.number));
        ended.unwrap_or_else(|| {
            Error::new(ErrorKind::Internal, format!("epoch {} ended {} steps early", self.number, self.owed))
        })
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

/// Why no batch comes any more, if the loader ended the epoch: also those that were made before.
fn ended_from_outside(receiver: &BatchReceiver, number: u64) -> Option<Error> {
    match receiver.abandoned()? {
        Reason::Left | Reason::Failed => None,
        reason => Some(ended(number, reason)),
    }
}

/// The error of who asks for a batch of an epoch that was ended before its time.
pub fn ended(number: u64, reason: Reason) -> Error {
    let (why, next) = match reason {
        Reason::Closed => return Error::closed(),
        Reason::Left => ("it was closed", "iterate over the loader again"),
        Reason::Superseded => (
            "another epoch was begun",
            "a loader has one epoch at a time; make another loader for a second one",
        ),
        Reason::Restored => ("a state was loaded", "iterate over the loader again"),
        Reason::Warmed => ("the cache was warmed", "iterate over the loader again"),
        Reason::Failed => ("a batch could not be made", "see the error of that batch"),
    };
    Error::new(ErrorKind::Closed, format!("epoch {number} was ended: {why}")).hint(next)
}
