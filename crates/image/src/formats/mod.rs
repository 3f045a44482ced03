//! Decodes WebP, GIF, BMP and TIFF with the `gif` and `image` crates; part of the build with the feature
//! `formats`.

mod bmp;
mod gif;
mod tiff;
mod webp;

use std::borrow::Cow;
use std::io::Cursor;

use forebay_base::{Error, ErrorKind, Result};
use image::error::{ImageError, LimitErrorKind};
use image::metadata::Orientation;
use image::{ColorType, ExtendedColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use self::bmp::{Finish, Prepared};
use self::gif::Gif;
use self::tiff::Alpha;
use super::depth::Depth;
use super::exif;
use super::format::{Format, Header};
use super::opened::{Opened, Pending};
use super::pixels::spread;
use super::refuse::{bad_row, corrupt};
use super::spec::RGB;

/// The number of channels of a CMYK pixel.
const CMYK: usize = 4;

/// The number of bytes per pixel that the decoder of a JPEG inside a TIFF takes: three channels of 8 bits,
/// and three 16-bit coefficients.
const JPEG_IN_TIFF: u64 = 9;

/// The beginning of the `image` crate's messages: "Format error decoding Bmp: ".
const CRATE_PREFIX: &str = "Format error decoding ";
/// The `image` crate's message for a BMP whose size it does not support.
const CRATE_TOO_LARGE: &str = "Image too large";

/// Reads the header of an image, and sets the depth in which it is decoded: `most` if the file has more than
/// 8 bits per channel, otherwise 8 bits.
///
/// # Errors
/// Fails if the image is damaged, or if it is a JPEG or a PNG, which other modules decode.
pub(super) fn open(encoded: &[u8], format: Format, most: Depth) -> Result<Opened<'_>> {
    match format {
        Format::Gif => {
            let gif = Gif::open(encoded)?;
            let orientation = Orientation::NoTransforms;
            Ok(Opened { header: gif.header(), orientation, depth: Depth::Eight, pending: Box::new(gif) })
        }
        Format::Tiff => {
            let ordered = tiff::in_bit_order(encoded)?;
            let premultiplied = tiff::is_premultiplied(encoded);
            // The decoder also holds the numbers of the TIFF's directory, and perhaps a copy of the file.
            // Each of the two is counted as the size of the file.
            let beside = 2 * encoded.len() as u64;
            let mut decoder = decoder(ordered, format).map_err(|error| tiff::explained(encoded, error))?;
            let orientation = decoder.orientation().map_err(|error| failed(format, error))?;
            // The decoder first decodes pixels into memory of its own, with a fourth channel for CMYK.
            let inks =
                matches!(decoder.original_color_type(), ExtendedColorType::Cmyk8 | ExtendedColorType::Cmyk16);
            let first =
                if inks { decoder.total_bytes() / RGB as u64 * CMYK as u64 } else { decoder.total_bytes() };
            let jpeg = if tiff::holds_jpegs(encoded) { JPEG_IN_TIFF } else { 0 };
            let beside =
                beside.saturating_add(first).saturating_add(pixels_of(&decoder).saturating_mul(jpeg));
            let (depth, finish) = (depth_of(&decoder, most), Finish::default());
            Ok(opened(Foreign { decoder, format, depth, beside, premultiplied, finish }, orientation))
        }
        Format::WebP => {
            let decoder = decoder(Cow::Borrowed(encoded), format)?;
            let each = webp::bytes_per_pixel(encoded, decoder.dimensions())?;
            let orientation = webp::exif(encoded).map_or(Orientation::NoTransforms, exif::orientation);
            let (depth, beside) = (depth_of(&decoder, most), each * pixels_of(&decoder));
            let (premultiplied, finish) = (false, Finish::default());
            Ok(opened(Foreign { decoder, format, depth, beside, premultiplied, finish }, orientation))
        }
        Format::Bmp => {
            let Prepared { file, pixels: finish } = Prepared::prepare(encoded);
            // A copy of the file is counted, if one was made.
            let beside = if matches!(file, Cow::Owned(_)) { encoded.len() as u64 } else { 0 };
            let decoder = decoder(file, format)?;
            let depth = depth_of(&decoder, most);
            let foreign = Foreign { decoder, format, depth, beside, premultiplied: false, finish };
            Ok(opened(foreign, Orientation::NoTransforms))
        }
        Format::Jpeg | Format::Png => Err(bad_row(format!("a {format} where another format is expected"))),
    }
}

/// An image that the `image` crate decodes as a whole.
struct Foreign<D> {
    decoder: D,
    format: Format,
    /// The depth in which the image is decoded.
    depth: Depth,
    /// The bytes that the decoder takes in addition to the buffer.
    beside: u64,
    /// Whether colours are stored multiplied by their alpha.
    premultiplied: bool,
    finish: Finish,
}

