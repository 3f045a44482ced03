//! The row cache, as one loader uses it: under one selection of columns and rows.
//!
//! Entries hold all selected rows of a row group, so that they serve every lane, rank and order. Which file a row group
//! lies in is told by its address, size, version and footer. Images in them may have been brought into another [`Form`];
//! where rows are not kept in the form that is wanted, those that hold files are used to make it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::RecordBatch;

use super::budget::Permit;
use crate::cache::{CLAIM_PATIENCE, Claim, DiskCache, Entry, Guard, Key};
use crate::catalog::{Catalog, Projection};
use crate::decode::{Form, Image};
use crate::shard::Part;
use crate::source::Store;

/// Of the memory for row groups, the share that rows may take which wait to be written and are used already. A disk that
/// is slower than the epoch then keeps fewer, and holds up nothing.
const BEHIND_SHARE: u64 = 4;

/// Rows kept on local disk.
#[derive(Clone)]
pub(crate) struct Shelf {
    cache: DiskCache,
    /// Which rows: the filter, where there is one.
    content: Arc<str>,
    /// Columns of images that can be kept in another form than as files, and what for.
    images: Arc<[(usize, Image)]>,
    /// How they are; `None`: as files.
    form: Option<Form>,
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
    /// `filter` tells which of the rows are kept, `images` which columns of them may be in another form; `memory` is what
    /// the loader has for row groups.
    pub(crate) fn new(
        cache: DiskCache,
        filter: Option<&str>,
        images: Arc<[(usize, Image)]>,
        counts: Arc<[u32]>,
        memory: u64,
    ) -> Self {
        let behind = Arc::new(Behind { bytes: AtomicU64::new(0), most: memory / BEHIND_SHARE });
        let content = filter.map_or(String::new(), |filter| format!(" where {filter}"));
        Shelf { cache, content: content.into(), images, form: None, counts, behind }
    }

    /// The same rows in another form.
    pub(crate) fn in_form(&self, form: Option<Form>) -> Self {
        Shelf { form, ..self.clone() }
    }

    /// How images are kept.
    pub(crate) fn form(&self) -> Option<Form> {
        self.form
    }

    /// Columns of images that can be kept in another form than as files, and what for.
    pub(crate) fn images(&self) -> &[(usize, Image)] {
        &self.images
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
        let kept = |entry: Entry| Kept { mapped: entry.is_mapped(), rows: entry.read() };
        match self.cache.claim(&self.key(store, catalog, projection, group), CLAIM_PATIENCE) {
            Claim::Ready(entry) => Turn::Here(kept(entry), None),
            Claim::Mine(guard) => {
                let keeping = Keeping { guard, behind: self.behind.clone() };
                let files = self.form.map(|_| self.in_form(None).key(store, catalog, projection, group));
                match files.and_then(|key| self.cache.get(&key)) {
                    Some(entry) => Turn::Here(kept(entry), Some(keeping)),
                    None => Turn::Ours(Some(keeping)),
                }
            }
            Claim::Alone => Turn::Ours(None),
        }
    }

    /// The key of a row group's rows.
    pub(crate) fn key(&self, store: &Store, catalog: &Catalog, projection: &Projection, group: usize) -> Key {
        let found = &catalog.groups[group];
        let file = &catalog.files[found.file];
        let version = format!("{} footer:{:016x}", file.version, file.footer_hash);
        let mut rows = format!("{} of {}{}", self.counts[group], found.rows, self.content);
        if let Some(form) = self.form {
            for (column, image) in &*self.images {
                rows += &format!("; column {column}: {}", image.kept_as(form));
            }
        }
        Key::new(&store.address(file), file.size, &version, found.index, &rows, projection.schema())
    }

    /// The cache itself.
    pub(crate) fn cache(&self) -> &DiskCache {
        &self.cache
    }

    /// All selected rows of a part's row group: what is kept.
    pub(crate) fn whole(&self, part: &Part) -> Part {
        Part { group: part.group, start: 0, rows: self.counts[part.group as usize] }
    }
}

/// Whose turn it is.
pub(crate) enum Turn {
    /// The rows are here; and to be kept in the form that is wanted, if there is a [`Keeping`].
    Here(Kept, Option<Keeping>),
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
