//! The report about a data set that was copied with converted images.

use serde::Serialize;

/// The report about a data set that was copied with converted images.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackReport {
    /// The number of files that were copied.
    pub files: u64,
    /// The number of rows in all files.
    pub rows: u64,
    /// The total size in bytes of the files that were read.
    pub bytes_before: u64,
    /// The total size in bytes of the files that were written.
    pub bytes_after: u64,
    /// A report for each column of images.
    pub columns: Vec<RepackedColumn>,
}

/// The report about one column of images.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackedColumn {
    /// The name of the column.
    pub column: String,
    /// The name of the column to which the converted images were written, which may be `column` itself.
    pub written_as: String,
    /// The number of images that were converted.
    pub changed: u64,
    /// The number of cells that were copied unchanged, because they do not hold an image of the kind to
    /// convert.
    pub kept: u64,
    /// The number of cells that are null.
    pub nulls: u64,
    /// The bytes of the converted images before the conversion.
    pub bytes_before: u64,
    /// The bytes of the converted images after the conversion.
    pub bytes_after: u64,
}
