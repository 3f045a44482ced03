//! Lists of a store: a missing page is never taken for the end of a data set.

use std::collections::BTreeMap;
use std::fs;

use fault_server::{Fault, FaultServer, ListFault, Match, Operation};
use forebay::{Dataset, Error, ErrorKind};

use crate::data::{BUCKET, FILES, PREFIX, name_of, rows};
use crate::kit::*;

/// A server whose lists have several pages, because each has only 3 keys.
fn paging() -> FaultServer {
    serving().page(3).start().unwrap()
}

fn rows_of(dataset: Result<Dataset, Error>, case: &str) -> u64 {
    dataset.unwrap_or_else(|error| panic!("{case}: {error}")).catalog().rows()
}

#[test]
fn a_page_that_cannot_be_relied_on_is_asked_for_again() {
    for page in [ListFault::NoToken, ListFault::Silent, ListFault::CutOff] {
        for nth in 1..=2 {
            let server = paging();
            server.add(Match::list().key_contains(PREFIX).nth(nth), Fault::List { page });
            let case = format!("{page:?}, page {nth}");
            assert_eq!(rows_of(open(&server, &[]), &case), rows() as u64, "{case}");
            assert_eq!(server.stats().faults, 1, "{case}");
        }
    }
}

#[test]
fn a_list_that_never_says_whether_it_is_over_is_an_error() {
    for (page, words) in [
        (ListFault::NoToken, "is truncated, without a token to continue"),
        (ListFault::Silent, "does not say whether it is complete"),
        (ListFault::CutOff, "is cut off"),
        (ListFault::SameToken, "does not end"),
    ] {
        let server = paging();
        server.add(Match::list().key_contains(PREFIX), Fault::List { page });
        let error = open(&server, &[]).unwrap_err();
        println!("{page:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().starts_with(url().trim_end_matches('/')), "{error}");
        assert!(error.to_string().contains("check the endpoint"), "{error}");
    }
}

#[test]
fn a_page_without_keys_is_not_the_end() {
    let server = paging();
    let dataset = open(&server, &[]).unwrap();
    assert_eq!(dataset.catalog().files.len(), FILES);
    // The keys of that page are lost; the keys of later pages are not.
    server.add(Match::list().key_contains(PREFIX).nth(1), Fault::List { page: ListFault::NoKeys });
    assert_eq!(open(&server, &[]).unwrap().catalog().files.len(), FILES - 3);
}

#[test]
fn a_list_resumes_with_its_token_at_the_page_that_failed() {
    let server = paging();
    server.add(Match::list().key_contains(PREFIX).nth(2), Fault::status(500));
    server.add(Match::list().key_contains(PREFIX).nth(4), Fault::ShortContentLength);
    assert_eq!(rows_of(open(&server, &[]), "500 and cut"), rows() as u64);
    let lists = server
        .log()
        .iter()
        .filter(|asked| asked.operation == Operation::List && asked.key.contains(PREFIX))
        .count();
    // There are three pages, of which two were requested twice.
    assert_eq!(lists, 5);
}

/// Opens a location below `bucket`, in the store and as a plain web server.
fn opened(server: &FaultServer, location: &str) -> Result<Dataset, Error> {
    match location.starts_with("http") {
        true => {
            Dataset::open_with_options(location, &BTreeMap::from([("metadata_cache".into(), "off".into())]))
        }
        false => Dataset::open_with_options(location, &options(server, &[])),
    }
}

#[test]
fn names_with_the_characters_of_patterns_and_of_urls_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "x[1].parquet",
        "a?b#c.parquet",
        "100%.parquet",
        "at=12%3A00 x/p.parquet",
        "all*/p.parquet",
        "x1.parquet",
    ];
    for (file, name) in names.into_iter().enumerate() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(BUCKET.join(PREFIX).join(name_of(file)), path).unwrap();
    }
    let server = FaultServer::builder().folder("bucket", folder.path()).start().unwrap();
    let web = server.url();
    let cases = [
        (0, "s3://bucket/x[1].parquet".to_owned()),
        (0, "s3://bucket/x%5B1%5D.parquet".into()),
        (0, format!("{web}/bucket/x%5B1%5D.parquet")),
        (0, format!("{web}/bucket/x[1].parquet")),
        (1, "s3://bucket/a?b#c.parquet".into()),
        (1, "s3://bucket/a%3Fb%23c.parquet".into()),
        (1, format!("{web}/bucket/a%3Fb%23c.parquet")),
        (2, "s3://bucket/100%25.parquet".into()),
        (2, format!("{web}/bucket/100%25.parquet")),
        // The first location has the name as it is stored, the second has it encoded for a URL.
        (3, "s3://bucket/at=12%3A00 x/p.parquet".into()),
        (3, "s3://bucket/at=12%253A00%20x/".into()),
        (3, "s3://bucket/at=12%3A00 x".into()),
        (4, "s3://bucket/all*".into()),
        (4, "s3://bucket/all%2A/p.parquet".into()),
        (5, "s3://bucket/x[1-3].parquet".into()),
    ];
    for (file, location) in cases {
        let dataset = opened(&server, &location).unwrap_or_else(|error| panic!("{location}: {error}"));
        let path = &*dataset.catalog().files[0].location;
        assert_eq!(dataset.catalog().files.len(), 1, "{location}");
        assert_eq!(dataset.catalog().rows(), of_file(file), "{location}: {path}");
    }
    for location in ["s3://bucket/x%5B2%5D.parquet", "s3://bucket/x[3-4].parquet"] {
        assert_eq!(opened(&server, location).unwrap_err().kind(), ErrorKind::NotFound, "{location}");
    }
    let glob = opened(&server, &format!("{web}/bucket/*.parquet")).unwrap_err();
    assert!(glob.to_string().contains("cannot be listed over plain HTTP"), "{glob}");
}

