//! Waits for row groups that assembly needs, and finds out whether a wait for the next one can end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use forebay_base::{Error, ErrorKind};

use super::admission::{Admission, Stopped};
use super::prefetch::{RowGroupQueue, ended_early};
use super::row_groups::PendingRowGroups;
use super::staying::StayingParts;
use crate::monitor::Watch;
use crate::reader::Resident;
use crate::reader::budget::{Budget, words};
use crate::reader::fetch::Gauge;
use crate::shard::Part;

/// The time between two checks whether a wait can end at all.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How long fetching may wait for memory that is held and not released before that is an error. A disk that
/// is written to may be slow, but not for that long.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The early end of the work of an epoch.
pub(super) enum Interrupt {
    /// The epoch is no longer wanted.
    Stopped,
    /// The epoch failed.
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

/// Where the row groups of an epoch arrive from.
pub(super) enum Supply {
    /// The row groups are fetched and decoded while the epoch runs.
    Fetched(RowGroupQueue, Arc<Gauge>),
    /// The rows of all row groups stay in memory, and nothing is fetched.
    Memory(StayingParts),
}

/// The row groups that assembly waits for before it can make a batch.
pub(super) struct Arrivals {
    supply: Supply,
    budget: Budget,
    admission: Arc<Admission>,
    watch: Watch,
    /// The parts whose rows are being awaited, with the rows that have already come.
    pending: Option<PendingRowGroups>,
    ready: std::vec::IntoIter<Resident>,
    /// The number of parts that assembly has taken.
    count: u64,
    /// The time since which fetching waits for memory, and the bytes granted at that time.
    stuck: Option<(Instant, u64)>,
    /// The bytes of the longest row so far, in columns whose values differ in length.
    longest: u64,
}

impl Arrivals {
    pub(super) fn new(supply: Supply, budget: Budget, admission: Arc<Admission>, watch: Watch) -> Self {
        let (pending, ready) = (None, Vec::new().into_iter());
        Arrivals { supply, budget, admission, watch, pending, ready, count: 0, stuck: None, longest: 0 }
    }

    /// The bytes of the longest row so far, in columns whose values differ in length.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// Whether no row group has to be waited for.
    pub(super) fn are_at_hand(&self) -> bool {
        matches!(self.supply, Supply::Memory(_))
    }

    /// Whether fetching waits for memory after all arrivals were taken in. Before the epoch begins this means
    /// nothing: the epoch under way has the memory.
    pub(super) fn is_stuck(&self) -> bool {
        match &self.supply {
            Supply::Fetched(_, gauge) => self.admission.is_open() && gauge.is_stuck(self.count, &self.budget),
            Supply::Memory(_) => false,
        }
    }

    /// Whether fetching would wait for ever: all granted memory is `held` by the window, or none was released
    /// for a long time. If `is_busy`, batches are being made, which will release memory.
    pub(super) fn is_hopeless(&mut self, held: u64, is_busy: bool) -> bool {
        let used = self.budget.used();
        if is_busy || !self.is_stuck() || self.stuck.is_none_or(|(_, before)| before != used) {
            self.stuck = Some((Instant::now(), used));
        }
        let waited = self.stuck.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        !is_busy && self.is_stuck() && (used <= held || waited > STALL_TIMEOUT)
    }

    /// The error for a batch that needs more row groups than fit the memory.
    pub(super) fn do_not_fit(&self, row_groups: usize) -> Error {
        let budget = words(self.budget.bytes());
        let cause = format!(
            "the {row_groups} row groups that one batch needs do not fit the memory budget of {budget} together"
        );
        let hint = "raise `memory`, or use fewer lanes, a smaller window or smaller batches";
        let has_cache = matches!(&self.supply, Supply::Fetched(_, gauge) if gauge.has_cache());
        Error::new(ErrorKind::TooLarge, cause).hint(match has_cache {
            true => format!(
                "{hint}; rows in the cache would need no memory, and its stats() say why it has not kept them"
            ),
            false => hint.into(),
        })
    }

    /// Waits for the next part and its rows; `None` if fetching waits for memory meanwhile.
    pub(super) fn next(&mut self) -> Result<Option<(Part, Resident)>, Interrupt> {
        if let Supply::Memory(parts) = &mut self.supply {
            let (resident, longest) = parts.next()?;
            self.longest = self.longest.max(longest);
            return Ok(Some((resident.part, resident)));
        }
        if self.ready.as_slice().is_empty() && !self.receive()? {
            return Ok(None);
        }
        let Some(rows) = self.ready.next() else { return Ok(None) };
        if self.ready.as_slice().is_empty() {
            // When the last of these parts is taken, they return the permit that limits how much is decoded
            // ahead.
            self.pending.take_if(|pending| pending.is_over());
        }
        self.count += 1;
        self.stuck = None;
        Ok(Some((rows.part, rows)))
    }

    /// Waits for the rows of the next parts; false if fetching waits for memory meanwhile.
    fn receive(&mut self) -> Result<bool, Interrupt> {
        let watch = self.watch.clone();
        let starved = watch.starved();
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => match self.wait_for_next()? {
                Some(pending) => pending,
                None => return Ok(false),
            },
        };
        let rows = pending.wait()?;
        drop(starved);
        watch.admits(rows.len());
        self.longest = self.longest.max(pending.longest());
        (self.pending, self.ready) = (Some(pending), rows.into_iter());
        Ok(true)
    }

    /// Waits until the next parts are fetched.
    fn wait_for_next(&self) -> Result<Option<PendingRowGroups>, Interrupt> {
        loop {
            let Supply::Fetched(queue, _) = &self.supply else { return Ok(None) };
            match queue.next(STALL_CHECK_INTERVAL) {
                Ok(arriving) => return Ok(Some(arriving?)),
                Err(RecvTimeoutError::Disconnected) if self.admission.is_stopped() => {
                    return Err(Interrupt::Stopped);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early().into()),
                Err(RecvTimeoutError::Timeout) if self.is_stuck() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
