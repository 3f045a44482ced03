//! The location of a table's folder.

use std::path::PathBuf;

/// The location of a table's folder, on the local disk or in an object store.
pub(in crate::source) enum TableRoot {
    /// A local folder.
    Folder(PathBuf),
    /// The prefix of the table's keys in an object store.
    Key(String),
}
