//! The mark on the field of a column that says which arrays are in it.

/// The key in a field's metadata that marks images of differing sizes, and its value.
pub(super) const KIND: &str = "forebay:kind";

pub(super) const IMAGES: &str = "images";
