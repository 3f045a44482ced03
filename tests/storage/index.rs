//! The index of a folder: which footers are read with it, and what happens if it does not fit the files.

use std::fs;
use std::path::Path;

use fault_server::{Fault, FaultServer, Match, Operation};
use forebay::filter::{Op, Term};
use forebay::{Dataset, ErrorKind, Filter, OpenOptions};

use crate::data::{BUCKET, FILES, GROUPS, PREFIX, copy, rewrite};
use crate::kit::*;

const NAME: &str = "_forebay_index";

fn server_of(bucket: &Path) -> FaultServer {
    FaultServer::builder().folder("bucket", bucket).start().unwrap()
}

/// Opens the data set. Returns the number of objects that this reads, and the data set. Requests that an
/// earlier loader still had in progress do not count.
fn opened(server: &FaultServer, more: &[(&str, &str)]) -> (usize, Dataset) {
    settled(server);
    server.reset();
    let dataset = open(server, more).unwrap();
    assert_eq!(dataset.catalog().rows() as usize, crate::data::rows());
    (reads(server, dataset.traffic().hedges).len(), dataset)
}

#[test]
fn a_folder_with_an_index_opens_with_one_read() {
    let bucket = copy();
    let server = server_of(bucket.path());
    let (gets, dataset) = opened(&server, &[]);
    assert_eq!(gets, FILES);
    let [report] = &dataset.write_index().unwrap()[..] else { panic!("one folder") };
    assert_eq!(report.location, format!("s3://bucket/{PREFIX}/{NAME}"));
    assert_eq!((report.files, report.files_read), (FILES as u64, FILES as u64));
    let stored = fs::metadata(bucket.path().join(PREFIX).join(NAME)).unwrap().len();
    assert_eq!(report.bytes, stored);
    assert!(stored < report.footer_bytes, "{report:?}");

    let (gets, indexed) = opened(&server, &[]);
    assert_eq!(gets, 1);
    assert_eq!(indexed.catalog().fingerprint, dataset.catalog().fingerprint);
    assert_eq!(indexed.take_warning(), None);
    let came = run(shuffled(&indexed).build().unwrap().epoch(0));
    assert!(came.error.is_none() && came.batches == *ORACLE, "{:?}", came.error);
    assert_eq!(opened(&server, &[("index", "off")]).0, FILES, "switched off");

    // A glob below the same folder uses the index as well, but cannot write it.
    server.reset();
    let glob = format!("s3://bucket/{PREFIX}/part-00[0-3].parquet");
    let some = Dataset::open_with_options(glob, &options(&server, &[])).unwrap();
    assert_eq!((some.catalog().files.len(), reads(&server, some.traffic().hedges).len()), (4, 1));
    let refused = some.write_index().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("open the folder itself"), "{refused}");
}

