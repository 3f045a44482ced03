//! The rows of a part in their present place: in memory of this process, or mapped and exchanged if they were
//! changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_arrow::array::RecordBatch;

use crate::cache::Entry;
use crate::reader::budget::Permit;

/// The rows of a part in their present place.
#[derive(Debug)]
pub(super) enum CurrentRows {
    /// The rows are in memory of this process.
    Owned(Arc<Rows>),
    /// The rows are mapped: they are exchanged for others if their entry in the cache was changed.
    Mapped(Mutex<Arc<Rows>>),
}

impl CurrentRows {
    pub(super) fn new(rows: Arc<Rows>) -> Self {
        if rows.is_mapped() { CurrentRows::Mapped(Mutex::new(rows)) } else { CurrentRows::Owned(rows) }
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&Arc<Rows>) -> T) -> T {
        match self {
            CurrentRows::Owned(rows) => look(rows),
            CurrentRows::Mapped(rows) => look(&lock(rows)),
        }
    }
}

/// The rows in one place.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    /// The cache entry, if the rows are mapped and so take no memory of this process. It knows whether
    /// another program changed them.
    pub(super) mapped: Option<Entry>,
    /// The permit for the rows' memory, if they replaced mapped rows.
    pub(super) permit: Option<Permit>,
}

impl Rows {
    pub(super) fn new(batch: RecordBatch, mapped: Option<Entry>) -> Arc<Rows> {
        Arc::new(Rows { batch, mapped, permit: None })
    }

    /// Whether other programs can change them.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Whether everything that was read from the rows so far equals what was cached.
    pub(crate) fn is_intact(&self) -> bool {
        self.mapped.as_ref().is_none_or(Entry::is_intact)
    }
}

pub(super) fn lock(rows: &Mutex<Arc<Rows>>) -> MutexGuard<'_, Arc<Rows>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}
