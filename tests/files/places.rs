//! Things on a disk beside good files: odd names, links, pipes, devices, and folders that must not be
//! entered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use forebay::{Dataset, Error, ErrorKind, OpenOptions};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Writes a file of `rows` rows.
fn write(path: &Path, rows: i64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The number of rows that a loader delivers.
fn rows(location: impl AsRef<Path>) -> Result<u64, Error> {
    let dataset = Dataset::open(location.as_ref().to_str().unwrap())?;
    let loader = dataset.loader().threads(1).build()?;
    loader.epoch(0).map(|batch| batch.map(|batch| batch.num_rows() as u64)).sum()
}

fn refusal(location: impl AsRef<Path>) -> Error {
    rows(location).expect_err("it was read")
}

/// A path as a `file:` URL in which every byte of its names is percent-encoded.
fn url(path: &Path) -> PathBuf {
    let encoded = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02X}"),
    });
    format!("file://{}", encoded.collect::<String>()).into()
}

#[test]
fn names_of_any_characters_are_read_by_path_and_url_and_in_a_folder() {
    let root = folder();
    let long = format!("{}.parquet", "l".repeat(247));
    let names = [
        "a b.parquet",
        "it's \"quoted\".parquet",
        "dätä-数据-🦀.parquet",
        "%41%2F.parquet",
        "all*?.parquet",
        "[ab].parquet",
        "-rf.parquet",
        "back\\slash;$(x)`y`.parquet",
        "~.parquet",
        "s3:x.parquet",
        "a=b?c=d#e.parquet",
        &long,
    ];
    for (at, name) in names.iter().enumerate() {
        write(&root.path().join(name), at as i64 + 1);
    }
    for (at, name) in names.iter().enumerate() {
        let path = root.path().join(name);
        assert_eq!(rows(&path).unwrap(), at as u64 + 1, "{name}");
        assert_eq!(rows(url(&path)).unwrap(), at as u64 + 1, "{name}");
    }
    assert_eq!(rows(root.path()).unwrap(), (1..=names.len() as u64).sum::<u64>());
    assert_eq!(rows(root.path().join("*")).unwrap(), (1..=names.len() as u64).sum::<u64>());
}

#[test]
fn names_that_cannot_be_read_are_refused_on_one_line() {
    for (name, words) in [
        (&b"a\nb.parquet"[..], "control character"),
        (b"a\x1b[2J.parquet", "control character"),
        (b"caf\xe9.parquet", "is not UTF-8"),
    ] {
        let root = folder();
        write(&root.path().join(OsStr::from_bytes(name)), 1);
        let error = refusal(root.path());
        let sentence = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sentence}");
        assert!(sentence.contains(words) && sentence.contains("rename it"), "{sentence}");
        assert!(!sentence.contains(char::is_control), "{sentence:?}");
    }
    let error = refusal(folder().path().join("x".repeat(300)));
    assert!(error.to_string().contains("File name too long"), "{error}");
}

