//! Tests of the whole cache. A test whose process must be killed, or must run out of a resource, starts a
//! separate process for that.

#![allow(clippy::print_stdout, reason = "a process that a test started tells it so what it did")]

mod counts;
mod damage;
mod faults;
mod flight;
mod folders;
mod in_use;
mod kills;
mod limit;
mod round_trip;
#[path = "../../../tests/house/skipped.rs"]
mod skipped;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use forebay_arrow::array::{AsArray, BinaryViewArray, Int64Array, RecordBatch};
use forebay_arrow::datatypes::{DataType, Field, Int64Type, Schema};
use tempfile::TempDir;

use self::skipped::skipped;
use super::*;

const ROWS: usize = 16;
/// The size of one blob in bytes: an entry of [`rows`] takes some 64 KiB.
const BLOB: usize = 4 << 10;
const PLENTY: u64 = 1 << 30;

/// The next number of the SplitMix64 generator.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("blob", DataType::BinaryView, false),
    ]))
}

fn key(group: u64) -> Key {
    Key::new("part-0.parquet", 1 << 20, "etag:1", group as usize, "all", &schema())
}

/// Random rows that differ from those of any other group.
fn rows(group: u64) -> RecordBatch {
    let mut seed = group;
    let mut blob = || -> Vec<u8> { (0..BLOB / 8).flat_map(|_| random(&mut seed).to_le_bytes()).collect() };
    let ids = Int64Array::from_iter_values((0..ROWS as i64).map(|row| group as i64 * 1000 + row));
    let blobs = BinaryViewArray::from_iter_values((0..ROWS).map(|_| blob()));
    RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(blobs)]).unwrap()
}

fn group_of(batch: &RecordBatch) -> u64 {
    (batch.column(0).as_primitive::<Int64Type>().value(0) / 1000) as u64
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("forebay-cache-").tempdir().unwrap()
}

fn open(folder: &TempDir, max_bytes: u64) -> DiskCache {
    DiskCache::open(folder.path(), max_bytes).unwrap()
}

/// Waits until the clock that dates the uses of entries has certainly moved on, then begins an epoch. (The
/// clock goes in steps of some milliseconds.)
fn epoch_begins(cache: &DiskCache) {
    nap(2 * space::CLOCK_STEP.as_millis() as u64);
    cache.epoch_begins();
}

/// All files below `folder`, with their lengths.
fn files(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(listed) = std::fs::read_dir(folder) else { continue };
        for entry in listed.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            match metadata.is_dir() {
                true => folders.push(entry.path()),
                false => found.push((entry.path(), metadata.len())),
            }
        }
    }
    found.sort();
    found
}

fn with_extension(folder: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let files = files(folder).into_iter().map(|(path, _)| path);
    files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// How often a randomised test is repeated: `few` times, or `many` times with `FOREBAY_LONG=1`.
fn times(few: u64, many: u64) -> u64 {
    if std::env::var_os("FOREBAY_LONG").is_some_and(|long| long == "1") { many } else { few }
}

/// Returns a command that runs only the ignored test `role` of this module, in a separate process.
fn process(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("cache::tests::{role}"), "--ignored", "--nocapture", "--test-threads=1"])
        .env("FOREBAY_TEST_FOLDER", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The folder that a process started by [`process`] gets for its cache.
fn given_folder() -> std::path::PathBuf {
    std::env::var_os("FOREBAY_TEST_FOLDER").expect("started by another test").into()
}

/// Kills a process that this test started, with SIGKILL.
fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn nap(millis: u64) {
    let (_send, receive) = std::sync::mpsc::channel::<()>();
    let _ = receive.recv_timeout(Duration::from_millis(millis));
}