fn of_file(file: usize) -> u64 {
    (0..crate::data::GROUPS).map(|group| crate::data::rows_of(file, group) as u64).sum()
}

#[test]
fn what_is_missing_is_told_from_what_holds_no_parquet() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("notes")).unwrap();
    fs::write(folder.path().join("notes/a.txt"), "x").unwrap();
    fs::write(folder.path().join("empty.parquet"), "").unwrap();
    let server = FaultServer::builder().folder("bucket", folder.path()).start().unwrap();
    for (location, kind, words) in [
        ("s3://bucket/train.parquet", ErrorKind::NotFound, "s3://bucket/train.parquet: object not found"),
        (
            "s3://bucket/train/",
            ErrorKind::NotFound,
            "s3://bucket/train: there are no objects below this prefix",
        ),
        (
            "s3://bucket/train/*.parquet",
            ErrorKind::NotFound,
            "s3://bucket/train: the glob starts at a prefix",
        ),
        (
            "s3://bucket/notes",
            ErrorKind::NotFound,
            "s3://bucket/notes: the folder holds no Parquet file (it has a.txt)",
        ),
        ("s3://other/x", ErrorKind::NotFound, "bucket not found"),
        ("s3://bucket/empty.parquet", ErrorKind::Corrupt, "the file is empty"),
    ] {
        let error = opened(&server, location).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let url = format!("{}/bucket/empty.parquet", server.url());
    let error = opened(&server, &url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("the file is empty"), "{error}");
}

/// A folder with copies of a Parquet file under these names.
fn copies(names: impl IntoIterator<Item = String>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(BUCKET.join(PREFIX).join(name_of(1)), path).unwrap();
    }
    folder
}

/// The relative paths of a glob's files below `bucket`, and the number of list requests that finding them
/// took.
fn matched(folder: &tempfile::TempDir, glob: &str) -> (Vec<String>, usize) {
    let server = FaultServer::builder().folder("bucket", folder.path()).page(3).start().unwrap();
    let dataset =
        opened(&server, &format!("s3://bucket/{glob}")).unwrap_or_else(|error| panic!("{glob}: {error}"));
    let files = dataset.catalog().files.iter().map(|file| file.relative.to_string()).collect();
    (files, server.log().iter().filter(|asked| asked.operation == Operation::List).count())
}

#[test]
fn a_glob_lists_few_of_many_folders_one_by_one_and_finds_what_a_local_one_does() {
    let months = |city: usize| (1..=6).map(move |month| format!("lake/{city}/2024-0{month}/part-0.parquet"));
    let noise = (0..60).map(|n| format!("lake/0/raw/{n:02}.parquet"));
    let folder = copies((0..3).flat_map(months).chain(noise));
    for glob in [
        "lake/*/2024-0[12]/part-?.parquet",
        "lake/[01]/2024-03",
        "lake/?/2024-06/*",
        "lake/*/2024-01/**/*0.parquet",
    ] {
        let (files, lists) = matched(&folder, glob);
        let local = Dataset::open(folder.path().join(glob).to_str().unwrap()).unwrap();
        let expected: Vec<String> =
            local.catalog().files.iter().map(|file| file.relative.to_string()).collect();
        assert_eq!(files, expected, "{glob}");
        // A list of the whole bucket would have 26 pages. The requests include one for each folder above the
        // base, which asks if that is a table.
        assert!(lists < 26, "{glob}: {lists} requests");
    }
    let server = FaultServer::builder().folder("bucket", folder.path()).page(3).start().unwrap();
    let error = opened(&server, "s3://bucket/lake/*/2025-*/x.parquet").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("(it has 0/2024-01/, "), "{error}");
    fs::create_dir(folder.path().join("lake/1/_delta_log")).unwrap();
    fs::write(folder.path().join("lake/1/_delta_log/00.json"), "{}").unwrap();
    let server = FaultServer::builder().folder("bucket", folder.path()).page(3).start().unwrap();
    let error = opened(&server, "s3://bucket/lake/*/2024-01/*.parquet").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().starts_with("s3://bucket/lake/1: this is the folder of a Delta table"),
        "{error}"
    );
    assert!(opened(&server, "s3://bucket/lake/[02]/2024-01/*.parquet").is_ok());
}

