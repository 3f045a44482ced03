//! The report about a data set that was rewritten.

use serde::Serialize;

/// The report about a data set that was rewritten.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackReport {
    /// The number of files.
    pub files: u64,
    /// The number of rows in all files.
    pub rows: u64,
    /// The bytes of all files that were read.
    pub bytes_before: u64,
    /// The bytes of all files that were written.
    pub bytes_after: u64,
    /// The columns of images.
    pub columns: Vec<RepackedColumn>,
}

/// The report about a column of images.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackedColumn {
    /// The name of the column.
    pub column: String,
    /// The column that has the images in their other form, if it is a different one.
    pub written_as: String,
    /// The number of images that were converted.
    pub changed: u64,
    /// The number of cells that stayed the same because they are not of the kind that is converted.
    pub kept: u64,
    /// The number of cells that are null.
    pub nulls: u64,
    /// The bytes of the converted images before the conversion.
    pub bytes_before: u64,
    /// The bytes of the converted images after the conversion.
    pub bytes_after: u64,
}
