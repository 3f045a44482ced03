//! The feed of one epoch: its row groups, fetched in plan order and decoded a little ahead.
//!
//! The last async file: [`Arrivals`] is where tasks end and threads begin.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, unbounded};
use rayon::ThreadPool;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::caught;
use super::stats::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::fetch::{Chunks, Fetched, Fetcher, Gauge};
use crate::reader::select::Selected;
use crate::reader::{self, Resident};
use crate::shard::{OrderSpec, Part, Walk};

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

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
    /// Ends the feed and all that it asked for.
    pub(super) end: CancellationToken,
    /// Says when all are fetched; never, where fetching ended before.
    pub(super) fetched: oneshot::Receiver<()>,
}

/// A part on its way: it arrives in plan order, and its rows when they are decoded.
pub(super) type Arriving = (Part, Receiver<Result<Resident>>);

/// The blocking end of the feed: parts in plan order.
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

impl Feed {
    /// Begins to fetch what `scout` finds, once `due` says so.
    pub(super) fn start(
        source: &Source,
        scout: Scout,
        due: impl Future<Output = bool> + Send + 'static,
    ) -> Self {
        let (arrive, parts) = unbounded();
        let places = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = Arrivals { parts, places: places.clone() };
        let gauge = Arc::new(Gauge::default());
        let (done, fetched) = oneshot::channel();
        let end = CancellationToken::new();
        let reading = Reading { source: source.clone(), end: end.clone() };
        let (fetcher, watched, stopped) = (source.fetcher.clone(), gauge.clone(), end.clone());
        let fetch = async move {
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
            if fetcher.run(parts, watched, pass_on).await {
                // Nobody waits for it where the epoch was left.
                let _ = done.send(());
            }
        };
        source.runtime.spawn(async move { stopped.run_until_cancelled_owned(fetch).await });
        Feed { arriving, gauge, end, fetched }
    }
}

/// What feeds read from, and with.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) runtime: Handle,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) fetcher: Fetcher,
    pub(super) selected: Arc<Selected>,
    pub(super) counters: Arc<Counters>,
    /// Bytes that one row group may decode to.
    pub(super) limit: u64,
}

/// Turns the fetched bytes of one feed into rows, on the pool.
#[derive(Clone)]
struct Reading {
    source: Source,
    end: CancellationToken,
}

impl Reading {
    fn start(&self, fetched: Fetched) -> Arriving {
        let (send, receive) = bounded(1);
        let part = fetched.part;
        let bytes = fetched.chunks.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.source.counters.fetch.add(1, bytes, fetched.seconds);
        let reading = self.clone();
        self.source.pool.spawn_fifo(move || {
            let started = Instant::now();
            let read = caught(|| reading.read(fetched));
            let bytes = read.as_ref().map_or(0, |resident| resident.rows.get_array_memory_size() as u64);
            reading.source.counters.rows.add(u64::from(part.rows), bytes, started.elapsed().as_secs_f64());
            // Nobody listens any more where the epoch was left.
            let _ = send.send(read);
        });
        (part, receive)
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

    /// Decodes a part. Damage may lie in the copy that came: the row group is fetched once more before it is an error.
    fn read(&self, fetched: Fetched) -> Result<Resident> {
        let Source { fetcher, selected, limit, .. } = &self.source;
        let Fetched { part, chunks, permit, lost, .. } = fetched;
        let decode = |chunks| reader::read(fetcher, selected, &part, chunks, *limit);
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
            Ok(rows) => Ok(Resident::new(fetcher, selected, part, rows, permit)),
            Err(error) if fetcher.may_lose(&error) => Resident::lost(fetcher, selected, part, error),
            Err(error) => Err(error),
        }
    }
}
