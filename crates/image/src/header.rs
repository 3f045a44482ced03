//! Format and size from the first bytes, before a pixel is decoded.

use std::fmt;

use forebay_base::Result;

use super::pixels::transposes;
use super::spec::Image;
use super::{jpeg, packed, raster, unread};

/// A supported encoding of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JPEG, by libjpeg-turbo.
    Jpeg,
    /// PNG; of an animation the default image.
    Png,
    /// WebP, lossy or lossless; of an animation the first frame. Transparent pixels have the colour that is stored.
    WebP,
    /// GIF; of an animation the first frame. A transparent pixel has its palette's colour; the part of the canvas that the
    /// frame does not cover has the transparent entry's colour, or the first entry's if none is transparent.
    Gif,
    /// Windows bitmap.
    Bmp,
    /// TIFF; the first page: grey, RGB and CMYK of 8 or 16 bits, bilevel, RGB of 32-bit floats. Palettes, YCbCr, grey with
    /// alpha, 2 and 4 bits, signed numbers and BigTIFF are refused by name.
    Tiff,
}

impl Format {
    /// The name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Jpeg => "JPEG",
            Format::Png => "PNG",
            Format::WebP => "WebP",
            Format::Gif => "GIF",
            Format::Bmp => "BMP",
            Format::Tiff => "TIFF",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contents of an image's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The encoding.
    pub format: Format,
    /// Columns as stored, before any EXIF orientation.
    pub width: u32,
    /// Rows as stored, before any EXIF orientation.
    pub height: u32,
    /// Channels as stored: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha or CMYK.
    pub channels: u8,
    /// A JPEG in several scans: all of them are read before any part of it is decoded.
    pub progressive: bool,
}

/// Reads an image's header and no pixel. Sizes are as stored and not checked against any limit.
///
/// # Errors
/// [`forebay_base::ErrorKind::BadRow`] for bytes that are not an image.
pub fn probe(encoded: &[u8]) -> Result<Header> {
    if is_jpeg(encoded) { jpeg::probe(encoded) } else { raster::probe(encoded) }
}

/// Width and height of an image as `image` shows it: turned if EXIF says so and `image` applies it.
pub(super) fn seen_size(image: &Image, encoded: &[u8]) -> Result<(u32, u32)> {
    if packed::is_packed(encoded) {
        return jpeg::coefficients_seen_size(image, packed::unchecked(encoded));
    }
    let Header { width, height, .. } = probe(encoded)?;
    if !image.exif_orientation {
        return Ok((width, height));
    }
    let orientation =
        if is_jpeg(encoded) { jpeg::orientation(encoded)? } else { raster::orientation(encoded)? };
    Ok(if transposes(orientation) { (height, width) } else { (width, height) })
}

/// The start of every JPEG: SOI and the first byte of the next marker.
pub fn is_jpeg(encoded: &[u8]) -> bool {
    encoded.starts_with(&[0xFF, 0xD8, 0xFF])
}

/// The format of anything but a JPEG.
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
