//! Tests that raw pixels give the same result as a PNG of the same pixels, for all options.

use forebay_base::{ErrorKind, Result};

use super::*;
use crate::draws::Draws;
use crate::{
    Drawing, Drawn, Form, Interpolation, MaskType, PixelType, Resampling, RowKey, decode_into, decode_mask,
    decode_within, encode_jpeg,
};

const HEIGHT: u32 = 37;
const WIDTH: u32 = 52;

/// The interleaved levels of an image: all channels of a pixel, then the next pixel.
fn levels(channels: u32) -> Vec<u8> {
    let level = |x: u32, y: u32, channel: u32| (x * 5 + y * 3 + (x * y) % 23 + channel * 70) as u8;
    let pixels = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
    pixels.flat_map(|(x, y)| (0..channels).map(move |channel| level(x, y, channel))).collect()
}

fn png(levels: &[u8], channels: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH, HEIGHT);
    encoder.set_color(match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.write_header().unwrap().write_image_data(levels).unwrap();
    file
}

/// The same levels as planes: all pixels of a channel, then the next channel.
fn planes(levels: &[u8], channels: usize) -> Vec<u8> {
    (0..channels).flat_map(|channel| levels.iter().copied().skip(channel).step_by(channels)).collect()
}

fn slot(image: &Image, cell: &[u8], key: u64) -> Vec<u8> {
    let mut slot = vec![99; image.bytes_per_image()];
    decode_into(image, cell, RowKey(key), &mut slot).unwrap_or_else(|error| panic!("{image}: {error}"));
    slot
}

/// An image with random valid options.
fn any_image(draws: &mut Draws) -> Image {
    let mut one_of = |count: u32| draws.below(count);
    let mut image = match one_of(6) {
        0 => Image::resize(1 + one_of(60), 1 + one_of(60)),
        1 => Image::resize(HEIGHT, WIDTH),
        2 => Image::random_resized_crop(1 + one_of(40)),
        3 => Image::center_crop((20, 24)).resize_shorter(24 + one_of(40)),
        4 => Image::fit((48, 40)).fill([f32::from(one_of(9) as u8); 3]),
        _ => Image::fit((60, 64)).resize_shorter(1 + one_of(60)).centered(),
    };
    image = image.resampling(Resampling::ALL[one_of(3) as usize]);
    image = image.layout(Layout::ALL[one_of(2) as usize]).dtype(PixelType::ALL[one_of(5) as usize]);
    if image.pixel_type().largest_whole().is_none() && one_of(2) == 0 {
        image = image.normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]);
    }
    if one_of(3) == 0 {
        image = image.grayscale();
    }
    if one_of(2) == 0 {
        image = image.flip().vertical_flip_with(0.3);
    }
    if one_of(4) == 0 {
        image = image.random_rotation_with((-40.0, 40.0), Interpolation::ALL[one_of(2) as usize], [3; RGB]);
    }
    if one_of(4) == 0 && image.depth() == Depth::Eight {
        image = image.color_jitter(0.3, 0.3, 0.3, 0.1).random_grayscale(0.3);
    }
    if one_of(4) == 0 {
        image = image.random_erasing(0.5);
    }
    image
}

#[test]
fn raw_pixels_give_what_a_png_of_them_gives() {
    let mut draws = Draws::new(RowKey(40));
    let cells: Vec<_> = (1..=4)
        .map(|channels| {
            let levels = levels(channels);
            (channels, png(&levels, channels), planes(&levels, channels as usize), levels)
        })
        .collect();
    for round in 0..1_500 {
        let image = any_image(&mut draws);
        image.validate().unwrap_or_else(|error| panic!("{image}: {error}"));
        let (channels, png, planes, levels) = &cells[draws.below(4) as usize];
        let raw = Raw::new((HEIGHT, WIDTH), *channels);
        let expected = slot(&image, png, round);
        let of_pixels = image.clone().raw(raw);
        assert!(slot(&of_pixels, levels, round) == expected, "{of_pixels} of {channels} channels");
        let of_planes = image.clone().raw(raw.layout(Layout::Nchw));
        assert!(slot(&of_planes, planes, round) == expected, "{of_planes} of {channels} channels");
        assert_eq!(
            Drawn::probe(&of_pixels, levels, RowKey(round)).unwrap(),
            Drawn::probe(&image, png, RowKey(round)).unwrap()
        );
    }
}

