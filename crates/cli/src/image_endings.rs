//! The file name extensions by which image files are recognised.

/// The extensions of image files, in lower case and without the dot.
pub(super) const IMAGE_ENDINGS: &[&str] = &["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "jpe"];
