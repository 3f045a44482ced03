//! A batch of rows that is either in memory of this process or memory-mapped from a file of the cache.

use std::sync::Arc;

use forebay_arrow::array::RecordBatch;

use super::budget::Permit;
use crate::cache::Entry;

/// Rows in one batch, which is either in memory of this process or memory-mapped from a file.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    /// The cache entry from whose file the rows are mapped; `None` if they are in memory of this process. The
    /// entry can tell whether another program has changed the file.
    pub(super) mapped: Option<Entry>,
    /// The permit for the memory of the rows, if they are in memory because mapped rows were changed.
    pub(super) permit: Option<Permit>,
}

impl Rows {
    pub(super) fn new(batch: RecordBatch, mapped: Option<Entry>) -> Arc<Rows> {
        Arc::new(Rows { batch, mapped, permit: None })
    }

    /// Whether the rows are mapped from a file, which other programs can change.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Whether everything that was read from the rows so far is as it was cached.
    pub(crate) fn is_intact(&self) -> bool {
        self.mapped.as_ref().is_none_or(Entry::is_intact)
    }
}