#[test]
fn a_glob_over_many_folders_or_few_objects_takes_no_request_for_each() {
    let folder = copies((0..40).map(|n| format!("wide/{n:02}/x.parquet")));
    let (files, lists) = matched(&folder, "wide/*/x.parquet");
    assert_eq!(files.len(), 40);
    // These are four pages, then the pages of all folders, then the pages of all objects, and the requests
    // that look for a table in the folders above.
    assert!(lists <= 4 + 14 + 14 + 3, "{lists} requests");
    let folder = copies((0..6).map(|n| format!("few/{n:02}/x.parquet")));
    let (files, lists) = matched(&folder, "few/*/x.parquet");
    assert_eq!(files.len(), 6);
    assert!(lists <= 2 + 3, "{lists} requests");
}

#[test]
fn the_keys_of_partition_folders_of_a_store_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    for day in 1..=2 {
        fs::create_dir_all(folder.path().join(format!("t/day={day}"))).unwrap();
        let path = folder.path().join(format!("t/day={day}/p.parquet"));
        fs::copy(BUCKET.join(PREFIX).join(name_of(day)), path).unwrap();
    }
    let server = FaultServer::builder().folder("bucket", folder.path()).start().unwrap();
    let columns = |location| opened(&server, location).unwrap().schema().fields().len();
    let named = columns("s3://bucket/t/day=1");
    for location in ["s3://bucket/t", "s3://bucket", "s3://bucket/t/*/*.parquet"] {
        assert_eq!(columns(location), named + 1, "{location}");
    }
    for location in ["s3://bucket/t/day=*/*.parquet", "s3://bucket/t/day=*", "s3://bucket/t/day=1"] {
        assert_eq!(columns(location), named, "{location}");
    }
}

#[test]
fn an_empty_object_that_marks_a_folder_is_no_file_in_any_form_of_a_url() {
    let folder = copies((0..8).map(|n| format!("lake/train.parquet/day={n}/part-{n}.parquet")));
    let marked = |page: usize| {
        FaultServer::builder()
            .folder("bucket", folder.path())
            .mark("bucket", "lake/")
            .mark("bucket", "lake/train.parquet/")
            .mark("bucket", "lake/train.parquet/day=3/")
            .page(page)
            .start()
            .unwrap()
    };
    let kept = tempfile::tempdir().unwrap();
    for page in [1, 2, 1000] {
        let server = marked(page);
        for location in [
            "s3://bucket",
            "s3://bucket/lake",
            "s3://bucket/lake/",
            "s3://bucket/lake/train.parquet",
            "s3://bucket/lake/train.parquet/",
            "s3://bucket/lake/*.parquet",
            "s3://bucket/lake/*",
            "s3://bucket/*/*.parquet/day=*",
            "s3://bucket/lake/**/*.parquet",
        ] {
            // The second time, the footers come from the cache.
            for _ in 0..2 {
                let more = [("metadata_cache", kept.path().to_str().unwrap())];
                let dataset = Dataset::open_with_options(location, &options(&server, &more));
                let dataset = dataset.unwrap_or_else(|error| panic!("{location}, {page} a page: {error}"));
                assert_eq!(dataset.catalog().files.len(), 8, "{location}, {page} a page");
            }
        }
    }
}

#[test]
fn an_empty_folder_that_is_marked_is_told_from_an_empty_file() {
    let folder = copies(["t/a.parquet".to_owned(), "u/a.parquet".to_owned(), "v/part-0".to_owned()]);
    fs::create_dir(folder.path().join("t/none.parquet")).unwrap();
    fs::create_dir(folder.path().join("v/none.parquet")).unwrap();
    fs::write(folder.path().join("u/none.parquet"), "").unwrap();
    let server = FaultServer::builder()
        .folder("bucket", folder.path())
        .mark("bucket", "t/none.parquet/")
        .mark("bucket", "t/a.parquet/")
        .mark("bucket", "v/none.parquet/")
        .start()
        .unwrap();
    for location in ["s3://bucket/t", "s3://bucket/t/*", "s3://bucket/t/*.parquet", "s3://bucket/v"] {
        let dataset = opened(&server, location).unwrap_or_else(|error| panic!("{location}: {error}"));
        assert_eq!(dataset.catalog().rows(), of_file(1), "{location}");
    }
    for location in ["s3://bucket/u", "s3://bucket/u/*.parquet", "s3://bucket/u/none.parquet"] {
        let error = opened(&server, location).unwrap_err();
        assert!(error.to_string().starts_with("s3://bucket/u/none.parquet: the file is empty"), "{error}");
    }
    let error = opened(&server, "s3://bucket/t/none.parquet").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn marks_of_folders_on_a_disk_are_passed_over() {
    let folder = copies(["t/part-0".to_owned()]);
    fs::write(folder.path().join("t/sub_$folder$"), "").unwrap();
    assert_eq!(Dataset::open(folder.path().join("t").as_path()).unwrap().rows(), of_file(1));
}
