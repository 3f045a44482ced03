//! The modules of its own crate that a source file names, in `use` lines and in paths within the code.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files below a folder, each with its path from there and its text.
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
    assert!(!files.is_empty(), "the sources were not found");
    files
}

/// The module of a file: its folder, or its own name without the extension.
pub(crate) fn module(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The code of a file without the tests at its end, which may import from all of their crate.
pub(crate) fn without_tests(code: &str) -> &str {
    code.split("mod tests {").next().unwrap()
}

/// The paths that a file names by `crate::` or `super::`, written out from the root of its crate. For a name
/// that the root exports, the path begins with the module that defines it.
pub(crate) fn named(file: &str, code: &str, exports: &HashMap<String, String>) -> Vec<String> {
    let own = file.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
    let own: Vec<&str> = own.split('/').collect();
    let above = rooted(code, "super::").into_iter().filter_map(|path| {
        let path = format!("super::{path}");
        let segments: Vec<&str> = path.split("::").collect();
        let ups = segments.iter().take_while(|segment| **segment == "super").count();
        let written_out = [own.get(..own.len().checked_sub(ups)?)?, &segments[ups..]].concat();
        // `pub(in super::super)` is a visibility, and imports nothing.
        (ups < segments.len()).then(|| written_out.join("::"))
    });
    let all = rooted(code, "crate::").into_iter().chain(above);
    all.map(|path| match exports.get(&path) {
        Some(module) => format!("{module}::{path}"),
        None => path,
    })
    .collect()
}

/// The module of each name that lib.rs exports.
pub(crate) fn exports(lib: &str) -> HashMap<String, String> {
    let exported = rooted(lib, "pub use ").into_iter().filter_map(|path| {
        let (path, alias) =
            path.split_once(" as ").map_or((path.as_str(), None), |(path, name)| (path, Some(name)));
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let name = alias.or(path.rsplit("::").next()).unwrap();
        Some((name.to_owned(), path.split_once("::")?.0.to_owned()))
    });
    exported.collect()
}

/// The paths that follow `root` in the code, with braces expanded: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`,
/// `a::c::e`.
fn rooted(code: &str, root: &str) -> Vec<String> {
    let lines = code.lines().map(|line| line.split_once("// ").map_or(line, |(code, _)| code));
    let code: String =
        lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(root) {
        let is_within = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        if !code[..at].ends_with(is_within) {
            expand("", &code[at + root.len()..], &mut paths);
        }
    }
    paths
}

/// Expands the one tree of paths at the beginning of `text`, and returns the text after it.
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
fn a_module_is_seen_however_it_is_named() {
    let exports =
        exports("pub use loader::{Dataset, stats::Stats as Figures};\npub use crate::error::Error;");
    let code = "use crate::{error::{Error, Place}, cache};\nuse crate::Figures;\n// crate::reader\nx(crate::shard::new::<u8>())";
    let expected = ["error::Error", "error::Place", "cache", "loader::Figures", "shard::new"];
    assert_eq!(named("cache.rs", code, &exports), expected);
    let code = "use super::super::reader;\npub(in super::super) fn f() { super::walk::of(super::Figures) }";
    assert_eq!(
        named("shard/mod.rs", "super::reader::{rows, fetch}", &exports),
        ["reader::rows", "reader::fetch"]
    );
    assert_eq!(named("shard/mix.rs", code, &exports), ["reader", "shard::walk::of", "shard::Figures"]);
}
