//! Rows in one place: in memory of this process, or mapped from the cache.

use std::sync::Arc;

use forebay_arrow::array::RecordBatch;

use super::budget::Permit;
use crate::cache::Entry;

/// Rows that lie in one place: in memory of this process, or in a mapped file.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    /// The cache entry, if the rows are mapped and so take no memory of this process: it knows whether
    /// another program changed them.
    pub(super) mapped: Option<Entry>,
    /// The permit for the memory of the rows, if they replaced mapped rows.
    pub(super) permit: Option<Permit>,
}

impl Rows {
    pub(super) fn new(batch: RecordBatch, mapped: Option<Entry>) -> Arc<Rows> {
        Arc::new(Rows { batch, mapped, permit: None })
    }

    /// Whether other programs can change the rows.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Whether everything that was read from the rows so far equals what was cached.
    pub(crate) fn is_intact(&self) -> bool {
        self.mapped.as_ref().is_none_or(Entry::is_intact)
    }
}
