//! Tests that several views decoded from one cell equal the images decoded one by one.

use forebay_base::ErrorKind;

use super::*;
use crate::{Form, Layout, PixelType, Raw, encode_jpeg, pack};

const WIDTH: u32 = 150;
const HEIGHT: u32 = 110;

/// An EXIF segment that says that the photograph must be turned by 90 degrees.
const EXIF_TURNED: &[u8] =
    b"\xFF\xE1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";

fn pixels() -> Vec<u8> {
    let level = |x: u32, y: u32, c: u32| ((x * 7 + y * 13 + c * 50) % 256 / 2 + (x * y / 9) % 128) as u8;
    let row = |y: u32| (0..WIDTH).flat_map(move |x| (0..3).map(move |c| level(x, y, c)));
    (0..HEIGHT).flat_map(row).collect()
}

fn jpeg() -> Vec<u8> {
    encode_jpeg(&pixels(), WIDTH, HEIGHT, 90).unwrap()
}

fn png() -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels()).unwrap();
    file
}

/// Typical views: large and small crops, one with changed colours, and a centre crop.
fn images() -> Vec<Image> {
    let large = Image::random_resized_crop(48).scale((0.4, 1.0)).flip();
    vec![
        large.clone(),
        large.color_jitter(0.4, 0.4, 0.2, 0.1).dtype(PixelType::F32).layout(Layout::Nchw),
        Image::random_resized_crop(24).scale((0.05, 0.4)).flip(),
        Image::center_crop(40).resize_shorter(50),
        Image::resize(30, 60).random_rotation((-20.0, 20.0)),
    ]
}

fn alone(images: &[Image], encoded: &[u8], key: u64) -> Result<Vec<Vec<u8>>> {
    let each = (key..).zip(images).map(|(key, image)| {
        let mut slot = vec![0; image.bytes_per_image()];
        decode_into(image, encoded, RowKey(key), &mut slot).map(|()| slot)
    });
    each.collect()
}

fn together(images: &[Image], encoded: &[u8], key: u64) -> Result<Vec<Vec<u8>>> {
    let mut slots: Vec<Vec<u8>> = images.iter().map(|image| vec![0; image.bytes_per_image()]).collect();
    let each = (key..).zip(images).zip(&mut slots);
    let mut views: Vec<View<'_>> =
        each.map(|((key, image), slot)| View::new(image, RowKey(key), slot)).collect();
    decode_views(&Workspace::of_one(1 << 24), encoded, &mut views)?;
    Ok(slots)
}

fn assert_equal(images: &[Image], encoded: &[u8]) {
    for key in (0..20).map(|key| key * 100) {
        assert!(together(images, encoded, key).unwrap() == alone(images, encoded, key).unwrap(), "{key}");
    }
}

#[test]
fn views_of_a_file_are_the_images_that_they_are_alone() {
    let (jpeg, png) = (jpeg(), png());
    for images in [images(), images().into_iter().map(Image::grayscale).collect()] {
        assert_equal(&images, &jpeg);
        assert_equal(&images, &png);
        assert_equal(&images, &pack(&jpeg).unwrap());
    }
    let turned = [&jpeg[..2], EXIF_TURNED, &jpeg[2..]].concat();
    let images: Vec<Image> = images().into_iter().map(|image| image.exif_orientation(true)).collect();
    assert_equal(&images, &turned);
}

#[test]
fn views_of_what_was_kept_or_is_raw_are_the_images_that_they_are_alone() {
    let jpeg = jpeg();
    let images = images();
    assert_equal(&images, &images[0].keep(Form::Coefficients, &jpeg).unwrap());
    for form in [Form::Pixels, Form::Resized] {
        assert_equal(&images[..2], &images[0].keep(form, &jpeg).unwrap());
    }
    let raw = Raw::new((HEIGHT, WIDTH), 3);
    let images: Vec<Image> = images.into_iter().map(|image| image.raw(raw)).collect();
    assert_equal(&images, &pixels());
}

