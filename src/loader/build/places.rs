//! The place of a column in an error.

use forebay_base::Place;

/// The place of the column with this name.
pub(super) fn of_column(name: &str) -> Place {
    Place::default().column(name)
}
