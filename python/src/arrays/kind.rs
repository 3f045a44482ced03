//! The mark on the field of a column that says which arrays are in it.

use forebay::arrow::datatypes::Field;

/// The metadata key that says what arrays a column of lists holds, and its value for images of differing
/// sizes.
pub(super) const KIND: &str = "forebay:kind";

pub(super) const IMAGES: &str = "images";

/// The value of [`KIND`] for arrays with several sides that differ from row to row, or with a differing side
/// followed by several sides of one length.
pub(super) const ARRAYS: &str = "arrays";

/// The metadata key for the shape of a row of [`ARRAYS`] as JSON, in which null stands for a side that
/// differs.
const SHAPE: &str = "forebay:shape";

/// Returns the length of each side of a row, with `None` for a side that differs; an empty list if the field
/// does not have the shape.
pub(super) fn sides(field: &Field) -> Vec<Option<usize>> {
    let shape = field.metadata().get(SHAPE);
    shape.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
