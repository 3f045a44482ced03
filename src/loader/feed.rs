//! The feed of one epoch: its row groups, fetched in plan order and decoded a little ahead.
//!
//! The last async file: [`Arrivals`] is where tasks end and threads begin.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use futures::{StreamExt, stream};
use rayon::ThreadPool;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::batcher::Recipe;
use super::tiers::Tiers;
use super::{caught, images};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Monitor, Phase, Stage, Stay, Watch};
use crate::reader::budget::Permit;
use crate::reader::fetch::{Chunks, Fetched, Fetcher, Found, Gauge};
use crate::reader::select::Selected;
use crate::reader::shelf::{Keeping, Kept, Shelf, Turn};
use crate::reader::{self, Renew, Resident};
use crate::shard::{OrderSpec, Part, Step, Walk};
use crate::source::Store;

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

/// Of the memory for row groups, the share that one may take with its images in another form; larger ones are kept as
/// files.
const FORM_SHARE: u64 = 8;

/// Which row groups a feed brings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeedKey {
    pub(crate) epoch: u64,
    /// The global row to begin at.
    pub(crate) start: u64,
    pub(crate) order: OrderSpec,
}

/// Walks over an epoch only to see which parts enter.
pub(crate) type Scout = Box<dyn FnOnce() -> Walk + Send>;

/// Row groups of one epoch on their way.
pub(super) struct Feed {
    pub(super) arriving: Arrivals,
    pub(super) gauge: Arc<Gauge>,
    /// Bounds what is fetched before the epoch begins.
    pub(super) lead: Arc<Lead>,
    /// Ends the feed and all that it asked for.
    pub(super) end: Hangup,
    /// Ends the fetching alone: rows that are in use already may still have to be fetched once more.
    pub(super) enough: Hangup,
    /// Closed when nothing of it is fetched any more: all is, or what is left is not wanted.
    pub(super) over: oneshot::Receiver<()>,
}

/// Ends a feed from its other end.
#[derive(Clone)]
pub(super) struct Hangup(CancellationToken);

impl Hangup {
    pub(super) fn hang_up(&self) {
        self.0.cancel();
    }

    /// Hangs up when the guard is dropped.
    pub(super) fn guard(self) -> DropGuard {
        self.0.drop_guard()
    }
}

/// How far fetching runs ahead of an epoch that has not begun, and may never: far enough for the batches that can be made
/// ahead, and then for as many row groups as the store fetches at once, so that it is at work when the epoch begins.
pub(super) struct Lead {
    /// Cancelled when the epoch begins.
    begun: CancellationToken,
    store: Store,
    /// Bytes that were fetched before; `None` once the epoch has begun.
    bytes: Mutex<Option<u64>>,
}

impl Lead {
    fn new(store: Store) -> Self {
        Lead { begun: CancellationToken::new(), store, bytes: Mutex::new(Some(0)) }
    }

    /// Lets all of it be fetched. What was fetched before is needed now.
    pub(super) fn ends(&self) {
        if let Some(bytes) = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.store.needs(bytes);
        }
        self.begun.cancel();
    }

    /// Takes note of a row group that was fetched.
    fn fetched(&self, bytes: u64) {
        if let Some(before) = &mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) {
            *before += bytes;
            self.store.may_need(bytes);
        }
    }

    /// The parts that enter with `steps`, held back beyond those of the first `ahead` steps and `more` parts.
    fn parts(
        self: Arc<Self>,
        steps: impl Iterator<Item = Step> + Send,
        ahead: usize,
        mut more: usize,
    ) -> impl stream::Stream<Item = Part> + Send {
        let parts =
            steps.enumerate().flat_map(|(at, step)| step.entering.into_iter().map(move |part| (at, part)));
        stream::iter(parts).then(move |(at, part)| {
            let held_back = at >= ahead && more == 0;
            if at >= ahead {
                more = more.saturating_sub(1);
            }
            let begun = held_back.then(|| self.begun.clone());
            async move {
                if let Some(begun) = begun {
                    begun.cancelled().await;
                }
                part
            }
        })
    }
}

/// A part on its way: it arrives in plan order, and its rows when they are decoded.
pub(super) struct Arriving {
    pub(super) part: Part,
    rows: Receiver<Result<Resident>>,
    /// The most bytes that one of its rows takes in columns whose values differ in length.
    longest: Arc<AtomicU64>,
    /// Its place among those that wait.
    _place: Option<OwnedSemaphorePermit>,
}

