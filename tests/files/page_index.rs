//! Filters over files with page indexes and Bloom filters give the same rows from fewer bytes.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Float64Array, Int32Array, Int64Array,
    ListArray, RecordBatch, StringArray, UInt32Array,
};
use forebay::arrow::datatypes::{Int32Type, Int64Type};
use forebay::filter::{Expr, col, row_fraction};
use forebay::{Dataset, ErrorKind, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

/// The number of rows in a file, in a row group and in a page.
const ROWS: usize = 20_000;
const GROUP: usize = 10_000;
const PAGE: usize = 500;
/// The size of a cell in bytes.
const CELL: usize = 300;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
struct FileForm {
    version: WriterVersion,
    compression: Compression,
    dictionary: bool,
}

const FORMS: [FileForm; 3] = [
    FileForm { version: WriterVersion::PARQUET_1_0, compression: Compression::SNAPPY, dictionary: true },
    FileForm { version: WriterVersion::PARQUET_2_0, compression: Compression::LZ4_RAW, dictionary: false },
    FileForm {
        version: WriterVersion::PARQUET_1_0,
        compression: Compression::UNCOMPRESSED,
        dictionary: false,
    },
];

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn name(number: usize) -> String {
    format!("user-{number:06}-{:016x}", (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn is_null(row: usize) -> bool {
    row % 7 == 3 || (3000..4200).contains(&row)
}

fn table() -> RecordBatch {
    let rows = 0..ROWS;
    let id = Int64Array::from_iter_values(rows.clone().map(|row| row as i64 * 3));
    let day = Date32Array::from_iter_values(rows.clone().map(|row| 19_000 + row as i32 / 100));
    let small = UInt32Array::from_iter(rows.clone().map(|row| (!is_null(row)).then_some(row as u32 / 40)));
    let float = Float64Array::from_iter(rows.clone().map(|row| match row % 11 {
        5 => Some(f64::NAN),
        _ => (!is_null(row)).then_some(row as f64 / 16.0),
    }));
    let text =
        StringArray::from_iter(rows.clone().map(|row| (!is_null(row)).then(|| name(row * 7919 % ROWS))));
    let flag = BooleanArray::from_iter(rows.clone().map(|row| Some(row / 2000 % 2 == 1)));
    let cell = BinaryArray::from_iter_values(rows.clone().map(|row| noise(row as u64 + 1, CELL)));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        rows.clone().map(|row| Some((0..row as i32 % 4).map(Some).collect::<Vec<_>>())),
    );
    let other = Int32Array::from_iter(rows.map(|row| (!is_null(row + 1)).then_some(row as i32)));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(id) as ArrayRef, false),
        ("day", Arc::new(day) as ArrayRef, false),
        ("small", Arc::new(small) as ArrayRef, true),
        ("float", Arc::new(float) as ArrayRef, true),
        ("text", Arc::new(text) as ArrayRef, true),
        ("flag", Arc::new(flag) as ArrayRef, true),
        ("cell", Arc::new(cell) as ArrayRef, false),
        ("list", Arc::new(list) as ArrayRef, true),
        ("other", Arc::new(other) as ArrayRef, true),
    ])
    .unwrap()
}

fn write(path: &Path, form: FileForm, has_index: bool) {
    let statistics = if has_index { EnabledStatistics::Page } else { EnabledStatistics::Chunk };
    let properties = WriterProperties::builder()
        .set_writer_version(form.version)
        .set_compression(form.compression)
        .set_dictionary_enabled(form.dictionary)
        .set_column_dictionary_enabled("text".into(), false)
        .set_column_dictionary_enabled("cell".into(), false)
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(PAGE)
        .set_write_batch_size(PAGE)
        .set_statistics_enabled(statistics)
        .set_offset_index_disabled(!has_index)
        .set_column_bloom_filter_enabled("text".into(), has_index)
        .set_column_bloom_filter_max_ndv("text".into(), 2_000)
        .build();
    let table = table();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
}

/// The rows that an epoch delivers, and how many bytes they needed after the data set was opened.
struct EpochDelivery {
    ids: Vec<i64>,
    batches: RecordBatch,
    bytes: u64,
}

fn deliver(path: &Path, filter: &Expr, columns: &[&str]) -> EpochDelivery {
    let dataset = Dataset::open(path).unwrap();
    let before = dataset.traffic().bytes_needed;
    let loader = dataset.loader().columns(columns.iter().copied()).filter(filter.clone()).batch_size(1_000);
    let batches = match loader.threads(1).build() {
        Ok(loader) => loader.epoch(0).map(|batch| batch.unwrap()).collect::<Vec<_>>(),
        Err(error) if error.to_string().contains("no row is selected") => Vec::new(),
        Err(error) => panic!("{error}"),
    };
    let bytes = dataset.traffic().bytes_needed - before;
    let schema = batches.first().map_or_else(|| table().schema(), |batch| batch.schema());
    let batches = forebay::arrow::compute::concat_batches(&schema, &batches).unwrap();
    let ids = batches["id"].as_primitive::<Int64Type>().values().to_vec();
    EpochDelivery { ids, batches, bytes }
}

