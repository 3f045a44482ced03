//! Tests hostile input: bytes that are not an image, files that are cut off, and images that would fill the
//! memory.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::time::{Duration, Instant};

use forebay_image::{Error, ErrorKind, Image};
use forebay_image::{RowKey, decode_into, encode_jpeg};

/// The time within which at least one of a few tries must refuse an image. Other programs may hold up the
/// other tries.
const AT_ONCE: Duration = Duration::from_millis(200);
const TRIES: usize = 5;

fn refused(image: &Image, encoded: &[u8]) -> Error {
    let mut slot = vec![0; image.bytes_per_image()];
    let error = (0..TRIES).find_map(|_| {
        let started = Instant::now();
        let error = decode_into(image, encoded, RowKey(0), &mut slot).expect_err("refused");
        (started.elapsed() < AT_ONCE).then_some(error)
    });
    error.expect("refused at once")
}

fn small() -> Image {
    Image::random_resized_crop(8)
}

fn jpeg(width: u32, height: u32) -> Vec<u8> {
    let pixels: Vec<u8> = (0..width * height * 3).map(|i| (i * 7 % 251) as u8).collect();
    encode_jpeg(&pixels, width, height, 90).unwrap()
}

/// The offset of the content of a JPEG's frame header, which begins with the precision, the height and the
/// width.
fn frame_header(jpeg: &[u8]) -> usize {
    jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap() + 4
}

fn jpeg_claiming(width: u16, height: u16) -> Vec<u8> {
    let mut encoded = jpeg(16, 16);
    let frame = frame_header(&encoded);
    encoded[frame + 1..frame + 3].copy_from_slice(&height.to_be_bytes());
    encoded[frame + 3..frame + 5].copy_from_slice(&width.to_be_bytes());
    encoded
}

fn png_claiming(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let chunk = |content: &[u8]| {
        let mut chunk = ((content.len() - 4) as u32).to_be_bytes().to_vec();
        chunk.extend(content);
        chunk.extend(crc32(content).to_be_bytes());
        chunk
    };
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &chunk(&header),
        &chunk(b"IDAT\x78\x9c\x63\x00\x00\x00\x01\x00\x01"),
        &chunk(b"IEND"),
    ]
    .concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

fn bmp_claiming(width: i32, height: i32) -> Vec<u8> {
    let mut bmp = b"BM".to_vec();
    bmp.extend([0, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0]);
    bmp.extend(width.to_le_bytes());
    bmp.extend(height.to_le_bytes());
    bmp.extend([1, 0, 24, 0]);
    bmp.extend([0; 24]);
    bmp
}

#[test]
fn what_is_no_image_is_a_bad_row_that_says_what_it_is() {
    for (bytes, cause) in [
        (&b""[..], "empty"),
        (b"<html><body>404</body></html>", "not an image: starts with 3c68746d (HTML?)"),
        (&[0; 64], "not an image: starts with 00000000"),
        (&[0xFF, 0xD8, 0xFF], "corrupt JPEG: no scan"),
    ] {
        let error = refused(&small(), bytes);
        assert_eq!((error.kind(), error.cause()), (ErrorKind::BadRow, cause));
    }
}

#[test]
fn half_of_any_format_is_a_bad_row() {
    let encoded = jpeg(64, 48);
    assert_eq!(refused(&small(), &encoded[..encoded.len() / 2]).kind(), ErrorKind::BadRow);
    for format in [
        image::ImageFormat::Png,
        image::ImageFormat::WebP,
        image::ImageFormat::Bmp,
        image::ImageFormat::Gif,
        image::ImageFormat::Tiff,
    ] {
        let pixels = image::RgbImage::from_fn(64, 48, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]));
        let mut encoded = std::io::Cursor::new(Vec::new());
        image::DynamicImage::from(pixels).write_to(&mut encoded, format).unwrap();
        let encoded = encoded.into_inner();
        let mut slot = vec![0; small().bytes_per_image()];
        decode_into(&small(), &encoded, RowKey(0), &mut slot).unwrap();
        let error = refused(&small(), &encoded[..encoded.len() / 2]);
        assert_eq!(error.kind(), ErrorKind::BadRow, "{format:?}: {error}");
    }
}

