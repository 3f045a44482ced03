//! Tests that a kept image gives the same pixels as its file.

use forebay_base::ErrorKind;

use super::*;
use crate::kept::is_kept;
use crate::{decode_into, probe};

/// An EXIF segment that says that the photograph must be turned by 90 degrees.
const EXIF_TURNED: &[u8] =
    b"\xFF\xE1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";

/// A picture with detail in every direction.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let level = |x: u32, y: u32, c: u32| ((x * 7 + y * 13 + c * 50) % 256 / 2 + (x * y / 9) % 128) as u8;
    let pixels: Vec<u8> =
        (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| level(x, y, c)))).collect();
    encode_jpeg(&pixels, width, height, 90).unwrap()
}

fn decoded(image: &Image, bytes: &[u8], key: u64) -> Vec<u8> {
    let mut slot = vec![0; image.bytes_per_image()];
    decode_into(image, bytes, RowKey(key), &mut slot).unwrap();
    slot
}

#[test]
fn kept_pixels_give_the_same_as_the_file() {
    let random = Image::random_resized_crop(48).flip();
    for image in [
        random.clone(),
        random.clone().grayscale(),
        random.clone().normalize([0.5; 3], [0.2; 3]).dtype(PixelType::F32).layout(Layout::Nchw),
        random.scale((0.5, 1.0)).exif_orientation(true),
        Image::center_crop(64).flip(),
        Image::resize(30, 50).dtype(PixelType::F16),
    ] {
        for (width, height) in [(160, 120), (63, 200), (48, 48)] {
            let file = picture(width, height);
            let kept = image.keep(Form::Pixels, &file).unwrap();
            assert_eq!(kept.len() as u64, image.kept_bytes(Form::Pixels, &file).unwrap());
            for key in 0..50 {
                assert!(
                    decoded(&image, &file, key) == decoded(&image, &kept, key),
                    "{image}, {width}x{height}, {key}"
                );
            }
        }
    }
}

#[test]
fn a_crop_that_the_direct_way_decodes_smaller_differs_by_less_than_a_level() {
    let image = Image::random_resized_crop(32).scale((0.9, 1.0));
    let file = picture(400, 300);
    let kept = image.keep(Form::Pixels, &file).unwrap();
    let (direct, kept) = (decoded(&image, &file, 3), decoded(&image, &kept, 3));
    let difference: u32 = direct.iter().zip(&kept).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
    let mean = f64::from(difference) / direct.len() as f64;
    assert!(mean > 0.0 && mean < 1.0, "{mean}");
}

#[test]
fn what_comes_after_randomness_shares_what_is_kept() {
    let image = Image::random_resized_crop(224);
    assert_eq!(
        image.kept_as(Form::Pixels),
        Image::random_resized_crop(96).flip().dtype(PixelType::F32).kept_as(Form::Pixels)
    );
    assert_ne!(image.kept_as(Form::Pixels), image.clone().grayscale().kept_as(Form::Pixels));
    assert_ne!(Image::center_crop(224).kept_as(Form::Pixels), Image::center_crop(96).kept_as(Form::Pixels));
}

#[test]
fn cut_or_foreign_pixels_are_a_bad_row() {
    let image = Image::random_resized_crop(8);
    let file = picture(20, 10);
    let kept = image.keep(Form::Pixels, &file).unwrap();
    let mut slot = vec![0; image.bytes_per_image()];
    for length in [PIXELS.len(), HEADER - 1, HEADER, kept.len() - 1] {
        assert!(decode_into(&image, &kept[..length], RowKey(0), &mut slot).is_err(), "{length}");
    }
    let grey = image.clone().grayscale();
    assert!(decode_into(&grey, &kept, RowKey(0), &mut slot[..64]).is_err());
    assert!(probe(&kept).is_err(), "it is no file");
    assert!(image.keep(Form::Pixels, b"no image").is_err());
}

/// A picture without detail finer than a few pixels, like a photograph of high resolution.
fn photograph(width: u32, height: u32) -> Vec<u8> {
    let wave = |at: u32, length: f64| (f64::from(at) / length).sin();
    let level = |x: u32, y: u32, c: u32| {
        (128.0 + 50.0 * wave(x + 40 * c, 31.0) + 40.0 * wave(y + 3 * x, 57.0) + 20.0 * wave(x * y / 97, 19.0))
            as u8
    };
    let pixels: Vec<u8> =
        (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| level(x, y, c)))).collect();
    encode_jpeg(&pixels, width, height, 92).unwrap()
}

fn mean_difference(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.len() as f64
}

