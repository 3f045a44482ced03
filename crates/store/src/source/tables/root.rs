//! The location of a table.

use std::path::PathBuf;

/// The location of a table in its volume.
pub(in crate::source) enum TableRoot {
    /// A local folder.
    Folder(PathBuf),
    /// The key of an object store's prefix.
    Key(String),
}
