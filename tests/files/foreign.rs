//! Parquet files by other writers, sound and damaged. Each has its expected outcome in `foreign.txt`.
//!
//! The files are not in this repository. `FOREBAY_TEST_DATA` names the folder with `parquet-testing` (from
//! github.com/apache/parquet-testing) and `petastorm-legacy` (from github.com/uber/petastorm); without it,
//! the test is skipped. `FOREBAY_OUTCOMES=file` writes the outcomes to a file in the form of the table.
//! `FOREBAY_TEXTS=folder` writes all values that were read, to compare them with another reader's.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay::Result;
use forebay::arrow::array::cast::AsArray;
use forebay::arrow::array::{Array, ArrayRef, RecordBatch};
use forebay::arrow::datatypes as types;
use forebay::arrow::datatypes::{ArrowPrimitiveType, DataType};
use forebay::rows::read_part;
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::source::{Store, open};
use xxhash_rust::xxh3::Xxh3;

use crate::skipped::skipped;

const FOLDERS: [&str; 2] = ["parquet-testing", "petastorm-legacy"];

/// The memory that decoding one row group of these small files may take, in bytes.
const LIMIT: u64 = 64 << 20;

/// The memory that an array takes beside its values, in its structures and the rounding of its buffers.
const ARRAY_OVERHEAD_BYTES: u64 = 4096;

/// The size of the largest file that is changed at random, in bytes.
const MAX_MUTANT_BYTES: u64 = 256 << 10;

/// The longest time that one file may take, and how often it may be tried, because other programs may hold up
/// a try.
const MAX_FILE_TIME: Duration = Duration::from_secs(10);
const TRIES: usize = 3;

/// Returns the outcome of reading a file. Panics with `name` if every try takes too long.
fn outcome_in_time(file: &Path, is_sound: bool, name: &str) -> String {
    let outcome = (0..TRIES).find_map(|_| {
        let start = Instant::now();
        let outcome = outcome(file, is_sound);
        (start.elapsed() < MAX_FILE_TIME).then_some(outcome)
    });
    outcome.unwrap_or_else(|| panic!("{name} took {MAX_FILE_TIME:?} in each of {TRIES} tries"))
}

