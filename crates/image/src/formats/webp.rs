//! Checks the sizes in a WebP file before a pixel is decoded.
//!
//! The container states the size of a picture, and the picture inside states it again. The decoder compares
//! the two only after it has decoded the picture. This file compares them earlier, because a picture that is
//! larger than its container states would take memory that no limit has counted.

use forebay_base::{Error, Result};

use crate::refuse::bad_row;

/// The number of bytes of the file's head.
const FILE_HEAD: usize = 12;
/// The number of bytes of a chunk's head.
const CHUNK_HEAD: usize = 8;
/// The bytes before the chunks of an animation's frame.
const FRAME_HEAD: usize = 16;

const ANIMATED: u8 = 0x02;
const ALPHA: u8 = 0x10;

/// The bytes per pixel that the decoder takes for a lossy picture, in addition to the delivered pixels. They
/// are a plane of brightness, and two planes of colour with half the width and height.
const LOSSY: u64 = 2;
/// The bytes per pixel that the decoder takes for a lossless picture: four channels, and the data for
/// predicting them.
const LOSSLESS: u64 = 5;
/// The bytes per pixel that the decoder takes for a picture with alpha. Alpha is stored as a lossless
/// picture, which is then copied to a plane.
const WITH_ALPHA: u64 = LOSSLESS + LOSSY;
/// The bytes per pixel that the decoder takes for an animation: a frame with alpha, and four channels of the
/// canvas on which frames are drawn.
const ANIMATION: u64 = WITH_ALPHA + 4;

/// A picture in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Picture {
    lossless: bool,
    width: u32,
    height: u32,
}

/// The bytes per pixel that the decoder takes in addition to the delivered pixels.
///
/// # Errors
/// Fails if a picture has another size than its container says.
pub(super) fn bytes_per_pixel(encoded: &[u8], size: (u32, u32)) -> Result<u64> {
    let mut flags = 0;
    let mut bytes = LOSSY;
    for (kind, content) in chunks(encoded.get(FILE_HEAD..).unwrap_or_default()) {
        match kind {
            b"VP8X" => flags = content.first().copied().unwrap_or(0),
            // Only the first frame is decoded.
            b"ANMF" if flags & ANIMATED != 0 => {
                let number = |at: usize| {
                    let bytes = content.get(at..at + 3)?;
                    Some(1 + u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
                };
                let frame = number(6).zip(number(9)).ok_or_else(|| misfit("a frame that ends early"))?;
                let inside = chunks(content.get(FRAME_HEAD..).unwrap_or_default());
                inside
                    .filter_map(|(kind, content)| picture(kind, content))
                    .try_for_each(|it| fits(it, frame))?;
                return Ok(ANIMATION);
            }
            _ => {
                if flags & ANIMATED == 0
                    && let Some(picture) = picture(kind, content)
                {
                    fits(picture, size)?;
                    bytes = if picture.lossless { LOSSLESS } else { LOSSY };
                }
            }
        }
    }
    Ok(if flags & ALPHA != 0 { bytes.max(WITH_ALPHA) } else { bytes })
}

/// The content of a file's EXIF chunk.
pub(super) fn exif(encoded: &[u8]) -> Option<&[u8]> {
    chunks(encoded.get(FILE_HEAD..)?).find(|(kind, _)| *kind == b"EXIF").map(|(_, content)| content)
}

fn fits(picture: Picture, (width, height): (u32, u32)) -> Result<()> {
    if (picture.width, picture.height) == (width, height) {
        return Ok(());
    }
    Err(misfit(&format!("a picture of {}x{} where {width}x{height} is said", picture.width, picture.height)))
}

fn misfit(what: &str) -> Error {
    bad_row(format!("corrupt WebP: {what}"))
}

/// The chunks of a file or of an animation's frame. If the data is cut off, the last chunk is shorter.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let kind = rest.first_chunk::<4>()?;
        let length = u32::from_le_bytes(*rest.get(4..)?.first_chunk()?) as usize;
        let content = &rest[CHUNK_HEAD..];
        let content = &content[..length.min(content.len())];
        rest = rest.get(CHUNK_HEAD + length + length % 2..).unwrap_or_default();
        Some((kind, content))
    })
}

/// The picture in a chunk, if it has one.
fn picture(kind: &[u8; 4], content: &[u8]) -> Option<Picture> {
    const SIDE: u32 = (1 << 14) - 1;
    match kind {
        b"VP8 " => {
            // Three bytes of a frame tag and three of a signature come before the sides.
            let [w0, w1, h0, h1] = *content.get(6..)?.first_chunk()?;
            let [width, height] = [[w0, w1], [h0, h1]].map(|side| u32::from(u16::from_le_bytes(side)) & SIDE);
            Some(Picture { lossless: false, width, height })
        }
        b"VP8L" => {
            // A byte of signature comes before the width and the height. Both are stored minus one.
            let bits = u32::from_le_bytes(*content.get(1..)?.first_chunk()?);
            Some(Picture { lossless: true, width: 1 + (bits & SIDE), height: 1 + (bits >> 14 & SIDE) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let padding = &[0][..content.len() % 2];
        [kind, &(content.len() as u32).to_le_bytes()[..], content, padding].concat()
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        [&[0; FILE_HEAD][..], &chunks.concat()].concat()
    }

    fn lossy(width: u16, height: u16) -> Vec<u8> {
        chunk(b"VP8 ", &[&[0; 6][..], &width.to_le_bytes(), &height.to_le_bytes()].concat())
    }

    fn extended(flags: u8) -> Vec<u8> {
        chunk(b"VP8X", &[flags, 0, 0, 0, 9, 0, 0, 6, 0, 0])
    }

    #[test]
    fn what_a_picture_takes_depends_on_its_kind() {
        let lossless = chunk(b"VP8L", &[0x2F, 9, 0x80, 1, 0]);
        for (chunks, bytes) in [
            (vec![lossy(10, 7)], LOSSY),
            (vec![lossless.clone()], LOSSLESS),
            (vec![extended(0), lossless], LOSSLESS),
            (vec![extended(ALPHA), chunk(b"ALPH", &[1]), lossy(10, 7)], WITH_ALPHA),
        ] {
            assert_eq!(bytes_per_pixel(&file(&chunks), (10, 7)).unwrap(), bytes);
        }
    }

    #[test]
    fn a_picture_that_is_larger_than_its_container_says_is_refused() {
        let small = file(&[extended(0), lossy(10, 7)]);
        assert!(bytes_per_pixel(&small, (10, 7)).is_ok());
        let large = file(&[extended(0), lossy(16_383, 16_383)]);
        let error = bytes_per_pixel(&large, (10, 7)).unwrap_err();
        assert_eq!(error.cause(), "corrupt WebP: a picture of 16383x16383 where 10x7 is said");
        let frame = |inside: &[u8]| [&[0; 6][..], &[9, 0, 0, 6, 0, 0, 0, 0, 0, 0], inside].concat();
        for (inside, fits) in [(lossy(10, 7), true), (lossy(11, 7), false)] {
            let animated = file(&[extended(ANIMATED), chunk(b"ANMF", &frame(&inside))]);
            assert_eq!(bytes_per_pixel(&animated, (10, 7)).is_ok(), fits);
        }
    }
}
