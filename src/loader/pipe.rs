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
//!
//! Once an epoch's row groups are fetched and a quarter of its steps are on their way, the next epoch's are fetched into
//! what the budget has free: its [`Feed`] waits until that epoch begins.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use futures::FutureExt;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::assembly::{Assembly, Pending};
use super::batcher::Recipe;
use super::caught;
use super::stats::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::fetch::{Chunks, Fetched, Fetcher, Gauge};
use crate::reader::select::Selected;
use crate::reader::{self, Resident};
use crate::shard::{OrderSpec, Part, Walk};
use crate::shuffle::Window;

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

/// Threads that wait for storage; they do not work.
const RUNTIME_THREADS: usize = 1;

/// The threads of a loader.
pub(crate) struct Engine {
    runtime: Option<Runtime>,
    pool: Arc<ThreadPool>,
    /// The process that started the threads; a forked child has none of them.
    process: u32,
    under_way: Mutex<UnderWay>,
}

/// There is one epoch at most, since one budget feeds it; and what is fetched already for the one after it.
#[derive(Default)]
struct UnderWay {
    epoch: Option<Arc<Switch>>,
    next: Option<(FeedKey, Feed)>,
}

impl UnderWay {
    fn stop(&mut self) {
        if let Some(switch) = self.epoch.take() {
            switch.turn_off();
        }
        self.forget_next();
    }

    fn forget_next(&mut self) {
        if let Some((_, feed)) = self.next.take() {
            feed.fetch.abort();
        }
    }
}

/// Ends the work of one epoch.
#[derive(Debug)]
pub(crate) struct Switch {
    off: Arc<AtomicBool>,
    /// Whether all of it was handed over, so that what is fetched after it is wanted.
    finished: AtomicBool,
    /// Dropped to wake whoever waits for room.
    alive: Mutex<Option<Sender<()>>>,
    fetch: AbortHandle,
}

impl Switch {
    fn turn_off(&self) {
        self.off.store(true, Relaxed);
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !self.finished.load(Relaxed) {
            self.fetch.abort();
        }
    }
}

/// Which row groups a feed brings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeedKey {
    pub(crate) epoch: u64,
    /// The global row to begin at.
    pub(crate) start: u64,
    pub(crate) order: OrderSpec,
}

/// Row groups of one epoch, fetched in plan order and decoded a little ahead.
struct Feed {
    arriving: Arrivals,
    gauge: Arc<Gauge>,
    fetch: AbortHandle,
    /// Says when all are fetched; never, where fetching ended before.
    fetched: oneshot::Receiver<()>,
}

/// Walks over an epoch only to see which parts enter.
pub(crate) type Scout = Box<dyn FnOnce() -> Walk + Send>;

/// What an epoch needs to run.
pub(crate) struct Work {
    pub(crate) key: FeedKey,
    pub(crate) scout: Scout,
    /// The epoch after it, from its beginning.
    pub(crate) next: (FeedKey, Scout),
    pub(crate) walk: Walk,
    /// How many steps it has.
    pub(crate) steps: u64,
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

