//! What the field of a column says of the arrays in it.

/// The name under which the field of images of differing sizes says so, and what it says.
pub(super) const KIND: &str = "forebay:kind";

pub(super) const IMAGES: &str = "images";
