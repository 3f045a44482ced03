//! A user's own column type, through the public interface alone: run-length encoded bytes that are delivered
//! as tensors.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use forebay::Tier;
use forebay::arrow::array::*;
use forebay::arrow::datatypes::{DataType, Float32Type, UInt8Type};
use forebay::column::Decoder;
use forebay::image::RowKey;
use forebay::{Dataset, DiskCache, Error, ErrorKind, Image, LoaderBuilder, OnBadRow, Place, Result};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

const ROWS: usize = 60;
const SIDES: [usize; 2] = [3, 4];
/// The rows with bad cells: one too short, one null, and one on which the decoder panics.
const SHORT: usize = 13;
const NULL: usize = 21;
const PANICS: usize = 34;

/// Decodes pairs of a count and a value to a tensor of 3 x 4 bytes.
#[derive(Debug)]
struct RunLength;

impl Decoder for RunLength {
    fn shape(&self) -> Vec<usize> {
        SIDES.to_vec()
    }

    fn data_type(&self) -> DataType {
        DataType::UInt8
    }

    fn decode(&self, cell: &[u8], _: RowKey, slot: &mut [u8]) -> Result<()> {
        let mut written = 0;
        for pair in cell.chunks(2) {
            // If the last pair has no value, `pair[1]` panics.
            let (count, value) = (usize::from(pair[0]), pair[1]);
            slot[written..written + count].fill(value);
            written += count;
        }
        if written < slot.len() {
            let cause = format!("runs of {written} values for a tensor of {}", slot.len());
            return Err(Error::new(ErrorKind::BadRow, cause));
        }
        Ok(())
    }
}

/// The stored cell of a row: the row's number five times, then seven more values.
fn cell(row: usize) -> Option<Vec<u8>> {
    match row {
        SHORT => Some(vec![5, row as u8]),
        NULL => None,
        PANICS => Some(vec![5]),
        _ => Some(vec![5, row as u8, 7, 200]),
    }
}

fn tensor_of(row: usize) -> Vec<u8> {
    [vec![row as u8; 5], vec![200; 7]].concat()
}

