//! Waits for the row groups that are needed for the next batches, and detects when no more can arrive because
//! fetching waits for memory.

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

/// The time between two checks for a stall. In a stall, fetching waits for memory and no row group arrives.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The time that fetching may wait for memory before the epoch fails, if none is released meanwhile. Memory
/// is also held while rows are written to the cache, and even a slow disk needs less time than this.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The reason why the work on an epoch ends early.
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

/// Receives the row groups of an epoch, in the order in which batches need them.
pub(super) struct Arrivals {
    supply: Supply,
    budget: Budget,
    admission: Arc<Admission>,
    watch: Watch,
    /// Parts (runs of rows of a row group) that were fetched together and are being decoded.
    pending: Option<PendingRowGroups>,
    ready: std::vec::IntoIter<Resident>,
    /// The number of parts that [`next`](Self::next) has returned.
    count: u64,
    /// When fetching began to wait for memory, and how many bytes of the budget were in use at that time.
    stuck: Option<(Instant, u64)>,
    /// The size in bytes of the largest row so far, counting only columns whose values vary in length.
    longest: u64,
}

impl Arrivals {
    pub(super) fn new(supply: Supply, budget: Budget, admission: Arc<Admission>, watch: Watch) -> Self {
        let (pending, ready) = (None, Vec::new().into_iter());
        Arrivals { supply, budget, admission, watch, pending, ready, count: 0, stuck: None, longest: 0 }
    }

    /// The size in bytes of the largest row so far, counting only columns whose values vary in length.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// Whether all row groups are already in memory, so that none has to be waited for.
    pub(super) fn are_at_hand(&self) -> bool {
        matches!(self.supply, Supply::Memory(_))
    }

    /// Whether fetching waits for memory although all parts that have arrived were taken. It is false before
    /// the epoch begins, because then the previous epoch holds memory that it will release.
    pub(super) fn is_stuck(&self) -> bool {
        match &self.supply {
            Supply::Fetched(_, gauge) => self.admission.is_open() && gauge.is_stuck(self.count, &self.budget),
            Supply::Memory(_) => false,
        }
    }

    /// Whether fetching would wait for memory forever: all used memory is `held` by row groups in the window,
    /// or none was released for a long time. If `is_busy`, batches are being made and will release memory.
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

    /// Waits for the next part and its rows. Returns `None` if none can arrive because fetching waits for
    /// memory.
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
            // All parts that were received are taken. If `pending` has no more parts, it is dropped. Its
            // permit, which limits how many row groups are decoded ahead of time, is then free.
            self.pending.take_if(|pending| pending.is_over());
        }
        self.count += 1;
        self.stuck = None;
        Ok(Some((rows.part, rows)))
    }

    /// Waits for the rows of the next parts. Returns false if none can arrive because fetching waits for
    /// memory.
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

    /// Waits until the next parts are fetched. Returns `None` if fetching waits for memory.
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
