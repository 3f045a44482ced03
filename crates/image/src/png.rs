//! Decodes PNG row by row, processing each row as soon as it is inflated.
//!
//! Alpha is dropped, palettes and low bit depths are expanded, and 16-bit levels keep their high byte unless
//! all 16 bits are wanted. All of this is done row by row, so that any image takes the memory of three levels
//! a pixel. Only interlaced images are held as a whole in stored form. Of an animation, the default image is
//! decoded. Texts and colour profiles, which can expand from a few bytes to a lot of memory, are skipped.

use std::io::Cursor;

use forebay_base::{Error, ErrorKind, Result};
use image::metadata::Orientation;
use png::{BitDepth, ColorType, DecodingError, Limits, Reader, Transformations};

use super::depth::Depth;
use super::exif;
use super::format::{Format, Header};
use super::mask_type::MaskType;
use super::opened::Pending;
use super::pixels::spread;
use super::refuse::{bad_row, corrupt};
use super::spec::RGB;

/// The memory limit of the PNG decoder for rows and chunks, in bytes. Only an image that is millions of
/// pixels wide needs more.
const DECODER_BYTES: usize = 64 << 20;

/// The number of rows that the decoder holds beside the delivered row: filtered rows, unfiltered rows and a
/// converted row.
const ROWS_HELD: u64 = 4;

/// The number of bytes of a PNG's signature.
const SIGNATURE: usize = 8;
/// The sizes in bytes of a chunk's length field, of its head (length and kind) and of its checksum.
const CHUNK_LENGTH: usize = 4;
const CHUNK_HEAD: usize = 8;
const CHUNK_CRC: usize = 4;

/// A PNG whose header was read.
pub(super) struct Png<'a> {
    reader: Reader<Cursor<&'a [u8]>>,
    encoded: &'a [u8],
}

impl<'a> Png<'a> {
    /// Reads the header. The image will be decoded in the depth `most`, or in 8 bits if the file has no more.
    pub(super) fn open(encoded: &'a [u8], most: Depth) -> Result<Self> {
        let mut decoder =
            png::Decoder::new_with_limits(Cursor::new(encoded), Limits { bytes: DECODER_BYTES });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(match most {
            Depth::Eight => Transformations::EXPAND | Transformations::STRIP_16,
            Depth::Sixteen => Transformations::EXPAND,
        });
        Ok(Png { reader: decoder.read_info().map_err(failed)?, encoded })
    }

    pub(super) fn header(&self) -> Header {
        let (width, height) = self.size();
        let (color, _) = self.reader.output_color_type();
        Header { format: Format::Png, width, height, channels: color.samples() as u8, progressive: false }
    }

    fn size(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    /// The depth in which the image is decoded.
    pub(super) fn depth(&self) -> Depth {
        match self.reader.output_color_type() {
            (_, BitDepth::Sixteen) => Depth::Sixteen,
            _ => Depth::Eight,
        }
    }

    /// The orientation in the image's `eXIf` chunk, before its data or after it.
    pub(super) fn orientation(&self) -> Orientation {
        chunk(self.encoded, b"eXIf").map_or(Orientation::NoTransforms, exif::orientation)
    }

    fn row_bytes(&self) -> u64 {
        let (width, _) = self.size();
        self.reader.output_line_size(width).map_or(u64::MAX, |bytes| bytes as u64)
    }
}

impl Pending for Png<'_> {
    fn buffer_bytes(&self) -> u64 {
        let (width, height) = self.size();
        let pixel = RGB * self.depth().bytes();
        let rgb = (u64::from(width) * u64::from(height)).saturating_mul(pixel as u64);
        if self.reader.info().interlaced {
            rgb.max(self.row_bytes().saturating_mul(height.into()))
        } else {
            rgb
        }
    }

    fn beside_bytes(&self) -> u64 {
        // A row of 16-bit levels that is delivered in 8 bits is stored in twice as many bytes.
        self.row_bytes().saturating_mul(2 * ROWS_HELD)
    }

