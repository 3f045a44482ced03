//! The pipe: the only file that starts threads.
//!
//! ```text
//! scout ─► fetch (async, 1 thread) ─► read (pool) ─► assemble (1 thread) ─► make (pool) ─► Epoch (yours)
//!          permits, requests          Parquet         walk, who needs what   gather, decode  in order
//! ```
//!
//! Scout and assembly walk over the same plan, so that parts arrive in the order in which they are needed and nothing
//! is sorted. Results of the pool travel as one-shot receivers in plan order: work finishes in any order and is handed
//! over in one. Hanging up at either end (a dropped epoch, a failed request) ends everything in between.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::batcher::{Job, Made, Recipe};
use super::caught;
use super::stats::{Counters, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::fetch::{Fetched, Fetcher};
use crate::reader::select::Selected;
use crate::reader::{self, Resident};
use crate::shard::{Part, Step, Walk};
use crate::shuffle::Window;

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

/// How far back a gang looks for a source that it has already.
const SOURCES_REMEMBERED: usize = 8;

/// Threads that wait for storage; they do not work.
const RUNTIME_THREADS: usize = 1;

/// The threads of a loader.
#[derive(Debug)]
pub(crate) struct Engine {
    runtime: Option<Runtime>,
    pool: Arc<ThreadPool>,
    /// The process that started the threads; a forked child has none of them.
    process: u32,
    /// The epoch that is under way: there is one at most, since one budget feeds it.
    current: Mutex<Option<Arc<Switch>>>,
}

/// Ends the work of one epoch.
#[derive(Debug)]
pub(crate) struct Switch {
    off: Arc<AtomicBool>,
    /// Dropped to wake whoever waits for room.
    alive: Mutex<Option<Sender<()>>>,
    fetch: Mutex<Option<AbortHandle>>,
}

impl Switch {
    fn turn_off(&self) {
        self.off.store(true, Relaxed);
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(fetch) = self.fetch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            fetch.abort();
        }
    }
}

/// What an epoch needs to run.
pub(crate) struct Work {
    pub(crate) number: u64,
    pub(crate) scout: Walk,
    pub(crate) walk: Walk,
    pub(crate) fetcher: Fetcher,
    pub(crate) selected: Arc<Selected>,
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) counters: Arc<Counters>,
    /// Batches that may be made or waiting at once.
    pub(crate) ahead: usize,
    /// Bytes that one row group may decode to.
    pub(crate) limit: u64,
}

/// A batch that is being made.
pub(crate) struct Pending {
    pub(crate) made: Receiver<Result<Made>>,
    /// The global row after it.
    pub(crate) end: u64,
    pub(crate) padded: u64,
}

/// The consumer's end of the pipe. Dropping it ends the work behind it.
pub(crate) struct Flow {
    pub(crate) batches: Receiver<Pending>,
    switch: Arc<Switch>,
    engine: Arc<Engine>,
}

impl Flow {
    /// Whether the work was ended from outside: by `close()`, or by a later epoch.
    pub(crate) fn is_closed(&self) -> bool {
        self.switch.off.load(Relaxed)
    }

    /// Whether this is a forked child, where nothing of the pipe runs.
    pub(crate) fn is_foreign(&self) -> bool {
        self.engine.is_foreign()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if !self.is_foreign() {
            self.switch.turn_off();
        }
    }
}

/// A part on its way: it arrives in plan order, and its rows when they are decoded.
type Arriving = (Part, Receiver<Result<Resident>>);

