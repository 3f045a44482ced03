//! Writes a data set in a store to another place of the same store.

use std::fs;
use std::sync::Arc;

use fault_server::{Fault, FaultServer, Match, Operation};
use forebay::arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use forebay::repack::{Repack, RepackOptions};
use forebay::{Dataset, ErrorKind};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::data::{FILES, PREFIX, copy, name_of};
use crate::kit::*;

const OUT: &str = "s3://bucket/written";

fn of_payload(server: &FaultServer) -> RepackOptions {
    RepackOptions {
        from: url(),
        form: Repack::Pack { beside: false },
        columns: Some(vec!["payload".into()]),
        threads: Some(1),
        storage: options(server, &[]),
    }
}

#[test]
fn a_store_that_fails_now_and_then_gets_every_row() {
    let bucket = copy();
    let server = FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let dataset = open(&server, &[]).unwrap();
    server.add(Match::operation(Operation::Put).nth(1), Fault::status(503));
    server.add(Match::request().probability(0.05), Fault::status(500));
    let mut rows = 0;
    let report = dataset.repack(OUT, &of_payload(&server), |more| rows += more).unwrap();
    assert_eq!((report.files, report.rows, rows), (FILES as u64, dataset.rows(), dataset.rows()));
    assert_eq!((report.columns[0].changed, report.columns[0].kept), (0, dataset.rows()), "noise is no image");
    assert!(bucket.path().join("written").join(name_of(0)).exists());
    let written = Dataset::open_with_options(OUT, &options(&server, &[])).unwrap();
    run(shuffled(&written).build().unwrap().epoch(0)).is_right("written again");

    let inside = dataset.repack(&format!("{}packed", url()), &of_payload(&server), |_| {}).unwrap_err();
    assert!(inside.to_string().contains("inside the data set"), "{inside}");
    let again = dataset.repack(OUT, &of_payload(&server), |_| {}).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Invalid);
    assert!(again.to_string().contains("bucket/written: the folder is not empty"), "{again}");
}

#[test]
fn a_file_that_changes_meanwhile_and_a_store_that_refuses_are_errors_with_their_place() {
    let bucket = copy();
    let server = FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let dataset = open(&server, &[]).unwrap();
    crate::data::rewrite(bucket.path(), 2);
    let error = dataset.repack(OUT, &of_payload(&server), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DatasetChanged, "{error}");
    assert!(error.to_string().contains(&format!("s3://bucket/{PREFIX}/{}", name_of(2))), "{error}");
    fs::remove_dir_all(bucket.path().join("written")).unwrap();

    server.add(Match::operation(Operation::Put), Fault::status(403));
    let dataset = open(&server, &[]).unwrap();
    let error = dataset.repack(OUT, &of_payload(&server), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(&format!("{OUT}/{}", name_of(0))), "{error}");
}

/// A file is read in blocks of 8 MiB while its columns are copied.
#[test]
fn a_column_of_many_blocks_is_copied_whole() {
    const MIB: u64 = 1 << 20;
    const ROWS: u64 = 20;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let value = |row: u64| (0..MIB / 8).flat_map(move |at| draw(row, at).to_le_bytes()).collect::<Vec<u8>>();
    let columns: [(&str, ArrayRef); 2] = [
        ("long", Arc::new(BinaryArray::from_iter_values((0..ROWS).map(value)))),
        ("payload", Arc::new(BinaryArray::from_iter((0..ROWS).map(|row| (row % 4 > 0).then_some([7]))))),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = fs::File::create(from.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let options = RepackOptions {
        from: from.path().display().to_string(),
        form: Repack::Pack { beside: false },
        columns: Some(vec!["payload".into()]),
        threads: Some(1),
        storage: Default::default(),
    };
    let mut done = Vec::new();
    let dataset = Dataset::open(from.path()).unwrap();
    let out = to.path().join("written");
    let report = dataset.repack(out.to_str().unwrap(), &options, |rows| done.push(rows)).unwrap();
    assert_eq!((report.columns[0].nulls, report.columns[0].kept), (ROWS / 4, ROWS - ROWS / 4));
    assert_eq!(done, [ROWS], "the rows of each row group are told");
    let written = Dataset::open(out.as_path()).unwrap().loader().batch_size(1).build().unwrap();
    for (row, batch) in written.epoch(0).enumerate() {
        assert!(batch.unwrap()["long"].as_binary::<i64>().value(0) == value(row as u64), "row {row}");
    }
}
