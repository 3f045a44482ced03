//! The rows of one cached row group.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use forebay_arrow::compute::{TakeOptions, take_arrays};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;

use super::seal::Seal;
use super::stats::Counters;
use crate::batch::ValueNumbers;

/// The verified rows of one row group from the cache. Cheap to clone.
///
/// On a local disk the rows are in the page cache, not in the process's own memory: a page is read when one
/// of its rows is, and the kernel may drop the page again. The rows stay readable whatever happens to the
/// folder, but another program may change them in place. Values that were read from a mapped entry are right
/// if [`is_intact`](Self::is_intact) is true afterwards. Arrow does not check offsets and views again when it
/// reads a value, so a caller that cannot rule out such programs, and does not check offsets itself, takes a
/// copy ([`DiskCache::get_copy`](super::DiskCache::get_copy)).
#[derive(Clone)]
pub struct Entry {
    pub(super) batch: RecordBatch,
    pub(super) numbers: ValueNumbers,
    pub(super) bytes: u64,
    pub(super) seal: Option<Arc<Seal>>,
    pub(super) counters: Arc<Counters>,
}

impl Entry {
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.batch.num_rows() as u64
    }

    /// The size of the entry on disk, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the rows are mapped, and so take no memory of this process, rather than read into it.
    pub fn is_mapped(&self) -> bool {
        self.seal.is_some()
    }

    /// Whether everything read from the rows so far is what was put into the cache: no program wrote to the
    /// entry's file, truncated, exchanged or removed it, and the disk delivered all of it. Always true for
    /// rows that are not mapped. Costs one read of a file's metadata.
    pub fn is_intact(&self) -> bool {
        self.seal.as_ref().is_none_or(|seal| seal.is_intact())
    }

    /// For each column of texts or bytes in which values repeat, the number of the value in each row.
    pub(crate) fn numbers(&self) -> &ValueNumbers {
        &self.numbers
    }

    /// All rows, without copying them.
    pub fn read(&self) -> RecordBatch {
        self.counters.read_bytes.fetch_add(self.bytes, Relaxed);
        self.batch.clone()
    }

    /// Takes the given rows, in that order; a row may come twice. If the entry is mapped, only the pages of
    /// these rows are touched.
    ///
    /// Fixed-size values are copied; strings and binary values are not, their views point into the entry.
    ///
    /// # Errors
    /// `Internal` for a row out of range.
    pub fn take(&self, rows: &[u32]) -> Result<RecordBatch> {
        let share = rows.len() as f64 / self.rows().max(1) as f64;
        self.counters.read_bytes.fetch_add((self.bytes as f64 * share) as u64, Relaxed);
        let indices = UInt32Array::from(rows.to_vec());
        let columns = take_arrays(self.batch.columns(), &indices, Some(TakeOptions { check_bounds: true }))
            .or_fail()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(self.batch.schema(), columns, &options).or_fail()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { bytes, seal, .. } = self;
        f.debug_struct("Entry")
            .field("bytes", bytes)
            .field("is_mapped", &seal.is_some())
            .finish_non_exhaustive()
    }
}
