//! PNG, WebP, GIF, BMP and TIFF: whole images.
//!
//! Pixels are those of Pillow's `convert("RGB")`: alpha is dropped without blending, palettes are expanded, 16-bit
//! channels keep their high byte. Where they differ:
//!
//! * Of 16-bit grey Pillow makes white wherever the value is above 255, which loses nearly all of it. Here it keeps its high
//!   byte, as colour does in both; where a TIFF says that white is 0, it is turned round, which Pillow forgets.
//! * Pillow turns a TIFF as its tag says without being asked. Here all formats are turned alike, on request.
//! * Inks, BMP of 16 bits and JPEG inside of a TIFF are rounded differently, by a level or two of 255.

use std::borrow::Cow;
use std::fmt;
use std::io::Cursor;

use image::error::{ImageError, LimitErrorKind};
use image::metadata::Orientation;
use image::{ColorType, ExtendedColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::geometry::{FrameOf, Rect};
use super::gif::Gif;
use super::header::{Format, Header, sniff};
use super::output::{Whole, bytes_after};
use super::png::Png;
use super::scratch::Scratch;
use super::spec::{Image, RGB};
use super::workspace::{Taken, Workspace};
use super::{bad_row, check_size, exif, pixels, tiff, webp};
use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// Channels of a pixel in ink.
const CMYK: usize = 4;

/// Bytes per pixel that a JPEG inside of a TIFF takes: three channels, and their coefficients of 16 bits.
const JPEG_IN_TIFF: u64 = 9;

/// How the `image` crate begins its sentence: "Format error decoding Bmp: ".
const CRATE_PREFIX: &str = "Format error decoding ";
/// How its BMP decoder refuses a size.
const CRATE_TOO_LARGE: &str = "Image too large";

/// An image whose header was read: what decoding it takes, and how it is done.
pub(super) trait Pending {
    /// Bytes of the buffer that it is decoded into: three for each pixel, or more.
    fn buffer_bytes(&self) -> u64;

    /// Bytes that the decoder takes beside the buffer, at most.
    fn beside_bytes(&self) -> u64;

    /// Decodes into the buffer, which holds anything before and begins with all pixels as RGB afterwards.
    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()>;
}

/// An image that is not a JPEG, its header read.
struct Opened<'a> {
    header: Header,
    orientation: Orientation,
    pending: Box<dyn Pending + 'a>,
}

/// The header of an image that is no JPEG.
pub(super) fn probe(encoded: &[u8]) -> Result<Header> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format)?.header))
}

/// How an image that is no JPEG is meant to be seen.
pub(super) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    let format = sniff(encoded)?;
    caught(format, || Ok(open(encoded, format)?.orientation))
}

/// Decodes an image that is no JPEG into its slot.
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

/// Decodes all pixels into `scratch.pixels`, as RGB or luma. What is taken of the workspace is for the stages after it too.
fn read<'w>(
    image: &Image,
    encoded: &[u8],
    format: Format,
    frame_of: &FrameOf<'_>,
    (scratch, workspace): (&mut Scratch, &'w Workspace),
) -> Result<(Whole, Option<Taken<'w>>)> {
    let Opened { header: Header { width, height, .. }, orientation, pending } = open(encoded, format)?;
    check_size(width, height, image.max_pixels)?;
    let orientation = if image.exif_orientation { orientation } else { Orientation::NoTransforms };
    let whole = Whole { rect: Rect::whole(width, height), orientation };
    let bytes = pending.buffer_bytes();
    let needed =
        bytes.saturating_add(pending.beside_bytes()).saturating_add(bytes_after(image, whole, frame_of));
    let taken = workspace.take(needed, || format!("a {format} of {width}x{height} pixels"))?;
    let buffer = scratch.pixels.take(bytes as usize);
    pending.read(buffer)?;
    if image.channels() != RGB {
        pixels::luma_in_place(buffer, width as usize * height as usize);
    }
    Ok((whole, taken))
}

