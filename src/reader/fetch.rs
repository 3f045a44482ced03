//! Row groups in plan order: from a list of parts to their bytes. The last async file.
//!
//! Permits are taken one after the other, then up to [`FETCHES_AHEAD`] requests run at once and their results come out
//! in plan order again (`buffered`, never `buffer_unordered`): order is planned, not restored.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::budget::{Budget, Permit};
use crate::catalog::{Catalog, Projection};
use crate::error::{Error, ErrorKind, Result};
use crate::shard::Part;
use crate::source::Store;

/// Requests that run at once. Enough to hide a local disk's latency; more only makes permits wait.
pub(crate) const FETCHES_AHEAD: usize = 4;

/// What fetching needs to know.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) projection: Arc<Projection>,
    pub(crate) budget: Budget,
}

/// How far fetching got: tells a wait for storage from a wait for memory that nobody will give back.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    granted: AtomicU64,
    waiting: AtomicBool,
}

impl Gauge {
    /// Whether fetching waits for memory while all that it was granted before, `arrived` parts, has arrived.
    pub(crate) fn is_stuck(&self, arrived: u64) -> bool {
        self.waiting.load(Acquire) && self.granted.load(Acquire) == arrived
    }
}

/// The bytes of one part's column chunks, and the permit that covers them and the rows they become.
pub(crate) struct Fetched {
    pub(crate) part: Part,
    pub(crate) chunks: Vec<(Range<u64>, Bytes)>,
    pub(crate) permit: Permit,
    /// Seconds from the request to the last byte.
    pub(crate) seconds: f64,
}

impl Fetcher {
    /// The bytes that a part's permit covers: its column chunks, and the rows that they become.
    pub(crate) fn cost(&self, part: &Part) -> u64 {
        self.stored(part.group as usize) + self.held(part.group as usize)
    }

    /// Bytes of a row group's column chunks.
    pub(crate) fn stored(&self, group: usize) -> u64 {
        self.catalog.stored_bytes(&self.catalog.groups[group], &self.projection)
    }

    /// Bytes that a row group's rows take in memory, at most.
    pub(crate) fn held(&self, group: usize) -> u64 {
        self.catalog.held_bytes(&self.catalog.groups[group], &self.projection)
    }

    /// Fetches `parts` and passes each result on, in order, until `pass_on` says that nobody listens any more.
    pub(crate) async fn run(
        &self,
        parts: impl Iterator<Item = Part> + Send,
        gauge: Arc<Gauge>,
        pass_on: impl AsyncFn(Result<Fetched>) -> bool + Send,
    ) {
        let fetched = stream::iter(parts)
            .then(|part| {
                let (budget, gauge, cost) = (self.budget.clone(), gauge.clone(), self.cost(&part));
                async move {
                    gauge.waiting.store(true, Release);
                    let permit = budget.acquire(cost).await;
                    gauge.granted.fetch_add(1, AcqRel);
                    gauge.waiting.store(false, Release);
                    (part, permit)
                }
            })
            .map(|(part, permit)| {
                let fetcher = self.clone();
                async move { fetcher.fetch(part, permit).await }
            })
            .buffered(FETCHES_AHEAD);
        let mut fetched = std::pin::pin!(fetched);
        while let Some(result) = fetched.next().await {
            let failed = result.is_err();
            if !pass_on(result).await || failed {
                return;
            }
        }
    }

    /// Reads the column chunks of a part's row group.
    async fn fetch(&self, part: Part, permit: Option<Permit>) -> Result<Fetched> {
        let Some(permit) = permit else {
            return Err(Error::new(ErrorKind::Closed, "the memory budget was closed"));
        };
        let started = Instant::now();
        let chunks = self.read(part.group as usize).await?;
        Ok(Fetched { part, chunks, permit, seconds: started.elapsed().as_secs_f64() })
    }

    /// Reads the column chunks of a row group, without a permit.
    pub(crate) async fn read(&self, group: usize) -> Result<Vec<(Range<u64>, Bytes)>> {
        let group = &self.catalog.groups[group];
        let ranges = self.catalog.byte_ranges(group, &self.projection);
        let file = &self.catalog.files[group.file];
        let bytes = self.store.read_ranges(file, &ranges).await?;
        Ok(ranges.into_iter().zip(bytes).collect())
    }
}
