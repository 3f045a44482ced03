//! Checks the floors within the library, which ARCHITECTURE.md shows: a module imports from lower floors
//! only, and `tokio` stays at the async boundary. Between crates, the compiler ensures this.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::HashMap;
use std::path::Path;

use super::paths::{exports, module, named, rust_files, without_tests};

/// The modules of `src/` by floor, lowest first. A module may import from floors below its own.
const FLOORS: [&[&str]; 6] = [
    &["shard", "shuffle", "batch", "monitor", "operand"],
    &["samples"],
    &["cache"],
    &["column"],
    &["reader"],
    &["loader"],
];

/// The files of `src/loader/`, lowest first; a folder counts as one. A file may import from those before
/// its own line.
const LOADER: [&[&str]; 20] = [
    // Plain values, and state that threads share. Each of these files stands for itself.
    &["slot"],
    &[
        "admission",
        "advice",
        "bad_rows",
        "batch_group",
        "buffer_pool",
        "consumer",
        "deny",
        "keeping",
        "lifecycle",
        "machine",
        "slow_start",
    ],
    &["progress", "queue", "semaphore", "stats", "threads"],
    // The data set, the options, and the division of memory.
    &["dataset", "sizing", "spec"],
    &["lengths", "mix", "petastorm", "repack"],
    &["collate", "plan", "rewind", "tiers"],
    // From row groups to batches that are being made.
    &["joint"],
    &["row_groups", "hand_over", "refill"],
    &["prefetch"],
    &["staying", "withheld"],
    &["arrivals"],
    &["assembly"],
    // Epochs, and the loader that begins them.
    &["pipe"],
    &["pass"],
    &["source"],
    &["sources"],
    &["epoch"],
    &["handle"],
    &["build", "rejections", "warm"],
    &["deny_lists"],
];

/// Imports between neighbours that are allowed because they only compute with plain values of the neighbour,
/// each with its reason.
const EXCUSED: [(&str, &str); 1] = [
    // The window of a shuffle holds parts of row groups, which `shard` defines and numbers.
    ("shuffle", "shard"),
];

/// The files that may name `tokio`.
const ASYNC: [&str; 8] = [
    "reader/fetch.rs",
    "reader/budget.rs",
    "reader/select.rs",
    "loader/threads.rs",
    "loader/prefetch.rs",
    "loader/row_groups.rs",
    "loader/slow_start.rs",
    "loader/pipe.rs",
];

/// The files of the library with their text; a path begins below `src/`.
fn sources() -> Vec<(String, String)> {
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

#[test]
fn modules_import_from_lower_floors_only() {
    let sources = sources();
    let (_, lib) = sources.iter().find(|(file, _)| file == "lib.rs").unwrap();
    let exports = exports(lib);
    let mut wrong = Vec::new();
    for (file, code) in &sources {
        let from = module(file);
        let Some(own) = floor(from) else {
            assert_eq!(file, "lib.rs", "{file} has no floor: give it one in FLOORS");
            continue;
        };
        for to in named(file, without_tests(code), &exports) {
            let to = to.split("::").next().unwrap();
            assert_ne!(to, "*", "{file} imports everything: name what it needs");
            let Some(other) = floor(to) else { continue };
            if to != from && other >= own && !EXCUSED.contains(&(from, to)) {
                wrong.push(format!("{file} (floor {own}) imports {to} (floor {other})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_loaders_files_import_from_those_below_them_only() {
    let layer = |file: &str| LOADER.iter().position(|files| files.contains(&file));
    let exports = HashMap::new();
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        let Some(inner) = file.strip_prefix("loader/").filter(|inner| *inner != "mod.rs") else { continue };
        let from = module(inner);
        let own = layer(from).unwrap_or_else(|| panic!("{file} has no layer: give it one in LOADER"));
        for to in named(&file, without_tests(&code), &exports) {
            let Some(first) = to.strip_prefix("loader::").and_then(|to| to.split("::").next()) else {
                continue;
            };
            match layer(first) {
                Some(other) if first != from && other >= own => {
                    wrong.push(format!("{file} (layer {own}) imports {first} (layer {other})"));
                }
                Some(_) => {}
                None => wrong.push(format!("{file} imports {to} from the facade: name the file that has it")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn async_stays_at_the_boundary() {
    let outside: Vec<String> = sources()
        .into_iter()
        .filter(|(file, code)| code.contains("tokio") && !ASYNC.iter().any(|place| file.starts_with(place)))
        .map(|(file, _)| file)
        .collect();
    assert!(outside.is_empty(), "tokio is named in {outside:?}");
}

/// The file that starts the threads of a loader.
const STARTS_THREADS: &str = "loader/threads.rs";

#[test]
fn one_file_of_the_library_starts_threads() {
    for (file, code) in sources() {
        let code = code.split("#[cfg(test)]").next().unwrap().to_string();
        let starts = code.contains("thread::Builder")
            || code.contains("thread::spawn")
            || code.contains("ThreadPoolBuilder");
        assert!(!starts || file == STARTS_THREADS, "{file} starts threads");
    }
}
