//! The pixels that a loader delivers: the part of the image, the random draws, and the form.
//!
//! Each pixel of these pictures says where it was: red is its column, green its row, and blue the number of
//! the picture. A crop that is not resized is then a copy that shows its own place, size and flip.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{
    DataType, Field, Float16Type, Float32Type, Int64Type, Schema, UInt8Type, UInt16Type,
};
use forebay::image::{Layout, PixelType, Raw, Resampling};
use forebay::{Dataset, ErrorKind, Image, LoaderBuilder, Shard, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

const ROWS: usize = 120;

/// The width and height of a picture.
const WIDTH: u32 = 20;
const HEIGHT: u32 = 17;

/// The side of crops of exactly 9x9 pixels, which are copied without resizing; half of them are flipped.
const SIDE: u32 = 9;

fn picture(width: u32, height: u32, number: u8) -> Vec<u8> {
    let pixels = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, number]));
    let mut encoded = Cursor::new(Vec::new());
    pixels.write_to(&mut encoded, image::ImageFormat::Png).unwrap();
    encoded.into_inner()
}

fn crops() -> Image {
    let share = f64::from(SIDE * SIDE) / f64::from(WIDTH * HEIGHT);
    Image::random_resized_crop(SIDE).scale((share, share)).ratio((1.0, 1.0)).flip()
}

/// A data set with a row for each picture, in files with row groups of `row_group` rows.
fn written(pictures: &[Vec<u8>], files: usize, row_group: usize) -> TempDir {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("image", DataType::Binary, false),
    ]));
    let each = pictures.len() / files;
    for file in 0..files {
        let path = dir.path().join(format!("part-{file}.parquet"));
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group)).build();
        let file_of = std::fs::File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file_of, schema.clone(), Some(properties)).unwrap();
        let rows = file * each..(file + 1) * each;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|id| id as i64))),
            Arc::new(BinaryArray::from_iter_values(&pictures[rows])),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        writer.close().unwrap();
    }
    dir
}

/// Rows that all have the same picture, so that they differ only by the random draws.
fn alike(files: usize, row_group: usize) -> TempDir {
    written(&vec![picture(WIDTH, HEIGHT, 5); ROWS], files, row_group)
}

fn loader(dir: &TempDir, image: &Image) -> LoaderBuilder {
    Dataset::open(dir.path()).unwrap().loader().threads(2).batch_size(7).decode("image", image.clone())
}

/// The bytes of each row's pixels in an epoch, by the row's number.
fn pixels(builder: LoaderBuilder, epoch: u64) -> BTreeMap<i64, Vec<u8>> {
    let loader = builder.build().unwrap();
    let mut rows = BTreeMap::new();
    for batch in loader.epoch(epoch) {
        let batch = batch.unwrap();
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        let images = batch.column_by_name("image").unwrap().as_fixed_size_list();
        for row in 0..batch.num_rows() {
            let image = images.value(row);
            let bytes = match image.data_type() {
                DataType::UInt8 => image.as_primitive::<UInt8Type>().values().to_vec(),
                DataType::UInt16 => bytes_of(image.as_primitive::<UInt16Type>().values(), u16::to_ne_bytes),
                DataType::Float16 => {
                    bytes_of(image.as_primitive::<Float16Type>().values(), half::f16::to_ne_bytes)
                }
                _ => bytes_of(image.as_primitive::<Float32Type>().values(), f32::to_ne_bytes),
            };
            rows.insert(ids.value(row), bytes);
        }
    }
    rows
}

fn bytes_of<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}

/// The left column, the upper row and the flip of a crop that was copied.
fn place(pixels: &[u8]) -> (u8, u8, bool) {
    let last = (SIDE as usize - 1) * 3;
    let flipped = pixels[0] > pixels[last];
    (pixels[0].min(pixels[last]), pixels[1], flipped)
}

