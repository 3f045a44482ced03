//! What is told of a data set that was written again.

use serde::Serialize;

/// What was written.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackReport {
    /// Files.
    pub files: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Bytes of all files that were read.
    pub bytes_before: u64,
    /// Bytes of all files that were written.
    pub bytes_after: u64,
    /// The columns of images.
    pub columns: Vec<RepackedColumn>,
}

/// What became of a column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepackedColumn {
    /// Its name.
    pub column: String,
    /// The column that has the images in their other form, where it is not the same one.
    pub written_as: String,
    /// Images that are in the other form now.
    pub changed: u64,
    /// Cells that stayed as they were: they do not have the other form.
    pub kept: u64,
    /// Cells that are null.
    pub nulls: u64,
    /// Bytes that the images that changed had.
    pub bytes_before: u64,
    /// Bytes that they have.
    pub bytes_after: u64,
}
