//! Fetches row groups in the order of the plan: turns a stream of parts (runs of rows of a row group) into
//! their bytes. The code that decodes these bytes is not async.
//!
//! Memory permits are taken one after the other. Several row groups are then fetched at once, and come out in
//! the order of the plan again (`buffered`, never `buffer_unordered`), so nothing has to sort them later. The
//! store measures how many requests at once are best.
//!
//! Small row groups are fetched together in bunches, as long as a bunch does not have to wait for its next
//! row group.
//!
//! A footer that has not been read yet is read before the permit is taken, because it determines the size of
//! the permit. Footers are read some parts ahead, since each file would otherwise cost another round trip.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::task::{Context, Poll, ready};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{File, ProjectedLeaves, StoredGroup};
use forebay_store::source::{FOOTERS_AT_ONCE, Store};
use futures::future::{join, join_all, try_join_all};
use futures::{FutureExt, StreamExt, stream};
use tokio::task::JoinHandle;

use super::budget::{Budget, Permit};
use super::bunches::bunches;
use super::chunk_pages::GroupPages;
use super::reads::{Chunks, Reads};
use super::row_cache::{CacheWriter, Kept, Lookup, RowCache, WriteBehind};
use super::row_memory::Staying;
use crate::monitor::{Phase, RowGroupWatch, Stage, Watch};
use crate::samples::Head;
use crate::shard::Part;

/// Local row groups are fetched and decoded together as long as they take less than this number of bytes, as
/// stored and as rows: a task, a read and a lock for each would cost more than the work on their few rows.
const BUNCH_BYTES: u64 = 4 << 20;
/// The limit for row groups that are fetched together from a store over the network. It is lower, because the
/// first row group waits for the last one, and the network may be slow.
const REMOTE_BUNCH_BYTES: u64 = 128 << 10;
/// Row groups that are fetched together take at most the memory for row groups divided by this number.
const BUNCH_DIVISOR: u64 = 256;

/// The most bytes of local row groups that are read at once, since a disk is not faster with more. Two row
/// groups are read at once even if they are larger.
const LOCAL_BYTES_AT_ONCE: u64 = 64 << 20;
/// The number of row groups whose sizes are looked up to estimate how large row groups are.
const SAMPLED_GROUPS: usize = 16;

/// The settings for fetching row groups, and the memory budget that fetching is limited to.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) reads: Reads,
    pub(crate) budget: Budget,
    /// Whether the rows of a row group that cannot be read are skipped and counted, instead of ending the
    /// epoch.
    pub(crate) lenient: bool,
    /// For each row group of which only some pages are read, these pages.
    pub(crate) pages: Option<Arc<HashMap<usize, GroupPages>>>,
}

/// The progress of fetching. It tells whether fetching waits for storage or for memory.
#[derive(Debug)]
pub(crate) struct Gauge {
    /// The number of parts (runs of rows of a row group) that have got their memory.
    granted: AtomicU64,
    /// The number of bytes that the next part waits for; 0 while no part waits.
    asked: AtomicU64,
    watch: Watch,
    /// The rows that are being written to the cache. They take memory in addition to the rows of the epoch.
    behind: Option<Arc<WriteBehind>>,
}

impl Gauge {
    /// A gauge of the progress that `watch` records.
    pub(crate) fn new(watch: Watch) -> Self {
        Gauge { granted: AtomicU64::new(0), asked: AtomicU64::new(0), watch, behind: None }
    }

    /// Adds the rows that are being written to a cache. The epoch shares its memory with these rows.
    pub(crate) fn beside(self, behind: Option<Arc<WriteBehind>>) -> Self {
        Gauge { behind, ..self }
    }

    /// Whether the loader has a cache.
    pub(crate) fn has_cache(&self) -> bool {
        self.behind.is_some()
    }

    /// Whether fetching waits for memory that `budget` does not have, although all parts that have got memory
    /// have `arrived`. If so, rows that are being written to the cache release their memory.
    pub(crate) fn is_stuck(&self, arrived: u64, budget: &Budget) -> bool {
        let asked = self.asked.load(Acquire);
        let is_stuck = asked > 0 && self.granted.load(Acquire) == arrived && !budget.has(asked);
        if let Some(behind) = self.behind.as_ref().filter(|_| is_stuck) {
            behind.let_go();
        }
        is_stuck
    }
}

/// A part (a run of rows of a row group) that has got its memory and is fetched next.
struct Granted {
    part: Part,
    /// The result of reading the footer of the part's file.
    footer: Result<()>,
    /// The memory permit of the part; `None` if the budget was closed.
    permit: Option<Permit>,
    watch: RowGroupWatch,
    /// The bytes that were requested for the permit.
    cost: u64,
}

