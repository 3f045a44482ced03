//! The floors within the library, which ARCHITECTURE.md shows: a module imports from lower floors only, and `tokio` stays at
//! the async boundary. Between crates the compiler keeps them.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `src/` by floor, lowest first. A module may import from floors below its own.
const FLOORS: [&[&str]; 6] = [
    &["shard", "shuffle", "batch", "monitor"],
    &["samples"],
    &["cache"],
    &["column"],
    &["reader"],
    &["loader"],
];

/// The files of `src/loader/`, lowest first; a folder counts as one. A file may import from those before its own line.
const LOADER: [&[&str]; 16] = [
    // Values, and state that threads share: each by itself.
    &["slot"],
    &[
        "admission",
        "advice",
        "bad_rows",
        "batch_group",
        "buffer_pool",
        "consumer",
        "deny",
        "lifecycle",
        "machine",
        "slow_start",
    ],
    &["progress", "queue", "semaphore", "stats", "threads"],
    // The data set, the options, and the division of memory.
    &["dataset", "sizing", "spec"],
    &["lengths", "repack"],
    &["collate", "plan", "rewind", "tiers"],
    // From row groups to batches on their way.
    &["row_groups", "hand_over", "refill"],
    &["prefetch"],
    &["arrivals"],
    &["assembly"],
    // Epochs, and the loader that begins them.
    &["pipe"],
    &["epoch"],
    &["handle"],
    &["build", "rejections", "warm"],
    &["mix"],
    &["deny_lists"],
];

/// Imports between neighbours that are arithmetic on the neighbour's plain values, each with its reason.
const EXCUSED: [(&str, &str); 1] = [
    // The window holds what the plan calls parts.
    ("shuffle", "shard"),
];

/// Where `tokio` may be named.
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

/// The files of the library by their path below `src/`, with their text.
fn sources() -> Vec<(String, String)> {
    let files = rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 20, "the sources were not found");
    files
}

/// The Rust files below a folder, with their text.
pub(crate) fn rust_files(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

/// The module of a file: its folder, or its own name without the extension.
fn module(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// Modules that code names by a path from the library's root, or by a name that the root exports from them.
fn named(code: &str, exports: &HashMap<String, String>) -> Vec<String> {
    let firsts = rooted(code, "crate::").into_iter().map(|path| path.split("::").next().unwrap().to_owned());
    firsts.map(|first| exports.get(&first).cloned().unwrap_or(first)).collect()
}

/// The module of each name that lib.rs exports.
fn exports(lib: &str) -> HashMap<String, String> {
    let exported = rooted(lib, "pub use ").into_iter().filter_map(|path| {
        let (path, alias) =
            path.split_once(" as ").map_or((path.as_str(), None), |(path, name)| (path, Some(name)));
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let name = alias.or(path.rsplit("::").next()).unwrap();
        Some((name.to_owned(), path.split_once("::")?.0.to_owned()))
    });
    exported.collect()
}

/// The paths that follow `root` in the code, with braces written out: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn rooted(code: &str, root: &str) -> Vec<String> {
    let lines = code.lines().map(|line| line.split_once("// ").map_or(line, |(code, _)| code));
    let code: String =
        lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(root) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !code[..at].ends_with(is_word) {
            expand("", &code[at + root.len()..], &mut paths);
        }
    }
    paths
}

/// Writes out the one tree of paths at the head of `text`; returns what follows it.
pub(crate) fn expand<'t>(before: &str, text: &'t str, paths: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None => rest = expand(before, rest, paths),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '*')).unwrap_or(text.len());
    let (segment, rest) = text.split_at(end);
    assert!(!segment.is_empty(), "not a path: {:?}", text.lines().next());
    let path = format!("{before}{segment}");
    if let Some(deeper) = rest.strip_prefix("::")
        && !deeper.starts_with('<')
    {
        return expand(&format!("{path}::"), deeper, paths);
    }
    match rest.strip_prefix(" as ") {
        Some(rest) => {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            paths.push(format!("{path} as {}", &rest[..end]));
            &rest[end..]
        }
        None => {
            paths.push(path);
            rest
        }
    }
}

#[test]
fn a_module_is_seen_however_it_is_imported() {
    let exports =
        exports("pub use loader::{Dataset, stats::Stats as Figures};\npub use crate::error::Error;");
    let code = "use crate::{error::{Error, Place}, cache};\nuse crate::Figures;\n// crate::reader\nx(crate::shard::new::<u8>())";
    assert_eq!(named(code, &exports), ["error", "error", "cache", "loader", "shard"]);
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
        for to in named(code, &exports) {
            assert_ne!(to, "*", "{file} imports everything: name what it needs");
            let Some(other) = floor(&to) else { continue };
            if to != from && other >= own && !EXCUSED.contains(&(from, to.as_str())) {
                wrong.push(format!("{file} (floor {own}) imports {to} (floor {other})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_loaders_files_import_from_those_below_them_only() {
    let layer = |file: &str| LOADER.iter().position(|files| files.contains(&file));
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        let Some(inner) = file.strip_prefix("loader/").filter(|inner| *inner != "mod.rs") else { continue };
        let from = module(inner);
        let own = layer(from).unwrap_or_else(|| panic!("{file} has no layer: give it one in LOADER"));
        let code = code.split("#[cfg(test)]").next().unwrap();
        // In a folder `super` is the file above it, which belongs to the folder.
        let is_deep = inner.contains('/') && !inner.ends_with("/mod.rs");
        let up = if is_deep { "super::super::" } else { "super::" };
        for to in [rooted(code, up), rooted(code, "crate::loader::")].concat() {
            let first = to.split("::").next().unwrap();
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

/// The threads of a loader.
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
