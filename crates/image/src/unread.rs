//! Guesses the content of bytes that cannot be decoded as an image, and makes an error that says what to do.

use forebay_base::Error;

use super::refuse::{RE_ENCODE, bad_row};

/// The number of bytes at the start of an unknown file that an error shows.
const SHOWN_BYTES: usize = 4;

/// Image formats that are not supported, by their first bytes.
const FORMATS: [(&[u8], &str); 14] = [
    (b"\0\0\0\x0CJXL \r\n\x87\n", "JPEG XL"),
    (b"\xFF\x0A", "JPEG XL"),
    (b"\0\0\0\x0CjP  \r\n\x87\n", "JPEG 2000"),
    (b"\xFF\x4F\xFF\x51", "JPEG 2000"),
    (b"II+\0", "BigTIFF"),
    (b"MM\0+", "BigTIFF"),
    (b"\0\0\x01\0", "ICO"),
    (b"8BPS", "PSD"),
    (b"\x76\x2F\x31\x01", "OpenEXR"),
    (b"#?RADIANCE", "Radiance HDR"),
    (b"DDS ", "DDS"),
    (b"qoif", "QOI"),
    (b"%PDF", "PDF"),
    (b"<svg", "SVG"),
];

/// The brands (types of content) that HEIF containers name, and the image formats that they stand for.
const BRANDS: [(&[&[u8; 4]], &str); 2] = [
    (&[b"avif", b"avis"], "AVIF"),
    (
        &[b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1"],
        "HEIC (HEIF)",
    ),
];

/// How supported image files begin if they are written in base64, or in its variant for URLs.
const BASE64: [(&[u8], &str); 8] = [
    (b"/9j/", "JPEG"),
    (b"_9j_", "JPEG"),
    (b"iVBORw0KGgo", "PNG"),
    (b"UklGR", "WebP"),
    (b"R0lGOD", "GIF"),
    (b"SUkqA", "TIFF"),
    (b"TU0AK", "TIFF"),
    (b"Qk", "BMP"),
];

/// The number of characters that are examined to recognise base64.
const LOOKED_AT: usize = 64;

/// The shortest side of a square of raw pixels that is guessed from the number of bytes. Smaller squares
/// match too many numbers by chance.
const LEAST_RAW_SIDE: usize = 16;

const DECODE: &str = "store the bytes of the file: `base64.b64decode` makes them in Python, `from_base64` in DuckDB, `unbase64` in Spark";

/// Whether a PNG was converted by Apple's tools, which compress the pixels in a way of their own.
pub(super) fn is_apples(png: &[u8]) -> bool {
    png.get(12..16) == Some(b"CgBI")
}

/// The error for a PNG that was converted by Apple's tools.
pub(super) fn apples() -> Error {
    unsupported("PNG of Apple's own kind (CgBI), as iOS apps hold them")
        .hint("convert such files back: `xcrun pngcrush -revert-iphone-optimizations`")
}

/// The error for bytes that do not begin like a supported format.
pub(super) fn not_an_image(encoded: &[u8]) -> Error {
    if encoded.is_empty() {
        return bad_row("empty");
    }
    if let Some(name) = format_of(encoded) {
        return unsupported(name).hint(RE_ENCODE);
    }
    let text = encoded.trim_ascii_start();
    if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"data:")) {
        return bad_row("a data URI where the bytes of an image are needed").hint(DECODE);
    }
    if let Some(name) = in_base64(text) {
        return bad_row(format!("a {name} in base64 where the bytes of an image are needed")).hint(DECODE);
    }
    if [&b"http://"[..], b"https://", b"s3://", b"gs://"].iter().any(|scheme| text.starts_with(scheme)) {
        return bad_row("a URL where the bytes of an image are needed")
            .hint("store the files themselves in the column");
    }
    let shown: String = encoded.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let guess = match text.first() {
        Some(b'<') => " (HTML?)",
        Some(b'{' | b'[') => " (JSON?)",
        _ if encoded.starts_with(b"PK") => " (ZIP?)",
        _ if encoded.starts_with(&[0x1F, 0x8B]) => " (gzip?)",
        None => " (white space)",
        _ => "",
    };
    let error = bad_row(format!("not an image: starts with {shown}{guess}"));
    match raw_shape(encoded.len()).filter(|_| guess.is_empty()) {
        Some(shape) => error.hint(format!("raw pixels are decoded with `raw`, such as raw({shape})")),
        None => error,
    }
}

/// The shape that raw pixels with this number of bytes may have: a square of RGB or of grey.
fn raw_shape(bytes: usize) -> Option<String> {
    [3, 1].into_iter().find_map(|channels: usize| {
        let side = (bytes / channels).isqrt();
        let is_square = side >= LEAST_RAW_SIDE && side * side * channels == bytes;
        is_square.then(|| format!("({side}, {side}, {channels})"))
    })
}

