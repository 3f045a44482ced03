//! Tests with image files that other projects publish: each file decodes, or is refused with the outcome that
//! `foreign.txt` lists.
//!
//! The files are in the folder `FOREBAY_TEST_DATA`, or beside the repository. Without them, the tests report
//! that they are skipped, and pass.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_image::{ErrorKind, Image, PixelType, Result};
use forebay_image::{Form, RowKey, decode_into, pack, probe, unpack};

use crate::skipped::skipped;

/// The longest time for one file, good or bad, on a machine that is busy.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The largest mean difference, in levels of 255, between two photographs of the orientation test set in
/// upright position. They show the same picture but differ a little in colour (13 to 14); a wrong orientation
/// differs far more (40 to 71).
const MAX_ORIENTED_DIFFERENCE: f64 = 20.0;
const FAR: f64 = 30.0;

fn shared_data() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("FOREBAY_TEST_DATA").map_or_else(beside, PathBuf::from);
    if data.is_dir() {
        return Some(data);
    }
    skipped("FOREBAY_TEST_DATA names no folder");
    None
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jpg" || extension == "png")
}

fn decode(image: &Image, encoded: &[u8]) -> Result<Vec<u8>> {
    let mut slot = vec![0; image.bytes_per_image()];
    let started = Instant::now();
    let done = decode_into(image, encoded, RowKey(1), &mut slot);
    assert!(started.elapsed() < MAX_TIME, "took {:?}", started.elapsed());
    done.map(|()| slot)
}

/// Decodes the whole image in its own size.
fn decode_whole(encoded: &[u8]) -> Result<Vec<u8>> {
    decode_whole_as(PixelType::U8, encoded)
}

fn decode_whole_as(dtype: PixelType, encoded: &[u8]) -> Result<Vec<u8>> {
    let header = probe(encoded)?;
    decode(&Image::resize(header.height.max(1), header.width.max(1)).dtype(dtype), encoded)
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|word| u16::from_ne_bytes(*word)).collect()
}

#[test]
fn every_good_image_decodes() {
    let Some(data) = shared_data() else { return };
    for folder in ["bccd", "cc0-photos-png", "exif-orientation", "jpeg-variants", "kodak", "pngsuite"] {
        let mut seen = 0;
        for path in files_below(&data.join(folder)).into_iter().filter(|path| is_image(path)) {
            let encoded = std::fs::read(&path).unwrap();
            let corrupt =
                folder == "pngsuite" && path.file_name().unwrap().to_str().unwrap().starts_with('x');
            for image in [Image::random_resized_crop(64).flip(), Image::center_crop(32)] {
                match decode(&image, &encoded) {
                    Ok(_) => assert!(!corrupt, "{} should be refused", path.display()),
                    Err(error) => {
                        assert!(corrupt && error.kind() == ErrorKind::BadRow, "{}: {error}", path.display());
                    }
                }
            }
            seen += 1;
        }
        assert!(seen > 0, "{folder} is empty");
    }
}

#[test]
fn every_png_of_the_suite_keeps_its_sixteen_bits() {
    let Some(data) = shared_data() else { return };
    let (mut deep, mut kept) = (0, 0);
    for path in files_below(&data.join("pngsuite")).into_iter().filter(|path| is_image(path)) {
        let encoded = std::fs::read(&path).unwrap();
        let Ok(expected) = image::load_from_memory(&encoded) else { continue };
        let found = words(&decode_whole_as(PixelType::U16, &encoded).unwrap());
        assert_eq!(found, expected.to_rgb16().into_raw(), "{}", path.display());
        let bytes = decode_whole(&encoded).unwrap();
        assert!(
            found.iter().zip(&bytes).all(|(word, byte)| (word >> 8) as u8 == *byte),
            "{}",
            path.display()
        );
        deep += usize::from(expected.color().bytes_per_pixel() > expected.color().channel_count());
        kept += usize::from(found.iter().any(|word| word % 257 != 0));
    }
    assert!(deep > 20 && kept > 10, "{deep} files of 16 bits, {kept} with levels that 8 cannot hold");
}

#[test]
fn all_eight_orientations_are_seen_alike() {
    let Some(data) = shared_data() else { return };
    let turned = |n: usize| {
        let encoded = std::fs::read(data.join(format!("exif-orientation/Landscape_{n}.jpg"))).unwrap();
        let upright = decode(&Image::resize(45, 60).exif_orientation(true), &encoded).unwrap();
        (upright, decode(&Image::resize(45, 60), &encoded).unwrap())
    };
    let difference = |a: &[u8], b: &[u8]| {
        a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
    };
    let (first, _) = turned(1);
    for n in 2..=8 {
        let (upright, stored) = turned(n);
        assert!(difference(&first, &upright) < MAX_ORIENTED_DIFFERENCE, "orientation {n}");
        assert!(difference(&first, &stored) > FAR, "orientation {n} is applied without being asked for");
    }
}

