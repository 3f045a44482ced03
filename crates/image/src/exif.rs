//! The orientation in EXIF data, which says how an image must be rotated and mirrored for display.
//!
//! EXIF data is a small TIFF file. In a JPEG, `Exif\0\0` comes before it. In PNG and WebP it should not, but
//! some writers put it there too.

use image::metadata::Orientation;

/// The prefix of EXIF data in a segment of a JPEG.
pub(super) const PREFIX: &[u8] = b"Exif\0\0";

/// The number of the tag that holds the orientation.
const ORIENTATION: u16 = 0x0112;
/// The integer types in which the orientation is found. The standard asks for one SHORT; if there are two,
/// the first one counts.
const SHORT: u16 = 3;
const LONG: u16 = 4;

/// The number of bytes of an entry in a directory.
const ENTRY: usize = 12;

/// Returns the orientation from EXIF data, or `NoTransforms` if the data has no valid one.
pub(super) fn orientation(mut exif: &[u8]) -> Orientation {
    while let Some(bare) = exif.strip_prefix(PREFIX) {
        exif = bare;
    }
    number(exif).and_then(Orientation::from_exif).unwrap_or(Orientation::NoTransforms)
}

/// The content of a JPEG's EXIF segment with this orientation; empty if the image needs no rotation or
/// mirroring.
pub(super) fn of_orientation(orientation: u8) -> Vec<u8> {
    if orientation == Orientation::NoTransforms.to_exif() {
        return Vec::new();
    }
    // The header is followed by a directory with a single entry. There is no second directory.
    let (first, entries, count, next) = (8u32, 1u16, 1u32, 0u32);
    let value = [u16::from(orientation), 0].map(u16::to_be_bytes);
    let mut segment = [PREFIX, b"MM\0*", &first.to_be_bytes(), &entries.to_be_bytes()].concat();
    segment.extend([ORIENTATION, SHORT].map(u16::to_be_bytes).as_flattened());
    segment.extend(count.to_be_bytes());
    segment.extend(value.as_flattened());
    segment.extend(next.to_be_bytes());
    segment
}

fn number(tiff: &[u8]) -> Option<u8> {
    let big = match tiff.first_chunk()? {
        b"II*\0" => false,
        b"MM\0*" => true,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let long = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    let directory = long(4)? as usize;
    let entries = usize::from(short(directory)?);
    let mut entries = (0..entries).map(|number| directory + 2 + number * ENTRY);
    let entry = entries.find(|at| short(*at) == Some(ORIENTATION))?;
    let value = match (short(entry + 2)?, long(entry + 4)?) {
        (SHORT, 1 | 2) => u32::from(short(entry + 8)?),
        (LONG, 1) => long(entry + 8)?,
        _ => return None,
    };
    value.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// EXIF data in little-endian order with one entry, the orientation.
    pub(crate) fn exif(kind: u16, count: u32, value: u32) -> Vec<u8> {
        let (entries, next) = (1u16.to_le_bytes(), 0u32.to_le_bytes());
        let entry =
            [&ORIENTATION.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &value.to_le_bytes()];
        [&b"II*\0\x08\0\0\0"[..], &entries, &entry.concat(), &next].concat()
    }

    #[test]
    fn every_whole_number_is_read_with_the_prefix_and_without() {
        for kind in [SHORT, LONG] {
            for prefix in [&b""[..], PREFIX, &[PREFIX, PREFIX].concat()] {
                let data = [prefix, &exif(kind, 1, 6)].concat();
                assert_eq!(orientation(&data), Orientation::Rotate90, "type {kind}");
            }
        }
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
        assert_eq!(orientation(big), Orientation::Rotate270);
    }

    #[test]
    fn what_names_none_of_the_eight_turns_nothing() {
        for data in
            [exif(SHORT, 1, 0), exif(SHORT, 1, 9), exif(SHORT, 3, 6), exif(LONG, 1, 262), exif(7, 1, 6)]
        {
            assert_eq!(orientation(&data), Orientation::NoTransforms);
        }
        let whole = exif(SHORT, 1, 6);
        for length in 0..whole.len() - 6 {
            assert_eq!(orientation(&whole[..length]), Orientation::NoTransforms, "cut at {length}");
        }
    }

    #[test]
    fn an_orientation_that_is_written_is_read() {
        for number in 2..=8 {
            assert_eq!(orientation(&of_orientation(number)).to_exif(), number);
        }
        assert!(of_orientation(1).is_empty());
    }
}
