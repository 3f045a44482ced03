//! The sources of the rows that are written: rows that can be read in any order, or files that are read from
//! the first row to the last.

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::Result;

use super::folder::DiskFile;

/// Rows that can be read in any order, such as the images of a folder.
pub(super) trait RowSource: Send + Sync {
    /// The kind of the source in the plural, such as "images".
    fn kind(&self) -> &'static str;
    /// The columns that are written.
    fn schema(&self) -> SchemaRef;
    /// The number of rows.
    fn len(&self) -> usize;
    /// The approximate size of row `row` in bytes.
    fn row_bytes(&self, row: usize) -> u64;
    /// A text that changes if row `row` is replaced by another row.
    fn identity(&self, row: usize) -> String;
    /// Reads these rows, on the threads of the current pool.
    fn read(&self, rows: &[usize]) -> Result<RecordBatch>;
    /// The names of the classes.
    fn classes(&self) -> &[String] {
        &[]
    }
    /// Remarks for the user, such as the number of files that are left out.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Files whose rows are read from the first to the last.
pub(super) trait TableSource: Send + Sync {
    /// The kind of the files, such as "CSV".
    fn kind(&self) -> &'static str;
    /// The columns that are written.
    fn schema(&self) -> SchemaRef;
    /// The files, with their sizes.
    fn files(&self) -> &[DiskFile];
    /// Reads file `file` and passes its rows to `take`, a few at a time.
    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()>;
}

/// The rows that are written as Parquet.
pub(super) enum WriteSource {
    Rows(Box<dyn RowSource>),
    Tables(Box<dyn TableSource>),
}

impl WriteSource {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            WriteSource::Rows(rows) => rows.kind(),
            WriteSource::Tables(tables) => tables.kind(),
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            WriteSource::Rows(rows) => rows.schema(),
            WriteSource::Tables(tables) => tables.schema(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        match self {
            WriteSource::Rows(rows) => rows.classes(),
            WriteSource::Tables(_) => &[],
        }
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            WriteSource::Rows(rows) => rows.remarks(),
            WriteSource::Tables(_) => Vec::new(),
        }
    }

    /// The bytes of all rows, or of all files.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            WriteSource::Rows(rows) => (0..rows.len()).map(|row| rows.row_bytes(row)).sum(),
            WriteSource::Tables(tables) => tables.files().iter().map(|file| file.bytes).sum(),
        }
    }
}