fn open(encoded: &[u8], format: Format) -> Result<Opened<'_>> {
    match format {
        Format::Png => {
            let png = Png::open(encoded)?;
            Ok(Opened { header: png.header(), orientation: png.orientation(), pending: Box::new(png) })
        }
        Format::Gif => {
            let gif = Gif::open(encoded)?;
            let orientation = Orientation::NoTransforms;
            Ok(Opened { header: gif.header(), orientation, pending: Box::new(gif) })
        }
        Format::Tiff => {
            let ordered = tiff::in_bit_order(encoded)?;
            let premultiplied = tiff::is_premultiplied(encoded);
            // The copy that was made, if one was, and the directory's numbers.
            let beside = 2 * encoded.len() as u64;
            let mut decoder = decoder(ordered, format)?;
            let orientation = decoder.orientation().map_err(|error| failed(format, error))?;
            // It is decoded into memory of the decoder's first, where inks have a fourth channel.
            let inks =
                matches!(decoder.original_color_type(), ExtendedColorType::Cmyk8 | ExtendedColorType::Cmyk16);
            let first =
                if inks { decoder.total_bytes() / RGB as u64 * CMYK as u64 } else { decoder.total_bytes() };
            let jpeg = if tiff::holds_jpegs(encoded) { JPEG_IN_TIFF } else { 0 };
            let beside =
                beside.saturating_add(first).saturating_add(pixels_of(&decoder).saturating_mul(jpeg));
            Ok(opened(Foreign { decoder, format, beside, premultiplied }, orientation))
        }
        Format::WebP => {
            let decoder = decoder(Cow::Borrowed(encoded), format)?;
            let each = webp::bytes_per_pixel(encoded, decoder.dimensions())?;
            let orientation = webp::exif(encoded).map_or(Orientation::NoTransforms, exif::orientation);
            let beside = each * pixels_of(&decoder);
            Ok(opened(Foreign { decoder, format, beside, premultiplied: false }, orientation))
        }
        Format::Bmp | Format::Jpeg => {
            let decoder = decoder(Cow::Borrowed(encoded), format)?;
            let foreign = Foreign { decoder, format, beside: 0, premultiplied: false };
            Ok(opened(foreign, Orientation::NoTransforms))
        }
    }
}

/// An image that the `image` crate decodes whole.
struct Foreign<D> {
    decoder: D,
    format: Format,
    /// Bytes that the decoder takes beside the buffer.
    beside: u64,
    /// Colours are stored times their alpha.
    premultiplied: bool,
}

fn opened<'a>(foreign: Foreign<impl ImageDecoder + 'a>, orientation: Orientation) -> Opened<'a> {
    let (width, height) = foreign.decoder.dimensions();
    let channels = foreign.decoder.color_type().channel_count();
    let header = Header { format: foreign.format, width, height, channels, progressive: false };
    Opened { header, orientation, pending: Box::new(foreign) }
}

fn pixels_of(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    u64::from(width) * u64::from(height)
}

impl<D: ImageDecoder> Pending for Foreign<D> {
    fn buffer_bytes(&self) -> u64 {
        self.decoder.total_bytes().max(pixels_of(&self.decoder).saturating_mul(RGB as u64))
    }

    fn beside_bytes(&self) -> u64 {
        self.beside
    }

    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()> {
        let Foreign { mut decoder, format, beside, premultiplied } = *self;
        let mut limits = Limits::no_limits();
        // Its own limits count the pixels that it delivers.
        limits.max_alloc = Some(decoder.total_bytes().saturating_add(beside));
        decoder.set_limits(limits).map_err(|error| failed(format, error))?;
        let (color, stored) = (decoder.color_type(), decoder.total_bytes() as usize);
        let count = pixels_of(&decoder) as usize;
        // Pixels that a run-length code skips are left as they are.
        if format == Format::Bmp {
            buffer[..stored].fill(0);
        }
        decoder.read_image(&mut buffer[..stored]).map_err(|error| failed(format, error))?;
        to_bytes(buffer, color, count);
        let channels = usize::from(color.channel_count());
        if premultiplied && color.has_alpha() {
            tiff::divide_by_alpha(&mut buffer[..count * channels], channels);
        }
        spread(buffer, count, channels);
        Ok(())
    }
}