#[test]
fn a_bomb_is_refused_from_its_header() {
    for bomb in [
        jpeg_claiming(65_500, 65_500),
        jpeg_claiming(30_000, 30_000),
        png_claiming(65_536, 65_536),
        png_claiming(i32::MAX as u32, i32::MAX as u32),
        png_claiming(30_000, 30_000),
        bmp_claiming(30_000, 30_000),
        bmp_claiming(i32::MAX, i32::MAX),
    ] {
        let error = refused(&small(), &bomb);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }
}

/// A WebP whose container header says 10x7, and whose picture says 16,383 x 16,383.
fn webp_with_a_larger_picture() -> Vec<u8> {
    let mut picture = vec![0x30, 0x01, 0x00, 0x9D, 0x01, 0x2A, 0xFF, 0x3F, 0xFF, 0x3F];
    picture.resize(64, 0);
    let chunk = |kind: &[u8], content: &[u8]| [kind, &(content.len() as u32).to_le_bytes(), content].concat();
    let chunks = [chunk(b"VP8X", &[0, 0, 0, 0, 9, 0, 0, 6, 0, 0]), chunk(b"VP8 ", &picture)].concat();
    chunk(b"RIFF", &[b"WEBP", &chunks[..]].concat())
}

#[test]
fn a_picture_larger_than_its_container_is_refused_from_its_header() {
    let error = refused(&small(), &webp_with_a_larger_picture());
    assert_eq!(
        (error.kind(), error.cause()),
        (ErrorKind::BadRow, "corrupt WebP: a picture of 16383x16383 where 10x7 is said")
    );
}

/// The 174 million pixels of the file are within the limit. But the resize to 40,000 rows would take 7 GB for
/// an intermediate image.
#[test]
fn what_only_the_resize_would_blow_up_is_refused_before_it() {
    let mut bmp = bmp_claiming(60_000, 2_900);
    bmp.extend([0; 100]);
    let tall = Image::resize(40_000, 2);
    let mut slot = vec![0; tall.bytes_per_image()];
    let error = decode_into(&tall, &bmp, RowKey(0), &mut slot).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().starts_with("decoding a BMP of 60000x2900 pixels takes "), "{error}");
}

#[test]
fn the_limit_is_the_users() {
    let encoded = jpeg(100, 50);
    let error = refused(&small().max_pixels(4_999), &encoded);
    assert_eq!(
        error.to_string(),
        "an image of 100x50 = 5000 pixels, over the limit of 4999 (raise max_pixels if such images are expected)"
    );
    let mut slot = vec![0; small().bytes_per_image()];
    decode_into(&small().max_pixels(5_000), &encoded, RowKey(0), &mut slot).unwrap();
}

#[test]
fn scans_without_end_are_refused() {
    let mut bomb = jpeg_claiming(8_000, 8_000);
    let frame = frame_header(&bomb);
    bomb[frame - 3] = 0xC2;
    bomb.truncate(bomb.len() - 2);
    for _ in 0..2_000 {
        bomb.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 1, 63, 0]);
        bomb.extend([0; 55]);
    }
    bomb.extend([0xFF, 0xD9]);
    let error = refused(&small(), &bomb);
    assert_eq!((error.kind(), error.cause()), (ErrorKind::TooLarge, "a JPEG of more than 192 scans"));
}

#[test]
fn a_slot_of_another_length_is_refused() {
    let error = decode_into(&small(), &jpeg(16, 16), RowKey(0), &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn equal_keys_give_equal_pixels_on_every_thread() {
    let encoded = jpeg(160, 120);
    let image = Image::random_resized_crop(24).flip();
    let decode = |key| {
        let mut slot = vec![0; image.bytes_per_image()];
        decode_into(&image, &encoded, RowKey(key), &mut slot).unwrap();
        slot
    };
    let here: Vec<_> = (0..20).map(decode).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!((0..20).rev().map(decode).eq(here.iter().rev().cloned())));
        }
    });
    assert!(here[1..].iter().any(|pixels| *pixels != here[0]));
}
