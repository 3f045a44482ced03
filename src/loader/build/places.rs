//! Names the column of an error.

use forebay_base::Place;

/// A place, for an error, that names this column.
pub(super) fn of_column(name: &str) -> Place {
    Place::default().column(name)
}