/// Writes a file with row groups of ten rows and three columns: ids, cells of runs, and row numbers as texts
/// of four bytes.
fn written(dir: &Path) {
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("runs", Arc::new(BinaryArray::from_iter((0..ROWS).map(cell)))),
        ("text", Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("{row:04}"))))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
    let file = std::fs::File::create(dir.join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

fn loader(dir: &TempDir) -> LoaderBuilder {
    written(dir.path());
    Dataset::open(dir.path()).unwrap().loader().columns(["id", "runs"]).batch_size(7).threads(2)
}

fn rows(batches: &[RecordBatch]) -> Vec<(usize, Vec<u8>)> {
    let rows = |batch: &RecordBatch| {
        let ids = batch
            .column_by_name("id")
            .unwrap()
            .as_primitive::<forebay::arrow::datatypes::Int64Type>()
            .clone();
        let tensors = batch.column_by_name("runs").unwrap().as_fixed_size_list().clone();
        let row = move |row| {
            let tensor = tensors.value(row).as_primitive::<UInt8Type>().values().to_vec();
            (ids.value(row) as usize, tensor)
        };
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    };
    batches.iter().flat_map(rows).collect()
}

#[test]
fn cells_are_delivered_as_tensors_and_bad_ones_are_skipped_with_their_place() {
    let dir = TempDir::new().unwrap();
    let builder = loader(&dir).decode_with("runs", Arc::new(RunLength)).on_bad_row(OnBadRow::skip(3));
    let loader = builder.epochs(1).build().unwrap();
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();

    let field = batches[0].schema().field_with_name("runs").unwrap().clone();
    assert_eq!(field.metadata().get("ARROW:extension:name").unwrap(), "arrow.fixed_shape_tensor");
    assert_eq!(field.metadata().get("ARROW:extension:metadata").unwrap(), r#"{"shape":[3,4]}"#);
    let good = (0..ROWS).filter(|row| ![SHORT, NULL, PANICS].contains(row));
    assert_eq!(rows(&batches), good.map(|row| (row, tensor_of(row))).collect::<Vec<_>>());
    let stats = loader.stats();
    assert_eq!((stats.skipped_rows, stats.stages.decode.items), (3, ROWS as u64));
}

#[test]
fn a_bad_cell_ends_the_epoch_where_that_is_asked_for() {
    for (row, words) in [
        (SHORT, "runs of 5 values for a tensor of 12"),
        (NULL, "null where a cell to decode is needed"),
        (PANICS, "the decoder panicked: index out of bounds"),
    ] {
        let dir = TempDir::new().unwrap();
        let before = [SHORT, NULL, PANICS].into_iter().filter(|bad| *bad < row).count() as u64;
        let loader = loader(&dir).decode_with("runs", Arc::new(RunLength));
        let loader = match before {
            0 => loader.build().unwrap(),
            _ => loader.on_bad_row(OnBadRow::skip(before)).build().unwrap(),
        };
        let error = loader.epoch(0).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::BadRow, "{error}");
        assert_eq!(error.place().row_group, Some(row / 10));
        assert_eq!(error.place().row, Some(row as u64 % 10));
        assert_eq!(error.place().column.as_deref(), Some("runs"));
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A decoder that always fails.
#[derive(Debug)]
struct Failing {
    has_shape: bool,
}

impl Decoder for Failing {
    fn shape(&self) -> Vec<usize> {
        assert!(self.has_shape, "no shape yet");
        vec![1]
    }

    fn data_type(&self) -> DataType {
        DataType::UInt8
    }

    fn decode(&self, _: &[u8], _: RowKey, _: &mut [u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Io, "no model").at(Place::file("weights.bin").row(7)))
    }
}

#[test]
fn an_error_of_a_decoder_is_a_bad_row_whatever_its_kind_and_place() {
    let dir = TempDir::new().unwrap();
    let builder = |on_bad_row| {
        let failing = Arc::new(Failing { has_shape: true });
        loader(&dir).decode_with("runs", failing).on_bad_row(on_bad_row).epochs(1).build().unwrap()
    };
    let error = builder(OnBadRow::Raise).epoch(0).find_map(Result::err).unwrap();
    assert_eq!((error.kind(), error.place().row), (ErrorKind::BadRow, Some(0)));
    assert!(error.place().file.as_deref().is_some_and(|file| file.ends_with("a.parquet")), "{error}");
    assert!(error.to_string().contains("weights.bin, row 7: no model"), "{error}");
    let skipping = builder(OnBadRow::skip(ROWS as u64));
    let error = skipping.epoch(0).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("no row"), "none is left to deliver: {error}");
    assert_eq!(skipping.stats().skipped_rows, ROWS as u64);
}

#[test]
fn a_decoder_that_panics_about_its_shape_is_refused() {
    let dir = TempDir::new().unwrap();
    let refused = loader(&dir).decode_with("runs", Arc::new(Failing { has_shape: false })).build();
    let error = refused.err().unwrap();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Invalid, Some("runs")));
    assert!(error.to_string().contains("the decoder panicked: no shape yet"), "{error}");
}

/// A decoder that records the row keys that it receives.
#[derive(Debug, Default)]
struct Keys(Mutex<BTreeSet<u64>>);

impl Decoder for Keys {
    fn shape(&self) -> Vec<usize> {
        vec![1]
    }

    fn data_type(&self) -> DataType {
        DataType::Float32
    }

    fn decode(&self, cell: &[u8], key: RowKey, slot: &mut [u8]) -> Result<()> {
        assert_eq!((cell.len(), slot.len()), (4, 4));
        self.0.lock().unwrap().insert(key.0);
        slot.copy_from_slice(&((key.0 >> 40) as f32).to_ne_bytes());
        Ok(())
    }
}

#[test]
fn a_row_has_one_key_for_each_epoch_on_any_number_of_threads() {
    let dir = TempDir::new().unwrap();
    let keys = Arc::new(Keys::default());
    let drawn = |threads: usize, epoch: u64| {
        let loader = loader(&dir).columns(["text"]).decode_with("text", keys.clone()).threads(threads);
        let batches = loader.epochs(2).build().unwrap().epoch(epoch).map(Result::unwrap);
        let values = |batch: RecordBatch| {
            let tensors = batch.column(0).as_fixed_size_list().values().clone();
            tensors.as_primitive::<Float32Type>().values().to_vec()
        };
        batches.flat_map(values).collect::<Vec<f32>>()
    };
    assert_eq!(drawn(1, 0), drawn(4, 0));
    assert_ne!(drawn(1, 0), drawn(1, 1));
    assert_eq!(keys.0.lock().unwrap().len(), 2 * ROWS);
}