#[test]
fn every_foreign_file_has_its_outcome() {
    let Some(data) = shared_data() else { return };
    let expected = table();
    let mut seen = BTreeMap::new();
    for folder in FOLDERS {
        for file in files_below(&data.join(folder)) {
            let name = file.strip_prefix(&data).unwrap().to_str().unwrap().to_owned();
            let outcome = outcome_in_time(&file, true, &name);
            seen.insert(name, outcome);
        }
    }
    if let Ok(path) = std::env::var("FOREBAY_OUTCOMES") {
        let lines: String = seen.iter().map(|(name, outcome)| format!("{name}  {outcome}\n")).collect();
        std::fs::write(path, lines).unwrap();
    }
    let names: BTreeSet<&String> = seen.keys().chain(expected.keys()).collect();
    let wrong: Vec<String> = names
        .into_iter()
        .filter(|name| !matches(seen.get(*name), expected.get(*name)))
        .map(|name| format!("{name}\n  want {:?}\n  got  {:?}", expected.get(name), seen.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The checksum covers a page's body; the header before it has none.
#[test]
fn a_flipped_bit_in_a_page_with_a_checksum_is_found() {
    const HEADER: usize = 64;
    const STEP: usize = 53;
    let Some(data) = shared_data() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut flips = 0;
    for name in ["datapage_v1-uncompressed-checksum", "datapage_v1-snappy-compressed-checksum"] {
        let path = data.join(format!("parquet-testing/data/{name}.parquet"));
        let location = path.to_str().unwrap().to_owned();
        let (store, catalog) = runtime.block_on(open(&[location], &BTreeMap::new())).unwrap();
        for field in catalog.schema.fields() {
            let column = catalog.project(&[field.name()]).unwrap();
            let range = catalog.byte_ranges(&catalog.groups[0], &column).unwrap().remove(0);
            let bytes = runtime
                .block_on(store.read_ranges(&catalog.files[0], std::slice::from_ref(&range)))
                .unwrap()
                .remove(0);
            let sound =
                read_part(&catalog, &column, 0, None, vec![(range.clone(), bytes.clone())], LIMIT).unwrap();
            for at in (HEADER..bytes.len()).step_by(STEP) {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << (at % 8);
                match read_part(&catalog, &column, 0, None, vec![(range.clone(), flipped.into())], LIMIT) {
                    Ok(rows) => assert_eq!(rows, sound, "{name} {at}"),
                    Err(error) => {
                        assert_eq!(error.place().column.as_deref(), Some(field.name().as_str()), "{error}");
                        flips += 1;
                    }
                }
            }
        }
    }
    assert!(flips > 500, "{flips}");
}

/// Files with a few random changes give rows or an error with its kind, in little time and memory.
fn mutants(count: u64) {
    let Some(data) = shared_data() else { return };
    let files = FOLDERS.iter().flat_map(|folder| files_below(&data.join(folder)));
    let mut files: Vec<PathBuf> =
        files.filter(|file| (1..MAX_MUTANT_BYTES).contains(&file.metadata().unwrap().len())).collect();
    files.sort();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("mutant.parquet");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for mutant in 0..count {
        let file = &files[next() % files.len()];
        let mut bytes = std::fs::read(file).unwrap();
        // Half of the changes are in the last bytes, where the footer is.
        let from = if next() % 2 == 0 { bytes.len() - bytes.len().min(2_000) } else { 0 };
        for _ in 0..=next() % 4 {
            let at = from + next() % (bytes.len() - from);
            bytes[at] = if next() % 2 == 0 { next() as u8 } else { bytes[at] ^ (1 << (next() % 8)) };
        }
        if next() % 16 == 0 {
            bytes.truncate(next() % bytes.len());
        }
        std::fs::write(&path, &bytes).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let outcome = outcome_in_time(&path, false, &format!("mutant {mutant} of {name}"));
        assert!(!outcome.contains("Internal"), "mutant {mutant} of {name}: {outcome}");
    }
}

#[test]
fn mutants_of_foreign_files_give_rows_or_an_error() {
    mutants(500);
}

#[test]
#[ignore = "takes minutes; run it alone"]
fn ten_thousand_mutants_of_foreign_files_give_rows_or_an_error() {
    mutants(10_000);
}

/// Whether an outcome is the expected one: rows must be equal, and a refusal must contain the expected text.
fn matches(seen: Option<&String>, expected: Option<&String>) -> bool {
    match (seen, expected) {
        (Some(seen), Some(expected)) => {
            match (seen.strip_prefix("refused: "), expected.strip_prefix("refused: ")) {
                (Some(sentence), Some(part)) => sentence.contains(part),
                _ => seen == expected,
            }
        }
        _ => false,
    }
}

fn table() -> BTreeMap<String, String> {
    include_str!("foreign.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once("  ").unwrap_or_else(|| panic!("no outcome in {line:?}")))
        .map(|(name, outcome)| (name.to_owned(), outcome.trim().to_owned()))
        .collect()
}

fn shared_data() -> Option<PathBuf> {
    let folder = match std::env::var_os("FOREBAY_TEST_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
    };
    let folder =
        folder.canonicalize().ok().filter(|data| FOLDERS.iter().all(|name| data.join(name).is_dir()));
    if folder.is_none() {
        skipped("FOREBAY_TEST_DATA has no files of other writers");
    }
    folder
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// The number of rows and columns and a hash of all values in readable columns, or the sentence of the
/// refusal.
fn outcome(file: &Path, is_sound: bool) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let location = file.to_str().unwrap().to_owned();
    let (store, catalog) = match runtime.block_on(open(&[location], &BTreeMap::new())) {
        Ok(opened) => opened,
        Err(error) => return format!("refused: {:?}: {}", error.kind(), error.cause()),
    };
    let (mut read, mut refused) = (Vec::new(), String::new());
    for field in catalog.schema.fields() {
        let column = catalog.project(&[field.name()]);
        match column.and_then(|column| text(&runtime, &store, &catalog, &column, is_sound)) {
            Ok(text) => read.push((field.name(), text)),
            Err(error) => _ = write!(refused, "; {}: {:?}: {}", field.name(), error.kind(), error.cause()),
        }
    }
    let mut hash = Xxh3::new();
    for (name, text) in &read {
        hash.update(name.as_bytes());
        hash.update(text.as_bytes());
    }
    if let Ok(folder) = std::env::var("FOREBAY_TEXTS") {
        let folder = Path::new(&folder).join(file.strip_prefix("/").unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &read {
            std::fs::write(folder.join(name.replace('/', "_")), text).unwrap();
        }
    }
    let rows = catalog.rows();
    let columns = read.len();
    format!("rows={rows} cols={columns} hash={:016x}{refused}", hash.digest())
}

/// All values of a column, one on each line.
fn text(
    runtime: &tokio::runtime::Runtime,
    store: &Store,
    catalog: &Catalog,
    column: &Projection,
    is_sound: bool,
) -> Result<String> {
    let mut text = String::new();
    for (index, group) in catalog.groups.iter().enumerate() {
        let ranges = catalog.byte_ranges(group, column)?;
        let bytes = runtime.block_on(store.read_ranges(&catalog.files[group.file], &ranges))?;
        let chunks = ranges.into_iter().zip(bytes).collect();
        let batch: RecordBatch = read_part(catalog, column, index, None, chunks, LIMIT)?;
        assert_eq!(&batch.schema(), column.schema());
        assert_eq!(batch.num_rows() as u64, group.rows);
        let array = batch.column(0);
        let (held, taken) = (catalog.held_bytes(group, column), array.get_array_memory_size() as u64);
        // A damaged footer leads to a wrong estimate, but the limit still holds.
        let foreseen = if is_sound { held } else { LIMIT };
        assert!(
            taken <= 2 * foreseen + ARRAY_OVERHEAD_BYTES,
            "{foreseen} bytes were foreseen, {taken} taken"
        );
        for row in 0..batch.num_rows() {
            value(&mut text, array, row);
            text.push('\n');
        }
    }
    Ok(text)
}

/// Writes a value in a form that another program can write too: numbers as they are stored, floats and bytes
/// in hexadecimal.
fn value(out: &mut String, array: &ArrayRef, row: usize) {
    if array.is_null(row) {
        out.push_str("null");
        return;
    }
    let hex = |out: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
    match array.data_type() {
        DataType::Boolean => _ = write!(out, "{}", array.as_boolean().value(row)),
        DataType::Int8 => number::<types::Int8Type>(out, array, row),
        DataType::Int16 => number::<types::Int16Type>(out, array, row),
        DataType::Int32 => number::<types::Int32Type>(out, array, row),
        DataType::Int64 => number::<types::Int64Type>(out, array, row),
        DataType::UInt8 => number::<types::UInt8Type>(out, array, row),
        DataType::UInt16 => number::<types::UInt16Type>(out, array, row),
        DataType::UInt32 => number::<types::UInt32Type>(out, array, row),
        DataType::UInt64 => number::<types::UInt64Type>(out, array, row),
        DataType::Float16 => {
            _ = write!(out, "{:04x}", array.as_primitive::<types::Float16Type>().value(row).to_bits());
        }
        DataType::Float32 => {
            _ = write!(out, "{:08x}", array.as_primitive::<types::Float32Type>().value(row).to_bits());
        }
        DataType::Float64 => {
            _ = write!(out, "{:016x}", array.as_primitive::<types::Float64Type>().value(row).to_bits());
        }
        DataType::Decimal128(..) => number::<types::Decimal128Type>(out, array, row),
        DataType::Date32 | DataType::Time32(_) => {
            let data = array.to_data();
            _ = write!(out, "{}", data.buffer::<i32>(0)[row]);
        }
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            let data = array.to_data();
            _ = write!(out, "{}", data.buffer::<i64>(0)[row]);
        }
        DataType::Utf8View => hex(out, array.as_string_view().value(row).as_bytes()),
        DataType::BinaryView => hex(out, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => hex(out, array.as_fixed_size_binary().value(row)),
        DataType::List(_) => items(out, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => items(out, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => items(out, &array.as_fixed_size_list().value(row)),
        DataType::Map(..) => items(out, &(std::sync::Arc::new(array.as_map().value(row)) as ArrayRef)),
        DataType::Struct(fields) => {
            out.push('{');
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                _ = write!(out, "{}: ", field.name());
                value(out, column, row);
                out.push(' ');
            }
            out.push('}');
        }
        DataType::Null => out.push_str("null"),
        other => panic!("no form for {other}"),
    }
}

fn number<T: ArrowPrimitiveType>(out: &mut String, array: &ArrayRef, row: usize)
where
    T::Native: std::fmt::Display,
{
    _ = write!(out, "{}", array.as_primitive::<T>().value(row));
}

fn items(out: &mut String, items: &ArrayRef) {
    out.push('[');
    for row in 0..items.len() {
        value(out, items, row);
        out.push(' ');
    }
    out.push(']');
}
