//! The endings of the names of images.

/// In small letters and without the dot.
pub(super) const IMAGE_ENDINGS: &[&str] = &["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "jpe"];
