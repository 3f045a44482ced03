//! Rows that were found.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{TakeOptions, take_arrays};

use super::stats::Counters;
use crate::error::Result;

/// The rows of one row group, found in the cache and found right. Cheap to clone.
///
/// They stay readable whatever happens to the folder. On a local disk they lie in the page cache, not in the process's own
/// memory: a page is read when one of its rows is, and the kernel may drop it again. A disk that fails under a mapped page
/// ends the process with SIGBUS, as it does for a program's own code.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) batch: RecordBatch,
    pub(super) bytes: u64,
    pub(super) mapped: bool,
    pub(super) counters: Arc<Counters>,
}

impl Entry {
    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.batch.num_rows() as u64
    }

    /// Bytes of the entry on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the rows are mapped, and so take no memory of this process, or were read into it.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// All rows. Nothing is copied.
    pub fn read(&self) -> RecordBatch {
        self.counters.read_bytes.fetch_add(self.bytes, Relaxed);
        self.batch.clone()
    }

    /// The given rows, in that order; a row may come twice. Of a mapped entry only the pages of these rows are touched.
    ///
    /// Fixed-size values are copied; strings and binary values are not, their views point into the entry.
    ///
    /// Fails with `Internal` for a row that is not there.
    pub fn take(&self, rows: &[u32]) -> Result<RecordBatch> {
        let share = rows.len() as f64 / self.rows().max(1) as f64;
        self.counters.read_bytes.fetch_add((self.bytes as f64 * share) as u64, Relaxed);
        let indices = UInt32Array::from(rows.to_vec());
        let columns = take_arrays(self.batch.columns(), &indices, Some(TakeOptions { check_bounds: true }))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.batch.schema(), columns, &options)?)
    }
}
