//! Handles tags of TIFF files that the `image` crate's decoder ignores.
//!
//! `FillOrder` 2 says that a byte's lowest bit comes first, so the bits of strips and tiles are reversed
//! before the decoder reads them. `ExtraSamples` 1 says that colours are stored multiplied by their alpha, so
//! they are divided by it. Alpha is then dropped without blending, as in other formats.

use std::borrow::Cow;
use std::io::Cursor;

use forebay_base::{Error, Result};
use tiff::decoder::Decoder;
use tiff::tags::Tag;

use crate::refuse::bad_row;

const LOWEST_BIT_FIRST: u16 = 2;
const ASSOCIATED_ALPHA: u16 = 1;
const FLOATING_POINT: u16 = 3;

/// The numbers of the compression types that store JPEGs. A JPEG has its own bit order.
const JPEGS: [u16; 2] = [6, 7];

/// Returns the file with the highest bit of each byte first. It is copied only if bits have to be reversed.
///
/// # Errors
/// Fails if the strips together are longer than the file, because a file with overlapping strips could have
/// any number of them.
pub(super) fn in_bit_order(encoded: &[u8]) -> Result<Cow<'_, [u8]>> {
    // A file that cannot be read here is left to the decoder, which returns an error.
    let Some(strips) = reversed_strips(encoded) else { return Ok(Cow::Borrowed(encoded)) };
    let total = strips.iter().fold(0u64, |total, (_, bytes)| total.saturating_add(*bytes));
    if total > encoded.len() as u64 {
        return Err(bad_row("corrupt TIFF: its strips are longer than the file"));
    }
    let mut turned = encoded.to_vec();
    for (start, bytes) in strips {
        let Ok(start) = usize::try_from(start) else { continue };
        let strip = turned.get_mut(start..).unwrap_or_default().iter_mut();
        strip.take(bytes as usize).for_each(|byte| *byte = byte.reverse_bits());
    }
    Ok(Cow::Owned(turned))
}

/// Whether the strips or tiles are stored as JPEGs.
pub(super) fn holds_jpegs(encoded: &[u8]) -> bool {
    let Ok(mut decoder) = Decoder::new(Cursor::new(encoded)) else { return false };
    let compression = decoder.find_tag_unsigned::<u16>(Tag::Compression).ok().flatten();
    compression.is_some_and(|compression| JPEGS.contains(&compression))
}

/// The error for a file that the decoder cannot open. It explains that a single channel of floating-point
/// numbers is not supported if the file has such numbers; otherwise it is the decoder's own error.
pub(super) fn explained(encoded: &[u8], refused: Error) -> Error {
    let Ok(mut decoder) = Decoder::new(Cursor::new(encoded)) else { return refused };
    let kind = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).ok().flatten();
    match kind.is_some_and(|kind| kind.contains(&FLOATING_POINT)) {
        true => bad_row("a TIFF with one channel of floating-point numbers is not read")
            .hint("store it with 8 or 16 bits a channel, or its numbers as a list or tensor"),
        false => refused,
    }
}

/// Whether colours are stored multiplied by their alpha.
pub(super) fn is_premultiplied(encoded: &[u8]) -> bool {
    let Ok(mut decoder) = Decoder::new(Cursor::new(encoded)) else { return false };
    let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).ok().flatten();
    extra.is_some_and(|extra| extra.first() == Some(&ASSOCIATED_ALPHA))
}

/// The level of a colour channel, or an alpha.
pub(super) trait Alpha: Copy {
    /// The level as a number.
    fn number(self) -> u32;

    /// Divides the level `colour` by this alpha, which must not be 0.
    fn divide(self, colour: Self) -> Self;
}

impl Alpha for u8 {
    fn number(self) -> u32 {
        self.into()
    }

    fn divide(self, colour: Self) -> Self {
        (colour.number() * u32::from(u8::MAX) / self.number()).min(u8::MAX.into()) as u8
    }
}

/// A level of 16 bits, as two bytes in native byte order.
impl Alpha for [u8; 2] {
    fn number(self) -> u32 {
        u16::from_ne_bytes(self).into()
    }

    fn divide(self, colour: Self) -> Self {
        let divided = colour.number() * u32::from(u16::MAX) / self.number();
        (divided.min(u16::MAX.into()) as u16).to_ne_bytes()
    }
}

/// Divides the colours of pixels with alpha by their alpha. Fully transparent pixels stay the same.
pub(super) fn divide_by_alpha<L: Alpha>(pixels: &mut [L], channels: usize) {
    for pixel in pixels.chunks_exact_mut(channels) {
        if let Some((alpha, colours)) = pixel.split_last_mut()
            && alpha.number() > 0
        {
            colours.iter_mut().for_each(|level| *level = alpha.divide(*level));
        }
    }
}

/// The offsets and lengths of the strips or tiles, if their bytes have the lowest bit first; otherwise
/// `None`.
fn reversed_strips(encoded: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut decoder = Decoder::new(Cursor::new(encoded)).ok()?;
    let order = decoder.find_tag_unsigned::<u16>(Tag::FillOrder).ok()??;
    if order != LOWEST_BIT_FIRST || holds_jpegs(encoded) {
        return None;
    }
    let mut numbers = |strips, tiles| {
        let found = decoder.find_tag_unsigned_vec::<u64>(strips).ok()?;
        found.or(decoder.find_tag_unsigned_vec::<u64>(tiles).ok()?)
    };
    let starts = numbers(Tag::StripOffsets, Tag::TileOffsets)?;
    Some(starts.into_iter().zip(numbers(Tag::StripByteCounts, Tag::TileByteCounts)?).collect())
}
