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
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::assembly::{Assembly, Pending};
use super::batcher::Recipe;
use super::caught;
use super::stats::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::fetch::{Fetched, Fetcher, Gauge};
use crate::reader::select::Selected;
use crate::reader::{self, Resident};
use crate::shard::{Part, Walk};
use crate::shuffle::Window;

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

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
pub(super) type Arriving = (Part, Receiver<Result<Resident>>);

/// The blocking end of the border: parts in plan order.
pub(super) struct Arrivals {
    parts: Receiver<Result<Arriving>>,
    /// Room for parts that wait here.
    places: Arc<Semaphore>,
}

impl Arrivals {
    /// Waits for the next part at most for `patience`.
    pub(super) fn next(&self, patience: Duration) -> Result<Result<Arriving>, RecvTimeoutError> {
        let arrived = self.parts.recv_timeout(patience)?;
        self.places.add_permits(1);
        Ok(arrived)
    }
}

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

    /// Runs a future to its end on the fetching threads, from any thread of the user's: one of another runtime included.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::new(ErrorKind::Closed, "the loader was closed");
        let (send, receive) = bounded(1);
        let runtime = self.runtime.as_ref().ok_or_else(closed)?;
        runtime.spawn(async move { drop(send.send(future.await)) });
        receive.recv().map_err(|_| closed())
    }

    /// Ends the epoch that is under way.
    pub(crate) fn stop(&self) {
        if let Some(switch) = self.current.lock().unwrap_or_else(PoisonError::into_inner).take() {
            switch.turn_off();
        }
    }

    /// Starts an epoch; one that is under way ends. `closed` is asked while no other epoch can be started.
    pub(crate) fn run(self: &Arc<Self>, closed: &AtomicBool, work: impl FnOnce() -> Work) -> Result<Flow> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if closed.load(Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the loader was closed").hint("build another"));
        }
        if let Some(before) = current.take() {
            before.turn_off();
        }
        let work = work();
        let runtime =
            self.runtime.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed, "the loader was closed"))?;
        let (alive, stopped) = bounded(0);
        let off = Arc::new(AtomicBool::new(false));
        let switch =
            Arc::new(Switch { off: off.clone(), alive: Mutex::new(Some(alive)), fetch: Mutex::default() });
        let (arrive, parts_arriving) = unbounded();
        let places = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = Arrivals { parts: parts_arriving, places: places.clone() };
        let gauge = Arc::new(Gauge::default());
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
            let Ok(place) = places.acquire().await else { return false };
            place.forget();
            arrive.send(fetched.map(|fetched| reading.start(fetched))).is_ok()
        };
        let watched = gauge.clone();
        let fetch = runtime.spawn(async move { source.run(parts, watched, pass_on).await });
        *switch.fetch.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetch.abort_handle());

        let assembly = Assembly {
            pool: self.pool.clone(),
            recipe,
            counters,
            number,
            off,
            stopped,
            arriving,
            arrived: 0,
            gauge,
            running: Arc::default(),
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
        *current = Some(switch.clone());
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
