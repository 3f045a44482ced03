//! Encoded images.

use forebay_image::{
    Format, Image, Pixels, RowKey, Size, decode, encode_jpeg, is_jpeg, is_packed, pack, probe, unpack,
};

use crate::turbo;

/// The most pixels of an image that is decoded: more would only make each run slow.
const MAX_PIXELS: u64 = 1 << 20;

/// Whether the image is small enough to be decoded many times.
fn is_small(encoded: &[u8]) -> bool {
    probe(encoded).is_ok_and(|header| u64::from(header.width) * u64::from(header.height) <= MAX_PIXELS)
}

/// A JPEG that can be decoded has the pixels that libjpeg-turbo decodes, as a whole and in a crop, and keeps
/// them when it is packed.
pub(crate) fn jpeg(data: &[u8]) -> bool {
    if !is_jpeg(data) || !is_small(data) {
        return false;
    }
    let whole = decode(data);
    decodes_alike_twice(data);
    let Ok(whole) = whole else { return false };
    if let Some(expected) = turbo::rgb(data) {
        assert!(whole.bytes() == expected, "libjpeg-turbo has other pixels");
    }
    crop_is_that_of_the_whole(data, &whole);
    if let Some(cell) = pack(data) {
        let unpacked = unpack(&cell).expect("what was packed is unpacked");
        assert!(decode(&cell).unwrap().bytes() == whole.bytes(), "the packed cell has other pixels");
        assert!(decode(&unpacked).unwrap().bytes() == whole.bytes(), "the unpacked JPEG has other pixels");
    }
    true
}

/// An image of any other format is refused, or decoded to the size in its header.
pub(crate) fn image(data: &[u8]) -> bool {
    if is_jpeg(data) || !is_small(data) {
        return false;
    }
    decodes_alike_twice(data);
    let Ok(whole) = decode(data) else { return false };
    let header = probe(data).expect("a header was read to decode it");
    assert_ne!(header.format, Format::Jpeg);
    assert_eq!((whole.width(), whole.height()), (header.width, header.height));
    crop_is_that_of_the_whole(data, &whole);
    true
}

/// A packed cell is refused, or unpacked to a JPEG with the same pixels.
pub(crate) fn packed(data: &[u8]) -> bool {
    if !is_packed(data) {
        return false;
    }
    let small = Image::as_stored(data).is_ok_and(|image| {
        let Size { height, width } = image.size();
        u64::from(height) * u64::from(width) <= MAX_PIXELS
    });
    if !small {
        return false;
    }
    decodes_alike_twice(data);
    if let (Ok(whole), Ok(jpeg)) = (decode(data), unpack(data)) {
        assert!(decode(&jpeg).unwrap().bytes() == whole.bytes(), "the unpacked JPEG has other pixels");
        return true;
    }
    false
}

/// Checks that decoding with the same key twice gives the same pixels, or the same kind of error.
fn decodes_alike_twice(data: &[u8]) {
    let image = Image::random_resized_crop(24).flip();
    let once = image.decode(data, RowKey(7));
    let again = image.decode(data, RowKey(7));
    match (once, again) {
        (Ok(once), Ok(again)) => assert_eq!(once.bytes(), again.bytes(), "the same key gave other pixels"),
        (Err(once), Err(again)) => assert_eq!(once.kind(), again.kind()),
        (once, again) => panic!("once {:?}, then {:?}", once.err(), again.err()),
    }
}

/// The middle of the image, decoded by itself, has the same pixels as in the whole image.
fn crop_is_that_of_the_whole(data: &[u8], whole: &Pixels) {
    // The differences are even, so the borders on both sides are equal.
    let (top, left) = (whole.height() / 4, whole.width() / 4);
    let size = Size { height: whole.height() - 2 * top, width: whole.width() - 2 * left };
    let shorter = whole.width().min(whole.height());
    let Ok(middle) = Image::center_crop(size).resize_shorter(shorter).decode(data, RowKey(0)) else { return };
    let bytes = |pixels: u32| pixels as usize * 3;
    let rows = whole.bytes().chunks_exact(bytes(whole.width())).skip(top as usize);
    for (row, (found, expected)) in middle.bytes().chunks_exact(bytes(size.width)).zip(rows).enumerate() {
        assert!(found == &expected[bytes(left)..][..found.len()], "row {row} of the crop differs");
    }
}

/// Draws a picture with edges, slopes and noise.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let pixel = |at: u32| {
        let (x, y) = (at % width, at / width);
        [x * 5 + y, (x ^ y) * 3, (x * y) % 251].map(|level| level as u8)
    };
    (0..width * height).flat_map(pixel).collect()
}

pub(crate) fn jpegs() -> Vec<Vec<u8>> {
    let of = |(width, height, quality)| encode_jpeg(&picture(width, height), width, height, quality).unwrap();
    [(48, 40, 90), (33, 17, 50), (8, 8, 100), (70, 9, 20)].map(of).into()
}

pub(crate) fn others() -> Vec<Vec<u8>> {
    let bmp = {
        let (width, height) = (12_u32, 5_u32);
        let pixels = picture(width, height);
        let mut file = b"BM".to_vec();
        file.extend((54 + pixels.len() as u32).to_le_bytes());
        file.extend([0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0]);
        file.extend(width.to_le_bytes());
        file.extend(height.to_le_bytes());
        file.extend([1, 0, 24, 0]);
        file.extend([0; 24]);
        file.extend(pixels);
        file
    };
    let gif = b"GIF89a\x02\0\x02\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x02\0\x02\0\0\x02\x03\x44\x02\x05\0;"
        .to_vec();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82".to_vec();
    vec![bmp, gif, png]
}

pub(crate) fn packed_cells() -> Vec<Vec<u8>> {
    jpegs().iter().filter_map(|jpeg| pack(jpeg)).collect()
}
