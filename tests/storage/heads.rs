//! The bytes that are read twice because samples run on into the next row group.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use fault_server::FaultServer;
use forebay::arrow::array::{ArrayRef, Int32Array, ListArray, RecordBatch, StringArray};
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field};
use forebay::samples::{Across, Pack};
use forebay::{Dataset, ErrorKind, LoaderBuilder, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::kit::*;

const GROUPS: usize = 8;
const LISTS: usize = 600;

/// Writes lists of numbers that do not compress, and a text for each, in pages of about 8 KiB.
fn write(folder: &Path, groups: usize, has_index: bool, has_dictionary: bool) {
    let count = groups * LISTS;
    let lengths = || (0..count as u64).map(|row| (draw(1, row) % 130) as usize);
    let tokens = lengths().sum::<usize>();
    let items = Int32Array::from_iter_values((0..tokens as u64).map(|at| (draw(2, at) % 30_000) as i32));
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths(lengths()), Arc::new(items), None);
    let texts = StringArray::from_iter_values((0..count).map(|row| format!("document {row}")));
    let columns: [(&str, ArrayRef); 2] = [("tokens", Arc::new(lists)), ("name", Arc::new(texts))];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let statistics = if has_index { EnabledStatistics::Page } else { EnabledStatistics::Chunk };
    let properties = WriterProperties::builder()
        .set_statistics_enabled(statistics)
        .set_max_row_group_row_count(Some(LISTS))
        .set_data_page_size_limit(8 << 10)
        .set_write_batch_size(64)
        .set_dictionary_enabled(has_dictionary)
        .set_offset_index_disabled(!has_index);
    let file = File::create(folder.join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

fn packed(dataset: &Dataset, across: Across, shuffle: Shuffle) -> LoaderBuilder {
    let pack = Pack::split(["tokens"], 256).across(across);
    let loader = dataset.loader().samples(pack).columns(["tokens", "name"]);
    loader.batch_size(8).shuffle(shuffle.lanes(1)).epochs(1)
}

/// The bytes of an epoch, and its batches.
fn epoch(server: &FaultServer, across: Across, shuffle: Shuffle) -> (u64, Vec<RecordBatch>) {
    let dataset = Dataset::open_with_options("s3://bucket/", &options(server, &[])).unwrap();
    let loader = packed(&dataset, across, shuffle).build().unwrap();
    server.reset();
    let before = dataset.traffic().hedges;
    let batches = loader.epoch(0).map(Result::unwrap).collect();
    settled(server);
    let asked = reads(server, dataset.traffic().hedges - before);
    (asked.iter().map(|asked| asked.bytes_sent).sum(), batches)
}

#[test]
fn of_lists_with_an_index_only_the_first_pages_of_the_next_row_group_are_read_twice() {
    for has_dictionary in [false, true] {
        let without_index = tempfile::tempdir().unwrap();
        write(without_index.path(), GROUPS, false, has_dictionary);
        let here = Dataset::open(without_index.path()).unwrap();
        for has_index in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), GROUPS, has_index, has_dictionary);
            let server = FaultServer::builder().folder("bucket", folder.path()).start().unwrap();
            for shuffle in [Shuffle::stored(), Shuffle::seeded(3).window_rows(700)] {
                let (once, _) = epoch(&server, Across::RowGroup, shuffle);
                let (twice, batches) = epoch(&server, Across::Dataset, shuffle);
                let local = packed(&here, Across::Dataset, shuffle).build().unwrap();
                let expected: Vec<RecordBatch> = local.epoch(0).map(Result::unwrap).collect();
                assert!(batches == expected, "the same packs, index: {has_index}");
                let share = twice as f64 / once as f64;
                println!("index {has_index}, dictionary {has_dictionary}: {twice} bytes, {share:.3} times");
                // Without an index, all row groups but the first are read a second time, as a whole.
                match (has_index, has_dictionary) {
                    (false, _) => assert!((1.7..=2.0).contains(&share), "{share}"),
                    (true, false) => assert!(share < 1.15, "{share}"),
                    // The dictionary of a row group is read with its first pages.
                    (true, true) => assert!(share < 1.7, "{share}"),
                }
            }
        }
    }
}

/// Each byte of the offset index of the lists is changed once: the packs are the same, or an error says that
/// the file is damaged.
#[test]
fn a_damaged_index_of_lists_gives_the_same_packs_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 2, true, false);
    let path = folder.path().join("a.parquet");
    let whole = fs::read(&path).unwrap();
    let open = || Dataset::open(&path).unwrap();
    let delivered = || -> forebay::Result<Vec<RecordBatch>> {
        packed(&open(), Across::Dataset, Shuffle::stored()).build()?.epoch(0).collect()
    };
    let expected = delivered().unwrap();
    let footer =
        open().fold_footers(None, |found, _, _, footer| *found = Some(footer.clone())).unwrap().unwrap();
    let mut refused = 0;
    for at in footer.row_group(1).column(0).offset_index_range().unwrap() {
        for flip in [1, 0x10, 0xff] {
            let mut damaged = whole.clone();
            damaged[at as usize] ^= flip;
            fs::write(&path, &damaged).unwrap();
            match delivered() {
                Ok(batches) => assert!(batches == expected, "byte {at} ^ {flip}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}
