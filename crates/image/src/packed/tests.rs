//! Tests that a packed cell gives the pixels of its file, and can be unpacked to an equal file.

use super::*;
use crate::draws::Draws;
use crate::{Form, Image, RowKey, decode_into, encode_jpeg};

fn picture(width: u32, height: u32) -> Vec<u8> {
    let level = |x: u32, y: u32, c: u32| ((x * 7 + y * 13 + c * 50) % 256 / 2 + (x * y / 9) % 128) as u8;
    let pixels: Vec<u8> =
        (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| level(x, y, c)))).collect();
    encode_jpeg(&pixels, width, height, 90).unwrap()
}

fn turned(file: &[u8], orientation: u8) -> Vec<u8> {
    let exif = super::super::exif::of_orientation(orientation);
    let length = (exif.len() as u16 + 2).to_be_bytes();
    [&file[..2], &[0xFF, 0xE1], &length, &exif, &file[2..]].concat()
}

fn decoded(image: &Image, bytes: &[u8], key: u64) -> Vec<u8> {
    let mut slot = vec![0; image.bytes_per_image()];
    decode_into(image, bytes, RowKey(key), &mut slot).unwrap();
    slot
}

#[test]
fn a_cell_and_the_file_that_is_made_of_it_have_the_pixels_of_the_file() {
    for (width, height) in [(160, 120), (33, 17), (1, 1), (64, 200)] {
        for orientation in 1..=8 {
            let file = turned(&picture(width, height), orientation);
            let cell = pack(&file).unwrap();
            let again = unpack(&cell).unwrap();
            assert_eq!(pack(&again).unwrap(), cell, "the same coefficients, header and orientation");
            for image in [
                Image::random_resized_crop(24).exif_orientation(true),
                Image::resize(40, 30).grayscale(),
                Image::fit(50).exif_orientation(true),
            ] {
                let expected = decoded(&image, &file, 7);
                assert!(decoded(&image, &cell, 7) == expected, "{image}, {width}x{height}, {orientation}");
                assert!(decoded(&image, &again, 7) == expected, "{image}, {width}x{height}, {orientation}");
            }
        }
    }
}

#[test]
fn what_is_not_a_sound_jpeg_is_not_packed() {
    let file = picture(80, 60);
    for bytes in [&b""[..], b"no image", &file[..file.len() / 2], &pack(&file).unwrap()] {
        assert_eq!(pack(bytes), None);
    }
    assert!(unpack(&file).is_err());
}

/// Each bit of the cell is changed in turn, and the cell is cut off at each length.
#[test]
fn a_damaged_cell_is_a_bad_row() {
    let cell = pack(&picture(24, 24)).unwrap();
    let image = Image::resize(8, 8);
    let mut slot = vec![0; image.bytes_per_image()];
    let mut draws = Draws::new(RowKey(3));
    let mut check = |damaged: &[u8]| {
        let error = decode_into(&image, damaged, RowKey(0), &mut slot).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRow, "{error}");
        assert!(unpack(damaged).is_err());
    };
    for length in 0..cell.len() {
        check(&cell[..length]);
    }
    for at in 0..cell.len() {
        let mut damaged = cell.clone();
        damaged[at] ^= 1 << draws.below(8);
        check(&damaged);
    }
    let later = [&MARK[..], &[9], &cell[MARK.len() + 1..]].concat();
    let error = decode_into(&image, &later, RowKey(0), &mut slot).unwrap_err();
    assert!(error.cause().contains("version 9; this forebay reads version 1"), "{error}");
}

/// Here the checksum is correct although the content is damaged, as if a program had changed the cell and
/// updated its checksum.
#[test]
fn damage_with_a_checksum_of_its_own_is_read_or_declined() {
    let cell = pack(&picture(90, 70)).unwrap();
    let image = Image::random_resized_crop(16);
    let mut slot = vec![0; image.bytes_per_image()];
    let mut draws = Draws::new(RowKey(4));
    let [mut read, mut declined] = [0; 2];
    for round in 0..3_000 {
        let mut inside = cell[HEAD..].to_vec();
        let within = if draws.below(2) == 0 { inside.len() } else { inside.len().min(400) };
        for _ in 0..=draws.below(3) {
            let at = draws.below(within as u32) as usize;
            inside[at] ^= 1 << draws.below(8);
        }
        let damaged = framed(inside);
        match decode_into(&image, &damaged, RowKey(round), &mut slot).is_ok() {
            true => read += 1,
            false => declined += 1,
        }
        if let Ok(file) = unpack(&damaged) {
            assert!(is_jpeg(&file));
        }
    }
    assert!(read > 0 && declined > 0, "{read} read, {declined} declined");
}

#[test]
fn a_cache_keeps_cells_as_they_are_or_as_pixels() {
    let file = picture(400, 300);
    let cell = pack(&file).unwrap();
    let image = Image::random_resized_crop(32);
    assert_eq!(image.keep(Form::Coefficients, &cell).unwrap(), &cell[..]);
    assert_eq!(image.kept_bytes(Form::Coefficients, &cell).unwrap(), cell.len() as u64);
    assert_eq!(image.coefficients_share(&cell).unwrap(), 1.0);
    assert_eq!(image.keep(Form::Pixels, &cell).unwrap(), image.keep(Form::Pixels, &file).unwrap());
    assert_eq!(image.keep(Form::Resized, &cell).unwrap(), image.keep(Form::Resized, &file).unwrap());
}
