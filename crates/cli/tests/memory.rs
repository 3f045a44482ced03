//! Tests that the resident memory of a process stays within the memory budget. The memory is read from the
//! system, not from the loader's own counters.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a helper of a test stops it, waits and tells"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forebay::arrow::array::*;
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use forebay::filter::{Op, Term};
use forebay::{Dataset, Filter, Image, Shuffle};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use tempfile::TempDir;

/// The allocator of the program and of the wheel.
#[global_allocator]
static ALLOCATOR: forebay_cli::Allocator = forebay_cli::ALLOCATOR;

const MIB: u64 = 1 << 20;

/// The documented number of bytes that a loader may take in addition to its budget.
const BESIDE: u64 = 150 * MIB;

/// The number of bytes that the metadata of an opened file may take, for a file with 200 columns and one row
/// group.
const FILE: u64 = 2_500;

/// The environment variable that tells the child process which kind of data set (shape) it reads, with which
/// memory budget, and from which folder.
const TASK: &str = "FOREBAY_MEMORY_TEST";

/// A field of `/proc/self/status`, in bytes.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// Reads two epochs of a data set in a child process. Returns the largest growth of that process's memory, in
/// bytes.
fn resident(shape: &str, dir: &Path, memory: u64) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reads_two_epochs", "--ignored", "--nocapture"])
        .env(TASK, format!("{shape}|{memory}|{}", dir.display()))
        .envs((shape == "files").then_some(("MIMALLOC_PURGE_DELAY", "0")))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let taken = said.lines().find_map(|line| line.strip_prefix("taken "));
    let taken = taken.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    taken.parse().unwrap()
}

#[test]
#[ignore = "run by the others, as a process of its own"]
fn reads_two_epochs() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [shape, memory, dir] = task.splitn(3, '|').collect::<Vec<_>>()[..] else { panic!("{task}") };
    forebay_cli::settle();
    let before = status("VmRSS");
    let dataset = Dataset::open(dir).unwrap();
    if shape == "files" {
        let files = dataset.catalog().files.len() as u64;
        assert!(dataset.catalog().bytes() <= files * FILE, "{}", dataset.catalog().bytes() / files);
        println!("\ntaken {}", status("VmRSS").saturating_sub(before));
        return;
    }
    let loader = dataset.loader().memory(memory.parse().unwrap()).threads(2);
    let shuffled = Shuffle::seeded(1);
    let loader = match shape {
        "images" => loader
            .decode("image", Image::random_resized_crop(224).flip())
            .batch_size(32)
            .shuffle(shuffled.window_rows(200)),
        "images on many threads" => loader
            .threads(16)
            .decode("image", Image::random_resized_crop(224))
            .batch_size(64)
            .shuffle(shuffled.window_rows(100)),
        "tiny images" => {
            loader.decode("image", Image::resize(32, 32)).batch_size(128).shuffle(shuffled.window_rows(4_000))
        }
        "table" => loader.batch_size(8_192).shuffle(shuffled.window_rows(65_536)),
        "filter" => loader
            .filter(Filter::all_of([Term::new("number", Op::Less, 0i64)]))
            .batch_size(8_192)
            .shuffle(shuffled.window_rows(200_000)),
        "tokens" => loader.batch_size(16).shuffle(shuffled.window_rows(1_000)),
        "texts" => loader.batch_size(64).shuffle(shuffled),
        "cells" => loader.batch_size(64),
        _ => loader.batch_size(8_192).shuffle(shuffled),
    };
    let loader = loader.build().unwrap();
    for _ in 0..2 {
        for batch in loader.next_epoch() {
            assert!(batch.unwrap().num_rows() > 0);
            if shape == "texts" {
                // Stands for a step of training.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let mut line = String::from("\n");
    writeln!(line, "taken {}", status("VmHWM").saturating_sub(before)).unwrap();
    print!("{line}");
}

/// Fails if reading the data set in `dir` takes more memory than the budget `memory` plus `BESIDE`.
fn holds(shape: &str, dir: &TempDir, memory: u64) {
    let taken = resident(shape, dir.path(), memory);
    let (most, taken) = ((memory + BESIDE) / MIB, taken / MIB);
    assert!(taken <= most, "{shape}: {taken} MiB, where {most} are stated");
}

fn written(
    rows: usize,
    of_group: usize,
    fields: Vec<Field>,
    properties: WriterPropertiesBuilder,
    columns: impl Fn(usize, usize) -> Vec<ArrayRef>,
) -> TempDir {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(fields));
    let properties = properties.set_max_row_group_row_count(Some(of_group)).build();
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    for begin in (0..rows).step_by(of_group) {
        let columns = columns(begin, of_group.min(rows - begin));
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
    }
    writer.close().unwrap();
    dir
}

/// Numbers that look random.
fn noise(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false)
}

