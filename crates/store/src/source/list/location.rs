//! The content of a location.

use crate::snapshot::Snapshot;
use crate::source::tables::{TableFormat, TableRoot};

/// The content of a location.
pub(super) enum Location {
    /// Files that are read as they are.
    Files(Snapshot),
    /// A table, whose format says which files are live.
    Table(&'static dyn TableFormat, TableRoot),
}