fn opened<'a>(foreign: Foreign<impl ImageDecoder + 'a>, orientation: Orientation) -> Opened<'a> {
    let (width, height) = foreign.decoder.dimensions();
    let channels = foreign.decoder.color_type().channel_count();
    let header = Header { format: foreign.format, width, height, channels, progressive: false };
    Opened { header, orientation, depth: foreign.depth, pending: Box::new(foreign) }
}

fn pixels_of(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    u64::from(width) * u64::from(height)
}

impl<D: ImageDecoder> Pending for Foreign<D> {
    fn buffer_bytes(&self) -> u64 {
        self.decoder
            .total_bytes()
            .max(pixels_of(&self.decoder).saturating_mul((RGB * self.depth.bytes()) as u64))
    }

    fn beside_bytes(&self) -> u64 {
        self.beside
    }

    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()> {
        let Foreign { mut decoder, format, depth, beside, premultiplied, finish } = *self;
        let mut limits = Limits::no_limits();
        // The decoder's own limits also count the pixels that it delivers.
        limits.max_alloc = Some(decoder.total_bytes().saturating_add(beside));
        decoder.set_limits(limits).map_err(|error| failed(format, error))?;
        let (color, stored) = (decoder.color_type(), decoder.total_bytes() as usize);
        let count = pixels_of(&decoder) as usize;
        let width = decoder.dimensions().0 as usize;
        // Pixels that a run-length code skips keep the buffer's content, so it is cleared.
        if format == Format::Bmp {
            buffer[..stored].fill(0);
        }
        decoder.read_image(&mut buffer[..stored]).map_err(|error| failed(format, error))?;
        finish.apply(&mut buffer[..stored], width, usize::from(color.bytes_per_pixel()));
        let premultiplied = premultiplied && color.has_alpha();
        match depth {
            Depth::Eight => {
                to_bytes(buffer, color, count);
                to_rgb(buffer, color, count, premultiplied);
            }
            Depth::Sixteen => {
                to_words(buffer, color, count);
                to_rgb(buffer.as_chunks_mut::<{ Depth::Sixteen.bytes() }>().0, color, count, premultiplied);
            }
        }
        Ok(())
    }
}

/// The depth in which to decode an image: `most` if the file has more than 8 bits per channel, otherwise 8
/// bits.
fn depth_of(decoder: &impl ImageDecoder, most: Depth) -> Depth {
    let color = decoder.color_type();
    if color.bytes_per_pixel() > color.channel_count() { most } else { Depth::Eight }
}

/// Converts `count` pixels to RGB, in place.
fn to_rgb<L: Alpha>(buffer: &mut [L], color: ColorType, count: usize, premultiplied: bool) {
    let channels = usize::from(color.channel_count());
    if premultiplied {
        tiff::divide_by_alpha(&mut buffer[..count * channels], channels);
    }
    spread(buffer, count, channels);
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

/// Converts each channel of `count` pixels to a byte, in place: the high byte, or 255 times a float.
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

/// Converts each channel of `count` pixels to 16 bits, in place: integers stay the same, floats are
/// multiplied by 65535.
fn to_words(buffer: &mut [u8], color: ColorType, count: usize) {
    let channels = usize::from(color.channel_count());
    if usize::from(color.bytes_per_pixel()) / channels != size_of::<f32>() {
        return;
    }
    for at in 0..count * channels {
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| buffer[size_of::<f32>() * at + byte]);
        let level = (f32::from_ne_bytes([a, b, c, d]) * f32::from(u16::MAX)).round() as u16;
        buffer[size_of::<u16>() * at..][..size_of::<u16>()].copy_from_slice(&level.to_ne_bytes());
    }
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

    /// Converts two equal pixels, each with the bytes `raw`, to RGB.
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
    fn floats_are_scaled_to_white_and_cut_off_there() {
        let wide: Vec<u8> = [0.5f32, 1.5, -1.0].into_iter().flat_map(f32::to_ne_bytes).collect();
        assert_eq!(rgb(&wide, ColorType::Rgb32F), [128, 255, 0]);
        let mut words = [&wide[..], &wide].concat();
        to_words(&mut words, ColorType::Rgb32F, 2);
        let words: Vec<u16> =
            words.as_chunks().0[..6].iter().map(|level| u16::from_ne_bytes(*level)).collect();
        assert_eq!(words, [32_768, 65_535, 0, 32_768, 65_535, 0]);
    }

    #[test]
    fn sixteen_bits_are_divided_by_their_alpha() {
        let mut pixels = [100u16, 200, 300, 32_768, 7, 8, 9, 0].map(u16::to_ne_bytes);
        to_rgb(&mut pixels, ColorType::Rgba16, 2, true);
        assert_eq!(
            pixels[..6].iter().map(|level| u16::from_ne_bytes(*level)).collect::<Vec<_>>(),
            [199, 399, 599, 7, 8, 9]
        );
    }
}