/// A data set of images that cycle through `distinct` pictures.
fn pictures(rows: usize, of_group: usize, (width, height): (u32, u32), distinct: usize) -> TempDir {
    let pictures: Vec<Vec<u8>> = (0..distinct)
        .map(|picture| {
            let pixels: Vec<u8> = (0..(width * height * 3) as usize)
                .map(|at| (at / 97 % 251) as u8 ^ (noise(picture << 32 | at) >> 60) as u8)
                .collect();
            forebay_image::encode_jpeg(&pixels, width, height, 90).unwrap()
        })
        .collect();
    written(rows, of_group, vec![Field::new("image", DataType::Binary, false)], plain(), |begin, rows| {
        let images = (begin..begin + rows).map(|row| &pictures[row % distinct]);
        vec![Arc::new(BinaryArray::from_iter_values(images))]
    })
}

fn numbers(rows: usize, of_group: usize) -> TempDir {
    written(rows, of_group, vec![Field::new("number", DataType::Int32, false)], plain(), |begin, rows| {
        vec![Arc::new(Int32Array::from_iter_values((begin..begin + rows).map(|row| noise(row) as i32)))]
    })
}

/// Opens one file under 10,000 names. The memory that is allowed for each keeps 100,000 such files below 300
/// MiB.
#[test]
fn many_files_of_many_columns_take_little() {
    const FILES: u64 = 10_000;
    // The memory of threads, and of footers while they are parsed. It does not include free memory that the
    // allocator keeps, because only a loader's budget limits that memory.
    const ONCE: u64 = 32 * MIB;
    let fields: Vec<Field> =
        (0..200).map(|at| Field::new(format!("c{at}"), DataType::Int32, at < 100)).collect();
    let dir = written(2_000, 2_000, fields, WriterProperties::builder(), |begin, rows| {
        let column = |at: usize| (begin..begin + rows).map(move |row| (noise(row * 200 + at) % 500) as i32);
        (0..200).map(|at| Arc::new(Int32Array::from_iter_values(column(at))) as ArrayRef).collect()
    });
    for file in 1..FILES {
        let name = format!("part-{file:05}-of-{FILES:05}.parquet");
        std::fs::hard_link(dir.path().join("a.parquet"), dir.path().join(name)).unwrap();
    }
    let (taken, most) = (resident("files", dir.path(), 0), FILES * FILE + ONCE);
    assert!(taken <= most, "{taken} bytes, where {most} are stated");
}

#[test]
fn photographs_stay_within_the_budget() {
    holds("images", &pictures(600, 50, (500, 375), 4), 96 * MIB);
}

#[test]
fn photographs_on_many_threads_stay_within_the_budget() {
    holds("images on many threads", &pictures(600, 100, (1200, 900), 4), 192 * MIB);
}