#[test]
fn a_glob_enters_only_folders_that_it_may_match() {
    let root = folder();
    for (path, rows) in
        [("a/2024-01/part-0.parquet", 1), ("b/2024-02/part-1.parquet", 2), ("b/2023-12/part-0.parquet", 4)]
    {
        write(&root.path().join(path), rows);
    }
    // Entering one of these folders fails.
    for trap in ["traps", "a/2023-01", "b/2024-02/deep"] {
        let trap = root.path().join(trap);
        fs::create_dir_all(&trap).unwrap();
        fs::write(trap.join(OsStr::from_bytes(b"\xff")), "").unwrap();
    }
    symlink("nowhere", root.path().join("a/broken")).unwrap();
    let at = |glob: &str| root.path().join(glob);
    assert_eq!(rows(at("[ab]/2024-*/part-?.parquet")).unwrap(), 3);
    assert_eq!(rows(at("[ab]/2024-0[12]/*.parquet")).unwrap(), 3);
    assert_eq!(rows(at("b/2023-*")).unwrap(), 4, "a folder that is matched is read");
    for glob in ["**/part-0.parquet", "*/2024-01/*.parquet"] {
        let error = refusal(at(glob));
        assert!(error.to_string().contains("not UTF-8"), "{glob}: {error}");
    }
    let error = refusal(at("a/2025-*/part-?.parquet")).to_string();
    assert!(
        error.contains("a: the glob matches no Parquet file below this folder (it has 2023-01/, 2024-01/"),
        "{error}"
    );
    // Walking through the whole disk would take minutes, so only the folders of this pattern may be entered.
    let error = refusal("/no-such-name-?/x.parquet");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn links_are_followed_but_not_back_up() {
    let (root, other) = (folder(), folder());
    write(&root.path().join("a/b/x.parquet"), 1);
    write(&other.path().join("y.parquet"), 2);
    symlink("..", root.path().join("a/b/up")).unwrap();
    symlink(".", root.path().join("a/here")).unwrap();
    symlink("/", root.path().join("everything")).unwrap();
    assert_eq!(rows(root.path()).unwrap(), 1);
    assert_eq!(rows(root.path().join("**/*.parquet")).unwrap(), 1);
    symlink(other.path(), root.path().join("other")).unwrap();
    assert_eq!(rows(root.path()).unwrap(), 1 + 2);
}

#[test]
fn a_file_with_two_names_is_read_once_or_not_at_all() {
    let root = folder();
    write(&root.path().join("v1/x.parquet"), 1);
    fs::hard_link(root.path().join("v1/x.parquet"), root.path().join("y.parquet")).unwrap();
    assert_eq!(rows(root.path()).unwrap(), 1 + 1, "hard links are files");
    for (from, to) in [("v1", "latest"), ("v1/x.parquet", "z.parquet")] {
        let link = root.path().join(to);
        symlink(from, &link).unwrap();
        let error = refusal(root.path()).to_string();
        assert!(error.contains("its rows would be delivered twice (leave the link out"), "{error}");
        assert_eq!(rows(&link).unwrap(), 1, "the link alone");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn a_link_that_leads_nowhere_says_so() {
    let root = folder();
    write(&root.path().join("x.parquet"), 1);
    let (broken, turning) = (root.path().join("broken.parquet"), root.path().join("loop.parquet"));
    symlink("/no/such/file", &broken).unwrap();
    for location in [&broken, root.path(), &root.path().join("*.parquet")] {
        let error = refusal(location);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let start =
            format!("{}: this symbolic link points to /no/such/file, which does not exist", broken.display());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
    assert_eq!(
        rows(root.path().join("x*.parquet")).unwrap(),
        1,
        "a glob does not mind what it does not match"
    );
    symlink(&turning, &turning).unwrap();
    assert!(refusal(&turning).to_string().contains("Too many levels of symbolic links"));
}

#[test]
fn what_is_not_a_file_is_refused_and_never_waited_for() {
    let root = folder();
    let pipe = root.path().join("x.parquet");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = folder();
    let _listener = std::os::unix::net::UnixListener::bind(socket.path().join("s.parquet")).unwrap();
    for location in [
        pipe.as_path(),
        root.path(),
        &root.path().join("*"),
        socket.path(),
        Path::new("/dev/zero"),
        Path::new("/dev/null"),
    ] {
        let error = refusal(location);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn a_folder_may_be_called_as_a_file_is() {
    let root = folder();
    fs::create_dir(root.path().join("x.parquet")).unwrap();
    assert!(refusal(root.path()).to_string().ends_with(
        "the folder holds no Parquet file (it is empty, but for files whose names begin with _ or .)"
    ));
    write(&root.path().join("x.parquet/part-0.parquet"), 3);
    for location in [root.path(), &root.path().join("x.parquet"), &root.path().join("*.parquet")] {
        assert_eq!(rows(location).unwrap(), 3, "{location:?}");
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_named() {
    let root = folder();
    let closed = root.path().join("closed");
    write(&root.path().join("x.parquet"), 1);
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // The user root may read this folder in spite of its mode.
    if fs::read_dir(&closed).is_err() {
        let error = refusal(root.path());
        assert!(
            error.to_string().starts_with(&format!("{}: Permission denied", closed.display())),
            "{error}"
        );
    }
    assert_eq!(rows(root.path().join("*.parquet")).unwrap(), 1);
}

/// The card lists its configurations in an order in which the default is not the first, and a file that is
/// not there.
const CARD: &str = "---
configs:
- config_name: default
  data_files:
  - split: train
    path: a/train-*
- config_name: small
  default: true
  data_dir: ./b/
  data_files:
  - split: train
    path: ./x.parquet
  - split: test
    path: gone.parquet
---
";

#[test]
fn a_part_of_a_folder_is_chosen_by_its_card_names_or_a_list_and_has_no_index() {
    let root = folder();
    for (path, rows) in
        [("a/train-00000-of-00001.parquet", 1), ("a/test-00000-of-00001.parquet", 2), ("b/x.parquet", 4)]
    {
        write(&root.path().join(path), rows);
    }
    let new = OpenOptions::new;
    let rows = |options: OpenOptions| options.open(root.path().to_str().unwrap()).map(|part| part.rows());
    assert_eq!([new(), new().split("train"), new().config("a")].map(|part| rows(part).unwrap()), [7, 1, 3]);
    fs::write(root.path().join("README.md"), CARD).unwrap();
    let small = new().config("small").split("train");
    let of_card = [new().split("train"), new().config("default"), small.clone()];
    assert_eq!(of_card.map(|part| rows(part).unwrap()), [4, 1, 4]);
    let files = new().files(["b/x.parquet", "a/test-00000-of-00001.parquet"]);
    assert_eq!(rows(files.clone()).unwrap(), 6);
    for (part, said) in [
        (new().config("small"), "the card lists b/gone.parquet, which is not there"),
        (new().files(["b/x.parquet", "b/y.parquet"]), "b/y.parquet: the file is not among those"),
    ] {
        let error = rows(part).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(said), "{error}");
    }
    // With an index of some of its files, the folder would seem to have only these.
    for part in [small, files] {
        let error = part.open(root.path().to_str().unwrap()).unwrap().write_index().unwrap_err();
        assert!(error.to_string().contains("no folder was opened"), "{error}");
    }
    assert_eq!(Dataset::open(root.path()).unwrap().write_index().unwrap()[0].files, 3);
}
