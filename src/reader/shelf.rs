//! The row cache, as one loader uses it: under one selection of columns and rows.
//!
//! Entries hold all selected rows of a row group, so that they serve every lane, rank and order. Which file a row group
//! lies in is told by its address, size, version and footer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::RecordBatch;

use super::budget::Permit;
use crate::cache::{CLAIM_PATIENCE, CacheStats, Claim, DiskCache, Guard, Key};
use crate::catalog::{Catalog, Projection};
use crate::shard::Part;
use crate::source::Store;

/// Row groups that may wait to be written while their rows are used already. A disk that is slower than the epoch then
/// keeps fewer, and holds up nothing.
const WRITES_BEHIND: usize = 4;

/// Rows kept on local disk.
#[derive(Clone)]
pub(crate) struct Shelf {
    cache: DiskCache,
    /// The filter, where there is one.
    filter: Option<Arc<str>>,
    /// Selected rows of each row group.
    counts: Arc<[u32]>,
    /// Writes that wait or are under way.
    behind: Arc<AtomicUsize>,
}

/// The right, and the duty, to keep the rows of a row group that is being fetched.
pub(crate) struct Keeping {
    guard: Guard,
    behind: Arc<AtomicUsize>,
}

impl Shelf {
    pub(crate) fn new(cache: DiskCache, filter: Option<String>, counts: Arc<[u32]>) -> Self {
        Shelf { cache, filter: filter.map(Into::into), counts, behind: Arc::default() }
    }

    /// Whose turn it is to fetch a row group. Waits for another thread or process that fetches it, so not to be called on
    /// a runtime's own threads.
    pub(crate) fn turn(
        &self,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Turn {
        let key = self.key(store, catalog, projection, group);
        match self.cache.claim(&key, CLAIM_PATIENCE) {
            Claim::Ready(entry) => Turn::Here(Kept { mapped: entry.is_mapped(), rows: entry.read() }),
            Claim::Mine(guard) => Turn::Ours(Some(Keeping { guard, behind: self.behind.clone() })),
            Claim::Alone => Turn::Ours(None),
        }
    }

    fn key(&self, store: &Store, catalog: &Catalog, projection: &Projection, group: usize) -> Key {
        let found = &catalog.groups[group];
        let file = &catalog.files[found.file];
        let version = format!("{} footer:{:016x}", file.version, file.footer_hash);
        let rows = match &self.filter {
            Some(filter) => format!("{} where {filter}", self.counts[group]),
            None => format!("all {}", self.counts[group]),
        };
        Key::new(&store.address(file), file.size, &version, found.index, &rows, projection.schema())
    }

    /// All selected rows of a part's row group: what is kept.
    pub(crate) fn whole(&self, part: &Part) -> Part {
        Part { group: part.group, start: 0, rows: self.counts[part.group as usize] }
    }

    /// Tells the cache that an epoch begins.
    pub(crate) fn epoch_begins(&self) {
        self.cache.epoch_begins();
    }

    /// The most bytes that are kept.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.cache.max_bytes()
    }

    pub(crate) fn stats(&self) -> CacheStats {
        self.cache.stats()
    }
}

/// Whose turn it is.
pub(crate) enum Turn {
    /// The rows are here.
    Here(Kept),
    /// They are to be fetched by us, and kept if there is a [`Keeping`].
    Ours(Option<Keeping>),
}

/// All selected rows of a row group, from the cache.
pub(crate) struct Kept {
    pub(crate) rows: RecordBatch,
    /// Whether they take none of this process's own memory.
    pub(crate) mapped: bool,
}

impl Keeping {
    /// Keeps `rows`, and gives back what is kept; `None` where nothing is.
    pub(crate) fn exchange(self, rows: &RecordBatch) -> Option<Kept> {
        let entry = self.guard.exchange(rows)?;
        Some(Kept { mapped: entry.is_mapped(), rows: entry.read() })
    }

    /// A task that keeps `rows` while they are used already; `None` where the disk is too far behind. The memory of the
    /// rows counts as used until it is done.
    pub(crate) fn behind(
        self,
        rows: RecordBatch,
        memory: Option<Arc<Permit>>,
    ) -> Option<impl FnOnce() + Send> {
        let Keeping { guard, behind } = self;
        if behind.fetch_add(1, Relaxed) >= WRITES_BEHIND {
            behind.fetch_sub(1, Relaxed);
            guard.decline_behind();
            return None;
        }
        Some(move || {
            guard.put(&rows);
            behind.fetch_sub(1, Relaxed);
            drop((rows, memory));
        })
    }
}