impl Arriving {
    /// Waits until the rows are decoded. With them comes the most bytes that one row takes in columns whose values differ
    /// in length.
    pub(super) fn wait(self) -> Result<(Resident, u64)> {
        let decoded = self.rows.recv();
        let decoded =
            decoded.map_err(|_| Error::new(ErrorKind::Internal, "a row group's decoding was lost"))?;
        Ok((decoded?, self.longest.load(Relaxed)))
    }
}

/// The failure of a feed that ends although nobody ended it.
pub(super) fn ended_early() -> Error {
    Error::new(ErrorKind::Internal, "fetching ended before its plan did")
}

/// The blocking end of the feed: parts in plan order.
pub(super) struct Arrivals {
    parts: Receiver<Result<Arriving>>,
}

impl Arrivals {
    /// Waits for the next part at most for `patience`.
    pub(super) fn next(&self, patience: Duration) -> Result<Result<Arriving>, RecvTimeoutError> {
        self.parts.recv_timeout(patience)
    }
}

/// A part that was fetched.
enum Begun {
    /// It waits for a place.
    Fetched(Box<Fetched>),
    /// It is being decoded.
    Reading(Arriving),
}

impl Feed {
    /// Begins to fetch what `scout` finds, once it is `due`, and notes it with `watch`.
    pub(super) fn start(
        source: &Source,
        scout: Scout,
        due: impl Future<Output = ()> + Send + 'static,
        watch: Watch,
    ) -> Self {
        let (arrive, parts) = unbounded();
        let places = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = Arrivals { parts };
        let behind = source.fetcher.shelf.as_ref().map(Shelf::behind);
        let gauge = Arc::new(Gauge::new(watch).beside(behind));
        let (fetching, over) = oneshot::channel::<()>();
        let end = CancellationToken::new();
        let fetching_ends = end.child_token();
        let lead = Arc::new(Lead::new(source.fetcher.store.clone()));
        let (leading, counted, ahead) = (lead.clone(), lead.clone(), source.ahead);
        let reading = Reading { source: source.clone(), end: end.clone() };
        let (fetcher, watched, stopped) = (source.fetcher.clone(), gauge.clone(), fetching_ends.clone());
        let fetch = async move {
            due.await;
            let parts = leading.parts(scout(), ahead, fetcher.store.row_groups_at_once());
            let (reader, turns) = (reading.clone(), Arc::new(Semaphore::new(reading.at_once())));
            let begin = move |fetched: Fetched| {
                let (reader, turns) = (reader.clone(), turns.clone());
                counted.fetched(fetched.found.bytes());
                async move {
                    match fetched.found {
                        // Others wait for rows that are ours to keep, however slow our own consumer is.
                        Found::Bytes(_, Some(_)) | Found::Rows(_, Some(_)) => {
                            let turn = turns.acquire_owned().await.ok();
                            Begun::Reading(reader.start(fetched, None, turn))
                        }
                        _ => Begun::Fetched(Box::new(fetched)),
                    }
                }
            };
            let pass_on = async move |begun: Result<Begun>| {
                let arriving = match begun {
                    Ok(Begun::Reading(arriving)) => Ok(arriving),
                    // A place first: what waits for one has not been decoded yet.
                    Ok(Begun::Fetched(fetched)) => match places.clone().acquire_owned().await {
                        Ok(place) => Ok(reading.start(*fetched, Some(place), None)),
                        Err(_) => return false,
                    },
                    Err(error) => Err(error),
                };
                arrive.send(arriving).is_ok()
            };
            fetcher.run(parts, watched, begin, pass_on).await;
        };
        source.runtime.spawn(async move {
            stopped.run_until_cancelled_owned(fetch).await;
            // However it ended: whoever comes after it waits for no more than that.
            drop(fetching);
        });
        Feed { arriving, gauge, lead, end: Hangup(end), enough: Hangup(fetching_ends), over }
    }
}

