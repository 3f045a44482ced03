//! The result of searching a location: plain files, or a table.

use crate::snapshot::Snapshot;
use crate::source::tables::{TableFormat, TableRoot};

/// The content that was found at a location.
pub(super) enum Location {
    /// Plain files.
    Files(Snapshot),
    /// A table. Its own list says which of its files are current.
    Table(FoundTable),
}

/// A table that was found at a location.
pub(super) struct FoundTable {
    pub(super) format: &'static dyn TableFormat,
    pub(super) root: TableRoot,
    /// The name of the file of the table's list, if the location named this file instead of the table's
    /// folder.
    pub(super) opened: Option<String>,
}

impl Location {
    /// The table in this folder, opened by the folder.
    pub(super) fn table(format: &'static dyn TableFormat, root: TableRoot) -> Self {
        Location::Table(FoundTable { format, root, opened: None })
    }
}
