//! Images that are decoded whole: PNG, and the [`formats`] that a build may leave out.
//!
//! Pixels are those of Pillow's `convert("RGB")`: alpha is dropped without blending, palettes are expanded, 16-bit
//! channels keep their high byte, or both where 16 bits are asked for. Where they differ:
//!
//! * Pillow makes 16-bit grey white wherever the value is above 255, which loses nearly all of it. Here it keeps its high
//!   byte, as colour does in both; where a TIFF says that white is 0, it is inverted, which Pillow does not do.
//! * Pillow always turns a TIFF as its tag says. Here all formats are turned alike, on request.
//! * Inks and JPEG inside a TIFF are rounded differently, by a level or two of 255.

use std::fmt;

use forebay_base::{Error, Result, panics};
use image::metadata::Orientation;

use super::depth::Depth;
use super::geometry::{FrameOf, Rect};
use super::header::{Format, Header, sniff};
use super::output::{Whole, bytes_after};
use super::png::Png;
use super::scratch::Scratch;
use super::spec::{Image, RGB};
use super::workspace::{Taken, Workspace};
use super::{bad_row, check_size, formats, pixels};

/// An image whose header was read: what decoding it takes, and how it is done.
pub(super) trait Pending {
    /// Bytes of the buffer that it is decoded into: three levels for each pixel, or more.
    fn buffer_bytes(&self) -> u64;

    /// The most bytes that the decoder takes beside the buffer.
    fn beside_bytes(&self) -> u64;

    /// Decodes into the buffer, whose content is arbitrary before, and begins with all pixels as RGB of the depth in which it
    /// was opened afterwards.
    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()>;
}

/// An image that is not a JPEG, its header read.
pub(super) struct Opened<'a> {
    pub(super) header: Header,
    pub(super) orientation: Orientation,
    /// The depth in which it is decoded.
    pub(super) depth: Depth,
    pub(super) pending: Box<dyn Pending + 'a>,
}

/// The header of an image that is not a JPEG.
pub(super) fn probe(encoded: &[u8]) -> Result<Header> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, Depth::Eight)?.header))
}

/// The orientation of an image that is not a JPEG.
pub(super) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, Depth::Eight)?.orientation))
}

/// The depth in which an image that is not a JPEG is decoded, where up to `most` is wanted.
pub(super) fn depth(encoded: &[u8], most: Depth) -> Result<Depth> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format, most)?.depth))
}

/// Decodes an image that is not a JPEG into its slot.
pub(super) fn decode_into(
    image: &Image,
    encoded: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    (scratch, workspace): (&mut Scratch, &Workspace),
) -> Result<()> {
    let format = sniff(encoded)?;
    let (whole, _taken) = caught(format, || read(image, encoded, format, frame_of, (scratch, workspace)))?;
    scratch.fill_from_whole(image, whole, frame_of, slot)
}

/// Decodes all pixels into `scratch.pixels`, as RGB or luma. The memory taken from the workspace covers the stages
/// after it too.
fn read<'w>(
    image: &Image,
    encoded: &[u8],
    format: Format,
    frame_of: &FrameOf<'_>,
    (scratch, workspace): (&mut Scratch, &'w Workspace),
) -> Result<(Whole, Option<Taken<'w>>)> {
    let opened = open(encoded, format, image.depth())?;
    let Opened { header: Header { width, height, .. }, orientation, depth, pending } = opened;
    check_size(width, height, image.max_pixels)?;
    let orientation = if image.exif_orientation { orientation } else { Orientation::NoTransforms };
    let whole = Whole { rect: Rect::whole(width, height), orientation, depth };
    let bytes = pending.buffer_bytes();
    let needed =
        bytes.saturating_add(pending.beside_bytes()).saturating_add(bytes_after(image, whole, frame_of));
    let taken = workspace.take(needed, || format!("a {format} of {width}x{height} pixels"))?;
    let buffer = scratch.pixels.take(bytes as usize);
    pending.read(buffer)?;
    let count = width as usize * height as usize;
    match depth {
        _ if image.channels() == RGB => {}
        Depth::Eight => pixels::luma_in_place(buffer, count),
        Depth::Sixteen => pixels::wide_luma_in_place(buffer.as_chunks_mut().0, count),
    }
    Ok((whole, taken))
}

/// Reads the header of an image that is decoded in the depth `most`, or in 8 bits if it has no more.
fn open(encoded: &[u8], format: Format, most: Depth) -> Result<Opened<'_>> {
    match format {
        Format::Png => {
            let png = Png::open(encoded, most)?;
            let (header, orientation, depth) = (png.header(), png.orientation(), png.depth());
            Ok(Opened { header, orientation, depth, pending: Box::new(png) })
        }
        _ => formats::open(encoded, format, most),
    }
}

/// Makes RGB of `count` pixels of this many levels, in place: the first three, or the grey one three times.
pub(super) fn spread<L: Copy>(buffer: &mut [L], count: usize, channels: usize) {
    let copy = |buffer: &mut [L], at: usize| {
        let from = at * channels;
        let pixel = match channels {
            1 | 2 => [buffer[from]; RGB],
            _ => [buffer[from], buffer[from + 1], buffer[from + 2]],
        };
        buffer[at * RGB..(at + 1) * RGB].copy_from_slice(&pixel);
    };
    match channels {
        RGB => {}
        // Where pixels grow, the last goes first, so that none is overwritten before it is read.
        1 | 2 => (0..count).rev().for_each(|at| copy(buffer, at)),
        _ => (0..count).for_each(|at| copy(buffer, at)),
    }
}

/// Runs a decoder that may panic on malformed input, as some have.
pub(super) fn caught<T>(format: Format, work: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::caught(work).unwrap_or_else(|_| Err(bad_row(format!("corrupt {format}: the decoder panicked"))))
}

/// The failure of a decoder, with its message.
pub(super) fn corrupt(format: Format, said: &dyn fmt::Display) -> Error {
    bad_row(format!("corrupt {format}: {}", said.to_string().trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_bad_row() {
        let error = caught(Format::Gif, || -> Result<()> { panic!("index out of bounds") }).unwrap_err();
        assert_eq!(error.to_string(), "corrupt GIF: the decoder panicked");
    }
}