/// What feeds read from, and with.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) runtime: Handle,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) fetcher: Fetcher,
    pub(super) selected: Arc<Selected>,
    /// What becomes of the rows.
    pub(super) recipe: Arc<Recipe>,
    pub(super) monitor: Arc<Monitor>,
    /// Bytes that one row group may decode to.
    pub(super) limit: u64,
    /// Batches that may be made or waiting at once.
    pub(super) ahead: usize,
    /// Whether rows are to be used from the cache as soon as they are in it, since memory does not hold all that is at
    /// hand.
    pub(super) exchange: bool,
    /// Looks at what the images of the data set are like.
    pub(super) tiers: Option<Arc<Tiers>>,
}

/// Turns the fetched bytes of one feed into rows, on the pool.
#[derive(Clone)]
struct Reading {
    source: Source,
    end: CancellationToken,
}

impl Reading {
    /// Row groups that are decoded before their turn in the plan: few, since batches are made on the same threads.
    fn at_once(&self) -> usize {
        (self.source.pool.current_num_threads() / 2).max(1)
    }

    /// Begins to decode; `place` is given back when the part is taken, `turn` when no more of it is in the making.
    fn start(
        &self,
        fetched: Fetched,
        place: Option<OwnedSemaphorePermit>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Arriving {
        let (send, rows) = bounded(1);
        let part = fetched.part;
        let longest = Arc::<AtomicU64>::default();
        let (reading, found_longest) = (self.clone(), longest.clone());
        self.source.pool.spawn_fifo(move || {
            let Fetched { part, found, permit, mut stay } = fetched;
            stay.go_on(Phase::Pool);
            let task = match found {
                Found::Bytes(..) => {
                    Some(reading.source.monitor.task(Stage::Parquet, Some(("row_group", part.group.into()))))
                }
                // From the cache, as they are.
                Found::Rows(..) | Found::Lost(_) => None,
            };
            let read = caught(|| reading.read(part, found, permit));
            let rows = read.as_ref().ok().map(|read| read.resident.rows());
            let bytes = rows.as_ref().map_or(0, |rows| rows.batch.get_array_memory_size() as u64);
            if let Some(rows) = rows {
                found_longest.store(reading.source.recipe.longest(&rows.batch), Relaxed);
            }
            if let Some(task) = task {
                task.done(u64::from(part.rows), bytes);
            }
            match read {
                Ok(Read { resident, keep: Some((keeping, whole)) }) => {
                    reading.keep((resident, send), keeping, whole, turn, stay);
                }
                // Nobody listens any more where the epoch was left.
                read => drop(send.send(read.map(|read| read.resident))),
            }
        });
        Arriving { part, rows, longest, _place: place }
    }

    /// Has `whole` written to disk, on threads that wait, and hands its part over: at once, or from there.
    fn keep(
        &self,
        (resident, send): (Resident, Sender<Result<Resident>>),
        keeping: Keeping,
        whole: RecordBatch,
        turn: Option<OwnedSemaphorePermit>,
        mut stay: Stay,
    ) {
        if self.source.exchange {
            let whole = match caught(|| self.in_form(whole)) {
                Ok(whole) => whole,
                Err(error) => return drop(send.send(Err(error))),
            };
            let renewer = Arc::new(self.clone());
            self.source.runtime.spawn_blocking(move || {
                stay.go_on(Phase::Writing);
                // What is not kept is used in the form that memory was planned for.
                let resident = match keeping.exchange(&whole) {
                    Some(kept) => resident.exchanged(&kept, renewer),
                    None => resident,
                };
                drop((send.send(Ok(resident)), stay));
                // Pixels are more than the permit covers: few are in the making or being written at once.
                drop((whole, turn));
            });
            return;
        }
        drop(turn);
        let memory = resident.memory();
        drop(send.send(Ok(resident)));
        if let Some(write) = keeping.behind(whole, memory) {
            self.source.runtime.spawn_blocking(write);
        }
    }

    /// Rows with their images in the form in which they are kept.
    fn in_form(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let Source { fetcher, monitor, limit, recipe, .. } = &self.source;
        let Some((shelf, form)) = fetcher.shelf.as_ref().and_then(|shelf| Some((shelf, shelf.form()?)))
        else {
            return Ok(rows);
        };
        let task = monitor.task(Stage::Keep, None);
        let Some(kept) = images::kept(&rows, shelf.images(), form, (limit / FORM_SHARE, &recipe.workspace))?
        else {
            return Ok(rows);
        };
        let images = (rows.num_rows() * shelf.images().len()) as u64;
        task.done(images, kept.get_array_memory_size() as u64);
        Ok(kept)
    }

    /// The bytes of a row group once more. Ends with the feed, however the store hangs.
    fn fetch_again(&self, group: usize) -> Result<Chunks> {
        let (send, receive) = bounded(1);
        let (fetcher, end) = (self.source.fetcher.clone(), self.end.clone());
        self.source.runtime.spawn(async move {
            if let Some(read) = end.run_until_cancelled(fetcher.read(group)).await {
                let _ = send.send(read);
            }
        });
        receive.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, "the epoch was left")))
    }

    /// Decodes the rows of a part. Damage may lie in the copy that came: the row group is fetched once more before it is an
    /// error.
    fn decode(&self, part: &Part, chunks: Chunks) -> Result<RecordBatch> {
        let Source { fetcher, selected, limit, .. } = &self.source;
        let decode = |chunks| reader::read(fetcher, selected, part, chunks, *limit);
        match decode(chunks) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.fetch_again(part.group as usize).and_then(decode)
            }
            read => read,
        }
    }

    /// Makes rows of what came of a part.
    fn read(&self, part: Part, found: Found, permit: Permit) -> Result<Read> {
        let Source { fetcher, selected, recipe, .. } = &self.source;
        let (chunks, keeping) = match found {
            Found::Rows(kept, keeping) => {
                let resident = Resident::kept(fetcher, selected, part, &kept, permit, Arc::new(self.clone()));
                return Ok(Read { resident, keep: keeping.map(|keeping| (keeping, kept.rows)) });
            }
            Found::Lost(error) => return Ok(Resident::lost(fetcher, selected, part, error)?.into()),
            Found::Bytes(chunks, keeping) => (chunks, keeping),
        };
        // What is kept is kept whole.
        let keeping = keeping.zip(fetcher.shelf.as_ref());
        let wanted = keeping.as_ref().map_or(part, |(_, shelf)| shelf.whole(&part));
        let read = self.decode(&wanted, chunks);
        if let (Ok(rows), Some(tiers)) = (&read, &self.source.tiers) {
            tiers.observe(rows);
        }
        match (read, keeping) {
            (Ok(rows), None) => {
                Ok(Resident::new(fetcher, selected, part, recipe.filled(rows)?, permit).into())
            }
            (Ok(whole), Some((keeping, _))) => {
                let resident = Resident::new(fetcher, selected, part, reader::cut(&whole, &part), permit);
                Ok(Read { resident, keep: Some((keeping, whole)) })
            }
            (Err(error), _) if fetcher.may_lose(&error) => {
                Ok(Resident::lost(fetcher, selected, part, error)?.into())
            }
            (Err(error), _) => Err(error),
        }
    }
}

