//! PNG, WebP, GIF, BMP and TIFF: whole images through the `image` crate.
//!
//! Pixels are those of Pillow's `convert("RGB")`: alpha is dropped without blending, palettes are expanded, 16-bit
//! channels keep their high byte. The one difference: of 16-bit grey Pillow makes white wherever the value is above 255,
//! which loses nearly all of it; here it keeps its high byte, as colour does in both.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::error::{ImageError, LimitErrorKind};
use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::geometry::{FrameOf, Rect};
use super::header::{Format, Header, sniff};
use super::output::Whole;
use super::scratch::{Buffer, Scratch};
use super::spec::{Image, RGB};
use super::{bad_row, check_size, pixels};
use crate::error::{Error, ErrorKind, Result};

/// Memory that a decoder may take per pixel of the limit: 16-bit RGBA.
const DECODER_BYTES_PER_PIXEL: u64 = 8;

/// How the `image` crate begins its sentence: "Format error decoding Png: ".
const CRATE_PREFIX: &str = "Format error decoding ";
/// How its BMP decoder refuses a size.
const CRATE_TOO_LARGE: &str = "Image too large";

/// The header of an image that is no JPEG.
pub(super) fn probe(encoded: &[u8]) -> Result<Header> {
    let format = sniff(encoded)?;
    caught(format, || {
        let decoder = decoder(encoded, format, Limits::default())?;
        let (width, height) = decoder.dimensions();
        Ok(Header {
            format,
            width,
            height,
            channels: decoder.color_type().channel_count(),
            progressive: false,
        })
    })
}

/// How an image that is no JPEG is meant to be seen.
pub(super) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    let format = sniff(encoded)?;
    caught(format, || {
        decoder(encoded, format, Limits::default())?.orientation().map_err(|error| failed(format, error))
    })
}

/// Decodes an image that is no JPEG into its slot.
pub(super) fn decode_into(
    image: &Image,
    encoded: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let format = sniff(encoded)?;
    let whole = caught(format, || read(image, encoded, format, scratch))?;
    scratch.fill_from_whole(image, whole, frame_of, slot)
}

/// Decodes all pixels into `scratch.pixels`, as RGB or luma.
fn read(image: &Image, encoded: &[u8], format: Format, scratch: &mut Scratch) -> Result<Whole> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(image.max_pixels.saturating_mul(DECODER_BYTES_PER_PIXEL));
    let mut decoder = decoder(encoded, format, limits)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height, image.max_pixels)?;
    let orientation = match image.exif_orientation {
        true => decoder.orientation().map_err(|error| failed(format, error))?,
        false => Orientation::NoTransforms,
    };
    let count = width as usize * height as usize;
    let color = decoder.color_type();
    let stored = decoder.total_bytes() as usize;
    if color == ColorType::Rgb8 {
        decoder.read_image(scratch.pixels.take(stored)).map_err(|error| failed(format, error))?;
    } else {
        let raw = scratch.second.take(stored);
        decoder.read_image(raw).map_err(|error| failed(format, error))?;
        to_rgb(raw, color, count, &mut scratch.pixels);
    }
    if image.channels() != RGB {
        pixels::luma_in_place(scratch.pixels.take(count * RGB), count);
    }
    Ok(Whole { rect: Rect::whole(width, height), orientation })
}

fn decoder(encoded: &[u8], format: Format, limits: Limits) -> Result<impl ImageDecoder + '_> {
    let format_of_crate = match format {
        Format::Jpeg => ImageFormat::Jpeg,
        Format::Png => ImageFormat::Png,
        Format::WebP => ImageFormat::WebP,
        Format::Gif => ImageFormat::Gif,
        Format::Bmp => ImageFormat::Bmp,
        Format::Tiff => ImageFormat::Tiff,
    };
    let mut reader = ImageReader::with_format(Cursor::new(encoded), format_of_crate);
    reader.limits(limits);
    reader.into_decoder().map_err(|error| failed(format, error))
}

/// The first three colour channels, or the one of grey three times, each as its high byte.
fn to_rgb(raw: &[u8], color: ColorType, count: usize, pixels: &mut Buffer) {
    let channels = usize::from(color.channel_count());
    let bytes = usize::from(color.bytes_per_pixel()) / channels;
    let (out, _) = pixels.take(count * RGB).as_chunks_mut::<RGB>();
    let offsets = if color.has_color() { [0, 1, 2] } else { [0; RGB] };
    let level = |channel: &[u8]| match *channel {
        [level] => level,
        [a, b] => (u16::from_ne_bytes([a, b]) >> u8::BITS) as u8,
        [a, b, c, d] => (f32::from_ne_bytes([a, b, c, d]) * 255.0).round() as u8,
        _ => 0,
    };
    for (pixel, from) in out.iter_mut().zip(raw.chunks_exact(channels * bytes)) {
        *pixel = offsets.map(|offset| level(&from[offset * bytes..(offset + 1) * bytes]));
    }
}

/// Runs a decoder that may panic on malformed input, as some have.
fn caught<T>(format: Format, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(bad_row(format!("corrupt {format}: the decoder panicked"))))
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
                false => bad_row(format!("corrupt {format}: {}", bare.trim_end_matches('.'))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(raw: &[u8], color: ColorType) -> Vec<u8> {
        let mut pixels = Buffer::default();
        to_rgb(raw, color, 1, &mut pixels);
        pixels.get(RGB).to_vec()
    }

    #[test]
    fn alpha_is_dropped_and_grey_repeated() {
        assert_eq!(rgb(&[7], ColorType::L8), [7, 7, 7]);
        assert_eq!(rgb(&[7, 0], ColorType::La8), [7, 7, 7]);
        assert_eq!(rgb(&[1, 2, 3, 0], ColorType::Rgba8), [1, 2, 3]);
    }

    #[test]
    fn sixteen_bits_keep_the_high_byte() {
        let wide: Vec<u8> = [0x12FFu16, 0x3480, 0xFFFF].into_iter().flat_map(u16::to_ne_bytes).collect();
        assert_eq!(rgb(&wide, ColorType::Rgb16), [0x12, 0x34, 0xFF]);
        assert_eq!(rgb(&wide[..2], ColorType::L16), [0x12; 3]);
    }

    #[test]
    fn a_panic_of_a_decoder_is_a_bad_row() {
        let error = caught(Format::Gif, || -> Result<()> { panic!("index out of bounds") }).unwrap_err();
        assert_eq!(error.to_string(), "corrupt GIF: the decoder panicked");
    }
}
