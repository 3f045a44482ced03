//! Helpers that several of these tests share.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::fs::File;
use std::path::Path;

use forebay::arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// Writes a batch to a file with row groups of `rows` rows.
pub(super) fn write_batch(path: &Path, batch: &RecordBatch, rows: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Random numbers that are the same in each run.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
