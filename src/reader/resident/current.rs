//! The rows of a part as they are at present: in memory of this process, or mapped from a cache file. Mapped
//! rows are replaced if another program changes the file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::reader::placed::Rows;

/// The rows of a part as they are at present.
#[derive(Debug)]
pub(super) enum CurrentRows {
    /// The rows are in memory of this process.
    Owned(Arc<Rows>),
    /// The rows are mapped from a cache file, and are replaced if another program changes the file.
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

pub(super) fn lock(rows: &Mutex<Arc<Rows>>) -> MutexGuard<'_, Arc<Rows>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}