#[test]
fn a_row_shows_the_same_pixels_however_the_data_set_is_stored_dealt_and_shared_out() {
    let image = crops();
    let reference = pixels(loader(&alike(1, ROWS), &image).shuffle(Shuffle::seeded(7)), 3);
    assert_eq!(reference.len(), ROWS);
    for (files, row_group) in [(1, 10), (3, 40), (4, 11), (2, 3)] {
        let dir = alike(files, row_group);
        for shuffle in [
            Shuffle::seeded(7),
            Shuffle::seeded(7).lanes(6),
            Shuffle::seeded(7).window_rows(12).lanes(4),
            Shuffle::exact(7),
        ] {
            let shown = pixels(loader(&dir, &image).shuffle(shuffle).batch_size(5), 3);
            assert!(shown == reference, "{files} files, row groups of {row_group}, {shuffle:?}");
            let mut ranks = BTreeMap::new();
            for rank in 0..3 {
                let shard = Shard::new(rank, 3).unwrap();
                ranks.extend(pixels(loader(&dir, &image).shuffle(shuffle).shard(shard), 3));
            }
            assert!(
                ranks == reference,
                "on three ranks: {files} files, row groups of {row_group}, {shuffle:?}"
            );
        }
    }
}

/// A lane that begins in the middle of a row group has a part of it, whose rows keep their numbers in the row
/// group.
#[test]
fn a_row_group_that_lanes_share_shows_each_row_as_a_whole_one_does() {
    let image = crops();
    let dir = alike(1, ROWS / 2);
    let whole = pixels(loader(&dir, &image).shuffle(Shuffle::seeded(9).lanes(1)), 1);
    for lanes in [3, 5, 8] {
        let shared = pixels(loader(&dir, &image).shuffle(Shuffle::seeded(9).lanes(lanes)), 1);
        assert!(shared == whole, "{lanes} lanes");
    }
}

#[test]
fn rows_epochs_and_seeds_are_drawn_apart() {
    let dir = alike(2, 20);
    let drawn = |seed, epoch| pixels(loader(&dir, &crops()).shuffle(Shuffle::seeded(seed)), epoch);
    let first = drawn(1, 0);
    // There are 12 x 9 places and a flip, so about one in 216 pairs of rows agrees by chance.
    let places: BTreeSet<_> = first.values().map(|pixels| place(pixels)).collect();
    assert!(places.len() > ROWS / 2, "only {} of {ROWS} differ", places.len());
    for other in [drawn(1, 1), drawn(1, 2), drawn(2, 0)] {
        let same = first.iter().filter(|(id, pixels)| other[*id] == **pixels).count();
        assert!(same < ROWS / 10, "{same} of {ROWS} rows show what they showed before");
    }
    assert!(drawn(1, 0) == first);
}

/// An independent program computed the places from the constants of SplitMix64 and torchvision's loop.
#[test]
fn the_places_of_seed_7_in_epoch_3_are_pinned() {
    let shown = pixels(loader(&alike(3, 16), &crops()).shuffle(Shuffle::seeded(7)), 3);
    let places: Vec<_> = shown.values().take(GOLDEN.len()).map(|pixels| place(pixels)).collect();
    assert_eq!(places, GOLDEN);
}

const GOLDEN: [(u8, u8, bool); 8] = [
    (0, 0, true),
    (10, 7, false),
    (10, 8, false),
    (5, 1, true),
    (8, 7, true),
    (0, 7, false),
    (9, 1, false),
    (3, 8, false),
];

#[test]
fn crops_reach_all_four_borders_and_every_place_between_them() {
    let dir = written(&vec![picture(WIDTH, HEIGHT, 5); 1500], 1, 500);
    let shown = pixels(loader(&dir, &crops()).shuffle(Shuffle::seeded(1)), 0);
    let places: Vec<_> = shown.values().map(|pixels| place(pixels)).collect();
    let mut columns = vec![0; (WIDTH - SIDE + 1) as usize];
    let mut rows = vec![0; (HEIGHT - SIDE + 1) as usize];
    for (x, y, _) in &places {
        columns[usize::from(*x)] += 1;
        rows[usize::from(*y)] += 1;
    }
    // The expected counts are 125 and 167, with standard deviations of 11 and 12.
    assert!(columns.iter().all(|count| (70..180).contains(count)), "{columns:?}");
    assert!(rows.iter().all(|count| (105..230).contains(count)), "{rows:?}");
    let flipped = places.iter().filter(|(_, _, flipped)| *flipped).count();
    assert!((650..850).contains(&flipped), "{flipped} of 1500 flipped");
}

