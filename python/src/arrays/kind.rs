//! Metadata of a field that marks the lists of its column as arrays, and describes their shape.

use forebay::arrow::datatypes::Field;

/// The metadata key that says which arrays a column of lists holds: its value is [`IMAGES`] for images of
/// differing sizes, or [`ARRAYS`].
pub(super) const KIND: &str = "forebay:kind";

pub(super) const IMAGES: &str = "images";

/// The value of [`KIND`] for other arrays whose shape differs from row to row: in several sides (dimensions),
/// or in one side that several sides of fixed length follow.
pub(super) const ARRAYS: &str = "arrays";

/// The metadata key for the shape of a row of [`ARRAYS`] as JSON, in which null stands for a side that
/// differs.
const SHAPE: &str = "forebay:shape";

/// Returns the length of each side of a row, with `None` for a side that differs from row to row; an empty
/// list if the field's metadata has no shape.
pub(super) fn sides(field: &Field) -> Vec<Option<usize>> {
    let shape = field.metadata().get(SHAPE);
    shape.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
