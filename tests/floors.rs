//! The house keeps its floors: a module imports downwards only, never a neighbour, and `tokio` stays at the border.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms by floor, lowest first. A room may import from floors below its own.
const FLOORS: [&[&str]; 8] = [
    &["panics"],
    &["error"],
    &["catalog", "shard", "shuffle", "batch", "monitor", "paths", "sizes"],
    &["source", "cache", "decode"],
    &["column"],
    &["reader"],
    &["loader"],
    &["bin", "python"],
];

/// Imports between neighbours that are arithmetic on the neighbour's plain values, each with its reason.
const EXCUSED: [(&str, &str); 1] = [
    // The window holds what the plan calls parts.
    ("shuffle", "shard"),
];

/// Where `tokio` may be named.
const ASYNC: [&str; 7] = [
    "source",
    "reader/fetch.rs",
    "reader/budget.rs",
    "loader/threads.rs",
    "loader/prefetch.rs",
    "loader/row_groups.rs",
    "loader/pipe.rs",
];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files.len() > 20, "the sources were not found");
    files
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The room of a file: its folder, or its own name without the extension.
fn room(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// Rooms that a file's code names as `crate::room` or, from the program, `forebay::room`.
fn named(code: &str) -> Vec<String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<_>>().join("\n");
    code.split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

#[test]
fn rooms_import_downwards_only() {
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        let from = room(&file);
        let Some(own) = floor(from) else {
            assert_eq!(file, "lib.rs", "{file} belongs to no room: give it a floor");
            continue;
        };
        for to in named(&code) {
            let Some(other) = floor(&to) else { continue };
            if to != from && other >= own && from != "bin" && !EXCUSED.contains(&(from, to.as_str())) {
                wrong.push(format!("{file} (floor {own}) imports {to} (floor {other})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn async_stays_at_the_border() {
    let outside: Vec<String> = sources()
        .into_iter()
        .filter(|(file, code)| code.contains("tokio") && !ASYNC.iter().any(|place| file.starts_with(place)))
        .map(|(file, _)| file)
        .collect();
    assert!(outside.is_empty(), "tokio is named in {outside:?}");
}

#[test]
fn one_file_starts_threads() {
    for (file, code) in sources() {
        let code = code.split("#[cfg(test)]").next().unwrap().to_string();
        let starts = code.contains("thread::Builder")
            || code.contains("thread::spawn")
            || code.contains("ThreadPoolBuilder");
        assert!(!starts || file == "loader/threads.rs" || file.starts_with("bin/"), "{file} starts threads");
    }
}

#[test]
fn the_library_does_not_know_its_doors() {
    for (file, code) in sources() {
        assert!(!code.contains("pyo3"), "{file} knows Python");
        assert!(file.starts_with("bin/") || !code.contains("clap::"), "{file} knows the command line");
    }
}