impl Engine {
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Io, format!("{what} could not be started: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("forebay-fetch")
            .enable_all()
            .build()
            .map_err(|error| failed("the fetching threads", &error))?;
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("forebay-{number}"))
            .build()
            .map_err(|error| failed("the decoding threads", &error))?;
        let current = Mutex::new(None);
        Ok(Engine { runtime: Some(runtime), pool: Arc::new(pool), process: std::process::id(), current })
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.process != std::process::id()
    }

    /// Runs a future to its end on the fetching threads, from a thread of the user's.
    #[allow(clippy::disallowed_methods, reason = "this is the crossing from sync to async")]
    pub(crate) fn wait_for<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.block_on(future)),
            None => Err(Error::new(ErrorKind::Closed, "the loader was closed")),
        }
    }

    /// Ends the epoch that is under way.
    pub(crate) fn stop(&self) {
        if let Some(switch) = self.current.lock().unwrap_or_else(PoisonError::into_inner).take() {
            switch.turn_off();
        }
    }

    /// Starts an epoch; one that is under way ends.
    pub(crate) fn run(self: &Arc<Self>, work: Work) -> Result<Flow> {
        self.stop();
        let runtime =
            self.runtime.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed, "the loader was closed"))?;
        let (alive, stopped) = bounded(0);
        let off = Arc::new(AtomicBool::new(false));
        let switch =
            Arc::new(Switch { off: off.clone(), alive: Mutex::new(Some(alive)), fetch: Mutex::default() });
        let (arrive, arriving) = mpsc::channel(READ_AHEAD);
        let (hand_over, batches) = bounded(work.ahead);
        let Work { number, scout, walk, fetcher, selected, recipe, counters, limit, .. } = work;

        let reading = Reading {
            pool: self.pool.clone(),
            fetcher: fetcher.clone(),
            selected,
            counters: counters.clone(),
            limit,
        };
        let parts = scout.flat_map(|step| step.entering);
        let source = fetcher.clone();
        let pass_on = async move |fetched: Result<Fetched>| {
            // A place first: what waits for one has not been decoded yet.
            let Ok(place) = arrive.reserve().await else { return false };
            place.send(fetched.map(|fetched| reading.start(fetched)));
            true
        };
        let fetch = runtime.spawn(async move { source.run(parts, pass_on).await });
        *switch.fetch.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetch.abort_handle());

        let assembly = Assembly {
            pool: self.pool.clone(),
            fetcher,
            recipe,
            counters,
            number,
            off,
            stopped,
            arriving,
            window: Window::new(),
            gang: 1,
            hand_over,
        };
        std::thread::Builder::new()
            .name("forebay-batches".into())
            .spawn(move || assembly.run(walk))
            .map_err(|error| {
                Error::new(ErrorKind::Io, format!("the assembling thread could not be started: {error}"))
            })?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(switch.clone());
        Ok(Flow { batches, switch, engine: self.clone() })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.is_foreign() {
            // The threads are the parent's; waiting for them here would never end.
            std::mem::forget(runtime);
            return;
        }
        self.stop();
        // Never waits: a hung store must not keep a program from ending.
        runtime.shutdown_background();
    }
}

/// Turns fetched bytes into rows, on the pool.
struct Reading {
    pool: Arc<ThreadPool>,
    fetcher: Fetcher,
    selected: Arc<Selected>,
    counters: Arc<Counters>,
    limit: u64,
}

impl Reading {
    fn start(&self, fetched: Fetched) -> Arriving {
        let (send, receive) = bounded(1);
        let part = fetched.part;
        let bytes = fetched.chunks.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.counters.fetch.add(1, bytes, fetched.seconds);
        let Fetcher { catalog, projection, .. } = self.fetcher.clone();
        let (selected, counters, limit) = (self.selected.clone(), self.counters.clone(), self.limit);
        self.pool.spawn_fifo(move || {
            let started = Instant::now();
            let read = caught(|| reader::read(&catalog, &projection, &selected, fetched, limit));
            let bytes = read.as_ref().map_or(0, |resident| resident.rows.get_array_memory_size() as u64);
            counters.rows.add(u64::from(part.rows), bytes, started.elapsed().as_secs_f64());
            // Nobody listens any more where the epoch was left.
            let _ = send.send(read);
        });
        (part, receive)
    }
}

/// Follows the walk: waits for parts, hands out the making of batches, lets parts go.
struct Assembly {
    pool: Arc<ThreadPool>,
    fetcher: Fetcher,
    recipe: Arc<Recipe>,
    counters: Arc<Counters>,
    number: u64,
    off: Arc<AtomicBool>,
    stopped: Receiver<()>,
    arriving: mpsc::Receiver<Result<Arriving>>,
    window: Window<Resident>,
    /// Steps that are made together at present: one at first, so that the first batch is not held up.
    gang: usize,
    hand_over: Sender<Pending>,
}

/// The rows of a step: where they come from, and source and row in it of each.
type Listed = (Vec<Arc<Resident>>, Vec<(u32, u32)>);

/// Steps whose batches are made together.
#[derive(Default)]
struct Gang {
    sources: Vec<Arc<Resident>>,
    picks: Vec<(u32, u32)>,
    members: Vec<Member>,
}

/// One step of a gang.
struct Member {
    rows: usize,
    end: u64,
    padded: u64,
}

