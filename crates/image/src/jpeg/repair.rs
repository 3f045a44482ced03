//! Removes harmless errors from the headers of a JPEG, so that they do not hide real damage.

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
/// The frame headers of sequential files: baseline, extended, and extended with arithmetic codes.
const SEQUENTIAL: [u8; 3] = [0xC0, 0xC1, 0xC9];
/// The end of a scan header that says that the scan has all 64 coefficients in full: their first and last
/// index, and two numbers of bits (Ss, Se, Ah and Al in ITU-T T.81, B.2.3).
const ALL_COEFFICIENTS: [u8; 3] = [0, 63, 0];

/// Returns a copy of the JPEG. Before the first scan, the copy has only the segments that decoding needs,
/// corrected where they break the format.
///
/// It is used for files whose decoding stopped at something harmless in that place: stray bytes between
/// segments, or an application's segment that breaks its own rules. libjpeg-turbo would skip these, but it
/// reports only its first warning, and a harmless warning may hide a serious one. It also ignores which
/// coefficients the scan headers of a sequential file name, because each scan of such a file has all of them;
/// the copy names them all. The data of the scans stay byte for byte the same, so damage in them is still
/// found.
pub(super) fn without_oddities(encoded: &[u8]) -> Option<Vec<u8>> {
    let components = Markers::read(encoded)?.components;
    let mut clean = vec![PREFIX, SOI];
    let mut sequential = false;
    let mut at = 0;
    loop {
        let Segment { marker, content, end } = segment(encoded, at)?;
        at = end;
        sequential |= SEQUENTIAL.contains(&marker);
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
            if sequential {
                name_all_coefficients(&mut clean, components);
            }
            return Some(clean);
        }
    }
}

/// Writes into all scan headers of a sequential file that the scan has all coefficients.
///
/// In such a file, each component is in one scan. If the scans have more components than the file, or fewer,
/// nothing is changed: it may be a progressive file whose frame header is damaged, and its pixels would be
/// wrong.
fn name_all_coefficients(encoded: &mut [u8], components: u8) {
    let mut headers = Vec::new();
    let mut in_scans = 0;
    let mut at = 0;
    while let Some(Segment { marker, content, end }) = segment(encoded, at)
        && marker != EOI
    {
        if marker == SOS
            && let [in_scan, .., _, _, _] = content
        {
            in_scans += usize::from(*in_scan);
            headers.push(end);
        }
        at = end;
    }
    if in_scans == usize::from(components) {
        for end in headers {
            encoded[end - ALL_COEFFICIENTS.len()..end].copy_from_slice(&ALL_COEFFICIENTS);
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
    fn a_sequential_scan_gets_all_coefficients_if_each_component_is_in_one_scan() {
        let (encoded, _) = odd();
        let clean = without_oddities(&encoded).unwrap();
        let scan = Markers::read(&encoded).unwrap().scan;
        let mut partial = encoded.clone();
        partial[scan - 3..scan].copy_from_slice(&[1, 5, 0x21]);
        assert!(without_oddities(&partial).unwrap() == clean);

        // The same file with its only scan twice, and the first scan of a progressive file.
        let header = encoded.windows(2).position(|pair| pair == [PREFIX, SOS]).unwrap();
        let twice = [&partial[..partial.len() - 2], &partial[header..]].concat();
        let mut progressive = partial.clone();
        let frame = encoded.windows(2).position(|pair| pair == [PREFIX, 0xC0]).unwrap();
        progressive[frame + 1] = 0xC2;
        for other in [twice, progressive] {
            assert!(without_oddities(&other).unwrap().ends_with(&other[scan - 3..]));
        }
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
