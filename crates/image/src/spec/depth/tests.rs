//! Tests that every step gives the same result with 16 bits per channel as with 8, except for rounding.

use forebay_base::ErrorKind;
use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb};

use super::*;
use crate::{AutoAugment, Form, Layout, RowKey, decode_into, encode_jpeg};

const WIDTH: u32 = 40;
const HEIGHT: u32 = 30;

/// The level (value of a channel) of a pixel. Levels use all 16 bits, and change smoothly from pixel to
/// pixel.
fn level(x: u32, y: u32, channel: u32) -> u16 {
    (x * 1201 + y * 733 + x * y * 17 + channel * 9_001) as u16
}

fn grey() -> DynamicImage {
    ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| Luma([level(x, y, 0)])).into()
}

fn colour() -> DynamicImage {
    ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| Rgb([0, 1, 2].map(|channel| level(x, y, channel)))).into()
}

fn encoded(pixels: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    pixels.write_to(&mut file, format).unwrap();
    file.into_inner()
}

fn decoded(image: &Image, file: &[u8], key: u64) -> Vec<u8> {
    let mut slot = vec![0; image.bytes_per_image() + 1];
    // The slot begins at offset 1, because real slots may begin at any address.
    decode_into(image, file, RowKey(key), &mut slot[1..]).unwrap();
    slot.remove(0);
    slot
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|word| u16::from_ne_bytes(*word)).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|four| f32::from_ne_bytes(*four)).collect()
}

fn whole() -> Image {
    Image::resize(HEIGHT, WIDTH)
}

#[test]
fn all_bits_of_a_file_are_kept() {
    let formats = [
        ImageFormat::Png,
        #[cfg(feature = "formats")]
        ImageFormat::Tiff,
    ];
    for format in formats {
        let (grey, colour) = (grey(), colour());
        let file = encoded(&colour, format);
        let wide = whole().dtype(PixelType::U16);
        assert_eq!(words(&decoded(&wide, &file, 0)), colour.to_rgb16().into_raw());
        let planes = words(&decoded(&wide.clone().layout(Layout::Nchw), &file, 0));
        assert_eq!(planes[..3], [0, 1, 2].map(|x| level(x, 0, 0)));
        let file = encoded(&grey, format);
        assert_eq!(words(&decoded(&wide, &file, 0)), grey.to_rgb16().into_raw());
        let one = wide.grayscale();
        assert_eq!(words(&decoded(&one, &file, 0)), grey.to_luma16().into_raw());
        // If the file has alpha, the result is the same as without it.
        for with_alpha in [DynamicImage::from(grey.to_luma_alpha16()), grey.to_rgba16().into()] {
            if (format, with_alpha.color()) != (ImageFormat::Tiff, image::ColorType::La16) {
                let file = encoded(&with_alpha, format);
                assert_eq!(words(&decoded(&one, &file, 0)), grey.to_luma16().into_raw());
            }
        }
    }
}

#[test]
fn floats_are_a_share_of_white() {
    let file = encoded(&grey(), ImageFormat::Png);
    let levels = grey().to_luma16().into_raw();
    let image = whole().grayscale().dtype(PixelType::F32);
    let fine = floats(&decoded(&image.clone().bit_depth(16), &file, 0));
    assert_eq!(fine, levels.iter().map(|level| f32::from(*level) / 65_535.0).collect::<Vec<_>>());
    let coarse = floats(&decoded(&image, &file, 0));
    assert_eq!(coarse, levels.iter().map(|level| f32::from(level >> 8) / 255.0).collect::<Vec<_>>());
}

