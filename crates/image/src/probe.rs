//! Reads the header of an image without decoding pixels. The size in it decides which part of the image is
//! shown.

use forebay_base::Result;

use super::drawing::Drawing;
use super::drawn::Drawn;
use super::format::Header;
use super::pixels::transposes;
use super::refuse::check_size;
use super::sniff::is_jpeg;
use super::spec::{Image, Size};
use super::{jpeg, kept, packed, raster, raw};

impl Drawn {
    /// The geometry (crop, size and flips) of an encoded image, of raw pixels, or of an image that was kept
    /// for a random crop. It is the geometry that [`decode_within`](crate::decode_within) uses with the same
    /// arguments. Only the header is read.
    ///
    /// # Errors
    /// Fails if the bytes are not an image, or the image has too many pixels.
    pub fn probe<'a>(image: &Image, encoded: &[u8], drawing: impl Into<Drawing<'a>>) -> Result<Drawn> {
        let (width, height) = match packed::unchecked(encoded) {
            kept if image.raw.is_none() && kept::is_kept(kept) => kept::drawn_on(image, kept)?,
            _ => seen_size(image, encoded)?,
        };
        check_size(width, height, image.max_pixels)?;
        let frame = drawing.into().frame(image, width, height);
        Ok(Drawn::new(frame, Size { height, width }))
    }
}

/// Reads an image's header and no pixel. Sizes are as stored and not checked against any limit.
///
/// # Errors
/// [`forebay_base::ErrorKind::BadRow`] for bytes that are not an image.
pub fn probe(encoded: &[u8]) -> Result<Header> {
    if is_jpeg(encoded) { jpeg::probe(encoded) } else { raster::probe(encoded) }
}

/// The width and height of an image as `image` sees it: exchanged if EXIF's orientation says so and `image`
/// applies it.
pub(super) fn seen_size(image: &Image, encoded: &[u8]) -> Result<(u32, u32)> {
    if let Some(raw) = image.raw {
        let Size { height, width } = raw::size(raw, encoded)?;
        return Ok((width, height));
    }
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
