//! The row cache, as one loader uses it: under one selection of columns and rows.
//!
//! Entries hold all selected rows of a row group, so that they serve every lane, rank and order. Which file a row group
//! lies in is told by its address, size, version and footer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::RecordBatch;

use super::budget::Permit;
use crate::cache::{CLAIM_PATIENCE, CacheStats, Claim, DiskCache, Guard, Key};
use crate::catalog::{Catalog, Projection};
use crate::shard::Part;
use crate::source::Store;

/// Of the memory for row groups, the share that rows may take which wait to be written and are used already. A disk that
/// is slower than the epoch then keeps fewer, and holds up nothing.
const BEHIND_SHARE: u64 = 4;

/// Rows kept on local disk.
#[derive(Clone)]
pub(crate) struct Shelf {
    cache: DiskCache,
    /// Which rows, and in which form: the filter, where there is one, and how images are kept.
    content: Arc<str>,
    /// Selected rows of each row group.
    counts: Arc<[u32]>,
    behind: Arc<Behind>,
}

/// Bytes of rows whose writing waits or is under way.
struct Behind {
    bytes: AtomicU64,
    most: u64,
}

/// The right, and the duty, to keep the rows of a row group that is being fetched.
pub(crate) struct Keeping {
    guard: Guard,
    behind: Arc<Behind>,
}

impl Shelf {
    /// `content` tells which of the rows are kept, and in which form; `memory` is what the loader has for row groups.
    pub(crate) fn new(cache: DiskCache, content: &str, counts: Arc<[u32]>, memory: u64) -> Self {
        let behind = Arc::new(Behind { bytes: AtomicU64::new(0), most: memory / BEHIND_SHARE });
        Shelf { cache, content: content.into(), counts, behind }
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
        let rows = format!("{} of {}{}", self.counts[group], found.rows, self.content);
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

    pub(crate) fn take_warning(&self) -> Option<String> {
        self.cache.take_warning()
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
        let bytes = rows.get_array_memory_size() as u64;
        let before = behind.bytes.fetch_add(bytes, Relaxed);
        if before > 0 && before + bytes > behind.most {
            behind.bytes.fetch_sub(bytes, Relaxed);
            guard.decline_behind();
            return None;
        }
        Some(move || {
            guard.put(&rows);
            behind.bytes.fetch_sub(bytes, Relaxed);
            drop((rows, memory));
        })
    }
}