fn unsupported(name: &str) -> Error {
    bad_row(format!("unsupported image: {name}"))
}

/// The unsupported format that these bytes begin like, if any.
fn format_of(encoded: &[u8]) -> Option<&'static str> {
    let found = FORMATS.iter().find(|(start, _)| encoded.starts_with(start)).map(|(_, name)| *name);
    found.or_else(|| brand(encoded))
}

/// The format in a HEIF container, according to its brand or to the compatible brands that it lists.
fn brand(encoded: &[u8]) -> Option<&'static str> {
    let (size, rest) = encoded.split_first_chunk::<4>()?;
    let brands = rest.strip_prefix(b"ftyp")?;
    let end = (u32::from_be_bytes(*size) as usize).saturating_sub(8).min(brands.len());
    let (brands, _) = brands[..end].as_chunks::<4>();
    let named = |(known, name): &(&[&[u8; 4]], &'static str)| {
        brands.iter().any(|brand| known.contains(&brand)).then_some(*name)
    };
    BRANDS.iter().find_map(named)
}

/// The format of an image that is written in base64.
fn in_base64(text: &[u8]) -> Option<&'static str> {
    let (_, name) = BASE64.iter().find(|(start, _)| text.starts_with(start))?;
    // Base64 may be broken into lines, so line ends are accepted.
    let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(byte);
    text.iter().take(LOOKED_AT).all(is_of_base64).then_some(*name)
}

#[cfg(test)]
mod tests {
    use crate::probe;

    #[test]
    fn what_is_not_an_image_is_named() {
        for (bytes, cause) in [
            (&b""[..], "empty"),
            (b"<!DOCTYPE html>", "not an image: starts with 3c21444f (HTML?)"),
            (b"\n <html>", "not an image: starts with 0a203c68 (HTML?)"),
            (b"{\"error\": 1}", "not an image: starts with 7b226572 (JSON?)"),
            (b"\x00\x01", "not an image: starts with 0001"),
            (b"Qk and more", "not an image: starts with 516b2061"),
            (b"/9j/ an!", "not an image: starts with 2f396a2f"),
            (b"https://a.b/c.jpg", "a URL where the bytes of an image are needed"),
            (b"data:image/png;base64,iVBORw0KGgo=", "a data URI where the bytes of an image are needed"),
        ] {
            assert_eq!(probe(bytes).unwrap_err().cause(), cause);
        }
    }

    #[test]
    fn bytes_that_may_be_raw_pixels_are_named_with_their_shape() {
        for (bytes, shape) in [
            (299 * 299 * 3, Some("raw((299, 299, 3))")),
            (28 * 28, Some("raw((28, 28, 1))")),
            (28 * 28 + 1, None),
            (15 * 15, None),
        ] {
            let error = probe(&vec![0xC8; bytes]).unwrap_err().to_string();
            assert_eq!(error.contains("raw pixels"), shape.is_some(), "{error}");
            assert!(error.contains(shape.unwrap_or("not an image: starts with c8c8c8c8")), "{error}");
        }
    }

    #[test]
    fn images_that_are_not_read_are_refused_by_name() {
        let container = |brand: &[u8; 4], others: &[u8]| {
            let size = (16 + others.len() as u32).to_be_bytes();
            [&size[..], b"ftyp", brand, &[0; 4], others, &[7; 50]].concat()
        };
        for (bytes, name) in [
            (container(b"heic", b"mif1heic"), "HEIC"),
            (container(b"mif1", b"mif1heic"), "HEIC"),
            (container(b"mif1", b"mif1avif"), "AVIF"),
            (container(b"avif", b""), "AVIF"),
            (b"\0\0\0\x0CJXL \r\n\x87\n----".to_vec(), "JPEG XL"),
            (b"\xFF\x0A----".to_vec(), "JPEG XL"),
            (b"\0\0\0\x0CjP  \r\n\x87\n----".to_vec(), "JPEG 2000"),
            (b"II+\0\x08\0\0\0".to_vec(), "BigTIFF"),
            (b"MM\0+\0\x08\0\0".to_vec(), "BigTIFF"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\x04CgBI----".to_vec(), "CgBI"),
            (b"/9j/4AAQSkZJRgABAQ==\n".to_vec(), "a JPEG in base64"),
            (b" iVBORw0KGgoAAAANSUhEUg".to_vec(), "a PNG in base64"),
        ] {
            let error = probe(&bytes).unwrap_err();
            assert!(error.cause().contains(name) && error.to_string().contains('('), "{name}: {error}");
        }
        assert!(!probe(&container(b"isom", b"mp42")).unwrap_err().cause().contains("HE"));
    }
}