/// Whether a row is selected.
type Holds = Box<dyn Fn(usize) -> bool>;

/// Conditions, each with a function that says which rows they select.
fn conditions() -> Vec<(Expr, Holds)> {
    let text = |row: usize| row * 7919 % ROWS;
    let no = |row: usize| is_null(row);
    let nan = |row: usize| row % 11 == 5;
    vec![
        (col("id").lt(900), Box::new(|row| row < 300)),
        (col("id").gt_eq(59_700) | col("id").eq(30_000), Box::new(|row| row >= 19_900 || row == 10_000)),
        (col("day").eq("2022-01-10"), Box::new(|row| 19_000 + row / 100 == 19_002)),
        (col("small").eq(3), Box::new(move |row| row / 40 == 3 && !no(row))),
        (!col("small").gt(2), Box::new(move |row| row / 40 <= 2 && !no(row))),
        (col("float").lt(40.0), Box::new(move |row| !nan(row) && !no(row) && (row as f64) < 640.0)),
        (col("float").is_null(), Box::new(move |row| no(row) && !nan(row))),
        (
            col("text").is_null() & col("id").lt(13_000),
            Box::new(move |row| no(row) && row as i64 * 3 < 13_000),
        ),
        (col("text").eq(name(77)), Box::new(move |row| !no(row) && text(row) == 77)),
        (col("text").in_list(vec!["nobody".to_owned(), name(ROWS)]), Box::new(|_| false)),
        (col("flag").eq(true) & col("id").lt(9_000), Box::new(|row| row / 2000 % 2 == 1 && row < 3_000)),
        (
            (col("id") % 1000).eq(0) & col("day").lt("2022-01-20"),
            Box::new(|row| row * 3 % 1000 == 0 && row < 1_200),
        ),
        (
            col("small").lt(2) | col("other").gt(19_990),
            Box::new(move |row| (row / 40 < 2 && !no(row)) || (row > 19_990 && !no(row + 1))),
        ),
        (col("other").lt(col("id") - 39_980), Box::new(move |row| row > 19_990 && !no(row + 1))),
    ]
}

#[test]
fn the_same_rows_come_from_fewer_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let table = table();
    let columns = ["id", "cell", "small", "float", "text", "list", "other", "flag"];
    for (at, form) in FORMS.into_iter().enumerate() {
        let [plain, indexed] =
            ["plain", "indexed"].map(|name| folder.path().join(format!("{at}-{name}.parquet")));
        write(&plain, form, false);
        write(&indexed, form, true);
        let (mut with, mut without) = (0, 0);
        for (which, (filter, holds)) in conditions().iter().enumerate() {
            let want: Vec<i64> = (0..ROWS).filter(|row| holds(*row)).map(|row| row as i64 * 3).collect();
            let of_plain = deliver(&plain, filter, &columns);
            let of_index = deliver(&indexed, filter, &columns);
            assert_eq!(of_plain.ids, want, "{form:?} {which}");
            assert_eq!(of_index.ids, want, "{form:?} {which}");
            assert_eq!(of_index.batches, of_plain.batches, "{form:?} {which}");
            with += of_index.bytes;
            without += of_plain.bytes;
            // Condition 6, that `float` is null, leaves out no page, because each page has a null.
            if want.len() <= 600 && of_plain.bytes > 1 << 20 {
                assert!(of_index.bytes * 3 < of_plain.bytes, "{form:?} {which}: {}", of_index.bytes);
            }
        }
        assert!(with * 2 < without, "{form:?}: {with} of {without} bytes");
        let first = &deliver(&indexed, &col("id").lt(3), &columns).batches;
        assert_eq!(first["cell"].as_binary::<i64>().value(0), table["cell"].as_binary::<i32>().value(0));
    }
}

/// The Bloom filter of a row group is enough to know that no row has a value.
#[test]
fn a_bloom_filter_leaves_row_groups_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, FORMS[1], true);
    let nobody = deliver(&path, &col("text").eq(name(ROWS)), &["id"]);
    assert!(nobody.ids.is_empty());
    let all = deliver(&path, &col("text").not_eq(name(ROWS)), &["id"]);
    assert_eq!(all.ids.len(), (0..ROWS).filter(|row| !is_null(*row)).count());
    assert!(nobody.bytes * 4 < all.bytes, "{} of {}", nobody.bytes, all.bytes);
}