fn decoder(encoded: Cow<'_, [u8]>, format: Format) -> Result<impl ImageDecoder + '_> {
    let format_of_crate = match format {
        Format::Jpeg => ImageFormat::Jpeg,
        Format::Png => ImageFormat::Png,
        Format::WebP => ImageFormat::WebP,
        Format::Gif => ImageFormat::Gif,
        Format::Bmp => ImageFormat::Bmp,
        Format::Tiff => ImageFormat::Tiff,
    };
    let reader = ImageReader::with_format(Cursor::new(encoded), format_of_crate);
    reader.into_decoder().map_err(|error| failed(format, error))
}

/// Makes a byte of each channel of `count` pixels, in the buffer that they lie in: the high one, or 255 times a float.
fn to_bytes(buffer: &mut [u8], color: ColorType, count: usize) {
    let channels = usize::from(color.channel_count());
    let bytes = usize::from(color.bytes_per_pixel()) / channels;
    if bytes == 1 {
        return;
    }
    let byte = |value: &[u8]| match *value {
        [a, b] => (u16::from_ne_bytes([a, b]) >> u8::BITS) as u8,
        [a, b, c, d] => (f32::from_ne_bytes([a, b, c, d]) * 255.0).round() as u8,
        _ => 0,
    };
    for at in 0..count * channels {
        buffer[at] = byte(&buffer[at * bytes..(at + 1) * bytes]);
    }
}

/// Makes RGB of `count` pixels of so many 8-bit channels, in the buffer that they lie in: the first three channels, or the
/// one of grey three times.
pub(super) fn spread(buffer: &mut [u8], count: usize, channels: usize) {
    let copy = |buffer: &mut [u8], at: usize| {
        let from = at * channels;
        let pixel = match channels {
            1 | 2 => [buffer[from]; RGB],
            _ => [buffer[from], buffer[from + 1], buffer[from + 2]],
        };
        buffer[at * RGB..(at + 1) * RGB].copy_from_slice(&pixel);
    };
    match channels {
        RGB => {}
        // Where pixels grow, the last goes first, so that none is written over before it is read.
        1 | 2 => (0..count).rev().for_each(|at| copy(buffer, at)),
        _ => (0..count).for_each(|at| copy(buffer, at)),
    }
}

/// Runs a decoder that may panic on malformed input, as some have.
fn caught<T>(format: Format, work: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::caught(work).unwrap_or_else(|_| Err(bad_row(format!("corrupt {format}: the decoder panicked"))))
}

/// The failure of a decoder, in its words.
pub(super) fn corrupt(format: Format, said: &dyn fmt::Display) -> Error {
    bad_row(format!("corrupt {format}: {}", said.to_string().trim_end_matches('.')))
}

fn failed(format: Format, error: ImageError) -> Error {
    match error {
        ImageError::Limits(limit) => match limit.kind() {
            LimitErrorKind::Unsupported { .. } => bad_row(format!("{format}: {limit}")),
            _ => Error::new(ErrorKind::TooLarge, format!("{format}: {limit}"))
                .hint("raise max_pixels if such images are expected"),
        },
        ImageError::Unsupported(what) => bad_row(format!("unsupported {format}: {what}")),
        other => {
            let text = other.to_string();
            let bare = text
                .rsplit_once(CRATE_PREFIX)
                .and_then(|(_, rest)| rest.split_once(": "))
                .map_or(text.as_str(), |(_, bare)| bare);
            match bare.contains(CRATE_TOO_LARGE) {
                true => Error::new(ErrorKind::TooLarge, format!("{format}: {bare}")),
                false => corrupt(format, &bare),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pixels as RGB, of the first twice.
    fn rgb(raw: &[u8], color: ColorType) -> Vec<u8> {
        let mut buffer = [raw, raw, &[0; 2 * RGB]].concat();
        to_bytes(&mut buffer, color, 2);
        spread(&mut buffer, 2, usize::from(color.channel_count()));
        assert_eq!(buffer[..RGB], buffer[RGB..2 * RGB]);
        buffer[..RGB].to_vec()
    }

    #[test]
    fn alpha_is_dropped_and_grey_repeated() {
        assert_eq!(rgb(&[7], ColorType::L8), [7, 7, 7]);
        assert_eq!(rgb(&[7, 0], ColorType::La8), [7, 7, 7]);
        assert_eq!(rgb(&[1, 2, 3], ColorType::Rgb8), [1, 2, 3]);
        assert_eq!(rgb(&[1, 2, 3, 0], ColorType::Rgba8), [1, 2, 3]);
    }

    #[test]
    fn sixteen_bits_keep_the_high_byte() {
        let wide: Vec<u8> =
            [0x12FFu16, 0x3480, 0xFFFF, 0x5678].into_iter().flat_map(u16::to_ne_bytes).collect();
        assert_eq!(rgb(&wide, ColorType::Rgba16), [0x12, 0x34, 0xFF]);
        assert_eq!(rgb(&wide[..6], ColorType::Rgb16), [0x12, 0x34, 0xFF]);
        assert_eq!(rgb(&wide[..4], ColorType::La16), [0x12; 3]);
        assert_eq!(rgb(&wide[..2], ColorType::L16), [0x12; 3]);
    }

    #[test]
    fn floats_are_scaled_to_255_and_cut_off_there() {
        let wide: Vec<u8> = [0.5f32, 1.5, -1.0].into_iter().flat_map(f32::to_ne_bytes).collect();
        assert_eq!(rgb(&wide, ColorType::Rgb32F), [128, 255, 0]);
    }

    #[test]
    fn a_panic_of_a_decoder_is_a_bad_row() {
        let error = caught(Format::Gif, || -> Result<()> { panic!("index out of bounds") }).unwrap_err();
        assert_eq!(error.to_string(), "corrupt GIF: the decoder panicked");
    }
}
