//! The assembly of batches: follows the walk, waits for parts, hands out the making of batches, lets parts go.
//!
//! Small batches are made in gangs: several steps at once, so that a row group's column is read while it is in the
//! processor's cache. A group is never kept waiting for a part that has not arrived.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use rayon::ThreadPool;

use super::collate::{BatchRows, Collated, Collator};
use super::prefetch::{Cancel, RowGroupQueue, ended_early};
use super::queue::{self, queue};
use super::semaphore::{BatchPermit, BatchSemaphore, BytesPermit};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Stage, Watch};
use crate::reader::Resident;
use crate::reader::budget::Budget;
use crate::reader::fetch::Gauge;
use crate::shard::{Part, PlannedStep, Walk};
use crate::shuffle::Window;

/// Between two looks at whether waiting can end at all.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How long fetching may wait for memory that others hold and nobody gives back, before that is an error: a disk that is
/// written to may be slow, but not for so long.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// How far back a group looks for a source that it has already.
const SOURCES_REMEMBERED: usize = 8;

/// A batch that is being made.
pub(crate) struct Pending {
    pub(crate) made: queue::Receiver<Result<Collated>>,
    /// The global row after it.
    pub(crate) end: u64,
    pub(crate) padded: u64,
    /// Given back when the consumer has it; the first batch of an epoch has none.
    pub(crate) place: Option<BatchPermit>,
    /// Its memory, where that depends on how long its values are; given back likewise.
    pub(crate) load: Option<BytesPermit>,
}

/// Follows the walk: waits for parts, hands out the making of batches, lets parts go.
pub(super) struct Assembly {
    pub(super) pool: Arc<ThreadPool>,
    pub(super) collator: Arc<Collator>,
    pub(super) watch: Watch,
    pub(super) number: u64,
    pub(super) off: Arc<AtomicBool>,
    pub(super) stopped: Receiver<()>,
    /// Whether the epoch was begun; before that nobody waits for it.
    pub(super) begun: Arc<AtomicBool>,
    /// Closed when it begins.
    pub(super) opened: Receiver<()>,
    /// Closed when the one before it has no more batches to make.
    pub(super) before: Receiver<()>,
    /// Dropped when this one has none.
    pub(super) _over: Sender<()>,
    pub(super) permits: BatchSemaphore,
    pub(super) arriving: RowGroupQueue,
    /// Parts that arrived.
    pub(super) arrived: u64,
    /// Ends the fetching.
    pub(super) feed: Cancel,
    pub(super) gauge: Arc<Gauge>,
    pub(super) budget: Budget,
    /// Since when fetching waits for memory while so many bytes are granted.
    pub(super) stuck: Option<(Instant, u64)>,
    /// Held by every job that has not finished: they give memory back without anybody's help.
    pub(super) running: Arc<()>,
    /// Held by the memory of every batch that the consumer has not taken.
    pub(super) loads: Arc<()>,
    /// The most bytes that a row took so far in columns whose values differ in length.
    pub(super) longest: u64,
    pub(super) window: Window<Resident>,
    /// Steps that are made together at present: one at first, so that the first batch is not held up.
    pub(super) group: usize,
    pub(super) hand_over: queue::Sender<Pending>,
    /// Whether no batch was handed over yet.
    pub(super) is_first: bool,
    /// The step at which the next epoch is prepared.
    pub(super) next_at: u64,
    /// What to do then.
    pub(super) then: Then,
}

/// What is left to do for an epoch that was begun.
pub(super) type Then = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Does what is left to do; whether there was anything.
fn go_on(then: &Then) -> bool {
    let then = then.lock().unwrap_or_else(PoisonError::into_inner).take();
    then.map(|then| then()).is_some()
}

/// The rows of a step.
struct Listed {
    sources: Vec<Arc<Resident>>,
    /// Source and row in it.
    picks: Vec<(u32, u32)>,
    /// What the batch will take; 0 where all rows take the same.
    bytes: u64,
}

/// Steps whose batches are made together.
#[derive(Default)]
struct BatchGroup {
    sources: Vec<Arc<Resident>>,
    picks: Vec<(u32, u32)>,
    bytes: u64,
    members: Vec<Member>,
}

/// One step of a group.
struct Member {
    rows: usize,
    end: u64,
    padded: u64,
}

impl BatchGroup {
    fn add(&mut self, Listed { sources, picks, bytes }: Listed, end: u64, padded: u64) {
        self.bytes += bytes;
        self.members.push(Member { rows: picks.len(), end, padded });
        // Steps in a row mostly draw from the same few parts.
        let place = |source: Arc<Resident>| {
            let known = self
                .sources
                .iter()
                .rev()
                .take(SOURCES_REMEMBERED)
                .position(|known| Arc::ptr_eq(known, &source));
            match known {
                Some(back) => (self.sources.len() - 1 - back) as u32,
                None => {
                    self.sources.push(source);
                    self.sources.len() as u32 - 1
                }
            }
        };
        let places: Vec<u32> = sources.into_iter().map(place).collect();
        self.picks.extend(picks.into_iter().map(|(source, row)| (places[source as usize], row)));
    }
}