/// Two ranks that shuffle, with one lane or several, still get each selected row once.
#[test]
fn ranks_and_shuffles_read_pages_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, FORMS[0], true);
    let filter = col("id").lt(1_500) | col("id").gt_eq(58_800);
    for lanes in [1, 4] {
        let mut found = Vec::new();
        for rank in 0..2 {
            let loader = Dataset::open(&path)
                .unwrap()
                .loader()
                .columns(["id", "cell"])
                .filter(filter.clone())
                .shuffle(Shuffle::seeded(5).window_rows(300).lanes(lanes))
                .shard(forebay::Shard::new(rank, 2).unwrap())
                .batch_size(64)
                .build()
                .unwrap();
            for batch in loader.epoch(1) {
                let batch = batch.unwrap();
                let cells = batch["cell"].as_binary::<i64>();
                for (at, id) in batch["id"].as_primitive::<Int64Type>().values().iter().enumerate() {
                    assert_eq!(cells.value(at), noise(*id as u64 / 3 + 1, CELL));
                    found.push(*id);
                }
            }
        }
        found.sort_unstable();
        let want: Vec<i64> =
            (0..ROWS as i64).map(|row| row * 3).filter(|id| *id < 1_500 || *id >= 58_800).collect();
        assert_eq!(found, want);
    }
}

/// Each byte of the indexes is changed once: the rows are the same, or an error says that the file is
/// damaged.
#[test]
fn a_damaged_index_gives_the_same_rows_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, FORMS[0], true);
    let whole = fs::read(&path).unwrap();
    let dataset = Dataset::open(&path).unwrap();
    let footer =
        dataset.fold_footers(None, |found, _, _, footer| *found = Some(footer.clone())).unwrap().unwrap();
    let filter = col("id").lt(900);
    let want: Vec<i64> = (0..300).map(|row| row * 3).collect();
    let chunk = |column: usize| footer.row_group(0).column(column);
    let offsets = [0, 6].map(|column| chunk(column).offset_index_range().unwrap());
    let mut refused = 0;
    for at in offsets.into_iter().flatten() {
        for flip in [1, 0x10, 0xff] {
            let mut damaged = whole.clone();
            damaged[at as usize] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let dataset = Dataset::open(&path).unwrap();
            let loader = dataset.loader().columns(["id", "cell"]).filter(filter.clone()).threads(1).build();
            let rows = loader.and_then(|loader| {
                let batches = loader.epoch(0).collect::<forebay::Result<Vec<_>>>()?;
                Ok(batches
                    .iter()
                    .flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec())
                    .collect())
            });
            match rows {
                Ok::<Vec<i64>, _>(rows) => assert_eq!(rows, want, "{at} {flip}"),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}

/// A second start with the same filter does not read the columns of the filter again, unless the file was
/// rewritten or the kept rows are damaged.
#[test]
fn the_rows_of_a_filter_are_counted_once() {
    const MANY: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.parquet"), folder.path().join("kept"));
    let write = |seed: u64| {
        let values: Vec<i64> = noise(seed, 8 * MANY)
            .chunks(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()).rem_euclid(1000))
            .collect();
        let table = RecordBatch::try_from_iter([
            ("x", Arc::new(Int64Array::from(values.clone())) as ArrayRef),
            ("id", Arc::new(Int64Array::from_iter_values(0..MANY as i64)) as ArrayRef),
        ]);
        let table = table.unwrap();
        let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
        let mut writer =
            ArrowWriter::try_new(File::create(&path).unwrap(), table.schema(), Some(plain)).unwrap();
        writer.write(&table).unwrap();
        writer.close().unwrap();
        values
    };
    let start = |filter: Expr| {
        let options = [("metadata_cache".to_owned(), kept.to_str().unwrap().to_owned())].into();
        let dataset = Dataset::open_with_options(&path, &options).unwrap();
        let before = dataset.traffic().bytes_needed;
        let loader = dataset.loader().columns(["id"]).filter(filter).batch_size(1 << 16).build().unwrap();
        let needed = dataset.traffic().bytes_needed - before;
        let ids: Vec<i64> = loader
            .epoch(0)
            .flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec())
            .collect();
        (ids, needed)
    };
    let files = || fs::read_dir(&kept).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let below =
        |values: &[i64]| -> Vec<i64> { (0..MANY as i64).filter(|row| values[*row as usize] < 7).collect() };

    let values = write(1);
    let (first, second) = (start(col("x").lt(7)), start(col("x").lt(7)));
    assert_eq!((&first.0, &second.0), (&below(&values), &below(&values)));
    assert!(first.1 > 8 * MANY as u64 && second.1 == 0, "{} and {} bytes", first.1, second.1);
    let most = !col("x").in_list(vec![3i64, 5]);
    assert_eq!(start(most.clone()).0, start(most).0);
    assert_eq!(files().len(), 2);
    for file in files() {
        let mut damaged = fs::read(&file).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(file, damaged).unwrap();
    }
    let again = start(col("x").lt(7));
    assert!(again.0 == first.0 && again.1 > 8 * MANY as u64);
    let values = write(2);
    let rewritten = start(col("x").lt(7));
    assert!(rewritten.0 == below(&values) && rewritten.1 > 8 * MANY as u64);
    // The selected rows of a filter that costs little are not kept.
    let count = files().len();
    start(row_fraction(0.5, 1));
    start(col("id").lt(100));
    assert_eq!(files().len(), count);
}