/// The width and height of a crop as shares of the picture, from the two gradients that a resized crop shows.
fn shares(pixels: &[u8], side: usize, (width, height): (u32, u32)) -> (f64, f64) {
    let at = |x: usize, y: usize, channel: usize| f64::from(pixels[(y * side + x) * 3 + channel]);
    // The centres of the first and the last pixel are one pixel less apart than the crop is long.
    let whole = side as f64 / (side as f64 - 1.0);
    let across = (at(side - 1, 0, 0) - at(0, 0, 0)).abs() * whole;
    let down = (at(0, side - 1, 1) - at(0, 0, 1)) * whole;
    (across / f64::from(width), down / f64::from(height))
}

#[test]
fn areas_are_drawn_evenly_and_shapes_evenly_on_a_logarithmic_scale() {
    let (width, height, side) = (240, 240, 24);
    let dir = written(&vec![picture(width, height, 0); 1000], 1, 500);
    let drawn = |image: Image| {
        let shown = pixels(loader(&dir, &image).shuffle(Shuffle::seeded(4)), 0);
        shown.into_values().map(|pixels| shares(&pixels, side, (width, height))).collect::<Vec<_>>()
    };
    let crop = || Image::random_resized_crop(side as u32);
    let squares = drawn(crop().scale((0.08, 0.5)).ratio((1.0, 1.0)));
    let mean = squares.iter().map(|(w, h)| w * h).sum::<f64>() / squares.len() as f64;
    // The mean is 0.29, less what the filter leaves out at the borders. With uniform sides instead of uniform
    // areas it would be 0.25.
    assert!((0.267..0.287).contains(&mean), "a mean area of {mean}");
    let shapes = drawn(crop().scale((0.1, 0.1)).ratio((0.25, 4.0)));
    let wide = shapes.iter().filter(|(w, h)| w > h).count();
    // With uniform ratios instead of uniform logarithms, four of five cases would be wide.
    assert!((430..570).contains(&wide), "{wide} of 1000 are wide");
    let (low, high) = shapes
        .iter()
        .map(|(w, h)| w / h)
        .fold((9.0, 0.0), |(low, high): (f64, f64), ratio| (low.min(ratio), high.max(ratio)));
    assert!((0.22..0.3).contains(&low) && (3.4..4.5).contains(&high), "ratios from {low} to {high}");
}

#[test]
fn a_flip_mirrors_the_crop_that_there_would_be_without_it() {
    let dir = alike(1, 30);
    let plain = pixels(loader(&dir, &crops().flip_with(0.0)).shuffle(Shuffle::seeded(4)), 2);
    let flipped = pixels(loader(&dir, &crops()).shuffle(Shuffle::seeded(4)), 2);
    let mirrored = |pixels: &[u8]| -> Vec<u8> {
        let rows = pixels.chunks_exact(SIDE as usize * 3);
        rows.flat_map(|row| row.rchunks_exact(3).flatten().copied().collect::<Vec<_>>()).collect()
    };
    let mut turned = 0;
    for (id, pixels) in &flipped {
        if *pixels != plain[id] {
            assert!(*pixels == mirrored(&plain[id]), "row {id}");
            turned += 1;
        }
    }
    assert!((30..90).contains(&turned), "{turned} of {ROWS}");
}

#[test]
fn every_number_type_and_layout_holds_the_values_of_the_bytes() {
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let dir = alike(1, 30);
    let shown = |image: Image| pixels(loader(&dir, &image).shuffle(Shuffle::seeded(4)), 0);
    let bytes = shown(crops());
    let area = (SIDE * SIDE) as usize;
    for normalize in [false, true] {
        for layout in [Layout::Nhwc, Layout::Nchw] {
            for dtype in [PixelType::F32, PixelType::F16, PixelType::BF16] {
                let mut image = crops().dtype(dtype).layout(layout);
                if normalize {
                    image = image.normalize(mean, std);
                }
                let values = shown(image);
                for (id, bytes) in &bytes {
                    let mut expected = Vec::new();
                    for at in 0..3 * area {
                        let (pixel, channel) = match layout {
                            Layout::Nhwc => (at / 3, at % 3),
                            _ => (at % area, at / area),
                        };
                        let mut value = f32::from(bytes[pixel * 3 + channel]) / 255.0;
                        if normalize {
                            value = (value - mean[channel]) / std[channel];
                        }
                        match dtype {
                            PixelType::F16 => expected.extend(half::f16::from_f32(value).to_ne_bytes()),
                            PixelType::BF16 => expected.extend(half::bf16::from_f32(value).to_ne_bytes()),
                            _ => expected.extend(value.to_ne_bytes()),
                        }
                    }
                    assert!(values[id] == expected, "row {id}, {dtype}, {layout}, normalized: {normalize}");
                }
            }
        }
    }
}