#[test]
fn what_follows_raw_pixels_follows_as_it_does_a_file() {
    let (grey, colours) = (levels(1), levels(3));
    let (mask, file) = (png(&grey, 1), png(&colours, 3));
    let files = Image::random_resized_crop(24).flip();
    let raws = files.clone().raw(Raw::new((HEIGHT, WIDTH), 3));
    let own = Image::resize(12, 12).following("image").shown_as(&files).unwrap();
    let workspace = Workspace::of_one(1 << 20);
    for key in (0..20).map(RowKey) {
        let of_file = Drawn::probe(&files, &file, key).unwrap();
        let of_raw = Drawn::probe(&raws, &colours, key).unwrap();
        assert_eq!(of_raw, of_file);
        let masked = |image: &Image, drawn: &Drawn| {
            let mut slot = vec![0; 24 * 24];
            decode_mask(&workspace, image, drawn, &mask, MaskType::U8, &mut slot).unwrap();
            slot
        };
        assert_eq!(masked(&raws, &of_raw), masked(&files, &of_file));
        let shown = |image: &Image, cell: &[u8], drawn: &Drawn| {
            let mut slot = vec![0; image.bytes_per_image()];
            decode_within(&workspace, image, cell, Drawing::following(key, drawn), &mut slot).unwrap();
            slot
        };
        let raw = own.clone().raw(Raw::new((HEIGHT, WIDTH), 3));
        assert_eq!(shown(&raw, &colours, &of_raw), shown(&own, &file, &of_file));
    }
    let ragged = Image::fit(30).ragged();
    let raw = ragged.clone().raw(Raw::new((HEIGHT, WIDTH), 3));
    assert_eq!(raw.decode(&colours, RowKey(0)).unwrap(), ragged.decode(&file, RowKey(0)).unwrap());
}

#[test]
fn pixels_are_never_taken_for_a_file_or_what_was_kept() {
    // These cells begin like an image file, a kept image and a packed one. As raw pixels they must not be
    // taken for those.
    let jpeg = encode_jpeg(&[90; 16 * 16 * 3], 16, 16, 90).unwrap();
    let kept = Image::random_resized_crop(4).keep(Form::Pixels, &jpeg).unwrap();
    let packed = crate::pack(&jpeg).unwrap();
    for cell in [&jpeg[..], &kept, &packed] {
        let width = cell.len() as u32;
        let image = Image::resize(1, width).grayscale().raw(Raw::new((1, width), 1));
        assert_eq!(slot(&image, cell, 0), cell);
        assert!(!crate::needs_stable(&image, cell));
        for form in [Form::Pixels, Form::Resized, Form::Coefficients] {
            assert!(!image.has_form(form) && *image.keep(form, cell).unwrap() == *cell);
            assert_eq!(image.kept_bytes(form, cell).unwrap(), cell.len() as u64);
        }
        assert_eq!((image.resized_share(cell).unwrap(), image.coefficients_share(cell).unwrap()), (1.0, 1.0));
    }
}

#[test]
fn a_cell_of_another_length_is_a_bad_row() {
    let image = Image::resize(8, 8).raw(Raw::new((HEIGHT, WIDTH), 3));
    let refused = |cell: &[u8]| {
        let found: Result<Vec<u8>> = {
            let mut slot = vec![0; image.bytes_per_image()];
            decode_into(&image, cell, RowKey(0), &mut slot).map(|()| slot)
        };
        let error = found.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRow);
        assert_eq!(Drawn::probe(&image, cell, RowKey(0)).unwrap_err().to_string(), error.to_string());
        error.to_string()
    };
    assert_eq!(refused(&[7; 5771]), "5771 bytes where raw pixels of 37x52x3 take 5772");
    assert_eq!(refused(&[]), "0 bytes where raw pixels of 37x52x3 take 5772");
    let jpeg = encode_jpeg(&levels(3), WIDTH, HEIGHT, 90).unwrap();
    assert!(refused(&jpeg).ends_with("(it looks like an encoded image: leave raw out)"));
}

#[test]
fn memory_is_taken_for_what_is_arranged_and_resized() {
    const SIDE: u32 = 8_192;
    let image = Image::resize(8, 8).raw(Raw::new(SIDE, 3));
    let cell = vec![0; (SIDE * SIDE * 3) as usize];
    let within = |image: &Image, cell: &[u8]| {
        let mut slot = vec![0; image.bytes_per_image()];
        decode_within(&Workspace::of_loader(1, 1), image, cell, RowKey(0), &mut slot)
    };
    within(&image, &cell).unwrap();
    let error = within(&image.clone().grayscale(), &cell).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("raw pixels of 8192x8192x3 takes 65 MiB"), "{error}");
}
