//! A row's random crop and flip depend only on the seed, the epoch, the row and the column.

use std::collections::BTreeMap;

use forebay::arrow::array::AsArray;
use forebay::arrow::datatypes::Int64Type;
use forebay::{Image, Shuffle};

use crate::table::{Layout, TableOnDisk};

/// Each row's pixels in an epoch.
fn pixels(table: &TableOnDisk, shuffle: Shuffle, batch: u64, epoch: u64) -> BTreeMap<i64, Vec<u8>> {
    let image = Image::random_resized_crop(12).flip();
    let slot = image.bytes_per_image();
    let loader = table.open().loader().columns(["image", "id"]).decode("image", image).shuffle(shuffle);
    let loader = loader.batch_size(batch).threads(2).build().unwrap();
    let batches = loader.epoch(epoch).flat_map(|batch| {
        let batch = batch.unwrap();
        let values = batch.column(0).as_fixed_size_list().values().to_data();
        let images: Vec<Vec<u8>> = values.buffers()[0].chunks_exact(slot).map(<[u8]>::to_vec).collect();
        let ids = batch.column(1).as_primitive::<Int64Type>().values().to_vec();
        ids.into_iter().zip(images).collect::<Vec<_>>()
    });
    batches.collect()
}

/// Files, row groups, lanes, windows and batches decide which thread decodes a row and when, but not the
/// pixels.
#[test]
fn pixels_are_those_of_the_row_wherever_it_lies() {
    let one = TableOnDisk::write(Layout { blob: 0, ..Layout::even(1, 1, 60) });
    let many = TableOnDisk::write(Layout { blob: 0, ..Layout::even(3, 4, 5) });
    let truth = pixels(&one, Shuffle::seeded(9), 60, 1);
    assert_eq!(truth.len(), 60);
    for shuffle in [Shuffle::seeded(9), Shuffle::seeded(9).window_rows(10).lanes(7), Shuffle::exact(9)] {
        assert_eq!(pixels(&many, shuffle, 7, 1), truth);
        assert_eq!(pixels(&one, shuffle.lanes(4), 16, 1), truth);
    }
}

#[test]
fn pixels_are_new_in_each_epoch_and_for_each_seed() {
    let table = TableOnDisk::write(Layout { blob: 0, ..Layout::even(2, 3, 10) });
    let of = |seed, epoch| pixels(&table, Shuffle::seeded(seed), 16, epoch);
    let truth = of(1, 0);
    for other in [of(1, 1), of(1, 2), of(2, 0)] {
        let same = truth.iter().filter(|(id, pixels)| other[id] == **pixels).count();
        assert_eq!(same, 0, "no row has the crop that it had");
    }
}

/// Half of the rows are flipped: not all alike, and not the same half in the next epoch.
#[test]
fn rows_are_flipped_each_for_itself() {
    let table = TableOnDisk::write(Layout { blob: 0, ..Layout::even(2, 2, 50) });
    let flips = |epoch| -> Vec<bool> {
        let build = |image: Image| {
            let loader = table.open().loader().columns(["image"]).decode("image", image);
            loader.batch_size(200).threads(2).build().unwrap()
        };
        let bytes = |image: Image, epoch| {
            let batch = build(image).epoch(epoch).next().unwrap().unwrap();
            batch.column(0).as_fixed_size_list().values().to_data().buffers()[0].to_vec()
        };
        let (plain, drawn) = (Image::resize(8, 8), Image::resize(8, 8).flip());
        let slot = plain.bytes_per_image();
        let (plain, drawn) = (bytes(plain, epoch), bytes(drawn, epoch));
        plain.chunks_exact(slot).zip(drawn.chunks_exact(slot)).map(|(plain, drawn)| plain != drawn).collect()
    };
    let (first, second) = (flips(0), flips(1));
    let count = |flips: &[bool]| flips.iter().filter(|flipped| **flipped).count();
    assert!((70..130).contains(&count(&first)), "{} of 200", count(&first));
    let changed = first.iter().zip(&second).filter(|(first, second)| first != second).count();
    assert!((70..130).contains(&changed), "{changed} of 200");
}