/// The pixels of one picture as a loader delivers them.
fn shown(encoded: Vec<u8>, image: &Image) -> Vec<u8> {
    pixels(loader(&written(&[encoded], 1, 1), image), 0).remove(&0).unwrap()
}

#[test]
fn raw_pixels_are_drawn_and_shown_as_their_files() {
    let numbers = 0..ROWS as u8;
    let files: Vec<Vec<u8>> = numbers.clone().map(|number| picture(WIDTH, HEIGHT, number)).collect();
    let raws: Vec<Vec<u8>> = numbers
        .map(|number| {
            let places = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
            places.flat_map(|(x, y)| [x as u8, y as u8, number]).collect()
        })
        .collect();
    let (files, raws) = (written(&files, 2, 13), written(&raws, 2, 13));
    let raw = Raw::new((HEIGHT, WIDTH), 3);
    for image in [
        crops(),
        crops().dtype(PixelType::F32).layout(Layout::Nchw).normalize([0.4; 3], [0.3; 3]),
        Image::random_resized_crop(11).flip().resampling(Resampling::Lanczos).dtype(PixelType::F16),
        Image::resize(HEIGHT, WIDTH).flip().dtype(PixelType::F32).layout(Layout::Nchw),
        Image::fit(24).centered().fill([7.0; 3]).flip(),
    ] {
        for epoch in 0..2 {
            let shown =
                |dir: &TempDir, image: &Image| pixels(loader(dir, image).shuffle(Shuffle::seeded(7)), epoch);
            assert!(shown(&raws, &image.clone().raw(raw)) == shown(&files, &image), "{image}, epoch {epoch}");
        }
    }
}

#[test]
fn grey_is_the_luma_of_itu_601() {
    let colours =
        image::RgbImage::from_fn(3, 1, |x, _| image::Rgb([0, 1, 2].map(|c| if c == x { 255 } else { 0 })));
    let mut encoded = Cursor::new(Vec::new());
    colours.write_to(&mut encoded, image::ImageFormat::Png).unwrap();
    assert_eq!(shown(encoded.into_inner(), &Image::resize(1, 3).grayscale()), [76, 150, 29]);
}

#[test]
fn a_size_is_height_and_then_width() {
    let same = shown(picture(5, 2, 9), &Image::resize(2, 5));
    assert_eq!(same[..6], [0, 0, 9, 1, 0, 9]);
    assert_eq!(same[15..18], [0, 1, 9]);
    let image = Image::resize(6, 4);
    assert_eq!((image.shape(), image.size().height, image.size().width), ([6, 4, 3], 6, 4));
}

#[test]
fn a_centre_crop_takes_the_middle_and_rounds_as_python_does() {
    for (width, height, side, left, top) in [
        (8, 8, 4, 2, 2),
        (11, 8, 4, 4, 2),
        (13, 8, 4, 4, 2),
        (8, 13, 4, 2, 4),
        (9, 8, 3, 3, 2),
        (8, 8, 8, 0, 0),
    ] {
        let image = Image::center_crop(side).resize_shorter(8);
        let pixels = shown(picture(width, height, 1), &image);
        assert_eq!(pixels[..2], [left, top], "{width}x{height} to {side}");
        let last = pixels.len() - 3;
        let end = side as u8 - 1;
        assert_eq!(pixels[last..last + 2], [left + end, top + end], "{width}x{height} to {side}");
    }
}

/// A PNG file with a chunk after its header.
fn with_chunk(png: &[u8], kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    const HEADER_END: usize = 33;
    let mut checked = crc32fast::Hasher::new();
    checked.update(kind);
    checked.update(content);
    let checksum = checked.finalize().to_be_bytes();
    let length = (content.len() as u32).to_be_bytes();
    [&png[..HEADER_END], &length, kind, content, &checksum, &png[HEADER_END..]].concat()
}

