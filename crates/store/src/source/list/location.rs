//! The files that a location contains.

use crate::snapshot::Snapshot;
use crate::source::tables::{TableFormat, TableRoot};

/// The files that a location contains.
pub(super) enum Location {
    /// Files that are read as they are.
    Files(Snapshot),
    /// A table, whose format says which files are live.
    Table(FoundTable),
}

/// A table that was found.
pub(super) struct FoundTable {
    pub(super) format: &'static dyn TableFormat,
    pub(super) root: TableRoot,
    /// The file of the table's list that was opened, if one was.
    pub(super) opened: Option<String>,
}

impl Location {
    /// The table in a folder.
    pub(super) fn table(format: &'static dyn TableFormat, root: TableRoot) -> Self {
        Location::Table(FoundTable { format, root, opened: None })
    }
}