#[test]
fn lists_of_structures_stay_within_the_budget() {
    const ITEMS: usize = 6;
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int32, true),
        Field::new("name", DataType::Utf8, true),
    ]);
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), true));
    let column = vec![Field::new("x", DataType::List(item.clone()), true)];
    let lists = written(300_000, 300_000, column, WriterProperties::builder(), |begin, rows| {
        let items = begin * ITEMS..(begin + rows) * ITEMS;
        let numbers = Int32Array::from_iter_values(items.clone().map(|at| noise(at) as i32));
        let name = |at: usize| format!("name-{}-{}", at % 1_000, "z".repeat(at % 37));
        let names = StringArray::from_iter_values(items.map(name));
        let structs =
            StructArray::new(fields.clone(), vec![Arc::new(numbers) as ArrayRef, Arc::new(names)], None);
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(ITEMS, rows));
        vec![Arc::new(ListArray::new(item.clone(), offsets, Arc::new(structs), None))]
    });
    holds("structures", &lists, named(&lists, 32 * MIB));
}

#[test]
fn tiny_images_stay_within_the_budget() {
    holds("tiny images", &pictures(20_000, 2_000, (32, 32), 50), 32 * MIB);
}

#[test]
fn tables_stay_within_the_budget() {
    let fields: Vec<Field> =
        (0..40).map(|at| Field::new(format!("c{at}"), DataType::Int32, at < 13)).collect();
    let table = written(400_000, 20_000, fields, plain(), |begin, rows| {
        let column = |at: usize| -> ArrayRef {
            Arc::new(Int32Array::from_iter((begin..begin + rows).map(|row| {
                let value = noise(row * 40 + at);
                (at >= 13 || !value.is_multiple_of(5)).then_some(value as i32)
            })))
        };
        (0..40).map(column).collect()
    });
    holds("table", &table, 64 * MIB);
}

#[test]
fn token_lists_stay_within_the_budget() {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let fields = vec![Field::new("tokens", DataType::List(item), false)];
    let tokens = written(8_000, 500, fields, plain(), |begin, rows| {
        let list = |row: usize| Some((0..2_048).map(move |at| Some(noise(row * 2_048 + at) as i32 & 0xffff)));
        vec![Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((begin..begin + rows).map(list)))]
    });
    holds("tokens", &tokens, 48 * MIB);
}

#[test]
fn filtered_rows_stay_within_the_budget() {
    holds("filter", &numbers(6_000_000, 500_000), 64 * MIB);
}

#[test]
fn texts_that_a_dictionary_repeats_stay_within_the_budget() {
    let texts: Vec<String> = (0..8)
        .map(|text| {
            (0..100_000).map(|at| (b'a' + (noise(text << 32 | at) >> 59) as u8 % 26) as char).collect()
        })
        .collect();
    for statistics in [
        parquet::file::properties::EnabledStatistics::Page,
        parquet::file::properties::EnabledStatistics::None,
    ] {
        // Without statistics, the footer does not say how long the texts are.
        let properties = WriterProperties::builder().set_statistics_enabled(statistics);
        let fields = vec![Field::new("prompt", DataType::Utf8, false)];
        let prompts = written(12_000, 3_000, fields, properties, |begin, rows| {
            let rows = (begin..begin + rows).map(|row| texts[noise(row) as usize % 8].as_str());
            vec![Arc::new(StringArray::from_iter_values(rows))]
        });
        holds("texts", &prompts, 64 * MIB);
    }
}

#[test]
fn lists_of_narrow_rows_stay_within_the_budget() {
    holds("narrow", &numbers(12_000_000, 1_000_000), 128 * MIB);
}

/// Properties of a file whose row groups have one page for all rows, which is decompressed as a whole.
fn one_page(compression: Compression) -> WriterPropertiesBuilder {
    plain()
        .set_compression(compression)
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(1 << 30)
        .set_write_batch_size(1 << 30)
}

#[test]
fn one_page_of_large_cells_stays_within_the_budget() {
    const CELL: usize = 4 << 10;
    for (compression, rows) in [(Compression::UNCOMPRESSED, 16_500), (Compression::SNAPPY, 27_000)] {
        let fields = vec![Field::new("cell", DataType::FixedSizeBinary(CELL as i32), true)];
        let cells = written(rows, rows, fields, one_page(compression), |begin, rows| {
            let cell = |row: usize| (!row.is_multiple_of(3)).then(|| vec![row as u8; CELL]);
            let cells = (begin..begin + rows).map(cell);
            vec![Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, CELL as i32).unwrap())]
        });
        holds("cells", &cells, 64 * MIB);
    }
}

