//! The image formats that can be decoded, and the contents of an image's header.

use std::fmt;

/// A supported encoding of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JPEG, by libjpeg-turbo.
    Jpeg,
    /// PNG; for an animation the default image.
    Png,
    /// WebP, lossy or lossless; for an animation the first frame. Transparent pixels have their stored
    /// colour.
    WebP,
    /// GIF; for an animation the first frame. A transparent pixel has its palette's colour; the part of the
    /// canvas that the frame does not cover has the transparent entry's colour, or the first entry's if none
    /// is transparent.
    Gif,
    /// Windows bitmap.
    Bmp,
    /// TIFF, of which only the first page is read: grey, RGB and CMYK of 8 or 16 bits, bilevel, and RGB of
    /// 32-bit floats. Palettes, YCbCr, grey with alpha, 2 and 4 bits, signed numbers and BigTIFF give an
    /// error that names them.
    Tiff,
}

impl Format {
    /// The usual name of the format.
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
    /// The number of columns as stored, before any EXIF orientation is applied.
    pub width: u32,
    /// The number of rows as stored, before any EXIF orientation is applied.
    pub height: u32,
    /// Channels as stored: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha or CMYK.
    pub channels: u8,
    /// Whether this is a JPEG with several scans, such as a progressive one. All scans must be read before
    /// any part of the image can be decoded.
    pub progressive: bool,
}
