//! Recognises the format of an image by its first bytes.

use forebay_base::Result;

use super::format::Format;
use super::unread;

/// Whether the bytes begin like a JPEG: with the marker SOI and the first byte of another marker.
pub fn is_jpeg(encoded: &[u8]) -> bool {
    encoded.starts_with(&[0xFF, 0xD8, 0xFF])
}

/// Recognises the format of an image that is not a JPEG.
pub(super) fn sniff(encoded: &[u8]) -> Result<Format> {
    use image::ImageFormat;
    match image::guess_format(encoded) {
        Ok(ImageFormat::Png) if unread::is_apples(encoded) => Err(unread::apples()),
        Ok(ImageFormat::Png) => Ok(Format::Png),
        Ok(ImageFormat::WebP) => Ok(Format::WebP),
        Ok(ImageFormat::Gif) => Ok(Format::Gif),
        Ok(ImageFormat::Bmp) => Ok(Format::Bmp),
        Ok(ImageFormat::Tiff) => Ok(Format::Tiff),
        _ => Err(unread::not_an_image(encoded)),
    }
}