    fn read(mut self: Box<Self>, buffer: &mut [u8]) -> Result<()> {
        let (width, height) = self.size();
        let (color, _) = self.reader.output_color_type();
        let (channels, depth) = (color.samples(), self.depth());
        let (width, height) = (width as usize, height as usize);
        if self.reader.info().interlaced || color == ColorType::Rgb {
            self.reader.next_frame(buffer).map_err(failed)?;
            match depth {
                Depth::Eight => spread(buffer, width * height, channels),
                Depth::Sixteen => {
                    let (levels, _) = buffer.as_chunks_mut::<{ Depth::Sixteen.bytes() }>();
                    levels[..width * height * channels].iter_mut().for_each(|level| *level = native(*level));
                    spread(levels, width * height, channels);
                }
            }
            return Ok(());
        }
        for pixels in buffer.chunks_exact_mut(width * RGB * depth.bytes()).take(height) {
            let row = self
                .reader
                .next_row()
                .map_err(failed)?
                .ok_or_else(|| bad_row("corrupt PNG: too few rows"))?;
            match depth {
                Depth::Eight => colours(row.data(), color, pixels, |level| level),
                Depth::Sixteen => colours(row.data().as_chunks().0, color, pixels.as_chunks_mut().0, native),
            }
        }
        // The rest of the data is read, so that damage in it is found.
        self.reader.next_row().map_err(failed)?;
        Ok(())
    }
}

/// Converts a row of levels from another kind of pixel to RGB.
fn colours<L: Copy>(from: &[L], color: ColorType, to: &mut [L], native: impl Fn(L) -> L) {
    let (to, _) = to.as_chunks_mut::<RGB>();
    match color {
        ColorType::Grayscale => to.iter_mut().zip(from).for_each(|(to, grey)| *to = [native(*grey); RGB]),
        ColorType::GrayscaleAlpha => {
            let (from, _) = from.as_chunks::<2>();
            to.iter_mut().zip(from).for_each(|(to, [grey, _])| *to = [native(*grey); RGB]);
        }
        _ => {
            let (from, _) = from.as_chunks::<4>();
            to.iter_mut().zip(from).for_each(|(to, [r, g, b, _])| *to = [*r, *g, *b].map(&native));
        }
    }
}

/// Converts a 16-bit number from PNG's byte order to the native one.
fn native(stored: [u8; 2]) -> [u8; 2] {
    u16::from_be_bytes(stored).to_ne_bytes()
}

/// A PNG mask whose header was read. It has one channel, and its values (class numbers) are delivered as
/// stored.
pub(super) struct Classes<'a> {
    reader: Reader<Cursor<&'a [u8]>>,
    encoded: &'a [u8],
    dtype: MaskType,
}

