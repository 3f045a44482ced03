//! Prefetches one epoch: fetches its row groups in the order of the plan, and decodes a few of them ahead.
//!
//! The fetching is async. Its results go into a [`RowGroupQueue`], from which an ordinary thread takes them.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::source::Store;
use futures::{StreamExt, stream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::row_groups::{PendingRowGroups, RowGroupDecoder, Source};
use super::sizing::READ_AHEAD;
use super::slow_start::SlowStart;
use crate::monitor::Watch;
use crate::reader::fetch::{Fetched, Gauge};
use crate::reader::row_cache::RowCache;
use crate::samples::EpochSamples;
use crate::shard::{Deals, OrderSpec, Part, PlannedStep, Walk};

/// Identifies a prefetch: an epoch, an order and the row where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrefetchKey {
    pub(crate) epoch: u64,
    /// The row of the epoch at which to begin, counted over all ranks.
    pub(crate) start: u64,
    pub(crate) order: OrderSpec,
}

/// A function that makes a walk which lists the row groups to fetch for each step, but not the rows.
pub(crate) type Scout = Box<dyn FnOnce() -> Walk + Send>;

/// A prefetch that has begun: the queue of its row groups, the gauge of its progress, and its control.
pub(super) struct Prefetch {
    pub(super) arriving: RowGroupQueue,
    pub(super) gauge: Arc<Gauge>,
    pub(super) control: PrefetchControl,
}

/// Controls how much is fetched. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(super) struct PrefetchControl {
    head_start: Arc<HeadStart>,
    /// Cancels the fetching of further row groups.
    fetching: CancellationToken,
    /// Cancels all requests to the store, also those that fetch a damaged row group again.
    all: CancellationToken,
}

impl PrefetchControl {
    /// Lets the row groups of the first batches be fetched.
    pub(super) fn start(&self) {
        self.head_start.raise(FetchLimit::HeadStart);
    }

    /// Lets all row groups be fetched. From now on, the statistics count the bytes that were fetched in
    /// advance among the needed bytes.
    pub(super) fn fetch_all(&self) {
        self.head_start.fetch_all();
    }

    /// Ends the fetching of further row groups. One that has arrived may still be fetched again if it is
    /// damaged, or if its copy in the cache was changed.
    pub(super) fn cancel_fetching(&self) {
        self.fetching.cancel();
    }

    /// Cancels all requests to the store.
    pub(super) fn cancel(&self) {
        self.all.cancel();
    }

    /// Cancels all requests to the store when the guard is dropped.
    pub(super) fn cancel_on_drop(&self) -> DropGuard {
        self.all.clone().drop_guard()
    }
}

/// How much of an epoch may be fetched; the limit only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FetchLimit {
    Nothing,
    HeadStart,
    All,
}

/// The limit on fetching for an epoch that has not begun, and may never begin. Before it begins, the row
/// groups are fetched for the batches that can be made in advance, and then as many more as the store fetches
/// at once, so that the store is busy when the epoch begins.
struct HeadStart {
    limit: watch::Sender<FetchLimit>,
    slow_start: SlowStart,
    /// The store, which counts the bytes that were fetched in advance.
    store: Store,
}

impl HeadStart {
    fn new(store: Store) -> Self {
        HeadStart { limit: watch::Sender::new(FetchLimit::Nothing), slow_start: SlowStart::new(), store }
    }

    fn raise(&self, limit: FetchLimit) {
        self.limit.send_if_modified(|now| {
            let rises = limit > *now;
            *now = limit.max(*now);
            rises
        });
    }

    fn fetch_all(&self) {
        self.store.begin();
        self.raise(FetchLimit::All);
    }

    /// Waits until the limit has been raised at least to `limit`.
    async fn reached(&self, limit: FetchLimit) {
        // This fails only if the channel is closed, which cannot be: its sender is a field of `self`.
        drop(self.limit.subscribe().wait_for(|now| *now >= limit).await);
    }

    /// Returns a stream of the parts (rows of one row group each) that `steps` need, each as soon as it may
    /// be fetched. The parts of the first `ahead` steps and the next `more` parts may be fetched before the
    /// epoch begins, all others only after the limit is raised to `All`. In addition, `slow_start` limits how
    /// many parts are on their way at the same time.
    fn parts(
        self: Arc<Self>,
        steps: impl Iterator<Item = PlannedStep> + Send,
        ahead: usize,
        mut more: usize,
        bytes_of: impl Fn(&Part) -> u64 + Send,
    ) -> impl stream::Stream<Item = Part> + Send {
        let parts =
            steps.enumerate().flat_map(|(at, step)| step.entering.into_iter().map(move |part| (at, part)));
        let mut begun = 0;
        stream::iter(parts).then(move |(at, part)| {
            begun += 1;
            let held_back = at >= ahead && more == 0;
            if at >= ahead {
                more = more.saturating_sub(1);
            }
            let (head_start, bytes) = (self.clone(), bytes_of(&part));
            async move {
                if held_back {
                    head_start.reached(FetchLimit::All).await;
                }
                head_start.slow_start.may_begin(begun, bytes, at == 0).await;
                part
            }
        })
    }
}