impl Gang {
    fn add(&mut self, sources: Vec<Arc<Resident>>, picks: Vec<(u32, u32)>, end: u64, padded: u64) {
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
    fn run(mut self, walk: Walk) {
        // Ends when the work is done, or when nobody wants it any more.
        let _ = self.follow(walk);
    }

    fn follow(&mut self, walk: Walk) -> Result<(), Stop> {
        let mut gang = Gang::default();
        for step in walk {
            let (end, padded) = (step.end, step.padded);
            let full = gang.members.len() >= self.gang;
            if full || !step.parts.iter().all(|part| self.window.get(part).is_some()) {
                // Nothing is kept waiting for a row group that has not arrived.
                self.launch(std::mem::take(&mut gang))?;
                self.gang = if full { (self.gang * 2).min(self.recipe.gang) } else { self.gang };
            }
            match self.assemble(step) {
                Ok((sources, picks)) => gang.add(sources, picks, end, padded),
                Err(Stop::Left) => return Err(Stop::Left),
                Err(Stop::Failed(error)) => {
                    self.launch(gang)?;
                    let (send, made) = bounded(1);
                    let _ = send.send(Err(error));
                    return self.pass_on(Pending { made, end, padded });
                }
            }
        }
        self.launch(gang)
    }

    /// Starts the making of a gang's batches and queues them for the consumer.
    fn launch(&self, gang: Gang) -> Result<(), Stop> {
        let Gang { sources, picks, members } = gang;
        if members.is_empty() {
            return Ok(());
        }
        let (sends, pending): (Vec<_>, Vec<_>) = members
            .into_iter()
            .map(|Member { rows, end, padded }| {
                let (send, made) = bounded(1);
                ((rows, send), Pending { made, end, padded })
            })
            .unzip();
        let (recipe, cancelled) = (self.recipe.clone(), self.off.clone());
        Job { recipe, sources, picks, epoch: self.number, cancelled }.start(&self.pool, sends);
        pending.into_iter().try_for_each(|pending| self.pass_on(pending))
    }

    /// Waits for the parts of a step and lists its rows.
    fn assemble(&mut self, step: Step) -> Result<Listed, Stop> {
        let mut leaving = step.leaving;
        let mut picks = step.picks;
        let mut sources: Vec<Arc<Resident>> = Vec::with_capacity(step.parts.len());
        for part in &step.parts {
            if self.window.get(part).is_none() && self.is_short_of(part) {
                self.make_room(&mut leaving, &step.parts, &mut sources, &mut picks)?;
            }
            sources.push(self.resident(part)?);
        }
        leaving.iter().for_each(|part| self.window.let_go(part));
        Ok((sources, picks))
    }

    /// Waits until the rows of `part` are at hand.
    fn resident(&mut self, part: &Part) -> Result<Arc<Resident>, Stop> {
        loop {
            if let Some(resident) = self.window.get(part) {
                return Ok(resident.clone());
            }
            self.counters.owned_by(Stage::Fetch);
            let (arrived, rows) = match self.arriving.blocking_recv() {
                Some(arriving) => arriving?,
                None if self.off.load(Relaxed) => return Err(Stop::Left),
                None => {
                    return Err(Error::new(ErrorKind::Internal, "fetching ended before its plan did").into());
                }
            };
            self.counters.owned_by(Stage::Rows);
            match rows.recv() {
                Ok(resident) => self.window.admit(arrived, resident?),
                Err(_) => {
                    return Err(Error::new(ErrorKind::Internal, "a row group's decoding was lost").into());
                }
            }
            self.counters.owned_by(Stage::Batch);
        }
    }

    /// Whether `part` has to wait for bytes of the budget that others hold.
    fn is_short_of(&self, part: &Part) -> bool {
        self.arriving.is_empty() && self.fetcher.budget.is_short_of(self.fetcher.cost(part))
    }

    /// Copies the few rows that this step takes of parts that leave after it, and lets them go already. Only row groups
    /// of the budget's own size need it: they pass one at a time, and a batch may straddle two of them.
    fn make_room(
        &mut self,
        leaving: &mut Vec<Part>,
        parts: &[Part],
        sources: &mut [Arc<Resident>],
        picks: &mut [(u32, u32)],
    ) -> Result<()> {
        let (here, to_come) = parts.split_at(sources.len());
        for gone in leaving.extract_if(.., |part| !to_come.contains(part)) {
            self.window.let_go(&gone);
            let Some(source) = here.iter().position(|part| *part == gone) else { continue };
            let mut rows = Vec::new();
            for pick in picks.iter_mut().filter(|pick| pick.0 as usize == source) {
                rows.push(pick.1);
                pick.1 = rows.len() as u32 - 1;
            }
            sources[source] = Arc::new(sources[source].detach(&rows)?);
        }
        Ok(())
    }

    /// Waits for room in the consumer's queue.
    fn pass_on(&self, pending: Pending) -> Result<(), Stop> {
        select! {
            send(self.hand_over, pending) -> sent => sent.map_err(|_| Stop::Left),
            recv(self.stopped) -> _ => Err(Stop::Left),
        }
    }
}