#[test]
fn each_orientation_brings_each_corner_where_it_belongs() {
    // For each orientation, these two pixels of the stored 3x2 picture appear in the upper left corner and to
    // the right of it.
    let corners: [(u8, [u8; 2], [u8; 2]); 8] = [
        (1, [0, 0], [1, 0]),
        (2, [2, 0], [1, 0]),
        (3, [2, 1], [1, 1]),
        (4, [0, 1], [1, 1]),
        (5, [0, 0], [0, 1]),
        (6, [0, 1], [0, 0]),
        (7, [2, 1], [2, 0]),
        (8, [2, 0], [2, 1]),
    ];
    for (orientation, first, second) in corners {
        let exif =
            [&b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..], &[orientation], &[0; 6]].concat();
        let encoded = with_chunk(&picture(3, 2, 1), b"eXIf", &exif);
        let (height, width) = if orientation < 5 { (2, 3) } else { (3, 2) };
        let seen = shown(encoded.clone(), &Image::resize(height, width).exif_orientation(true));
        assert_eq!((&seen[..2], &seen[3..5]), (&first[..], &second[..]), "orientation {orientation}");
        let stored = shown(encoded, &Image::resize(2, 3));
        assert_eq!(
            stored[..5],
            [0, 0, 1, 1, 0],
            "orientation {orientation} is applied without being asked for"
        );
    }
}

/// Each picture that needs more memory than the budget has for one picture is reported with its size, and the
/// other rows are delivered.
#[test]
fn an_image_that_would_take_more_memory_than_there_is_is_refused_with_its_place() {
    let large =
        image::ImageBuffer::<image::Rgba<u16>, _>::from_pixel(5_000, 5_000, image::Rgba([900, 800, 700, 0]));
    let mut encoded = Cursor::new(Vec::new());
    large.write_to(&mut encoded, image::ImageFormat::Png).unwrap();
    let encoded = encoded.into_inner();
    let dir = written(&[picture(8, 8, 3), encoded, picture(8, 8, 4)], 1, 3);
    let build = |memory: u64| loader(&dir, &Image::resize(4, 4)).memory(memory << 20);
    let error = build(64).build().unwrap().epoch(0).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let said = error.to_string();
    assert!(said.contains("row 1, column \"image\": decoding a PNG of 5000x5000 pixels takes 7"), "{said}");
    assert!(
        said.contains("over the 48 MiB that images may take of a memory of 64 MiB (raise memory to 28"),
        "{said}"
    );
    let skipping = build(64).on_bad_row(forebay::OnBadRow::skip(1));
    assert_eq!(pixels(skipping, 0).into_keys().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(pixels(build(400), 0)[&1][..3], [3, 3, 2]);
}

#[test]
fn the_geometry_says_where_the_pixels_of_a_crop_were() {
    let (dir, image) = (alike(1, 50), crops().vertical_flip().emit_geometry());
    let loader = loader(&dir, &image).shuffle(Shuffle::seeded(3)).build().unwrap();
    assert_eq!(loader.schema().fields().last().unwrap().name(), "image.geometry");
    assert_eq!(loader.spec().columns.as_deref().unwrap(), ["id", "image"]);
    let mut mirrors = BTreeSet::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let images = batch.column_by_name("image").unwrap().as_fixed_size_list();
        let geometries = batch.column_by_name("image.geometry").unwrap().as_fixed_size_list();
        for row in 0..batch.num_rows() {
            let (pixels, geometry) = (images.value(row), geometries.value(row));
            let geometry: Vec<f32> = geometry.as_primitive::<Float32Type>().values().to_vec();
            let [top, left, height, width, across, down, whole_height, whole_width] = geometry[..] else {
                panic!("{geometry:?}")
            };
            assert_eq!((height, width), (SIDE as f32, SIDE as f32));
            assert_eq!((whole_height, whole_width), (HEIGHT as f32, WIDTH as f32));
            let first = &pixels.as_primitive::<UInt8Type>().values()[..2];
            let last = SIDE as f32 - 1.0;
            assert_eq!([f32::from(first[0]), f32::from(first[1])], [left + across * last, top + down * last]);
            mirrors.insert((across as u8, down as u8));
        }
    }
    assert_eq!(mirrors.len(), 4);
}