/// The result of fetching one part, and the memory permit for it, which its rows keep.
pub(crate) struct Fetched {
    pub(crate) part: Part,
    pub(crate) found: FetchOutcome,
    /// The heads of the part: first rows of later row groups that belong to samples of this part.
    pub(crate) heads: Vec<FetchedHead>,
    pub(crate) permit: Permit,
    /// The record of the part in the monitor.
    pub(crate) watch: RowGroupWatch,
}

/// The result of fetching a head (first rows of a row group that belong to samples of an earlier one). Its
/// rows are not written to the cache.
pub(crate) struct FetchedHead {
    pub(crate) head: Head,
    pub(crate) found: FetchOutcome,
}

/// The result of fetching the rows of a part or a head.
pub(crate) enum FetchOutcome {
    /// The bytes of the row group's column chunks. The writer, if there is one, puts the decoded rows into
    /// the cache.
    Bytes(Chunks, Option<CacheWriter>),
    /// The rows of the row group from the cache. The writer, if there is one, puts them into the cache in
    /// another form.
    Rows(Kept, Option<CacheWriter>),
    /// The rows of a row group that stays in memory from epoch to epoch.
    Staying(Staying),
    /// No rows: the row group cannot be read for this reason, and its rows are skipped.
    Lost(Error),
}

impl FetchOutcome {
    /// Whether the rows will be written to the cache.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, FetchOutcome::Bytes(_, Some(_)) | FetchOutcome::Rows(_, Some(_)))
    }

    /// The number of bytes that were fetched.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            FetchOutcome::Bytes(chunks, _) => chunks.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
            FetchOutcome::Rows(..) | FetchOutcome::Staying(_) | FetchOutcome::Lost(_) => 0,
        }
    }
}

impl Fetcher {
    /// A copy of the fetcher with another row cache, or with the same row cache in another form.
    pub(crate) fn with_cache(&self, row_cache: Option<RowCache>) -> Self {
        Fetcher { reads: Reads { row_cache, ..self.reads.clone() }, ..self.clone() }
    }

    /// A copy of the fetcher with another view of the store.
    pub(crate) fn with_store(&self, store: Store) -> Self {
        Fetcher { reads: Reads { store, ..self.reads.clone() }, ..self.clone() }
    }