#[test]
fn who_is_handed_an_index_reads_no_footer() {
    let bucket = copy();
    let server = server_of(bucket.path());
    let (_, plain) = opened(&server, &[]);
    let found = |open: OpenOptions| {
        settled(&server);
        server.reset();
        let dataset = open.storage_options(options(&server, &[])).open(url()).unwrap();
        assert_eq!(dataset.catalog().fingerprint, plain.catalog().fingerprint);
        (reads(&server, dataset.traffic().hedges).len(), dataset)
    };
    let (gets, first) = found(OpenOptions::new().hand_on(true));
    assert_eq!(gets, FILES);
    let index = first.index().unwrap();
    assert_eq!(
        reads(&server, first.traffic().hedges).len(),
        FILES,
        "the footers were kept as they were read"
    );
    settled(&server);
    server.reset();
    let again = plain.index().unwrap();
    assert_eq!(reads(&server, plain.traffic().hedges).len(), FILES, "here they were not");
    for bytes in [index.clone(), again] {
        let (gets, other) = found(OpenOptions::new().index(bytes));
        assert_eq!((gets, other.take_warning()), (0, None));
        // A filter looks for statistics in the footers, which it takes from the index. They have none, so the
        // row groups are read.
        let none = Filter::all_of([Term::new("id", Op::Less, -1i64)]);
        assert!(other.loader().columns(["id"]).filter(none).build().is_err(), "no row is selected");
        assert_eq!(reads(&server, other.traffic().hedges).len(), FILES * GROUPS);
        assert_eq!(other.index().unwrap().len(), index.len());
        let came = run(shuffled(&other).build().unwrap().epoch(0));
        assert!(came.error.is_none() && came.batches == *ORACLE, "{:?}", came.error);
    }

    rewrite(bucket.path(), 3);
    let (gets, plain) = opened(&server, &[]);
    let changed = |bytes| {
        settled(&server);
        server.reset();
        let open = OpenOptions::new().index(bytes).storage_options(options(&server, &[]));
        open.open(url()).map(|dataset| (reads(&server, dataset.traffic().hedges).len(), dataset))
    };
    let (read, dataset) = changed(index.clone()).unwrap();
    assert_eq!((gets, read), (FILES, 1), "a file that was written again is read");
    assert_eq!(dataset.catalog().fingerprint, plain.catalog().fingerprint);

    let mut flipped = index.clone();
    flipped[index.len() / 2] ^= 1;
    let cut = index[..index.len() - 1].to_vec();
    for (bytes, why) in [(flipped, "damaged"), (cut, "damaged"), (b"PAR1".to_vec(), "something else")] {
        let error = changed(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(why), "{error}");
    }
    let elsewhere = copy();
    let far = Dataset::open(elsewhere.path().join(PREFIX)).unwrap();
    let (read, dataset) = changed(far.index().unwrap()).unwrap();
    let warning = dataset.take_warning().unwrap();
    assert_eq!(read, FILES);
    assert!(warning.contains("none of these files in their present version"), "{warning}");
}

#[test]
fn only_files_that_are_new_are_read_beside_it() {
    let bucket = copy();
    let server = server_of(bucket.path());
    opened(&server, &[]).1.write_index().unwrap();
    rewrite(bucket.path(), 3);
    let (gets, dataset) = opened(&server, &[]);
    assert_eq!(gets, 2, "the index, and the file that was written again");
    let (without, plain) = opened(&server, &[("index", "off")]);
    assert_eq!(without, FILES);
    assert_eq!(dataset.catalog().fingerprint, plain.catalog().fingerprint);
    let batches = |dataset: &Dataset| run(shuffled(dataset).build().unwrap().epoch(0)).batches;
    assert!(batches(&dataset) == batches(&plain), "rows of the old writing");
    let report = dataset.write_index().unwrap().remove(0);
    assert_eq!((report.files, report.files_read), (FILES as u64, 1));
    assert_eq!(opened(&server, &[]).0, 1);
    fs::remove_file(bucket.path().join(PREFIX).join(crate::data::name_of(5))).unwrap();
    server.reset();
    let without = open(&server, &[]).unwrap();
    assert_eq!(without.catalog().files.len(), FILES - 1);
    assert_eq!(
        reads(&server, without.traffic().hedges).len(),
        1,
        "a file that is gone is not of the data set"
    );
}

#[test]
fn an_index_that_cannot_be_used_is_passed_over_with_a_warning() {
    let bucket = copy();
    let server = server_of(bucket.path());
    let (_, plain) = opened(&server, &[]);
    plain.write_index().unwrap();
    let path = bucket.path().join(PREFIX).join(NAME);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut newer = whole.clone();
    newer[7] = b'9';
    let cases: [(&[u8], &str); 5] = [
        (&flipped, "it is damaged"),
        (&whole[..whole.len() - 1], "it is damaged"),
        (&newer, "another version of forebay wrote it"),
        (b"id,label\n1,2\n", "it is something else"),
        (b"", "it is something else"),
    ];
    for (bytes, why) in cases {
        fs::write(&path, bytes).unwrap();
        let (_, dataset) = opened(&server, &[]);
        assert_eq!(dataset.catalog().fingerprint, plain.catalog().fingerprint);
        let warning = dataset.take_warning().unwrap();
        let start = format!("footers are read without the index: s3://bucket/{PREFIX}/{NAME}: {why}");
        assert!(warning.starts_with(&start), "{warning}");
        assert!(warning.contains("`forebay index`"), "{warning}");
        assert_eq!(dataset.take_warning(), None, "once");
    }
    // If nobody takes the warning from the data set, a loader has it.
    let (_, dataset) = opened(&server, &[]);
    let loader = shuffled(&dataset).build().unwrap();
    assert!(loader.take_warning().is_some_and(|warning| warning.contains("it is something else")));
    assert_eq!(loader.take_warning(), None);

    // An index that was copied from elsewhere describes none of these files.
    fs::write(&path, &whole).unwrap();
    for file in 0..FILES {
        rewrite(bucket.path(), file);
    }
    let (gets, dataset) = opened(&server, &[]);
    assert_eq!(gets, FILES + 1);
    let warning = dataset.take_warning().unwrap();
    assert!(warning.contains("no file of the folder is in it in its present version"), "{warning}");
}