/// A file with 8 bits per channel is processed in 8 bits; only the result is converted to 16.
#[test]
fn files_of_eight_bits_give_their_own_levels() {
    let pixels = colour().to_rgb8();
    let jpeg = encode_jpeg(pixels.as_raw(), WIDTH, HEIGHT, 90).unwrap();
    let png = encoded(&pixels.into(), ImageFormat::Png);
    let crop = Image::random_resized_crop(16).flip().random_rotation((-30.0, 30.0)).exif_orientation(true);
    for file in [jpeg, png] {
        for (key, image) in (0..8).flat_map(|key| [(key, crop.clone()), (key, crop.clone().grayscale())]) {
            let bytes = decoded(&image, &file, key);
            let wide = words(&decoded(&image.clone().dtype(PixelType::U16), &file, key));
            assert_eq!(wide, bytes.iter().map(|byte| u16::from(*byte) * 257).collect::<Vec<_>>());
            let image = image.dtype(PixelType::F32);
            assert_eq!(decoded(&image.clone().bit_depth(16), &file, key), decoded(&image, &file, key));
        }
    }
}

/// Every step gives the same result as in 8 bits, except for rounding.
#[test]
fn every_step_works_in_sixteen_bits() {
    for pixels in [grey(), colour()] {
        let file = encoded(&pixels, ImageFormat::Png);
        let crop = Image::random_resized_crop((9, 12)).flip().vertical_flip();
        for image in [
            crop.clone(),
            crop.clone().random_rotation((20.0, 40.0)),
            crop.random_rotation_with((20.0, 40.0), crate::Interpolation::Bilinear, [9, 99, 199]),
            Image::resize(50, 17).flip(),
            Image::center_crop(20).resize_shorter(24),
            Image::fit((24, 60)).flip(),
            Image::resize(9, 9).random_erasing(1.0),
        ] {
            for image in [image.clone(), image.grayscale()] {
                for key in 0..6 {
                    let bytes = decoded(&image, &file, key);
                    let wide = words(&decoded(&image.clone().dtype(PixelType::U16), &file, key));
                    assert_eq!(bytes.len(), wide.len());
                    let worst = wide.iter().zip(&bytes).map(|(wide, byte)| {
                        (f32::from(*wide) - f32::from(*byte) * 256.0 - 128.0).abs() / 256.0
                    });
                    let worst = worst.fold(0.0, f32::max);
                    assert!(worst < 1.6, "{image}, {key}: {worst} levels of 255");
                }
            }
        }
    }
}

#[test]
fn kept_pixels_keep_their_depth() {
    let jpeg = encode_jpeg(colour().to_rgb8().as_raw(), WIDTH, HEIGHT, 90).unwrap();
    let files =
        [(2, encoded(&colour(), ImageFormat::Png)), (2, encoded(&grey(), ImageFormat::Png)), (1, jpeg)];
    let crop = Image::random_resized_crop(16).flip();
    for image in [
        crop.clone().dtype(PixelType::U16),
        crop.clone().dtype(PixelType::F32).bit_depth(16).grayscale(),
        Image::fit((20, 30)).flip().dtype(PixelType::U16),
        Image::center_crop(20).resize_shorter(24).dtype(PixelType::U16).grayscale(),
    ] {
        for (bytes, file) in &files {
            let kept = image.keep(Form::Pixels, file).unwrap();
            assert_eq!(kept.len() as u64, image.kept_bytes(Form::Pixels, file).unwrap());
            assert_eq!((kept.len() - 20) % (bytes * image.channels()), 0);
            for key in 0..20 {
                assert_eq!(decoded(&image, &kept, key), decoded(&image, file, key), "{image}, {key}");
            }
        }
        assert!(!image.has_form(Form::Resized));
    }
    let wide = crop.clone().dtype(PixelType::U16);
    assert_ne!(wide.kept_as(Form::Pixels), crop.kept_as(Form::Pixels));
    assert_eq!(
        wide.kept_as(Form::Pixels),
        wide.clone().dtype(PixelType::F32).bit_depth(16).kept_as(Form::Pixels)
    );
    // Pixels that were kept with 16 bits are refused by a spec that needs 8 bits.
    let kept = wide.keep(Form::Pixels, &files[0].1).unwrap();
    let mut slot = vec![0; crop.bytes_per_image()];
    assert_eq!(decode_into(&crop, &kept, RowKey(0), &mut slot).unwrap_err().kind(), ErrorKind::BadRow);
}