    /// Notes that all batches were taken: what is fetched for the next epoch is kept.
    pub(crate) fn finished(&self) {
        self.switch.finished.store(true, Relaxed);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        self.switch.turn_off();
        if !self.switch.finished.load(Relaxed) {
            let mut under_way = self.engine.under_way();
            if under_way.epoch.as_ref().is_some_and(|switch| Arc::ptr_eq(switch, &self.switch)) {
                under_way.stop();
            }
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
        let under_way = Mutex::default();
        Ok(Engine { runtime: Some(runtime), pool: Arc::new(pool), process: std::process::id(), under_way })
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
        runtime.spawn(async move { drop(send.send(AssertUnwindSafe(future).catch_unwind().await)) });
        let ended = receive.recv().map_err(|_| closed())?;
        ended.map_err(|panic| Error::panicked("forebay or in what it reads from", &*panic))
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the epoch that is under way.
    pub(crate) fn stop(&self) {
        self.under_way().stop();
    }

    /// Starts an epoch; one that is under way ends. `closed` is asked while no other epoch can be started.
    pub(crate) fn run(self: &Arc<Self>, closed: &AtomicBool, work: impl FnOnce() -> Work) -> Result<Flow> {
        let mut under_way = self.under_way();
        if closed.load(Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the loader was closed").hint("build another"));
        }
        if let Some(before) = under_way.epoch.take() {
            before.turn_off();
            if !before.finished.load(Relaxed) {
                under_way.forget_next();
            }
        }
        let work = work();
        let closed = || Error::new(ErrorKind::Closed, "the loader was closed");
        let runtime = self.runtime.as_ref().ok_or_else(closed)?.handle().clone();
        let Work { key, scout, next, walk, steps, fetcher, selected, recipe, counters, limit, ahead } = work;
        let reading = Reading {
            runtime,
            pool: self.pool.clone(),
            fetcher,
            selected,
            counters: counters.clone(),
            limit,
        };
        let feed = match under_way.next.take() {
            Some((fed, feed)) if fed == key => feed,
            other => {
                if let Some((_, feed)) = other {
                    feed.fetch.abort();
                }
                Feed::start(&reading, scout, async { true })
            }
        };
        let (on_the_way, quarter) = oneshot::channel();
        let fetched = feed.fetched;
        let due = async move { fetched.await.is_ok() && quarter.await.is_ok() };
        let next_feed = Feed::start(&reading, next.1, due);

        let (alive, stopped) = bounded(0);
        let off = Arc::new(AtomicBool::new(false));
        let switch = Arc::new(Switch {
            off: off.clone(),
            finished: false.into(),
            alive: Mutex::new(Some(alive)),
            fetch: feed.fetch,
        });
        let (hand_over, batches) = bounded(ahead);
        let assembly = Assembly {
            pool: self.pool.clone(),
            recipe,
            counters,
            number: key.epoch,
            off,
            stopped,
            arriving: feed.arriving,
            arrived: 0,
            gauge: feed.gauge,
            running: Arc::default(),
            window: Window::new(),
            gang: 1,
            hand_over,
            quarter: Some((steps / 4, Box::new(move || _ = on_the_way.send(())))),
        };
        std::thread::Builder::new()
            .name("forebay-batches".into())
            .spawn(move || assembly.run(walk))
            .map_err(|error| {
                Error::new(ErrorKind::Io, format!("the assembling thread could not be started: {error}"))
            })?;
        *under_way = UnderWay { epoch: Some(switch.clone()), next: Some((next.0, next_feed)) };
        Ok(Flow { batches, switch, engine: self.clone() })
    }
}

impl Feed {
    /// Begins to fetch what `scout` finds, once `due` says so.
    fn start(reading: &Reading, scout: Scout, due: impl Future<Output = bool> + Send + 'static) -> Self {
        let (arrive, parts) = unbounded();
        let places = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = Arrivals { parts, places: places.clone() };
        let gauge = Arc::new(Gauge::default());
        let (done, fetched) = oneshot::channel();
        let (reading, watched) = (reading.clone(), gauge.clone());
        let source = reading.fetcher.clone();
        let fetch = reading.runtime.clone().spawn(async move {
            if !due.await {
                return;
            }
            let parts = scout().flat_map(|step| step.entering);
            let pass_on = async move |fetched: Result<Fetched>| {
                // A place first: what waits for one has not been decoded yet.
                let Ok(place) = places.acquire().await else { return false };
                place.forget();
                arrive.send(fetched.map(|fetched| reading.start(fetched))).is_ok()
            };
            if source.run(parts, watched, pass_on).await {
                // Nobody waits for it where the epoch was left.
                let _ = done.send(());
            }
        });
        Feed { arriving, gauge, fetch: fetch.abort_handle(), fetched }
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
#[derive(Clone)]
struct Reading {
    runtime: Handle,
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
        let reading = self.clone();
        self.pool.spawn_fifo(move || {
            let started = Instant::now();
            let read = caught(|| reading.read(fetched));
            let bytes = read.as_ref().map_or(0, |resident| resident.rows.get_array_memory_size() as u64);
            reading.counters.rows.add(u64::from(part.rows), bytes, started.elapsed().as_secs_f64());
            // Nobody listens any more where the epoch was left.
            let _ = send.send(read);
        });
        (part, receive)
    }

    /// The bytes of a row group once more. Ends with the fetching threads, however the store hangs.
    fn fetch_again(&self, group: usize) -> Result<Chunks> {
        let (send, receive) = bounded(1);
        let fetcher = self.fetcher.clone();
        self.runtime.spawn(async move { drop(send.send(fetcher.read(group).await)) });
        receive.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, "the loader was closed")))
    }

    /// Decodes a part. Damage may lie in the copy that came: the row group is fetched once more before it is an error.
    fn read(&self, fetched: Fetched) -> Result<Resident> {
        let Fetched { part, chunks, permit, lost, .. } = fetched;
        let decode = |chunks| reader::read(&self.fetcher, &self.selected, &part, chunks, self.limit);
        let read = match lost {
            Some(lost) => Err(lost),
            None => match decode(chunks) {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    self.fetch_again(part.group as usize).and_then(decode)
                }
                read => read,
            },
        };
        match read {
            Ok(rows) => Ok(Resident::new(&self.fetcher, &self.selected, part, rows, permit)),
            Err(error) if self.fetcher.may_lose(&error) => {
                Resident::lost(&self.fetcher, &self.selected, part, error)
            }
            Err(error) => Err(error),
        }
    }
}
