//! Changes BMP files so that the `image` crate can decode them, and corrects the decoded pixels.
//!
//! A header of OS/2 2 is replaced by the 40-byte header of Windows, which has the same first fields. An image
//! with run-length codes whose rows are stored from top to bottom is decoded as if they were stored from
//! bottom to top, and the result is turned over. Levels of 5 or 6 bits are widened to 8 bits as in Pillow,
//! which rounds down, while the decoder rounds to the nearest level.

use std::borrow::Cow;

use crate::spec::RGB;

/// The number of bytes of the file header.
const FILE_HEADER: usize = 14;
/// The number of bytes of Windows' image header.
const WINDOWS: u32 = 40;
/// The number of bytes of the image header of OS/2 2. Its first fields are those of Windows' header.
const OS2: u32 = 64;

/// The offsets of fields in a file: where the pixels begin, the size of the image header, and fields of that
/// header.
const OFFSET: usize = 10;
const SIZE: usize = 14;
const HEIGHT: usize = 22;
const BITS: usize = 28;
const COMPRESSION: usize = 30;
/// The offset of the bit masks of the channels: right after an image header of 40 bytes, or in a longer one.
const MASKS: usize = 54;

/// The numbers of the compression types.
const PLAIN: u32 = 0;
const RLE8: u32 = 1;
const RLE4: u32 = 2;
const BITFIELDS: u32 = 3;
const ALPHA_BITFIELDS: u32 = 6;

/// A file that the decoder can read, and the corrections that its decoded pixels need.
pub(super) struct Prepared<'a> {
    /// The file itself, or a changed copy.
    pub(super) file: Cow<'a, [u8]>,
    pub(super) pixels: Finish,
}

/// The corrections that decoded pixels need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finish {
    /// The number of bits of each channel, from its bit mask. It is 5 for 16-bit pixels without masks, and 0
    /// for other files without masks.
    bits: [u32; RGB],
    /// Whether the decoder delivers the rows from bottom to top.
    is_reversed: bool,
}

impl Prepared<'_> {
    /// Prepares a file for the decoder. Malformed files are left unchanged, and the decoder returns an error
    /// for them.
    pub(super) fn prepare(encoded: &[u8]) -> Prepared<'_> {
        let mut prepared = Prepared { file: Cow::Borrowed(encoded), pixels: Finish::default() };
        let numbers = (number(encoded, SIZE), number(encoded, COMPRESSION), number(encoded, HEIGHT));
        let (Some(size), Some(compression), Some(height)) = numbers else { return prepared };
        if size < WINDOWS {
            return prepared;
        }
        if size == OS2
            && matches!(compression, PLAIN | RLE8 | RLE4)
            && let Some(file) = as_windows(encoded)
        {
            prepared.file = Cow::Owned(file);
        }
        if matches!(compression, RLE8 | RLE4) && (height as i32) < 0 {
            let rows = (height as i32).unsigned_abs();
            prepared.file.to_mut()[HEIGHT..HEIGHT + size_of::<u32>()].copy_from_slice(&rows.to_le_bytes());
            prepared.pixels.is_reversed = true;
        }
        let depth = encoded.get(BITS).copied().unwrap_or(0);
        prepared.pixels.bits = match (compression, depth) {
            (PLAIN, 16) => [5; RGB],
            (BITFIELDS | ALPHA_BITFIELDS, _) => {
                [0, 1, 2].map(|at| number(encoded, MASKS + at * size_of::<u32>()).map_or(0, u32::count_ones))
            }
            _ => [0; RGB],
        };
        prepared
    }
}

impl Finish {
    /// Corrects decoded pixels with this number of channels, in rows of `width` pixels.
    pub(super) fn apply(self, pixels: &mut [u8], width: usize, channels: usize) {
        if channels >= RGB {
            for (channel, bits) in self.bits.into_iter().enumerate().filter(|(_, bits)| matches!(bits, 5 | 6))
            {
                let levels = levels_below(bits);
                let of_channel = pixels.iter_mut().skip(channel).step_by(channels);
                of_channel.for_each(|level| *level = levels[usize::from(*level)]);
            }
        }
        if self.is_reversed {
            let row = width * channels;
            let rows = pixels.len() / row.max(1);
            for at in 0..rows / 2 {
                let (above, below) = pixels.split_at_mut((rows - 1 - at) * row);
                above[at * row..(at + 1) * row].swap_with_slice(&mut below[..row]);
            }
        }
    }
}

/// A table that maps each level as the decoder delivers it (rounded to the nearest) to the level that
/// rounding down gives.
fn levels_below(bits: u32) -> [u8; 256] {
    let (largest, white) = ((1u32 << bits) - 1, u32::from(u8::MAX));
    std::array::from_fn(|level| {
        let number = (level as u32 * largest + white / 2) / white;
        (number * white / largest) as u8
    })
}

/// A copy of the file in which the header of OS/2 2 is replaced by that of Windows.
fn as_windows(encoded: &[u8]) -> Option<Vec<u8>> {
    let removed = OS2 - WINDOWS;
    let offset = number(encoded, OFFSET)?.checked_sub(removed)?;
    let end = FILE_HEADER + WINDOWS as usize;
    let mut file = [encoded.get(..end)?, encoded.get(end + removed as usize..)?].concat();
    file[OFFSET..OFFSET + size_of::<u32>()].copy_from_slice(&offset.to_le_bytes());
    file[SIZE..SIZE + size_of::<u32>()].copy_from_slice(&WINDOWS.to_le_bytes());
    Some(file)
}

fn number(encoded: &[u8], at: usize) -> Option<u32> {
    encoded.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_below() {
        for bits in [5, 6] {
            let (largest, levels) = ((1u32 << bits) - 1, levels_below(bits));
            for number in 0..=largest {
                let nearest = (f64::from(number * 255) / f64::from(largest)).round() as usize;
                assert_eq!(u32::from(levels[nearest]), number * 255 / largest);
            }
        }
    }

    #[test]
    fn what_ends_early_is_left_as_it_is() {
        let whole: Vec<u8> = (0..80).collect();
        for end in 0..whole.len() {
            assert_eq!(Prepared::prepare(&whole[..end]).file, &whole[..end]);
        }
    }
}