/// A page of numbers is in memory beside its rows while it is decompressed, so the row group takes twice the
/// memory of its rows.
#[test]
fn one_page_of_numbers_stays_within_the_budget_or_is_refused() {
    let fields = || vec![Field::new("number", DataType::Int64, false)];
    let numbers = |rows: usize| {
        written(rows, rows, fields(), one_page(Compression::SNAPPY), |begin, rows| {
            vec![Arc::new(Int64Array::from_iter_values((begin..begin + rows).map(|row| row as i64 % 1_000)))]
        })
    };
    holds("numbers", &numbers(5_500_000), 64 * MIB);
    let large = numbers(12_000_000);
    let refused = Dataset::open(large.path()).unwrap().loader().memory(64 * MIB).batch_size(64).build();
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("to fetch and to decode") && refused.contains("raise memory"), "{refused}");
}

/// The smallest sufficient budget, in bytes, which the error names when a budget of `memory` bytes is
/// refused.
fn named(dir: &TempDir, memory: u64) -> u64 {
    let loader = Dataset::open(dir.path()).unwrap().loader().memory(memory).batch_size(8_192);
    let refused = loader.shuffle(Shuffle::seeded(1)).build().err().unwrap().to_string();
    assert!(refused.contains("to fetch, to decode and to shuffle"), "{refused}");
    let (_, words) = refused.split_once("raise memory to ").unwrap();
    let (number, _) = words.split_once(" MiB").unwrap_or_else(|| panic!("{refused}"));
    (number.parse::<f64>().unwrap() * MIB as f64).ceil() as u64
}

/// The order in which a row group is delivered takes four bytes for each row, which is more than narrow rows
/// take. Besides, a column is in memory twice while it is brought into that order.
#[test]
fn a_large_row_group_is_shuffled_within_the_budget_or_refused() {
    let of = |rows: usize, data_type: DataType, column: fn(std::ops::Range<usize>) -> ArrayRef| {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let fields = vec![Field::new("value", data_type, false)];
        written(rows, rows, fields, properties, |begin, rows| vec![column(begin..begin + rows)])
    };
    let flags = of(25_000_000, DataType::Boolean, |rows| {
        Arc::new(BooleanArray::from(rows.map(|row| noise(row) >> 63 == 1).collect::<Vec<_>>()))
    });
    let small = of(25_000_000, DataType::Int8, |rows| {
        Arc::new(Int8Array::from_iter_values(rows.map(|row| (noise(row) >> 58) as i8)))
    });
    let large = of(10_000_000, DataType::Int64, |rows| {
        Arc::new(Int64Array::from_iter_values(rows.map(|row| (noise(row) >> 54) as i64)))
    });
    for data in [flags, small, large] {
        holds("shuffled", &data, named(&data, 32 * MIB));
    }
}

/// In this file one page holds all bytes of its column. The plan must count these bytes only once.
#[test]
fn a_plan_counts_the_bytes_to_read_once() {
    let fields = vec![Field::new("number", DataType::Int64, false)];
    let numbers = written(2_000_000, 2_000_000, fields, one_page(Compression::SNAPPY), |begin, rows| {
        vec![Arc::new(Int64Array::from_iter_values((begin..begin + rows).map(|row| noise(row) as i64)))]
    });
    let size = std::fs::metadata(numbers.path().join("a.parquet")).unwrap().len();
    let plan = Dataset::open(numbers.path()).unwrap().loader().batch_size(64).plan(0).unwrap();
    let stored = plan.reads.unwrap().stored_bytes;
    assert!(stored <= size, "{stored} bytes of a file of {size}");
}
