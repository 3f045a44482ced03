//! The content of a location.

use crate::snapshot::Snapshot;
use crate::source::tables::{TableFormat, TableRoot};

/// The content of a location.
pub(super) enum Location {
    /// Files that are read as they are.
    Files(Snapshot),
    /// A table, whose format says which files are live.
    Table(FoundTable),
}

/// A table that is there.
pub(super) struct FoundTable {
    pub(super) format: &'static dyn TableFormat,
    pub(super) root: TableRoot,
    /// The file of its list that was opened, if it was one.
    pub(super) opened: Option<String>,
}

impl Location {
    /// The table in a folder.
    pub(super) fn table(format: &'static dyn TableFormat, root: TableRoot) -> Self {
        Location::Table(FoundTable { format, root, opened: None })
    }
}
