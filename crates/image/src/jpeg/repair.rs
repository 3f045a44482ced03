//! Removes harmless errors from the segments before the first scan of a JPEG, so that they do not hide real
//! damage.

use super::markers::{APP0, APP14, EOI, Markers, PREFIX, SOI, SOS, Segment, segment};

const JFIF: &[u8] = b"JFIF\0";
/// The two version bytes in a segment of JFIF 1.02.
const JFIF_VERSION: [u8; 2] = [1, 2];
/// The offset of the colour transform in Adobe's segment.
const ADOBE_TRANSFORM: usize = 11;
/// The known colour transforms of Adobe's segment.
const ADOBE_YCBCR: u8 = 1;
const ADOBE_YCCK: u8 = 2;
/// The number of components of a colour JPEG that has no component for black.
const THREE_COLOURS: u8 = 3;

/// Returns a copy of the JPEG. Before the first scan, the copy has only the segments that decoding needs,
/// corrected where they break the format.
///
/// It is used for files whose decoding stopped at something harmless in that place: stray bytes between
/// segments, or an application's segment that breaks its own rules. libjpeg-turbo would skip these, but it
/// reports only its first warning, and a harmless warning may hide a serious one. The scans stay byte for
/// byte the same, so damage in them is still found.
pub(super) fn without_oddities(encoded: &[u8]) -> Option<Vec<u8>> {
    let components = Markers::read(encoded)?.components;
    let mut clean = vec![PREFIX, SOI];
    let mut at = 0;
    loop {
        let Segment { marker, content, end } = segment(encoded, at)?;
        at = end;
        let kept = match marker {
            0x00..=0x01 | 0xD0..=SOI => None,
            EOI => return None,
            // The JFIF version does not change how a file is decoded, so it is replaced by a known one. The
            // segment itself is kept, because its presence decides between YCbCr and RGB.
            APP0 => match content.strip_prefix(JFIF) {
                Some([_, _, rest @ ..]) => Some([JFIF, &JFIF_VERSION, rest].concat()),
                _ => None,
            },
            APP14 => Some(with_known_transform(content, components)),
            0xE1..=0xEF | 0xFE => None,
            _ => Some(content.to_vec()),
        };
        if let Some(kept) = kept {
            let length = u16::try_from(kept.len() + size_of::<u16>()).ok()?;
            clean.extend([PREFIX, marker]);
            clean.extend(length.to_be_bytes());
            clean.extend(kept);
        }
        if marker == SOS {
            clean.extend(&encoded[end..]);
            return Some(clean);
        }
    }
}

/// Replaces an unknown colour transform in Adobe's segment by the one that libjpeg assumes in this case.
fn with_known_transform(content: &[u8], components: u8) -> Vec<u8> {
    let mut content = content.to_vec();
    if let Some(transform) = content.get_mut(ADOBE_TRANSFORM)
        && *transform > ADOBE_YCCK
    {
        *transform = if components == THREE_COLOURS { ADOBE_YCBCR } else { ADOBE_YCCK };
    }
    content
}

#[cfg(test)]
mod tests {
    use super::super::encode_jpeg;
    use super::*;

    /// A JPEG, and the same JPEG with the version 9 in its JFIF segment.
    fn odd() -> (Vec<u8>, Vec<u8>) {
        let encoded = encode_jpeg(&[90; 16 * 16 * 3], 16, 16, 90).unwrap();
        let jfif = encoded.windows(JFIF.len()).position(|window| window == JFIF).unwrap();
        let mut odd = encoded.clone();
        odd[jfif + JFIF.len()] = 9;
        (encoded, odd)
    }

    #[test]
    fn an_odd_version_is_replaced_and_the_scan_kept() {
        let (encoded, odd) = odd();
        let clean = without_oddities(&odd).unwrap();
        let scan = Markers::read(&encoded).unwrap().scan;
        assert!(clean.ends_with(&encoded[scan..]));
        let (before, after) = (Markers::read(&encoded).unwrap(), Markers::read(&clean).unwrap());
        assert_eq!((before.size, before.components), (after.size, after.components));
    }

    #[test]
    fn stray_bytes_between_segments_are_dropped() {
        const STRAY: [u8; 4] = [0xA5, 0x5A, 0xA5, 0x5A];
        let (encoded, _) = odd();
        let mut stray = encoded[..2].to_vec();
        stray.extend(STRAY);
        stray.extend(&encoded[2..]);
        assert!(!without_oddities(&stray).unwrap().windows(STRAY.len()).any(|window| window == STRAY));
    }
}