#[test]
fn damage_and_too_many_pixels_are_refused_as_ever() {
    let formats = [
        ImageFormat::Png,
        #[cfg(feature = "formats")]
        ImageFormat::Tiff,
    ];
    let image = whole().dtype(PixelType::U16);
    let mut slot = vec![0; image.bytes_per_image()];
    for file in formats.map(|format| encoded(&colour(), format)) {
        let error = decode_into(&image, &file[..file.len() / 2], RowKey(0), &mut slot).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRow);
        let small = image.clone().max_pixels(u64::from(WIDTH * HEIGHT) - 1);
        let error = decode_into(&small, &file, RowKey(0), &mut slot).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}

/// An effect that needs 8 bits is an error for 16 bits, even in functions that do not check the settings. It
/// is never left out silently.
#[test]
fn an_effect_of_eight_bits_is_never_passed_over() {
    let image = whole().dtype(PixelType::U16).color_jitter(0.5, 0.5, 0.5, 0.1);
    let mut slot = vec![0; image.bytes_per_image()];
    let error = decode_into(&image, &encoded(&grey(), ImageFormat::Png), RowKey(0), &mut slot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn only_what_asks_for_sixteen_bits_has_them() {
    let image = |dtype| Image::resize(8, 8).dtype(dtype);
    for (image, depth) in [
        (image(PixelType::U8), Depth::Eight),
        (image(PixelType::F32), Depth::Eight),
        (image(PixelType::F32).bit_depth(8), Depth::Eight),
        (image(PixelType::U16), Depth::Sixteen),
        (image(PixelType::U16).bit_depth(16), Depth::Sixteen),
        (image(PixelType::BF16).bit_depth(16).random_erasing(0.5), Depth::Sixteen),
    ] {
        image.validate().unwrap();
        assert_eq!(image.depth(), depth, "{image}");
        assert_eq!(serde_json::from_str::<Image>(&image.canonical()).unwrap(), image);
    }
    assert!(!image(PixelType::U16).canonical().contains("bit_depth"));
    assert!(image(PixelType::F32).bit_depth(16).to_string().contains(".bit_depth(16)"));
}

#[test]
fn depths_and_effects_that_do_not_fit_are_refused() {
    let wide = || Image::resize(8, 8).dtype(PixelType::U16);
    for (image, said) in [
        (wide().bit_depth(12), "a bit depth of 12 (pass 8 or 16)"),
        (wide().bit_depth(8), "bit_depth 8 with dtype uint16 (leave bit_depth out: uint16 has 16 bits)"),
        (
            wide().dtype(PixelType::U8).bit_depth(16),
            "bit_depth 16 with dtype uint8 (pass dtype uint16 or a float type, or leave bit_depth out)",
        ),
        (wide().color_jitter(0.1, 0.1, 0.1, 0.1), "color_jitter with images of 16 bits"),
        (wide().random_grayscale(0.1), "random_grayscale with images of 16 bits"),
        (
            wide().dtype(PixelType::F32).bit_depth(16).gaussian_blur(3, (0.1, 2.0)),
            "gaussian_blur with images of 16 bits (it works on 8 bits: leave it out, or deliver uint8 or \
             floats without bit_depth 16)",
        ),
        (wide().auto_augment(AutoAugment::svhn()), "auto_augment with images of 16 bits"),
        (wide().auto_augment(AutoAugment::rand(2, 9)), "rand_augment with images of 16 bits"),
        (wide().auto_augment(AutoAugment::trivial_wide()), "trivial_augment_wide with images of 16 bits"),
        (wide().auto_augment(AutoAugment::aug_mix(3, 3)), "aug_mix with images of 16 bits"),
        (wide().normalize([0.5; 3], [0.5; 3]), "normalize with dtype uint16"),
        (Image::fit(8).fill([65_536.0; 3]).dtype(PixelType::U16), "whole numbers from 0 to 65535"),
    ] {
        let error = image.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(said), "{error}");
    }
    Image::fit(8).fill([65_535.0; 3]).dtype(PixelType::U16).validate().unwrap();
}
