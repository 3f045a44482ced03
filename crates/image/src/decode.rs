//! Decodes an encoded image with the decoder of its format, into one slot or into the slots of several views
//! (images made from the same cell).

use forebay_base::{Error, Result};

use super::drawing::Drawing;
use super::draws::RowKey;
use super::scratch::Scratch;
use super::shown::Shown;
use super::sniff::is_jpeg;
use super::spec::Image;
use super::workspace::Workspace;
use super::{jpeg, kept, packed, raster, raw};

/// Decodes one encoded image into its slot, transformed as `image` says.
///
/// `encoded` is a whole JPEG, PNG, WebP, GIF (its first frame), BMP or TIFF file; or the bytes that
/// [`Image::keep`] (with the same spec) or [`pack`](crate::pack) made of such a file; or raw pixels, if
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

/// Decodes like [`decode_into`], but allocates memory from `workspace`. `drawing` may also be that of an
/// image that follows another one, for example a mask that is cropped like its photograph.
pub fn decode_within<'a>(
    workspace: &Workspace,
    image: &Image,
    encoded: &[u8],
    drawing: impl Into<Drawing<'a>>,
    slot: &mut [u8],
) -> Result<()> {
    let drawing: Drawing<'_> = drawing.into();
    decode_views(workspace, encoded, &mut [View::new(image, drawing, slot)])
}

/// One of several images that are made from the same cell: its spec, its random draws, and the slot that it
/// fills.
#[derive(Debug)]
pub struct View<'a> {
    image: &'a Image,
    drawing: Drawing<'a>,
    slot: &'a mut [u8],
}

impl<'a> View<'a> {
    /// A view for a slot of [`Image::bytes_per_image`] bytes. `drawing` has the key of its random draws.
    pub fn new(image: &'a Image, drawing: impl Into<Drawing<'a>>, slot: &'a mut [u8]) -> Self {
        View { image, drawing: drawing.into(), slot }
    }

    pub(super) fn max_pixels(&self) -> u64 {
        self.image.max_pixels
    }
}

/// Decodes a cell once, and fills the slots of all its views.
///
/// The decoded part covers everything that the views show, at the largest scale that one of them needs. A
/// view that would be decoded at a smaller scale by itself differs from the result of [`decode_within`], by
/// less than one level of 255 on average for photographs; all others are equal to it.
///
/// ```
/// use forebay_image::{Image, RowKey, View, Workspace, decode_views, encode_jpeg};
///
/// let file = encode_jpeg(&[90; 64 * 48 * 3], 64, 48, 90)?;
/// let (large, small) = (Image::random_resized_crop(32).flip(), Image::random_resized_crop(8).flip());
/// let (mut first, mut second) = (vec![0; 32 * 32 * 3], vec![0; 8 * 8 * 3]);
/// let views = &mut [View::new(&large, RowKey(1), &mut first), View::new(&small, RowKey(2), &mut second)];
/// decode_views(&Workspace::of_loader(1 << 26, 1), &file, views)?;
/// assert!(second == small.decode(&file, RowKey(2))?.bytes());
/// # Ok::<(), forebay_image::Error>(())
/// ```
///
/// # Errors
/// The errors of [`decode_into`], and those of [`Image::check_read_as`] for views that do not agree.
pub fn decode_views(workspace: &Workspace, encoded: &[u8], views: &mut [View<'_>]) -> Result<()> {
    let Some(first) = views.first().map(|view| view.image) else { return Ok(()) };
    for View { image, slot, .. } in views.iter() {
        image.check_read_as(first)?;
        if slot.len() != image.bytes_per_image() {
            let (slot, image) = (slot.len(), image.bytes_per_image());
            return Err(Error::invalid(format!("a slot of {slot} bytes for an image of {image}")));
        }
    }
    if let Some(raw) = first.raw {
        return Scratch::with(workspace.own(), |Scratch { stages, .. }| {
            views.iter_mut().try_for_each(|View { image, drawing, slot }| {
                let frame_of = |width, height| drawing.frame(image, width, height);
                raw::decode_into(image, raw, encoded, &frame_of, slot, stages, workspace)
            })
        });
    }
    let encoded = packed::unframed(encoded)?;
    Scratch::with(workspace.own(), |scratch| {
        if kept::is_decoded(encoded) {
            return views.iter_mut().try_for_each(|View { image, drawing, slot }| {
                kept::decode_into(image, encoded, *drawing, slot, scratch, workspace)
            });
        }
        let shown = views.iter_mut().map(|View { image, drawing, slot }| {
            Shown::new(image, |width, height| drawing.frame(image, width, height), slot)
        });
        let (shown, Scratch { decoder, stages }) = (&mut shown.collect::<Vec<_>>(), scratch);
        if jpeg::is_coefficients(encoded) {
            decoder.decode_coefficients(first, encoded, shown, stages, workspace)
        } else if is_jpeg(encoded) {
            decoder.decode_into(first, encoded, shown, stages, workspace)
        } else {
            raster::decode_into(first, encoded, shown, stages, workspace)
        }
    })
}

/// Whether the encoded bytes must not change while they are decoded. Decoders read a header twice, first to
/// allocate memory and then to decode, so the memory would not suffice if the header changed. Kept and raw
/// pixels may change, because their bytes do not decide how much memory is needed.
pub fn needs_stable(image: &Image, encoded: &[u8]) -> bool {
    image.raw.is_none() && !kept::is_pixels(encoded)
}

#[cfg(test)]
mod tests;
