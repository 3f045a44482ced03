//! A stack has the values of its columns side by side, whatever other options the loader has.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{DataType, Float32Type, Int64Type, UInt8Type};
use forebay::column::Stack;

use forebay::filter::{Op, Term};
use forebay::{Dataset, Filter, LoaderBuilder, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

const ROWS: i64 = 3_000;
/// The numbers of columns of each type. A matrix is written several columns at a time; these are more, and
/// not a multiple.
const FLOATS: i64 = 37;
const BYTES: i64 = 41;
/// The number of columns of bytes that are stacked with floats; the other ones are a stack by themselves.
const MIXED: i64 = 20;

/// The value of a row in a column of floats; one in seven is null, in columns that have nulls.
fn float(row: i64, column: i64) -> Option<f32> {
    let is_null = column % 5 == 0 && (row + column) % 7 == 0;
    (!is_null).then_some((row * 100 + column) as f32 / 8.0)
}

fn byte(row: i64, column: i64) -> u8 {
    (row * 31 + column * 7) as u8
}

/// Writes files with an id, columns of floats, some with nulls, and columns of bytes.
fn write(dir: &Path, files: i64, group: usize) {
    for file in 0..files {
        let rows = file * ROWS / files..(file + 1) * ROWS / files;
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
        let mut columns = vec![("id".to_owned(), id)];
        for column in 0..FLOATS {
            let values = rows.clone().map(|row| float(row, column));
            columns.push((format!("f{column:02}"), Arc::new(values.collect::<Float32Array>()) as _));
        }
        for column in 0..BYTES {
            let values = rows.clone().map(|row| byte(row, column));
            columns.push((format!("b{column:02}"), Arc::new(UInt8Array::from_iter_values(values)) as _));
        }
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group))
            .set_data_page_row_count_limit(50)
            .set_write_batch_size(50);
        let file = File::create(dir.join(format!("{file}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

/// The ids of a batch, after its matrices were compared with what is stored.
fn compared(batch: &RecordBatch) -> Vec<i64> {
    let ids = batch["id"].as_primitive::<Int64Type>().values().to_vec();
    let lists = |name: &str| batch[name].as_fixed_size_list();
    let (floats, mask, mixed) = (lists("floats"), lists("floats.mask"), lists("mixed"));
    let bytes = lists("bytes").values().as_primitive::<UInt8Type>();
    assert_eq!((floats.value_length(), mixed.value_length()), (FLOATS as i32 - 2, MIXED as i32 + 2));
    let (floats, mask) = (floats.values().as_primitive::<Float32Type>(), mask.values().as_boolean());
    let mixed = mixed.values().as_primitive::<Float32Type>();
    for (row, id) in ids.iter().enumerate() {
        for column in 2..FLOATS {
            let at = row * (FLOATS as usize - 2) + column as usize - 2;
            let value = float(*id, column);
            assert_eq!(mask.value(at), value.is_some(), "row {id}, column {column}");
            assert_eq!(floats.value(at), value.unwrap_or(-0.5), "row {id}, column {column}");
        }
        // The stack names one column of floats, a block of bytes, and two more columns, in this order.
        let numbers = [float(*id, 1).unwrap()]
            .into_iter()
            .chain((1..MIXED).map(|column| f32::from(byte(*id, column))))
            .chain([float(*id, 0).unwrap_or(9.0), f32::from(byte(*id, 0))]);
        let at = row * (MIXED as usize + 2);
        assert!(numbers.eq(mixed.values()[at..at + MIXED as usize + 2].iter().copied()), "row {id}");
        let at = row * (BYTES - MIXED) as usize;
        let numbers = (MIXED..BYTES).map(|column| byte(*id, column));
        assert!(numbers.eq(bytes.values()[at..at + (BYTES - MIXED) as usize].iter().copied()), "row {id}");
    }
    ids
}

fn loader(dir: &Path) -> LoaderBuilder {
    let mixed = ["f01", "b0[1-9]", "b1?", "f00", "b00"];
    Dataset::open(dir.to_str().unwrap())
        .unwrap()
        .loader()
        .columns(["id"])
        .stack("floats", Stack::new((2..FLOATS).map(|column| format!("f{column:02}"))))
        .fill_null("floats", -0.5)
        .null_mask(["floats"])
        .stack("mixed", Stack::new(mixed).dtype(DataType::Float32))
        .fill_null("f00", 9.0)
        .stack("bytes", Stack::new(["b[234]?"]))
        .batch_size(64)
        .threads(2)
}

type Options = fn(LoaderBuilder) -> LoaderBuilder;

#[test]
fn a_stack_is_its_columns_in_every_order_and_from_any_row_groups() {
    let options: [(&str, Options); 8] = [
        ("stored", |loader| loader),
        ("window", |loader| loader.shuffle(Shuffle::seeded(3).window_rows(700))),
        ("one row group", |loader| loader.shuffle(Shuffle::seeded(3).window_rows(1))),
        ("exact", |loader| loader.shuffle(Shuffle::exact(4))),
        ("pieces", |loader| loader.shuffle(Shuffle::seeded(3).window_rows(400).piece_rows(120))),
        ("one epoch", |loader| loader.epochs(1).shuffle(Shuffle::seeded(5))),
        ("filter", |loader| {
            let part =
                Filter::all_of([Term::new("id", Op::GreaterEq, 500), Term::new("id", Op::Less, 2_017)]);
            loader.filter(part).shuffle(Shuffle::seeded(2))
        }),
        ("one row", |loader| loader.batch_size(1).shuffle(Shuffle::seeded(6))),
    ];
    for (files, group) in [(1, 3_000), (3, 400), (40, 9)] {
        let dir = TempDir::new().unwrap();
        write(dir.path(), files, group);
        for (name, options) in options {
            let loader = options(loader(dir.path())).build().unwrap();
            for epoch in 0..2.min(loader.spec().epochs.unwrap_or(2)) {
                let mut ids: Vec<i64> =
                    loader.epoch(epoch).flat_map(|batch| compared(&batch.unwrap())).collect();
                ids.sort_unstable();
                let all = (0..ROWS).filter(|id| name != "filter" || (500..2_017).contains(id));
                assert!(all.eq(ids), "{name}, {files} files");
            }
        }
    }
}