#[test]
fn an_index_that_may_not_be_read_or_written_is_not_silent() {
    let bucket = copy();
    let server = server_of(bucket.path());
    let (_, dataset) = opened(&server, &[]);
    dataset.write_index().unwrap();
    server.add(Match::get().key_ends_with(NAME), Fault::status(403));
    let (_, reader) = opened(&server, &[]);
    let warning = reader.take_warning().unwrap();
    assert!(warning.contains("the store answered 403"), "{warning}");
    server.clear_rules();
    server.add(Match::operation(Operation::Put), Fault::status(403));
    let refused = dataset.write_index().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(refused.to_string().starts_with(&format!("s3://bucket/{PREFIX}/{NAME}: ")), "{refused}");
    server.clear_rules();
    server.add(Match::operation(Operation::Put).nth(0), Fault::status(503));
    dataset.write_index().unwrap();
}

#[test]
fn statistics_come_from_the_index_as_well() {
    let bucket = copy();
    let server = server_of(bucket.path());
    let gets = || {
        let (_, dataset) = opened(&server, &[]);
        server.reset();
        let nothing = Filter::all_of([Term::new("id", Op::Less, -1i64)]);
        let refused = dataset.loader().filter(nothing).build().unwrap_err();
        assert!(refused.to_string().contains("no row is selected"), "{refused}");
        reads(&server, dataset.traffic().hedges).len()
    };
    // The footers have no statistics, so all row groups are read as well.
    let groups = FILES * GROUPS;
    assert_eq!(gets(), groups + FILES);
    opened(&server, &[]).1.write_index().unwrap();
    assert_eq!(gets(), groups + 1);
}

#[test]
fn a_local_folder_has_an_index_too() {
    let bucket = copy();
    let folder = bucket.path().join(PREFIX);
    let plain = Dataset::open(folder.as_path()).unwrap();
    let report = plain.write_index().unwrap().remove(0);
    assert_eq!(Path::new(&report.location), folder.join(NAME));
    assert_eq!((report.files, report.files_read), (FILES as u64, FILES as u64));
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(names.len(), FILES + 1, "{names:?}");
    let requests = |dataset: &Dataset| dataset.traffic().requests;
    let indexed = Dataset::open(folder.as_path()).unwrap();
    assert_eq!((requests(&plain), requests(&indexed)), (FILES as u64 * 2, 1));
    assert_eq!(indexed.catalog().fingerprint, plain.catalog().fingerprint);
    rewrite(bucket.path(), 2);
    let changed = Dataset::open(folder.as_path()).unwrap();
    assert_eq!(requests(&changed), 2);
    let came = run(shuffled(&changed).build().unwrap().epoch(0));
    assert!(came.batches == local(bucket.path(), shuffled), "{:?}", came.error);

    // The copied files have other modification times, so the copied index is not used for them.
    let other = tempfile::tempdir().unwrap();
    for item in fs::read_dir(&folder).unwrap() {
        let item = item.unwrap();
        fs::copy(item.path(), other.path().join(item.file_name())).unwrap();
    }
    let copied = Dataset::open(other.path()).unwrap();
    assert!(copied.take_warning().is_some_and(|warning| warning.contains("in its present version")));
    assert_eq!(copied.catalog().fingerprint, changed.catalog().fingerprint);

    // There are two folders, each with its index.
    copied.write_index().unwrap();
    let both = Dataset::open([folder.as_path(), other.path()]);
    assert_eq!(requests(&both.unwrap()), 3, "two indexes, and the file that was written again");
    let named = Dataset::open(folder.join(crate::data::name_of(0)).as_path()).unwrap();
    assert_eq!(named.write_index().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!BUCKET.join(PREFIX).join(NAME).exists(), "the data of the other tests is left alone");
}