#[test]
fn a_jpeg_cut_short_is_always_found() {
    let Some(data) = shared_data() else { return };
    let folders = ["bccd", "exif-orientation", "jpeg-variants"];
    let paths = folders.iter().flat_map(|folder| files_below(&data.join(folder)));
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "jpg")) {
        let encoded = std::fs::read(&path).unwrap();
        for percent in [25, 50, 75, 90, 99] {
            let cut = &encoded[..encoded.len() * percent / 100];
            for image in [Image::random_resized_crop(32), Image::center_crop(32), Image::resize(32, 32)] {
                let error = decode(&image, cut).expect_err("a cut file decodes");
                assert_eq!(error.kind(), ErrorKind::BadRow, "{} at {percent} %: {error}", path.display());
            }
        }
    }
}

#[test]
fn damage_below_a_crop_is_not_seen_and_changes_no_pixel_of_it() {
    let Some(data) = shared_data() else { return };
    // The damage is a run of bits that are all 1; a byte of 0 after 0xFF does not count. No Huffman code
    // consists of ones only.
    let harmful = [0xFF, 0].repeat(32);
    let mut seen = 0;
    for path in files_below(&data.join("bccd")).into_iter().filter(|path| is_image(path)).take(8) {
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        let at = good.len() * 97 / 100;
        bad[at..at + harmful.len()].copy_from_slice(&harmful);
        let error = decode(&Image::resize(32, 32), &bad).expect_err("damage in what is decoded");
        assert_eq!(error.kind(), ErrorKind::BadRow, "{}: {error}", path.display());
        let crop = Image::center_crop(32).resize_shorter(64);
        assert_eq!(decode(&crop, &bad).unwrap(), decode(&crop, &good).unwrap(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 8);
}

/// Files that are damaged only in their lower part. Decoding the whole image fails, but a crop that ends
/// above the damage succeeds.
const DAMAGED_BELOW: [&str; 3] = [
    "jpeg-crashtest/extraneous-bytes-after-sos.jpg",
    "jpeg-crashtest/imagetestsuite/8546907dbe574744d7fea6ca9de1de6b.jpg",
    "jpeg-crashtest/imagetestsuite/b4103df93880fc5677c2a081e4bfc712.jpg",
];

#[test]
fn a_malformed_file_is_refused_by_a_crop_unless_the_damage_is_below_it() {
    let Some(data) = shared_data() else { return };
    let mut delivered = Vec::new();
    for folder in ["image-rs-bad", "jpeg-crashtest"] {
        for path in files_below(&data.join(folder)) {
            let encoded = std::fs::read(&path).unwrap();
            let (whole, crop) =
                (decode(&Image::resize(224, 224), &encoded), decode(&Image::center_crop(224), &encoded));
            assert!(whole.is_err() || crop.is_ok(), "{}: a crop needs more than the whole", path.display());
            if whole.is_err() && crop.is_ok() {
                delivered.push(path.strip_prefix(&data).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(delivered, DAMAGED_BELOW);
}

#[test]
fn coefficients_have_the_outcome_of_their_file() {
    let Some(data) = shared_data() else { return };
    let mut kept_as_coefficients = 0;
    for path in files_below(&data).into_iter().filter(|path| path.extension().is_some_and(|end| end == "jpg"))
    {
        let encoded = std::fs::read(&path).unwrap();
        for image in [Image::random_resized_crop(64).exif_orientation(true), Image::center_crop(32)] {
            let outcome = |bytes: &[u8]| decode(&image, bytes).map_err(|error| error.cause().to_owned());
            let kept = image.keep(Form::Coefficients, &encoded).unwrap_or((&encoded).into());
            if kept[..] != encoded[..] {
                kept_as_coefficients += 1;
                assert!(outcome(&kept) == outcome(&encoded), "{}", path.display());
            }
            if let Some(cell) = pack(&encoded) {
                let again = unpack(&cell).unwrap();
                assert!(outcome(&cell) == outcome(&encoded), "packed: {}", path.display());
                assert!(outcome(&again) == outcome(&encoded), "unpacked: {}", path.display());
            }
        }
    }
    assert!(kept_as_coefficients > 500, "{kept_as_coefficients}");
}

#[test]
fn every_malformed_file_has_its_outcome() {
    let Some(data) = shared_data() else { return };
    let mut expected: BTreeMap<&str, &str> = include_str!("foreign.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(" => ").expect("a line is `path => outcome`"))
        .collect();
    let mut wrong = Vec::new();
    for folder in ["image-rs-bad", "jpeg-crashtest"] {
        for path in files_below(&data.join(folder)) {
            let encoded = std::fs::read(&path).unwrap();
            let said = |done: Result<Vec<u8>>| match done {
                Ok(_) => "decodes".to_owned(),
                Err(error) => format!("{:?}: {}", error.kind(), error.cause()),
            };
            let outcome = said(decode_whole(&encoded));
            let name = path.strip_prefix(&data).unwrap().to_str().unwrap();
            // The result is small, because some headers claim more pixels than fit in memory.
            let small = Image::resize(32, 32);
            let wide = said(decode(&small.clone().dtype(PixelType::U16), &encoded));
            assert_eq!(wide, said(decode(&small, &encoded)), "{name} in 16 bits");
            if expected.remove(name) != Some(outcome.as_str()) {
                wrong.push(format!("{name} => {outcome}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not the listed outcome:\n{}", wrong.join("\n"));
    assert!(expected.is_empty(), "listed, but not there: {expected:?}");
}
