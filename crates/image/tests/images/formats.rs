//! Tests features of the formats beyond plain pixels: transparency, bit orders, orientation, frames. Results
//! are compared with those of Pillow; where they differ on purpose, the test says so.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::io::Cursor;

use forebay_image::{ErrorKind, Image, Result};
use forebay_image::{Form, RowKey, decode_into, encode_jpeg, probe};

fn decode(image: &Image, encoded: &[u8]) -> Result<Vec<u8>> {
    let mut slot = vec![0; image.bytes_per_image()];
    decode_into(image, encoded, RowKey(1), &mut slot).map(|()| slot)
}

/// The width, the height and all pixels of an image in its stored size.
fn whole(encoded: &[u8]) -> (u32, u32, Vec<u8>) {
    let header = probe(encoded).unwrap();
    let (width, height) = (header.width, header.height);
    (width, height, decode(&Image::resize(height, width), encoded).unwrap())
}

/// EXIF data, in little-endian order, whose only entry is the orientation.
fn exif(orientation: u8) -> Vec<u8> {
    [&b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"[..], &[orientation], &[0; 7]].concat()
}

const PREFIX: &[u8] = b"Exif\0\0";

/// A lossless WebP of two pixels, red and blue, with EXIF data.
fn webp(exif: &[u8]) -> Vec<u8> {
    let pixels = image::RgbImage::from_raw(2, 1, vec![255, 0, 0, 0, 0, 255]).unwrap();
    let mut plain = Cursor::new(Vec::new());
    pixels.write_to(&mut plain, image::ImageFormat::WebP).unwrap();
    let picture = &plain.get_ref()[12..];
    let chunk = |kind: &[u8], content: &[u8]| {
        let padding = &[0][..content.len() % 2];
        [kind, &(content.len() as u32).to_le_bytes(), content, padding].concat()
    };
    const WITH_EXIF: u8 = 0x08;
    let extended = chunk(b"VP8X", &[WITH_EXIF, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    chunk(b"RIFF", &[b"WEBP", &extended[..], picture, &chunk(b"EXIF", exif)].concat())
}

#[test]
fn exif_of_webp_is_read_with_jpegs_prefix_and_without() {
    for prefix in [&b""[..], PREFIX] {
        let encoded = webp(&[prefix, &exif(6)].concat());
        let upright = decode(&Image::resize(2, 1).exif_orientation(true), &encoded).unwrap();
        assert_eq!(upright, [255, 0, 0, 0, 0, 255], "a prefix of {} bytes", prefix.len());
        let mirrored = webp(&[prefix, &exif(2)].concat());
        assert_eq!(
            decode(&Image::resize(1, 2).exif_orientation(true), &mirrored).unwrap(),
            [0, 0, 255, 255, 0, 0]
        );
        assert_eq!(decode(&Image::resize(1, 2), &mirrored).unwrap(), [255, 0, 0, 0, 0, 255]);
    }
}

#[test]
fn exif_of_jpeg_is_found_behind_other_segments() {
    let pixels: Vec<u8> =
        (0..16 * 32).flat_map(|at| if at % 32 < 16 { [255, 0, 0] } else { [0, 0, 255] }).collect();
    let plain = encode_jpeg(&pixels, 32, 16, 95).unwrap();
    let segment = |marker: u8, content: &[u8]| {
        [&[0xFF, marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat()
    };
    let xmp = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>");
    let profile = segment(0xE2, &[7; 300]);
    let found = segment(0xE1, &[PREFIX, &exif(6)].concat());
    let later = segment(0xE1, &[PREFIX, &exif(8)].concat());
    let turned = [&plain[..2], &profile, &xmp, &found, &later, &plain[2..]].concat();
    let upright = decode(&Image::resize(32, 16).exif_orientation(true), &turned).unwrap();
    assert!(upright[0] > 200 && upright[upright.len() - 1] > 200, "red above and blue below");
}

/// A GIF with a palette of four colours (black, red, green, blue), whose frame has 2x2 pixels at `place` on a
/// `screen` of this width and height.
fn gif(transparent: Option<u8>, screen: (u16, u16), place: (u16, u16), indices: [u8; 4]) -> Vec<u8> {
    let palette = [0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255];
    let mut encoded = Vec::new();
    let mut encoder = gif::Encoder::new(&mut encoded, screen.0, screen.1, &palette).unwrap();
    let mut frame = gif::Frame::from_indexed_pixels(2, 2, indices, transparent);
    (frame.left, frame.top) = place;
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    encoded
}

const BLACK: [u8; 3] = [0, 0, 0];
const RED: [u8; 3] = [255, 0, 0];
const GREEN: [u8; 3] = [0, 255, 0];
const BLUE: [u8; 3] = [0, 0, 255];

#[test]
fn a_transparent_pixel_of_a_gif_has_its_palettes_colour() {
    let (_, _, pixels) = whole(&gif(Some(2), (2, 2), (0, 0), [1, 2, 3, 0]));
    assert_eq!(pixels, [RED, GREEN, BLUE, BLACK].concat());
}

#[test]
fn what_a_gifs_first_frame_leaves_free_has_the_transparent_colour_or_the_first() {
    for (transparent, free) in [(None, BLACK), (Some(2), GREEN)] {
        let (width, height, pixels) = whole(&gif(transparent, (4, 3), (1, 1), [1, 3, 3, 1]));
        assert_eq!((width, height), (4, 3));
        let expected = [[free; 4], [free, RED, BLUE, free], [free, BLUE, RED, free]];
        assert_eq!(pixels, expected.as_flattened().as_flattened());
    }
}

#[test]
fn a_frame_that_reaches_beyond_a_gifs_screen_makes_it_larger() {
    let (width, height, pixels) = whole(&gif(None, (2, 2), (1, 0), [1, 3, 3, 1]));
    assert_eq!((width, height), (3, 2));
    assert_eq!(pixels, [BLACK, RED, BLUE, BLACK, BLUE, RED].concat());
}

/// An uncompressed TIFF with one strip. `tags` describe its pixels, and `bytes` are the pixels.
fn tiff(width: u32, height: u32, tags: &[(u16, u32)], bytes: &[u8]) -> Vec<u8> {
    const HEAD: u32 = 8;
    let length = bytes.len() as u32;
    let mut entries = vec![(256, width), (257, height), (259, 1), (273, HEAD), (278, height), (279, length)];
    entries.extend(tags);
    entries.sort_unstable();
    let mut encoded =
        [&b"II*\0"[..], &(HEAD + length).to_le_bytes(), bytes, &(entries.len() as u16).to_le_bytes()]
            .concat();
    for (tag, value) in entries {
        const SHORT: u16 = 3;
        encoded.extend(
            [&tag.to_le_bytes()[..], &SHORT.to_le_bytes(), &1u32.to_le_bytes(), &value.to_le_bytes()]
                .concat(),
        );
    }
    encoded.extend([0; 4]);
    encoded
}

const BITS: u16 = 258;
const MEANING: u16 = 262;
const FILL_ORDER: u16 = 266;
const SAMPLES: u16 = 277;
const EXTRA: u16 = 338;

#[test]
fn the_bits_of_a_tiff_are_read_in_the_order_that_it_says() {
    let bits = [0b1011_0000, 0b0100_1000];
    let levels = |bits: [u8; 2]| -> Vec<u8> {
        let row = |byte: u8| (0..6).flat_map(move |at| [if byte << at & 0x80 != 0 { 255 } else { 0 }; 3]);
        bits.into_iter().flat_map(row).collect()
    };
    for (order, stored) in [(1, bits), (2, bits.map(u8::reverse_bits))] {
        let (_, _, black_is_zero) =
            whole(&tiff(6, 2, &[(BITS, 1), (MEANING, 1), (FILL_ORDER, order)], &stored));
        assert_eq!(black_is_zero, levels(bits), "fill order {order}");
        let (_, _, white_is_zero) =
            whole(&tiff(6, 2, &[(BITS, 1), (MEANING, 0), (FILL_ORDER, order)], &stored));
        assert_eq!(white_is_zero, levels(bits.map(|byte| !byte)), "fill order {order}, white is zero");
    }
    let grey = [3, 77, 200];
    let reversed = tiff(3, 1, &[(BITS, 8), (MEANING, 1), (FILL_ORDER, 2)], &grey.map(u8::reverse_bits));
    assert_eq!(whole(&reversed).2, grey.map(|level| [level; 3]).concat());
}

#[test]
fn strips_of_a_tiff_that_lie_over_each_other_are_refused_before_they_are_turned_round() {
    let mut file = tiff(6, 2, &[(BITS, 1), (MEANING, 1), (FILL_ORDER, 2)], &[1, 2]);
    let count = file.windows(4).position(|tag| tag == [23, 1, 3, 0]).unwrap() + 8;
    file[count..count + 2].copy_from_slice(&60_000u16.to_le_bytes());
    let error = decode(&Image::resize(2, 6), &file).unwrap_err();
    assert_eq!(
        (error.kind(), error.cause()),
        (ErrorKind::BadRow, "corrupt TIFF: its strips are longer than the file")
    );
}

#[test]
fn colours_that_a_tiff_stores_times_their_alpha_are_divided_by_it() {
    let stored = [100, 50, 0, 128, 10, 20, 30, 0];
    // An image with alpha should list four bit depths. The TIFF here has one, which the decoder uses for all
    // four channels.
    let tags = |alpha| [(BITS, 8), (MEANING, 2), (SAMPLES, 4), (EXTRA, alpha)];
    assert_eq!(whole(&tiff(2, 1, &tags(2), &stored)).2, [100, 50, 0, 10, 20, 30]);
    assert_eq!(whole(&tiff(2, 1, &tags(1), &stored)).2, [199, 99, 0, 10, 20, 30]);
}

/// A BMP with run-length codes may skip pixels. The skipped pixels are black, and do not show the image that
/// was decoded before.
#[test]
fn pixels_that_a_bmp_skips_do_not_show_the_picture_before() {
    let palette = [[0, 0, 0, 0], [255, 255, 255, 0]].concat();
    let body = [4, 1, 0, 2, 4, 1, 4, 1, 0, 1];
    let head = 54 + palette.len() as u32;
    let mut bmp =
        [&b"BM"[..], &(head + body.len() as u32).to_le_bytes(), &[0; 4], &head.to_le_bytes()].concat();
    for number in [40u32, 12, 3, 1 | 8 << 16, 1, body.len() as u32, 0, 0, 2, 0] {
        bmp.extend(number.to_le_bytes());
    }
    bmp.extend(&palette);
    bmp.extend(body);
    let first = whole(&bmp).2;
    let white = image::RgbImage::from_pixel(12, 3, image::Rgb([255; 3]));
    let mut other = Cursor::new(Vec::new());
    white.write_to(&mut other, image::ImageFormat::Bmp).unwrap();
    whole(other.get_ref());
    assert_eq!(whole(&bmp).2, first);
    assert_eq!(first.iter().filter(|level| **level == 255).count(), 3 * 8);
}

/// The mean difference, in levels of 255, between a JPEG that is decoded at a reduced scale before it is
/// resized and one that is decoded at full scale.
fn reduction_difference(level: impl Fn(u32, u32) -> u8, target: u32) -> f64 {
    const SIDE: u32 = 768;
    let pixels: Vec<u8> = (0..SIDE)
        .flat_map(|y| {
            (0..SIDE).flat_map({
                let level = &level;
                move |x| [level(x, y); 3]
            })
        })
        .collect();
    let encoded = encode_jpeg(&pixels, SIDE, SIDE, 92).unwrap();
    let image = Image::random_resized_crop(target).scale((1.0, 1.0)).ratio((1.0, 1.0));
    let kept = image.keep(Form::Pixels, &encoded).unwrap();
    let (scaled, exact) = (decode(&image, &encoded).unwrap(), decode(&image, &kept).unwrap());
    let total: f64 = scaled.iter().zip(&exact).map(|(a, b)| f64::from(a.abs_diff(*b))).sum();
    total / scaled.len() as f64
}

/// Decoding at a reduced scale changes photographs by less than one level. Black and white patterns, which
/// photographs do not have, are changed most, because the filter of the JPEG library is sharper.
#[test]
fn a_smaller_scale_stays_within_the_stated_difference_at_the_highest_contrast() {
    let black_or_white = |white: bool| if white { 255 } else { 0 };
    let noise = |x: u32, y: u32| {
        let mixed = (x.wrapping_mul(0x9E37_79B9) ^ y.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0xC2B2_AE35);
        black_or_white(mixed >> 16 & 1 == 1)
    };
    for target in [128, 64, 32] {
        for (name, difference) in [
            ("noise", reduction_difference(noise, target)),
            ("noise of blocks of 4", reduction_difference(|x, y| noise(x / 4, y / 4), target)),
            ("noise of blocks of 12", reduction_difference(|x, y| noise(x / 12, y / 12), target)),
            ("a fine chessboard", reduction_difference(|x, y| black_or_white((x + y) % 2 == 0), target)),
            ("the worst chessboard", {
                let square = 768 / target;
                reduction_difference(
                    |x, y| black_or_white((x / square + y / square).is_multiple_of(2)),
                    target,
                )
            }),
            ("stripes of 2", reduction_difference(|_, y| black_or_white(y / 2 % 2 == 0), target)),
            ("stripes of 7", reduction_difference(|x, _| black_or_white(x / 7 % 2 == 0), target)),
            ("rings", reduction_difference(|x, y| black_or_white((x * x + y * y) / 4096 % 2 == 0), target)),
        ] {
            assert!(difference < 9.0, "{name} to {target}: {difference}");
        }
    }
}