    /// Fetches `parts`. Passes the results to `begin` when they arrive, those of small neighbours together.
    /// Passes what `begin` returns to `pass_on`, in the order of `parts`, until `pass_on` returns `false`
    /// because nobody receives it.
    pub(crate) async fn run<T: Send + 'static, B: Future<Output = T> + Send>(
        &self,
        parts: impl stream::Stream<Item = Part> + Send,
        gauge: Arc<Gauge>,
        begin: impl Fn(Vec<Fetched>) -> B + Clone + Send + 'static,
        pass_on: impl AsyncFn(Result<T>) -> bool + Send,
    ) {
        let granted = parts
            .map(|part| async move { (part, self.reads.read_footer(part.group as usize).await) })
            .buffered(FOOTERS_AT_ONCE)
            .then(|(part, footer)| {
                let (budget, gauge, cost) =
                    (self.budget.clone(), gauge.clone(), self.reads.cost_now(&part).total());
                let watch = gauge.watch.asks_for(part.group);
                async move {
                    gauge.asked.store(cost.max(1), Release);
                    let permit = budget.acquire(cost).await;
                    gauge.granted.fetch_add(1, AcqRel);
                    gauge.asked.store(0, Release);
                    Granted { part, footer, permit, watch, cost }
                }
            });
        let fetched = bunches(granted, |part| part.cost, self.bunch_bytes())
            .map(|bunch| UnderWay::start(self.clone(), bunch, begin.clone()))
            .buffered(self.at_once());
        let mut fetched = std::pin::pin!(fetched);
        while let Some((begun, failure)) = fetched.next().await {
            if let Some(begun) = begun
                && !pass_on(Ok(begun)).await
            {
                return;
            }
            if let Some(failure) = failure {
                pass_on(Err(failure)).await;
                return;
            }
        }
    }

    /// The number of row groups, or of bunches of small ones, that are fetched at once.
    pub(crate) fn at_once(&self) -> usize {
        let at_once = self.reads.store.row_groups_at_once();
        if !self.reads.store.is_local() {
            return at_once;
        }
        let sampled = (0..self.reads.catalog.groups.len()).take(SAMPLED_GROUPS);
        let largest = sampled.map(|group| self.reads.stored(group)).max().unwrap_or(0);
        let fitting = usize::try_from(LOCAL_BYTES_AT_ONCE / largest.max(1)).unwrap_or(at_once);
        fitting.max(2).min(at_once)
    }

    /// The number of row groups that are fetched together as a bunch; 1 if they are too large for that.
    pub(crate) fn in_a_bunch(&self) -> usize {
        let sampled = (0..self.reads.catalog.groups.len()).take(SAMPLED_GROUPS);
        let largest = sampled.map(|group| self.reads.stored(group)).max().unwrap_or(0);
        usize::try_from(self.bunch_bytes() / largest.max(1)).unwrap_or(1).clamp(1, self.at_once())
    }

    /// The most bytes that the row groups of one bunch take together.
    fn bunch_bytes(&self) -> u64 {
        let most = match (&self.reads.row_cache, self.reads.store.is_local()) {
            // With a cache there are no bunches, because the cache is asked for each row group separately.
            (Some(_), _) => 0,
            (None, true) => BUNCH_BYTES,
            (None, false) => REMOTE_BUNCH_BYTES,
        };
        most.min(self.budget.bytes() / BUNCH_DIVISOR)
    }

    /// Fetches the parts of a bunch. After a failure, returns the parts before it, and the error.
    async fn fetch_all(&self, mut bunch: Vec<Granted>) -> (Vec<Fetched>, Option<Error>) {
        let mut fetched = Vec::with_capacity(bunch.len());
        let (mut reads, mut heads) = (Vec::new(), Vec::new());
        let staying: Vec<_> = bunch.iter().map(|granted| self.reads.staying(&granted.part)).collect();
        if bunch.len() > 1 && staying.iter().any(Option::is_none) {
            RowGroupWatch::all_go_on(bunch.iter_mut().map(|granted| &mut granted.watch), Phase::Fetch);
            let to_read = bunch.iter().zip(&staying).filter(|(_, staying)| staying.is_none());
            let parts = to_read.map(|(granted, _)| granted.part);
            let wanted = parts.map(|part| (part.group as usize, self.pages_of(&part))).collect::<Vec<_>>();
            reads = self.read_several(&wanted).await;
            let of_parts = bunch.iter().flat_map(|granted| self.reads.heads.of_group(granted.part.group));
            let wanted =
                of_parts.map(|head| (head.group as usize, self.head_pages(head))).collect::<Vec<_>>();
            if !wanted.is_empty() {
                heads = self.read_several(&wanted).await;
            }
        }
        let (mut reads, mut heads) = (reads.into_iter(), heads.into_iter());
        let mut failure = None;
        for (granted, staying) in bunch.into_iter().zip(staying) {
            let of_part =
                heads.by_ref().take(self.reads.heads.of_group(granted.part.group).count()).collect();
            let found = match staying {
                Some(staying) => self.staying(granted, staying),
                None => self.fetch(granted, reads.next(), of_part).await,
            };
            match found {
                Ok(part) => fetched.push(part),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        note_fetched(&mut fetched);
        (fetched, failure)
    }

    /// The result for a part whose row group stays in memory, so that nothing has to be fetched.
    fn staying(&self, granted: Granted, staying: Staying) -> Result<Fetched> {
        let Granted { part, permit, watch, .. } = granted;
        let permit = permit.ok_or_else(no_budget)?;
        if let Some(row_memory) = &self.reads.row_memory {
            row_memory.count_served(part.rows);
        }
        Ok(Fetched { part, found: FetchOutcome::Staying(staying), heads: Vec::new(), permit, watch })
    }

    /// Fetches a part and its heads. `read` and `heads` have the bytes that were already read, together
    /// with those of other parts. The rows come from the cache if it has them.
    async fn fetch(
        &self,
        granted: Granted,
        read: Option<Result<Chunks>>,
        heads: Vec<Result<Chunks>>,
    ) -> Result<Fetched> {
        let Granted { part, footer, permit, mut watch, .. } = granted;
        let permit = permit.ok_or_else(no_budget)?;
        let (footer, read) = match (footer, read) {
            (Ok(()), Some(Ok(chunks)))
                if self.reads.row_cache.is_none()
                    && self.reads.heads.of_group(part.group).next().is_none() =>
            {
                let found = FetchOutcome::Bytes(chunks, None);
                return Ok(Fetched { part, found, heads: Vec::new(), permit, watch });
            }
            other => other,
        };
        if self.reads.row_cache.is_some() {
            watch.go_on(Phase::Cache);
        }
        let own = async {
            Ok(match self.turn(&part).await {
                Lookup::Hit(kept, writer) => {
                    watch.count(Stage::Cache, 1, kept.rows.get_array_memory_size() as u64);
                    FetchOutcome::Rows(kept, writer)
                }
                Lookup::Miss(writer) => {
                    watch.go_on(Phase::Fetch);
                    let read = match (footer, read) {
                        (Err(error), _) => Err(error),
                        (Ok(()), Some(read)) => read,
                        (Ok(()), None) => self.read(&part).await,
                    };
                    match read {
                        Err(error) if self.may_lose(&error) => FetchOutcome::Lost(error),
                        read => FetchOutcome::Bytes(read?, writer),
                    }
                }
            })
        };
        let mut heads = heads.into_iter();
        let heads = try_join_all(
            self.reads.heads.of_group(part.group).map(|head| self.fetch_head(head, heads.next())),
        );
        let (found, heads) = join(own, heads).await;
        Ok(Fetched { part, found: found?, heads: heads?, permit, watch })
    }

    /// Fetches a head. Its rows come from the cache if the cache has its row group now; `read` has its bytes
    /// if they were read already.
    async fn fetch_head(&self, head: Head, read: Option<Result<Chunks>>) -> Result<FetchedHead> {
        if let (None, Some(kept)) = (&read, self.kept_head(head).await) {
            return Ok(FetchedHead { head, found: FetchOutcome::Rows(kept, None) });
        }
        let read = match read {
            Some(read) => read,
            None => self.read_head(head).await,
        };
        let found = match read {
            Err(error) if self.may_lose(&error) => FetchOutcome::Lost(error),
            read => FetchOutcome::Bytes(read?, None),
        };
        Ok(FetchedHead { head, found })
    }

    /// The rows of a head's row group from the cache. `None` if they are not there, or if the cache's files
    /// cannot be mapped, so that the rows would take memory of this process.
    async fn kept_head(&self, head: Head) -> Option<Kept> {
        let row_cache = self.reads.row_cache.clone().filter(|row_cache| row_cache.cache().is_mapped())?;
        let Reads { store, catalog, projection, .. } = self.reads.clone();
        let find = move || row_cache.found_beside(&store, &catalog, &projection, head.group as usize);
        // If the cache fails, the head is read from the store instead.
        tokio::task::spawn_blocking(find).await.ok().flatten()
    }

    /// Reads the column chunks of a head, or some of their pages, without taking memory from the budget.
    pub(crate) async fn read_head(&self, head: Head) -> Result<Chunks> {
        self.reads.read_pages(head.group as usize, self.head_pages(head)).await
    }

    /// The pages to read for a head; `None` for all pages.
    pub(crate) fn head_pages(&self, head: Head) -> Option<&GroupPages> {
        let all =
            || self.pages.as_ref().filter(|_| self.reads.row_cache.is_none())?.get(&(head.group as usize));
        self.reads.heads.pages(head.group).or_else(all)
    }

    /// Asks the cache for a part's row group. If the cache does not have it, this loader has to fetch it.
    async fn turn(&self, part: &Part) -> Lookup {
        let row_cache = self.reads.row_cache.clone().filter(|_| self.reads.pieces.piece_of(part).is_none());
        let (Some(row_cache), group) = (row_cache, part.group as usize) else { return Lookup::Miss(None) };
        let Reads { store, catalog, projection, .. } = self.reads.clone();
        let asked = tokio::task::spawn_blocking(move || row_cache.turn(&store, &catalog, &projection, group));
        // If the cache fails, the row group is fetched from the store instead.
        asked.await.unwrap_or(Lookup::Miss(None))
    }

    /// Whether an error only causes the rows of one row group to be skipped. That is possible for a file that
    /// no longer exists and for damaged data, but not for a file whose content has changed.
    pub(crate) fn may_lose(&self, error: &Error) -> bool {
        self.lenient && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
    }

    /// The pages to read for a part; `None` for all pages. A cache keeps whole row groups, so it needs all
    /// pages.
    pub(crate) fn pages_of(&self, part: &Part) -> Option<&GroupPages> {
        let piece = self.reads.pieces.piece_of(part).map(|piece| &piece.pages);
        let found =
            || self.pages.as_ref().filter(|_| self.reads.row_cache.is_none())?.get(&(part.group as usize));
        piece.or_else(found)
    }

    /// The byte ranges to read for several row groups. Adjacent ranges are joined into one, since a column
    /// chunk of a small row group may have only some hundred bytes. They are not joined if the rows of a
    /// column refer to the fetched bytes, because such rows would then keep the bytes of neighbouring columns
    /// in memory as well.
    fn ranges_of_several(&self, wanted: &[(usize, Option<&GroupPages>)]) -> Result<Vec<Vec<Range<u64>>>> {
        let (mut leaves, are_kept) =
            (ProjectedLeaves::new(&self.reads.projection), self.reads.projection.keeps_bytes());
        let ranges = wanted.iter().map(|&(group, pages)| {
            let group = &self.reads.catalog.groups[group];
            let footer = self.reads.catalog.files[group.file].footer()?;
            let leaves = leaves.in_file(&footer.columns);
            let chunks = |stored: StoredGroup| footer.chunks_at(stored.index, leaves.iter().copied());
            let whole = self.reads.catalog.stored(group).flat_map(chunks).map(|(_, chunk)| chunk.range());
            Ok(match (pages, are_kept) {
                (None, true) => whole.collect(),
                (None, false) => joined(whole),
                (Some(pages), true) => pages.ranges(whole.collect()),
                (Some(pages), false) => joined(pages.ranges(whole.collect())),
            })
        });
        ranges.collect()
    }

    /// Reads the column chunks, or some of their pages, for several row groups whose footers have been read.
    async fn read_several(&self, wanted: &[(usize, Option<&GroupPages>)]) -> Vec<Result<Chunks>> {
        if !self.reads.store.is_local() {
            return join_all(wanted.iter().map(|&(group, pages)| self.reads.read_pages(group, pages))).await;
        }
        let mut files: Vec<usize> =
            wanted.iter().map(|(group, _)| self.reads.catalog.groups[*group].file).collect();
        let of_groups = files.clone();
        files.sort_unstable();
        files.dedup();
        let place = |file| files.partition_point(|other| *other < file);
        let read = async {
            let ranges = self.ranges_of_several(wanted)?;
            let reads = of_groups.iter().map(|file| place(*file)).zip(ranges).collect();
            let files: Vec<&File> = files.iter().map(|file| &self.reads.catalog.files[*file]).collect();
            self.reads.store.read_local(&files, reads, self.reads.projection.keeps_bytes()).await
        };
        // After a failure nothing is returned. The row groups are then read one by one, which shows which of
        // them is at fault.
        read.await.unwrap_or_default().into_iter().map(Ok).collect()
    }

    /// Reads the column chunks of a part, or some of their pages, without taking memory from the budget.
    pub(crate) async fn read(&self, part: &Part) -> Result<Chunks> {
        self.reads.read_pages(part.group as usize, self.pages_of(part)).await
    }
}

fn no_budget() -> Error {
    Error::new(ErrorKind::Closed, "the memory budget was closed")
}

/// Records that these row groups are fetched, and wait for their turn to be decoded.
fn note_fetched(fetched: &mut [Fetched]) {
    let (mut row_groups, mut bytes) = (0, 0);
    for Fetched { found, heads, .. } in &*fetched {
        let of_part = found.bytes() + heads.iter().map(|head| head.found.bytes()).sum::<u64>();
        row_groups += u64::from(matches!(found, FetchOutcome::Bytes(..)) || of_part > 0);
        bytes += of_part;
    }
    if let Some(first) = fetched.first().filter(|_| row_groups > 0) {
        first.watch.count(Stage::Fetch, row_groups, bytes);
    }
    RowGroupWatch::all_go_on(fetched.iter_mut().map(|fetched| &mut fetched.watch), Phase::Fetched);
}

/// Joins adjacent ranges into one.
fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(1);
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// A bunch of row groups that is fetched in a separate task, while earlier ones wait to be decoded. Without
/// the task, a future that nobody polls would make no progress and look like a slow store. Dropping this
/// value ends the task.
struct UnderWay<T>(JoinHandle<Outcome<T>>);

/// The outcome of a bunch: the result for the parts before the first failure, and the failure, if there are
/// any.
type Outcome<T> = (Option<T>, Option<Error>);

impl<T: Send + 'static> UnderWay<T> {
    fn start<B: Future<Output = T> + Send>(
        fetcher: Fetcher,
        bunch: Vec<Granted>,
        begin: impl Fn(Vec<Fetched>) -> B + Send + 'static,
    ) -> Self {
        UnderWay(tokio::spawn(async move {
            let (fetched, failure) = fetcher.fetch_all(bunch).await;
            let begun = if fetched.is_empty() { None } else { Some(begin(fetched).await) };
            (begun, failure)
        }))
    }
}

impl<T> Future for UnderWay<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        let ended = ready!(self.0.poll_unpin(context));
        Poll::Ready(ended.unwrap_or_else(|error| {
            let failure = match error.is_cancelled() {
                true => Error::closed(),
                false => Error::new(ErrorKind::Internal, error.to_string()),
            };
            (None, Some(failure))
        }))
    }
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