impl Renew for Reading {
    fn renew(&self, part: Part) -> Result<(Resident, Option<Kept>)> {
        let Source { fetcher, selected, .. } = &self.source;
        let Fetcher { store, catalog, projection, shelf: Some(shelf), .. } = fetcher else {
            return Err(Error::new(ErrorKind::Internal, "rows are kept without a cache"));
        };
        let group = part.group as usize;
        let (whole, keeping) = match shelf.turn_again(store, catalog, projection, group) {
            Turn::Here(kept, keeping) => (Ok(kept.rows), keeping),
            Turn::Ours(keeping) => {
                let fetched = self.fetch_again(group);
                (fetched.and_then(|chunks| self.decode(&shelf.whole(&part), chunks)), keeping)
            }
        };
        let whole = match whole {
            Err(error) if fetcher.may_lose(&error) => {
                return Ok((Resident::lost(fetcher, selected, part, error)?, None));
            }
            whole => whole?,
        };
        let kept = match keeping {
            Some(keeping) => keeping.exchange(&self.in_form(whole.clone())?),
            None => shelf.found(store, catalog, projection, group),
        };
        Ok((Resident::alone(selected, part, reader::cut(&whole, &part)), kept))
    }

    fn room(&self, part: Part) -> Option<Permit> {
        let fetcher = &self.source.fetcher;
        fetcher.budget.take(fetcher.held(part.group as usize))
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

/// The rows of a part, and what is to be kept of its row group.
struct Read {
    resident: Resident,
    keep: Option<(Keeping, RecordBatch)>,
}

impl From<Resident> for Read {
    fn from(resident: Resident) -> Self {
        Read { resident, keep: None }
    }
}