/// The end of an epoch's work before its time.
enum Stop {
    /// Nobody wants it any more.
    Left,
    /// It cannot go on.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl Assembly {
    pub(super) fn run(mut self, walk: Walk) {
        // Ends when the work is done, or when nobody wants it any more.
        let followed = self.follow(walk);
        self.watch.assembled();
        // What has not come is of no use any more: parts of which no row is for this rank.
        self.feed.cancel();
        if followed.is_ok() {
            let (opened, stopped, then) = (self.opened.clone(), self.stopped.clone(), self.then.clone());
            drop(self);
            let is_begun = select! {
                recv(opened) -> _ => true,
                recv(stopped) -> _ => false,
            };
            if is_begun {
                go_on(&then);
            }
        }
    }

    fn follow(&mut self, walk: Walk) -> Result<(), Stop> {
        let mut goes_on = false;
        let mut group = BatchGroup::default();
        for (steps, step) in (0..).zip(walk) {
            if !goes_on && steps >= self.next_at && self.is_begun() {
                goes_on = go_on(&self.then);
            }
            let (end, padded) = (step.end, step.padded);
            let full = group.members.len() >= self.group;
            if full || !step.parts.iter().all(|part| self.window.get(part).is_some()) {
                // Nothing is kept waiting for a row group that has not arrived.
                self.launch(std::mem::take(&mut group))?;
                self.group = if full { (self.group * 2).min(self.collator.group) } else { self.group };
            }
            if steps == 1 {
                self.await_turn()?;
            }
            match self.assemble(step) {
                Ok(listed) => group.add(listed, end, padded),
                Err(Stop::Left) => return Err(Stop::Left),
                Err(Stop::Failed(error)) => {
                    self.launch(group)?;
                    let (send, made) = queue();
                    let _ = send.send(Err(error));
                    return self.pass_on(Pending { made, end, padded, place: None, load: None });
                }
            }
        }
        self.launch(group)
    }

    /// Starts the making of a group's batches and queues them for the consumer.
    fn launch(&mut self, group: BatchGroup) -> Result<(), Stop> {
        let BatchGroup { sources, picks, bytes, members } = group;
        if members.is_empty() {
            return Ok(());
        }
        let mut load = if bytes > 0 { Some(self.load(bytes)?) } else { None };
        let (sends, pending): (Vec<_>, Vec<_>) = members
            .into_iter()
            .map(|Member { rows, end, padded }| {
                let (send, made) = queue();
                ((rows, send), Pending { made, end, padded, place: None, load: load.take() })
            })
            .unzip();
        let (collator, cancelled) = (self.collator.clone(), self.off.clone());
        let (running, watch) = (self.running.clone(), self.watch.clone());
        self.watch.count(Stage::Shuffle, picks.len() as u64, 0);
        BatchRows { collator, sources, picks, epoch: self.number, cancelled, watch, _running: running }
            .start(&self.pool, sends);
        pending.into_iter().try_for_each(|pending| self.pass_on(pending))
    }