#[test]
fn a_resized_image_is_small_and_shows_the_same() {
    for (image, width, height) in [
        (Image::random_resized_crop(64).flip(), 1600, 1200),
        (Image::random_resized_crop(64).scale((0.5, 1.0)), 300, 400),
        (Image::random_resized_crop((32, 96)).grayscale(), 1500, 900),
        (Image::center_crop(64).flip(), 500, 375),
        (Image::resize(60, 90), 640, 480),
    ] {
        let file = photograph(width, height);
        let kept = image.keep(Form::Resized, &file).unwrap();
        assert!(kept.len() * 2 < file.len(), "{image}: {} of {}", kept.len(), file.len());
        assert!(kept.len() as u64 <= image.kept_bytes(Form::Resized, &file).unwrap());
        assert!(image.resized_share(&file).unwrap() < MAX_PIXEL_SHARE);
        for key in 0..40 {
            let difference = mean_difference(&decoded(&image, &file, key), &decoded(&image, &kept, key));
            assert!(difference < 3.0, "{image}, {width}x{height}, {key}: {difference}");
        }
    }
}

#[test]
fn an_image_that_would_hardly_be_smaller_stays_the_file() {
    let image = Image::random_resized_crop(224);
    let file = photograph(500, 375);
    assert_eq!(image.keep(Form::Resized, &file).unwrap(), &file[..]);
    assert_eq!(image.kept_bytes(Form::Resized, &file).unwrap(), file.len() as u64);
    assert_eq!(image.resized_share(&file).unwrap(), 1.0);
}

#[test]
fn resized_images_are_shared_by_equal_crops_alone() {
    let image = Image::random_resized_crop(224);
    let kept_as = |image: Image| image.kept_as(Form::Resized);
    assert_eq!(kept_as(image.clone()), kept_as(image.clone().flip().grayscale().dtype(PixelType::F16)));
    assert_ne!(kept_as(image.clone()), kept_as(Image::random_resized_crop(96)));
    assert_ne!(kept_as(image.clone()), kept_as(image.scale((0.5, 1.0))));
}

#[test]
fn a_cut_resized_image_is_a_bad_row() {
    let image = Image::center_crop(16);
    let file = photograph(100, 80);
    let kept = image.keep(Form::Resized, &file).unwrap();
    let mut slot = vec![0; image.bytes_per_image()];
    for length in [RESIZED.len(), HEADER - 1, HEADER, HEADER + 20, kept.len() - 1] {
        assert!(decode_into(&image, &kept[..length], RowKey(0), &mut slot).is_err(), "{length}");
    }
}

#[test]
fn coefficients_give_the_pixels_of_the_file() {
    let file = picture(400, 300);
    let turned = [&file[..2], EXIF_TURNED, &file[2..]].concat();
    for image in [
        Image::random_resized_crop(48).flip(),
        Image::random_resized_crop(9).grayscale(),
        Image::random_resized_crop(64)
            .exif_orientation(true)
            .normalize([0.5; 3], [0.2; 3])
            .dtype(PixelType::F32),
        Image::center_crop(64).flip(),
        Image::resize(30, 50).exif_orientation(true),
        Image::fit(40),
    ] {
        for file in [&file, &turned] {
            let kept = image.keep(Form::Coefficients, file).unwrap();
            assert!(
                is_kept(&kept) && kept.len() as u64 <= image.kept_bytes(Form::Coefficients, file).unwrap()
            );
            assert!((0.2..0.9).contains(&image.coefficients_share(file).unwrap()));
            for key in 0..20 {
                assert!(decoded(&image, file, key) == decoded(&image, &kept, key), "{image}, {key}");
            }
        }
    }
}

#[test]
fn coefficients_serve_every_image_and_other_files_stay() {
    let image = Image::random_resized_crop(224);
    assert_eq!(
        image.kept_as(Form::Coefficients),
        Image::center_crop(8).grayscale().kept_as(Form::Coefficients)
    );
    let file = picture(80, 60);
    let mut damaged = file.clone();
    // JPEG forbids a Huffman code of all ones, so these bytes are damage.
    damaged[file.len() - 80..][..64].copy_from_slice(&[0xFF, 0].repeat(32));
    assert_eq!(image.keep(Form::Coefficients, &damaged).unwrap(), &damaged[..]);
    for bad in [&b"no image"[..], &file[..file.len() / 2]] {
        assert!(image.keep(Form::Coefficients, bad).is_err());
    }
    let small = image.max_pixels(100);
    assert!(small.keep(Form::Coefficients, &file).is_err(), "more pixels than it may have");
    let kept = Image::center_crop(8).keep(Form::Coefficients, &file).unwrap();
    let mut slot = vec![0; small.bytes_per_image()];
    let error = decode_into(&small, &kept, RowKey(0), &mut slot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    for length in [8, 20, 47, 60, kept.len() - 1] {
        let error = decode_into(&Image::resize(8, 8), &kept[..length], RowKey(0), &mut [0; 192]).unwrap_err();
        assert_eq!(error.cause(), "damaged coefficients of a JPEG");
    }
}
