//! Row groups as they arrive for assembly, and whether waiting for the next one can end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;

use super::admission::{Admission, Stopped};
use super::prefetch::{RowGroupQueue, ended_early};
use crate::error::Error;
use crate::monitor::Watch;
use crate::reader::Resident;
use crate::reader::budget::Budget;
use crate::reader::fetch::Gauge;
use crate::shard::Part;

/// Between two looks at whether waiting can end at all.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How long fetching may wait for memory that others hold and nobody gives back, before that is an error: a disk that is
/// written to may be slow, but not for so long.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The end of an epoch's work before its time.
pub(super) enum Interrupt {
    /// Nobody wants it any more.
    Stopped,
    /// It cannot go on.
    Failed(Error),
}

impl From<Stopped> for Interrupt {
    fn from(_: Stopped) -> Self {
        Interrupt::Stopped
    }
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Interrupt::Failed(error)
    }
}

/// What assembly waits for before it can make a batch.
pub(super) struct Arrivals {
    queue: RowGroupQueue,
    gauge: Arc<Gauge>,
    budget: Budget,
    admission: Arc<Admission>,
    watch: Watch,
    /// Parts that arrived.
    count: u64,
    /// Since when fetching waits for memory while so many bytes are granted.
    stuck: Option<(Instant, u64)>,
    /// The most bytes that a row took so far in columns whose values differ in length.
    longest: u64,
}

impl Arrivals {
    pub(super) fn new(
        (queue, gauge): (RowGroupQueue, Arc<Gauge>),
        budget: Budget,
        admission: Arc<Admission>,
        watch: Watch,
    ) -> Self {
        Arrivals { queue, gauge, budget, admission, watch, count: 0, stuck: None, longest: 0 }
    }

    /// The most bytes that a row took so far in columns whose values differ in length.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// Whether fetching waits for memory, with everything taken in that came before. Before the epoch begins that is no
    /// reason for anything: the one under way has the memory.
    pub(super) fn is_stuck(&self) -> bool {
        self.admission.is_open() && self.gauge.is_stuck(self.count, &self.budget)
    }

    /// Whether fetching would wait for ever: all that is granted is `held` by the window, or nobody else gave anything back
    /// for long. Batches in the making, which say that assembly `is_busy`, will.
    pub(super) fn is_hopeless(&mut self, held: u64, is_busy: bool) -> bool {
        let used = self.budget.used();
        if is_busy || !self.is_stuck() || self.stuck.is_none_or(|(_, before)| before != used) {
            self.stuck = Some((Instant::now(), used));
        }
        let waited = self.stuck.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        !is_busy && self.is_stuck() && (used <= held || waited > STALL_TIMEOUT)
    }

    /// Waits for the next part and its rows; `None` where fetching waits for memory meanwhile.
    pub(super) fn next(&mut self) -> Result<Option<(Part, Resident)>, Interrupt> {
        let starved = self.watch.starved();
        let arrived = loop {
            match self.queue.next(STALL_CHECK_INTERVAL) {
                Ok(arriving) => break arriving?,
                Err(RecvTimeoutError::Disconnected) if self.admission.is_stopped() => {
                    return Err(Interrupt::Stopped);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early().into()),
                Err(RecvTimeoutError::Timeout) if self.is_stuck() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.count += 1;
        self.stuck = None;
        let part = arrived.part;
        let (rows, longest) = arrived.wait()?;
        drop(starved);
        self.longest = self.longest.max(longest);
        Ok(Some((part, rows)))
    }
}
