//! The mark on the field of a column that says which arrays are in it.

use forebay::arrow::datatypes::Field;

/// The key in a field's metadata that marks images of differing sizes, and its value.
pub(super) const KIND: &str = "forebay:kind";

pub(super) const IMAGES: &str = "images";

/// Marks arrays with several sides that differ from row to row, or with several sides of one length behind
/// one that differs.
pub(super) const ARRAYS: &str = "arrays";

/// The name under which the field of such arrays has the shape of a row as JSON, with null for a side that
/// differs.
const SHAPE: &str = "forebay:shape";

/// The length of each side of a row; `None` for one that differs. Empty where the field does not say it.
pub(super) fn sides(field: &Field) -> Vec<Option<usize>> {
    let shape = field.metadata().get(SHAPE);
    shape.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