    /// Waits for the parts of a step and lists its rows.
    fn assemble(&mut self, step: PlannedStep) -> Result<Listed, Stop> {
        let PlannedStep { parts, mut picks, mut leaving, .. } = step;
        let used: HashSet<&Part> = if leaving.is_empty() { HashSet::new() } else { parts.iter().collect() };
        for unused in leaving.extract_if(.., |part| !used.contains(part)) {
            self.window.let_go(&unused);
        }
        let mut sources: Vec<Option<Arc<Resident>>> = vec![None; parts.len()];
        for (at, part) in parts.iter().enumerate() {
            while sources[at].is_none() {
                if let Some(resident) = self.window.get(part).cloned() {
                    sources[at] = Some(resident);
                    break;
                }
                if self.is_stuck() {
                    self.make_room(&mut leaving, &parts, &mut sources, &mut picks)?;
                    if self.is_hopeless() {
                        let cause =
                            "the row groups that one batch needs do not fit the memory budget together";
                        let hint = "raise memory, or use fewer lanes, a smaller window or smaller batches";
                        return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint).into());
                    }
                }
                self.await_arrival()?;
            }
        }
        let sources: Vec<Arc<Resident>> = sources.into_iter().flatten().collect();
        leaving.iter().for_each(|part| self.window.let_go(part));
        let bytes = self.collator.weigh(&self.permits, self.longest, &sources, &picks)?;
        Ok(Listed { sources, picks, bytes })
    }

    /// Whether fetching waits for memory, with everything taken in that came before.
    fn is_stuck(&self) -> bool {
        self.is_begun() && self.gauge.is_stuck(self.arrived, &self.budget)
    }

    /// Whether fetching would wait for ever: all that is granted is held by the window, or nobody else gave anything back
    /// for long.
    fn is_hopeless(&mut self) -> bool {
        let is_busy = Arc::strong_count(&self.running) > 1;
        let used = self.budget.used();
        if is_busy || !self.is_stuck() || self.stuck.is_none_or(|(_, before)| before != used) {
            self.stuck = Some((Instant::now(), used));
        }
        let held: u64 = self.window.residents().map(Resident::permitted).sum();
        let waited = self.stuck.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        !is_busy && self.is_stuck() && (used <= held || waited > STALL_TIMEOUT)
    }

    /// Waits for the next part and takes it in; a glance, where fetching waits for memory.
    fn await_arrival(&mut self) -> Result<(), Stop> {
        let starved = self.watch.starved();
        let arrived = loop {
            match self.arriving.next(STALL_CHECK_INTERVAL) {
                Ok(arriving) => break arriving?,
                Err(RecvTimeoutError::Disconnected) if self.off.load(Relaxed) => return Err(Stop::Left),
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early().into()),
                Err(RecvTimeoutError::Timeout) if self.is_stuck() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.arrived += 1;
        self.stuck = None;
        let part = arrived.part;
        let (rows, longest) = arrived.wait()?;
        drop(starved);
        self.longest = self.longest.max(longest);
        self.window.admit(part, rows.at_hand());
        self.watch.admits();
        Ok(())
    }

    /// Copies the few rows that this step takes of parts that leave after it, and lets them go already. Only a batch that
    /// straddles many parts needs it, or row groups of the budget's own size: they pass one at a time, and a batch may
    /// straddle two of them.
    fn make_room(
        &mut self,
        leaving: &mut Vec<Part>,
        parts: &[Part],
        sources: &mut [Option<Arc<Resident>>],
        picks: &mut [(u32, u32)],
    ) -> Result<()> {
        // Also those whose turn in this step has not come: what is awaited may be needed before them.
        let here: Vec<Part> = leaving.extract_if(.., |part| self.window.get(part).is_some()).collect();
        for gone in here {
            let Some(resident) = self.window.get(&gone).cloned() else { continue };
            self.window.let_go(&gone);
            let Some(source) = parts.iter().position(|part| *part == gone) else { continue };
            // Mapped rows hold no memory that could be given back.
            if resident.memory().is_none() {
                sources[source] = Some(resident);
                continue;
            }
            let mut rows = Vec::new();
            for pick in picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                rows.push(pick.1);
                pick.1 = rows.len() as u32 - 1;
            }
            sources[source] = Some(Arc::new(resident.detach(&rows)?));
        }
        Ok(())
    }

    fn is_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// After its first batch an epoch waits until it is begun, or until the one before it needs nobody any more.
    fn await_turn(&self) -> Result<(), Stop> {
        select! {
            recv(self.opened) -> _ => Ok(()),
            recv(self.before) -> _ => Ok(()),
            recv(self.stopped) -> _ => Err(Stop::Left),
        }
    }

    /// Hands a batch that has a place to the consumer; others wait for one.
    fn pass_on(&mut self, pending: Pending) -> Result<(), Stop> {
        if self.off.load(Relaxed) {
            return Err(Stop::Left);
        }
        let place = if std::mem::take(&mut self.is_first) { None } else { Some(self.place()?) };
        self.hand_over.send(Pending { place, ..pending }).map_err(|_| Stop::Left)
    }

    /// Waits for a batch's memory, of which nothing is made before.
    fn load(&self, bytes: u64) -> Result<BytesPermit, Stop> {
        if let Some(load) = self.permits.acquire_bytes(bytes, &self.loads) {
            return Ok(load);
        }
        let _blocked = self.watch.blocked();
        loop {
            if self.off.load(Relaxed) {
                return Err(Stop::Left);
            }
            if let Some(load) = self.permits.wait_for_bytes(bytes, &self.loads) {
                return Ok(load);
            }
        }
    }

    /// Waits for a place.
    fn place(&self) -> Result<BatchPermit, Stop> {
        if let Some(place) = self.permits.take() {
            return Ok(place);
        }
        let _blocked = self.watch.blocked();
        loop {
            if self.off.load(Relaxed) {
                return Err(Stop::Left);
            }
            if let Some(place) = self.permits.wait() {
                return Ok(place);
            }
        }
    }
}
