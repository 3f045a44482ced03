//! The endings by which the names of image files are recognised.

/// The endings of the names of image files, in small letters and without the dot.
pub(super) const IMAGE_ENDINGS: &[&str] = &["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "jpe"];