#[test]
fn a_view_that_alone_would_be_smaller_is_close_to_it() {
    let levels = |x: u32, y: u32, c: u32| (x / 4 + y / 5 + c * 20) as u8;
    let row = |y: u32| (0..480).flat_map(move |x| (0..3).map(move |c| levels(x, y, c)));
    let file = encode_jpeg(&(0..360).flat_map(row).collect::<Vec<_>>(), 480, 360, 95).unwrap();
    let images = [Image::resize(40, 50), Image::center_crop(200)];
    let (together, alone) = (together(&images, &file, 0).unwrap(), alone(&images, &file, 0).unwrap());
    assert!(together[1] == alone[1]);
    let differences = together[0].iter().zip(&alone[0]).map(|(one, other)| u64::from(one.abs_diff(*other)));
    assert!(differences.sum::<u64>() < together[0].len() as u64);
}

#[test]
fn damage_is_an_error_of_all_views() {
    let file = jpeg();
    let error = together(&images(), &file[..file.len() / 2], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadRow);
    assert_eq!(error.to_string(), alone(&images(), &file[..file.len() / 2], 0).unwrap_err().to_string());
    decode_views(&Workspace::of_one(1 << 24), b"not an image", &mut []).unwrap();
}

#[test]
fn views_that_are_not_made_of_the_same_pixels_are_refused() {
    let image = Image::random_resized_crop(8);
    for (other, what) in [
        (image.clone().grayscale(), "grayscale"),
        (image.clone().dtype(PixelType::U16), "bit_depth"),
        (image.clone().exif_orientation(true), "exif_orientation"),
        (image.clone().raw(Raw::new(8, 3)), "raw"),
        (image.clone().max_pixels(9), "max_pixels"),
    ] {
        let error = together(&[image.clone(), other], &jpeg(), 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.cause(), format!("differs in {what} from another view of the image"));
    }
    let mut slot = [0; 3];
    let view = View::new(&image, RowKey(0), &mut slot);
    let error = decode_views(&Workspace::of_one(1 << 24), &jpeg(), &mut [view]).unwrap_err();
    assert_eq!(error.to_string(), "a slot of 3 bytes for an image of 192");
}

/// Images of another number type or layout have exactly the values that are computed from their uint8 pixels.
#[test]
fn other_number_types_and_layouts_are_made_of_the_bytes() {
    const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
    const STD: [f32; 3] = [0.229, 0.224, 0.225];
    let crop = Image::random_resized_crop(50).scale((0.3, 1.0)).flip().vertical_flip();
    let images = [
        crop.clone(),
        crop.clone().color_jitter(0.4, 0.4, 0.2, 0.1),
        crop.clone().grayscale(),
        Image::resize(HEIGHT, WIDTH).flip(),
        Image::center_crop(33).resize_shorter(50),
    ];
    for (image, file) in images.iter().flat_map(|image| [(image, jpeg()), (image, png())]) {
        for key in (0..6).map(RowKey) {
            let decoded = |image: &Image| image.decode(&file, key).unwrap().bytes().to_vec();
            let (bytes, channels) = (decoded(image), image.channels());
            let planar = image.clone().layout(Layout::Nchw);
            let planes: Vec<u8> =
                (0..channels).flat_map(|c| bytes.iter().skip(c).step_by(channels).copied()).collect();
            let value = |c: usize, level: u8| (f32::from(level) / 255.0 - MEAN[c]) / STD[c];
            let floats = |levels: &[u8], channel: &dyn Fn(usize) -> usize| -> Vec<u8> {
                let values = levels.iter().enumerate().map(|(at, level)| value(channel(at), *level));
                values.flat_map(f32::to_ne_bytes).collect()
            };
            let plane = bytes.len() / channels;
            let normal = |image: &Image| image.clone().normalize(MEAN, STD).dtype(PixelType::F32);
            assert!(decoded(&planar) == planes, "{image} {key:?}");
            assert!(decoded(&normal(image)) == floats(&bytes, &|at| at % channels), "{image} {key:?}");
            assert!(decoded(&normal(&planar)) == floats(&planes, &|at| at / plane), "{image} {key:?}");
        }
    }
}
