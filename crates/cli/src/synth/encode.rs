//! Encodes a drawn picture as an image file.

use forebay_base::{Error, ErrorKind, Result};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

/// Encodes as PNG, with the default compression of image libraries.
pub(super) fn png(rgb: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive)
        .write_image(rgb, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot encode a PNG: {error}")))?;
    Ok(bytes)
}

/// Encodes as JPEG.
pub(super) fn jpeg(rgb: &[u8], width: u32, height: u32, quality: u8) -> Result<Vec<u8>> {
    forebay_image::encode_jpeg(rgb, width, height, quality)
}
