//! Decodes one encoded image into its slot, by the decoder of its format.

use forebay_base::{Error, Result};

use super::drawing::Drawing;
use super::draws::RowKey;
use super::scratch::Scratch;
use super::sniff::is_jpeg;
use super::spec::Image;
use super::workspace::Workspace;
use super::{kept, packed, raster, raw};

/// Decodes one encoded image into its slot, transformed as `image` says.
///
/// `encoded` is a whole JPEG, PNG, WebP, GIF (its first frame), BMP or TIFF file, the result of
/// [`Image::keep`] for one with the same spec, or that of [`pack`](crate::pack); or raw pixels, if
/// [`Image::raw`] says so. `slot` takes exactly [`Image::bytes_per_image`] bytes, in [`Image::shape`]'s order
/// and native byte order; it needs no alignment. `key` decides the random draws: equal arguments give equal
/// pixels on every thread.
///
/// Decoders and intermediate buffers belong to the calling thread and are reused for its next image.
///
/// # Errors
/// [`BadRow`](crate::ErrorKind::BadRow) for an image that is damaged in the part of it that is decoded,
/// [`TooLarge`](crate::ErrorKind::TooLarge) for an image beyond [`Image::max_pixels`], or whose decoding
/// would take more memory than that allows, [`Invalid`](crate::ErrorKind::Invalid) for a slot of another
/// length. The slot's content is unspecified after an error.
pub fn decode_into(image: &Image, encoded: &[u8], key: RowKey, slot: &mut [u8]) -> Result<()> {
    decode_within(&Workspace::of_one(image.max_pixels), image, encoded, key, slot)
}

/// Decodes like [`decode_into`], but takes the memory from a workspace; the image may also follow another
/// one.
pub fn decode_within<'a>(
    workspace: &Workspace,
    image: &Image,
    encoded: &[u8],
    drawing: impl Into<Drawing<'a>>,
    slot: &mut [u8],
) -> Result<()> {
    if slot.len() != image.bytes_per_image() {
        return Err(Error::invalid(format!(
            "a slot of {} bytes for an image of {}",
            slot.len(),
            image.bytes_per_image()
        )));
    }
    let drawing = drawing.into();
    let frame_of = |width, height| drawing.frame(image, width, height);
    if let Some(raw) = image.raw {
        return Scratch::with(workspace.own(), |Scratch { stages, .. }| {
            raw::decode_into(image, raw, encoded, &frame_of, slot, (stages, workspace))
        });
    }
    let encoded = packed::unframed(encoded)?;
    Scratch::with(workspace.own(), |scratch| {
        if kept::is_kept(encoded) {
            return kept::decode_into(image, encoded, drawing, slot, (scratch, workspace));
        }
        let Scratch { decoder, stages } = scratch;
        match is_jpeg(encoded) {
            true => decoder.decode_into(image, encoded, &frame_of, slot, (stages, workspace)),
            false => raster::decode_into(image, encoded, &frame_of, slot, (stages, workspace)),
        }
    })
}

/// Whether decoding needs bytes that cannot change meanwhile: decoders read a header more than once, and the
/// memory that they allocate after the first time must suffice after the second. Pixels do not affect what is
/// allocated.
pub fn needs_stable(image: &Image, encoded: &[u8]) -> bool {
    image.raw.is_none() && !kept::is_pixels(encoded)
}