impl<'a> Classes<'a> {
    /// Reads the header of a mask.
    ///
    /// # Errors
    /// Fails if the PNG has several channels, or more bits than `dtype`.
    pub(super) fn open(encoded: &'a [u8], dtype: MaskType) -> Result<Self> {
        let mut decoder =
            png::Decoder::new_with_limits(Cursor::new(encoded), Limits { bytes: DECODER_BYTES });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::IDENTITY);
        let reader = decoder.read_info().map_err(failed)?;
        let (color, depth) = reader.output_color_type();
        if !matches!(color, ColorType::Grayscale | ColorType::Indexed) {
            return Err(bad_row(format!("a mask of {} channels", color.samples())).hint(
                "a mask has one channel: class numbers as grey values or as the indices of a palette",
            ));
        }
        if depth == BitDepth::Sixteen && dtype == MaskType::U8 {
            return Err(bad_row("a mask of 16 bits, delivered as uint8").hint("deliver it as uint16"));
        }
        Ok(Classes { reader, encoded, dtype })
    }

    pub(super) fn size(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    pub(super) fn orientation(&self) -> Orientation {
        chunk(self.encoded, b"eXIf").map_or(Orientation::NoTransforms, exif::orientation)
    }

    /// The most bytes that the decoder takes beside the buffer.
    pub(super) fn beside_bytes(&self) -> u64 {
        let (width, height) = self.size();
        let row = self.reader.output_line_size(width).map_or(u64::MAX, |bytes| bytes as u64);
        let rows = if self.reader.info().interlaced { u64::from(height) } else { 0 };
        row.saturating_mul(2 * ROWS_HELD + rows)
    }

    /// Reads all values into the buffer, in native byte order.
    pub(super) fn read(mut self, buffer: &mut [u8]) -> Result<()> {
        let (width, height) = self.size();
        let (width, height) = (width as usize, height as usize);
        let (_, depth) = self.reader.output_color_type();
        let rows = buffer.chunks_exact_mut(width * self.dtype.bytes());
        if self.reader.info().interlaced {
            let stored =
                self.reader.output_buffer_size().ok_or_else(|| failed(DecodingError::LimitsExceeded))?;
            let line = stored / height.max(1);
            let mut packed = vec![0; stored];
            self.reader.next_frame(&mut packed).map_err(failed)?;
            for (to, from) in rows.zip(packed.chunks_exact(line.max(1))) {
                unpack(from, depth, self.dtype, to);
            }
            return Ok(());
        }
        for to in rows {
            let row = self.reader.next_row().map_err(failed)?;
            let row = row.ok_or_else(|| bad_row("corrupt PNG: too few rows"))?;
            unpack(row.data(), depth, self.dtype, to);
        }
        // The rest of the data is read, so that damage in it is found.
        self.reader.next_row().map_err(failed)?;
        Ok(())
    }
}

/// Writes the values of a stored row to `to`, each in the size of `dtype`.
fn unpack(from: &[u8], depth: BitDepth, dtype: MaskType, to: &mut [u8]) {
    let bits = depth as usize;
    let value = |at: usize| match depth {
        BitDepth::Sixteen => u16::from_be_bytes([from[2 * at], from[2 * at + 1]]),
        BitDepth::Eight => u16::from(from[at]),
        _ => {
            let first = at * bits;
            let shifted = from[first / 8] >> (8 - bits - first % 8);
            u16::from(shifted) & ((1 << bits) - 1)
        }
    };
    match dtype {
        MaskType::U8 if depth == BitDepth::Eight => to.copy_from_slice(&from[..to.len()]),
        MaskType::U8 => to.iter_mut().enumerate().for_each(|(at, to)| *to = value(at) as u8),
        MaskType::U16 => {
            let (to, _) = to.as_chunks_mut::<2>();
            to.iter_mut().enumerate().for_each(|(at, to)| *to = value(at).to_ne_bytes());
        }
    }
}

/// The content of the first chunk of a kind.
fn chunk<'a>(encoded: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    let mut rest = encoded.get(SIGNATURE..)?;
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let content = rest.get(CHUNK_HEAD..)?.get(..length)?;
        if rest[CHUNK_LENGTH..CHUNK_HEAD] == *kind {
            return Some(content);
        }
        rest = rest.get(CHUNK_HEAD + length + CHUNK_CRC..)?;
    }
}

fn failed(error: DecodingError) -> Error {
    match error {
        DecodingError::LimitsExceeded => {
            let limit = DECODER_BYTES >> 20;
            Error::new(ErrorKind::TooLarge, format!("PNG: a row or chunk takes more than {limit} MiB"))
        }
        other => corrupt(Format::Png, &other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exif::tests::exif;

    /// A chunk with a checksum that is not verified.
    fn bare_chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes()[..], kind, content, &[0; 4]].concat()
    }

    #[test]
    fn exif_is_found_before_and_behind_the_image() {
        let data = bare_chunk(b"IDAT", &[1, 2, 3]);
        let turned = bare_chunk(b"eXIf", &exif(3, 1, 6));
        for chunks in [[turned.clone(), data.clone()], [data, turned]] {
            let png = [&[0; SIGNATURE][..], &chunks.concat()].concat();
            assert_eq!(exif::orientation(chunk(&png, b"eXIf").unwrap()), Orientation::Rotate90);
            assert_eq!(chunk(&png[..png.len() - 9], b"none"), None);
        }
    }
}
