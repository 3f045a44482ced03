//! The feed of one epoch: its row groups, fetched in plan order and decoded a little ahead.
//!
//! The last async file: [`RowGroupQueue`] is where tasks end and threads begin.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use futures::{StreamExt, stream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::row_groups::{PendingRowGroup, RowGroupDecoder, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Watch;
use crate::reader::fetch::{FetchOutcome, Fetched, Gauge};
use crate::reader::row_cache::RowCache;
use crate::shard::{OrderSpec, Part, Step, Walk};
use crate::source::Store;

/// Row groups that may wait, decoded or being decoded, for the plan to need them: enough that one is always ready, few
/// enough that they are still in the processor's caches.
const READ_AHEAD: usize = 2;

/// Which row groups a feed brings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrefetchKey {
    pub(crate) epoch: u64,
    /// The global row to begin at.
    pub(crate) start: u64,
    pub(crate) order: OrderSpec,
}

/// Walks over an epoch only to see which parts enter.
pub(crate) type Scout = Box<dyn FnOnce() -> Walk + Send>;

/// Row groups of one epoch on their way.
pub(super) struct Prefetch {
    pub(super) arriving: RowGroupQueue,
    pub(super) gauge: Arc<Gauge>,
    /// Bounds what is fetched before the epoch begins.
    pub(super) lead: Arc<HeadStart>,
    /// Ends the feed and all that it asked for.
    pub(super) end: Cancel,
    /// Ends the fetching alone: rows that are in use already may still have to be fetched once more.
    pub(super) enough: Cancel,
    /// Closed when nothing of it is fetched any more: all is, or what is left is not wanted.
    pub(super) over: oneshot::Receiver<()>,
}

/// Ends a feed from its other end.
#[derive(Clone)]
pub(super) struct Cancel(CancellationToken);

impl Cancel {
    pub(super) fn cancel(&self) {
        self.0.cancel();
    }

    /// Hangs up when the guard is dropped.
    pub(super) fn guard(self) -> DropGuard {
        self.0.drop_guard()
    }
}

/// How far fetching runs ahead of an epoch that has not begun, and may never: far enough for the batches that can be made
/// ahead, and then for as many row groups as the store fetches at once, so that it is at work when the epoch begins.
pub(super) struct HeadStart {
    /// Cancelled when the epoch begins.
    begun: CancellationToken,
    store: Store,
    /// Bytes that were fetched before; `None` once the epoch has begun.
    bytes: Mutex<Option<u64>>,
}

impl HeadStart {
    fn new(store: Store) -> Self {
        HeadStart { begun: CancellationToken::new(), store, bytes: Mutex::new(Some(0)) }
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

/// The failure of a feed that ends although nobody ended it.
pub(super) fn ended_early() -> Error {
    Error::new(ErrorKind::Internal, "fetching ended before its plan did")
}

/// The blocking end of the feed: parts in plan order.
pub(super) struct RowGroupQueue {
    parts: Receiver<Result<PendingRowGroup>>,
}

impl RowGroupQueue {
    /// Waits for the next part at most for `patience`.
    pub(super) fn next(&self, patience: Duration) -> Result<Result<PendingRowGroup>, RecvTimeoutError> {
        self.parts.recv_timeout(patience)
    }
}

/// A part that was fetched.
enum Begun {
    /// It waits for a place.
    Fetched(Box<Fetched>),
    /// It is being decoded.
    RowGroupDecoder(PendingRowGroup),
}

impl Prefetch {
    /// Begins to fetch what `scout` finds, once it is `due`, and notes it with `watch`.
    pub(super) fn start(
        source: &Source,
        scout: Scout,
        due: impl Future<Output = ()> + Send + 'static,
        watch: Watch,
    ) -> Self {
        let (arrive, parts) = unbounded();
        let places = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = RowGroupQueue { parts };
        let behind = source.fetcher.row_cache.as_ref().map(RowCache::behind);
        let gauge = Arc::new(Gauge::new(watch).beside(behind));
        let (fetching, over) = oneshot::channel::<()>();
        let end = CancellationToken::new();
        let fetching_ends = end.child_token();
        let lead = Arc::new(HeadStart::new(source.fetcher.store.clone()));
        let (leading, counted, ahead) = (lead.clone(), lead.clone(), source.ahead);
        let reading = RowGroupDecoder { source: source.clone(), end: end.clone() };
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
                        FetchOutcome::Bytes(_, Some(_)) | FetchOutcome::Rows(_, Some(_)) => {
                            let turn = turns.acquire_owned().await.ok();
                            Begun::RowGroupDecoder(reader.start(fetched, None, turn))
                        }
                        _ => Begun::Fetched(Box::new(fetched)),
                    }
                }
            };
            let pass_on = async move |begun: Result<Begun>| {
                let arriving = match begun {
                    Ok(Begun::RowGroupDecoder(arriving)) => Ok(arriving),
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
        Prefetch { arriving, gauge, lead, end: Cancel(end), enough: Cancel(fetching_ends), over }
    }
}