/// The error for a prefetch that ends without being cancelled.
pub(super) fn ended_early() -> Error {
    Error::new(ErrorKind::Internal, "fetching ended before its plan did")
}

/// The receiving end of a prefetch, where a thread waits for the parts in the order of the plan.
pub(super) struct RowGroupQueue {
    parts: Receiver<Result<PendingRowGroups>>,
}

impl RowGroupQueue {
    /// Waits for the next parts, for `timeout` at most.
    pub(super) fn next(&self, timeout: Duration) -> Result<Result<PendingRowGroups>, RecvTimeoutError> {
        self.parts.recv_timeout(timeout)
    }
}

/// Parts that were fetched together.
enum Arrival {
    /// The parts were fetched, and will be decoded when few other parts wait.
    Fetched(Vec<Fetched>),
    Decoding(PendingRowGroups),
}

/// Calls a function when it is dropped, so that the function is called however a task ends.
struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl Prefetch {
    /// Begins to prefetch the row groups of `samples` that `scout` lists, and reports to `watch`. Nothing is
    /// fetched before the control of the prefetch allows it. The rows of a part arrive in the order of
    /// delivery that `deals` has, or as stored if it is `None`. Calls `ended` when nothing more will be
    /// fetched, for whatever reason.
    pub(super) fn start(
        source: &Source,
        samples: Arc<EpochSamples>,
        deals: Option<Arc<Deals>>,
        scout: Scout,
        ended: impl FnOnce() + Send + 'static,
        watch: Watch,
    ) -> Self {
        let (arrive, parts) = unbounded();
        let waiting = Arc::new(Semaphore::new(READ_AHEAD));
        let arriving = RowGroupQueue { parts };
        let behind = source.fetcher.reads.row_cache.as_ref().map(RowCache::behind);
        let gauge = Arc::new(Gauge::new(watch).beside(behind));
        let all = CancellationToken::new();
        let fetching = all.child_token();
        let store = source.fetcher.reads.store.ahead();
        let head_start = Arc::new(HeadStart::new(store.clone()));
        let (limited, ahead) = (head_start.clone(), source.ahead);
        let fetcher = source.fetcher.with_store(store);
        let source = Source { fetcher, ..source.clone() };
        let runtime = source.runtime.clone();
        let decoder = RowGroupDecoder { source, samples, deals, end: all.clone() };
        let (fetcher, watched, cancelled) = (decoder.source.fetcher.clone(), gauge.clone(), fetching.clone());
        let fetch = async move {
            limited.reached(FetchLimit::HeadStart).await;
            let of_parts = fetcher.clone();
            let bytes_of = move |part: &Part| of_parts.reads.cost_now(part).stored;
            let parts = limited.clone().parts(scout(), ahead, fetcher.at_once(), bytes_of);
            let (at_once, turns) = (decoder.clone(), Arc::new(Semaphore::new(decoder.at_once())));
            let begin = move |fetched: Vec<Fetched>| {
                let bytes = fetched.iter().map(|fetched| fetched.found.bytes()).sum();
                limited.slow_start.add_fetched(fetched.len(), bytes);
                let (decoder, turns) = (at_once.clone(), turns.clone());
                // Row groups that will be written to the cache are decoded at once, even if the consumer of
                // this process is slow, because other processes may wait for them.
                let are_kept = fetched.iter().any(|fetched| fetched.found.is_kept());
                async move {
                    if !are_kept {
                        return Arrival::Fetched(fetched);
                    }
                    let turn = turns.acquire_owned().await.ok();
                    Arrival::Decoding(decoder.start(fetched, None, turn))
                }
            };
            let pass_on = async move |arrival: Result<Arrival>| {
                let arriving = match arrival {
                    Ok(Arrival::Decoding(arriving)) => arriving,
                    // Waits for a permit before it decodes the parts, so that only a few parts are decoded
                    // ahead.
                    Ok(Arrival::Fetched(fetched)) => match waiting.clone().acquire_owned().await {
                        Ok(permit) => decoder.start(fetched, Some(permit), None),
                        Err(_) => return false,
                    },
                    Err(error) => return arrive.send(Err(error)).is_ok(),
                };
                arrive.send(Ok(arriving)).is_ok()
            };
            fetcher.run(parts, watched, begin, pass_on).await;
        };
        runtime.spawn(async move {
            // The guard is created here, so that a task that never ran does not call `ended`.
            let _at_end = AtEnd(Some(ended));
            cancelled.run_until_cancelled_owned(fetch).await;
        });
        Prefetch { arriving, gauge, control: PrefetchControl { head_start, fetching, all } }
    }
}
