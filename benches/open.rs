//! Opens a folder of many small files, from the footers of the files and from the folder's index, on the
//! local disk and in a store 30 ms away.
//!
//!     cargo bench --bench open [-- FILES]
//!
//! The files have two row groups of 1,000 rows and ten columns of numbers. Each line is the median of three
//! turns; the metadata cache is off, and the local files are in the page cache. The server of the
//! store runs in this process, so its own work is part of both times.
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fault_server::{FaultServer, Latency, Link};
use forebay::Dataset;
use forebay::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use forebay::parquet::arrow::ArrowWriter;

const FILES: [usize; 2] = [1_000, 10_000];
const ROWS: i64 = 1_000;
const GROUPS: i64 = 2;
const COLUMNS: i64 = 10;
const LATENCY: Duration = Duration::from_millis(30);
const TURNS: usize = 3;

/// Writes a file whose values, and therefore statistics, differ from those in all other files.
fn write(path: &Path, at: i64) {
    let rows = |group: i64| {
        let columns = (0..COLUMNS).map(|column| {
            let base = (at * GROUPS + group) * ROWS;
            let values =
                (base..base + ROWS).map(|row| row.wrapping_mul(6_364_136_223_846_793_005 + 2 * column));
            (format!("feature_{column}"), Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)
        });
        RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).expect("columns of one length")
    };
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows(0).schema(), None).expect("a schema that is written");
    for group in 0..GROUPS {
        writer.write(&rows(group)).expect("rows");
        writer.flush().expect("a row group");
    }
    writer.close().expect("a footer");
}

/// Returns the median time of opening in seconds, and the requests that it took.
fn timed(open: impl Fn() -> Dataset) -> (f64, u64) {
    let mut turns: Vec<(f64, u64)> = (0..TURNS)
        .map(|_| {
            let began = Instant::now();
            let dataset = open();
            (began.elapsed().as_secs_f64(), dataset.traffic().requests)
        })
        .collect();
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    turns[TURNS / 2]
}

fn measure(files: usize) {
    let bucket = tempfile::tempdir().expect("a folder");
    (0..files).for_each(|at| write(&bucket.path().join(format!("part-{at:06}.parquet")), at as i64));
    let link = Link { first_byte: Some(Latency::constant(LATENCY)), ..Link::default() };
    let server = FaultServer::builder().folder("bucket", bucket.path()).link(link).start().expect("a port");
    let url = server.url();
    let local = |index: &str| open(bucket.path().to_str().expect("UTF-8"), &[("index", index)]);
    let remote = |index: &str| {
        let own = [
            ("aws_endpoint_url", url.as_str()),
            ("aws_access_key_id", "bench"),
            ("aws_secret_access_key", "bench"),
            ("aws_region", "us-east-1"),
            ("metadata_cache", "off"),
            ("index", index),
        ];
        open("s3://bucket/", &own)
    };
    let print = |place: &str, how: &str, (seconds, requests): (f64, u64)| {
        println!("{files:>7} {place:14} {how:10} {seconds:>9.3} s {requests:>8} requests");
    };
    let began = Instant::now();
    let report = local("on").write_index().expect("an index").remove(0);
    let (footers, bytes, took) = (report.footer_bytes, report.bytes, began.elapsed().as_secs_f64());
    println!("{files:>7} index of {bytes} bytes, {footers} of footers, written in {took:.3} s");
    print("local", "footers", timed(|| local("off")));
    print("local", "index", timed(|| local("on")));
    print("30 ms away", "footers", timed(|| remote("off")));
    // The index describes the versions of the files in the store from here on, and no longer those of the
    // local files.
    remote("on").write_index().expect("an index");
    print("30 ms away", "index", timed(|| remote("on")));
    fs::remove_dir_all(bucket.path()).expect("a folder of ours");
}

fn open(location: &str, options: &[(&str, &str)]) -> Dataset {
    let options: BTreeMap<String, String> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Dataset::open_with_options(location, &options).expect("the data set")
}

fn main() {
    let given: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    match given.as_slice() {
        [] => FILES.into_iter().for_each(measure),
        given => given.iter().copied().for_each(measure),
    }
}