#[test]
fn cells_are_kept_in_a_cache_as_they_are_stored() {
    let (dir, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let cache = || DiskCache::open(folder.path(), 1 << 30).unwrap();
    let loader = |tier| {
        let builder = loader(&dir).decode_with("runs", Arc::new(RunLength)).on_bad_row(OnBadRow::skip(3));
        builder.cache(cache()).cache_tier(tier).build().unwrap()
    };
    let expected: Vec<_> = rows(&loader(Tier::Rows).epoch(0).map(Result::unwrap).collect::<Vec<_>>());
    let cached = loader(Tier::Pixels);
    cached.warm(|_, _| {}).unwrap();
    for epoch in 0..2 {
        assert_eq!(rows(&cached.epoch(epoch).map(Result::unwrap).collect::<Vec<_>>()), expected);
    }
    assert!(cached.stats().cache.unwrap().hits > 0);
    assert_eq!(cached.stats().stages.keep.items, 0, "there is no other form to keep them in");
}

/// A decoder with a shape or a type that a tensor cannot have.
#[derive(Debug)]
struct UnfitDecoder(Vec<usize>, DataType);

impl Decoder for UnfitDecoder {
    fn shape(&self) -> Vec<usize> {
        self.0.clone()
    }

    fn data_type(&self) -> DataType {
        self.1.clone()
    }

    fn decode(&self, _: &[u8], _: RowKey, _: &mut [u8]) -> Result<()> {
        unreachable!("it is refused before")
    }
}

#[test]
fn what_can_never_work_is_refused_before_anything_is_read() {
    let dir = TempDir::new().unwrap();
    let unfit = |shape: &[usize], data_type| Arc::new(UnfitDecoder(shape.to_vec(), data_type));
    let build = |column: &str, decoder| loader(&dir).decode_with(column, decoder);
    let runs = || build("runs", Arc::new(RunLength));
    for (builder, words) in [
        (build("runs", unfit(&[], DataType::UInt8)), "column \"runs\": a decoder of shape []"),
        (build("runs", unfit(&[2, 0], DataType::UInt8)), "a decoder of shape [2, 0]"),
        (build("runs", unfit(&[2], DataType::Utf8)), "a decoder of Utf8 values"),
        (build("runs", unfit(&[1 << 20, 1 << 20], DataType::UInt8)), "has more than 2^31 values"),
        (build("id", Arc::new(RunLength)), "column \"id\": holds int64, not cells to decode"),
        (build("text", Arc::new(RunLength)), "not among the columns to read"),
        (
            runs().fill_null("runs", vec![0]),
            "column \"runs\": fill_null value b\"\\x00\" is not a value of type",
        ),
        (runs().decode("runs", Image::resize(2, 2)), "two options say how the column is delivered"),
        (runs().decode_with("runs", Arc::new(RunLength)), "two options say how the column is delivered"),
    ] {
        let error = builder.build().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_null_cell_has_a_mask_or_a_value_where_that_is_asked_for() {
    for (fill, value) in [(None, 0), (Some(9.0), 9)] {
        let dir = TempDir::new().unwrap();
        let builder = loader(&dir).decode_with("runs", Arc::new(RunLength)).null_mask(["r*"]);
        let builder = match fill {
            Some(fill) => builder.fill_null("runs", fill),
            None => builder,
        };
        let loader = builder.on_bad_row(OnBadRow::skip(2)).build().unwrap();
        let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
        let found = rows(&batches);
        assert_eq!(found.len(), ROWS - 2);
        for (row, cells) in found {
            assert_eq!(cells, if row == NULL { vec![value; 12] } else { tensor_of(row) });
        }
        let mask = |batch: &RecordBatch| batch.column(2).as_boolean().false_count();
        assert_eq!(batches[0].schema().field(2).name(), "runs.mask");
        assert_eq!(batches.iter().map(mask).sum::<usize>(), 1);
    }
}
