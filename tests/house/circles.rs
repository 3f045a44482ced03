//! Finds files that import each other in a circle. No crate may have such files, because none of them can be
//! understood without the others.
//!
//! The names of other modules are resolved as far as the text allows: by `use`, by a path where it is used,
//! and through `pub use` of another module. Declarations, re-exports and tests do not count as imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::paths::{expand, rust_files, without_tests};

/// The folders with the sources of each crate.
const CRATES: [&str; 10] = [
    "src",
    "crates/arrow/src",
    "crates/base/src",
    "crates/cli/src",
    "crates/delta/src",
    "crates/iceberg/src",
    "crates/image/src",
    "crates/petastorm/src",
    "crates/store/src",
    "python/src",
];

/// A module, as the names on the way to it from the root of its crate.
type Module = Vec<String>;

/// The names of other modules that a module uses and exports.
#[derive(Default)]
struct Said {
    /// The paths that the module uses.
    paths: Vec<Vec<String>>,
    /// The paths behind the names that the module re-exports.
    exports: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate, each with the names that it uses.
struct Modules(BTreeMap<Module, Said>);

impl Modules {
    /// The modules of these files, whose paths begin at the sources of the crate.
    fn read(files: Vec<(String, String)>) -> Self {
        let is_test = |file: &str| file.contains("tests/") || file.ends_with("tests.rs");
        let sources = files.into_iter().filter(|(file, _)| !is_test(file));
        Modules(sources.map(|(file, code)| (module(&file), said(&code))).collect())
    }

    /// The modules that a module imports from.
    fn below(&self, from: &Module) -> BTreeSet<&Module> {
        let named = self.0[from].paths.iter().filter_map(|path| self.file_of(&self.absolute(from, path)?, 0));
        named.filter(|to| *to != from).collect()
    }

    /// A path from the root of the crate; `None` for a path into another crate.
    fn absolute(&self, from: &Module, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let begin = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([from, &path[1..]].concat()),
            // `pub(in super::super)` is a visibility, and imports nothing.
            "super" if supers == path.len() => return None,
            "super" => &from[..from.len().checked_sub(supers)?],
            name if self.0.contains_key(&[from.as_slice(), &[name.to_owned()]].concat()) => from,
            _ => return None,
        };
        Some([begin, &path[supers..]].concat())
    }

    /// The module in which the item at a path is defined, after `depth` re-exports were followed.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&Module> {
        let known = (0..=path.len()).rev().find_map(|length| self.0.get_key_value(&path[..length]));
        let (module, said) = known?;
        let handed_on = path.get(module.len()).and_then(|name| said.exports.get(name)).filter(|_| depth < 8);
        let behind = handed_on.and_then(|export| self.file_of(&self.absolute(module, export)?, depth + 1));
        behind.or(Some(module))
    }

    /// All circles, each with its modules in order.
    fn circles(&self) -> BTreeSet<Vec<&Module>> {
        let below: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|module| (module, self.below(module))).collect();
        let reached = |from: &Module| {
            let (mut reached, mut next) = (BTreeSet::new(), Vec::from_iter(&below[from]));
            while let Some(module) = next.pop() {
                if reached.insert(*module) {
                    next.extend(&below[module]);
                }
            }
            reached
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|module| (module, reached(module))).collect();
        let circle = |module: &&Module| {
            let around = reached[*module].iter().filter(|other| reached[**other].contains(*module));
            around.copied().collect::<Vec<_>>()
        };
        self.0.keys().map(|module| circle(&module)).filter(|circle| !circle.is_empty()).collect()
    }
}

/// The module of a file: `a/mod.rs` is the module `a`, and the root of the crate has no name.
fn module(file: &str) -> Module {
    let names =
        file.trim_end_matches(".rs").split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    names.map(str::to_owned).collect()
}

/// The names that the code of a module uses and exports, without its tests.
fn said(code: &str) -> Said {
    let lines = without_tests(code).lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut said = Said::default();
    let mut body = String::new();
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        let (is_public, rest) = without_visibility(line.trim_start());
        let Some(tree) = rest.strip_prefix("use ") else {
            body.push_str(rest);
            body.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().unwrap_or(";"));
        }
        let mut paths = Vec::new();
        expand("", &tree, &mut paths);
        for path in paths {
            let (path, name) = match path.split_once(" as ") {
                Some((path, alias)) => (path, alias.to_owned()),
                None => (path.as_str(), path.rsplit("::").next().unwrap_or_default().to_owned()),
            };
            let path: Vec<String> = path.split("::").map(str::to_owned).collect();
            match is_public {
                true => drop(said.exports.insert(name, path)),
                false => said.paths.push(path),
            }
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = body.split(|c: char| !is_word(c) && c != ':').map(|path| path.trim_end_matches(':'));
    let paths = words.filter(|path| path.contains("::") && !path.starts_with(':'));
    said.paths.extend(paths.map(|path| path.split("::").map(str::to_owned).collect()));
    said
}

/// Whether an item is visible outside its module, and the line without its visibility.
fn without_visibility(line: &str) -> (bool, &str) {
    let Some(rest) = line.strip_prefix("pub") else { return (false, line) };
    match (rest.strip_prefix(' '), rest.strip_prefix('(').and_then(|rest| rest.split_once(") "))) {
        (Some(rest), _) | (None, Some((_, rest))) => (true, rest),
        (None, None) => (false, line),
    }
}

#[test]
fn a_circle_is_seen_however_it_is_closed() {
    let circles = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned())).collect();
        let modules = Modules::read(files);
        modules
            .circles()
            .iter()
            .map(|circle| circle.iter().map(|it| it.join("/")).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let none: Vec<Vec<String>> = Vec::new();
    let one = |names: &[&str]| vec![names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    let up = ("a.rs", "use super::b::B;");
    assert_eq!(
        circles(&[up, ("b.rs", "fn f() { crate::a::f() }")]),
        one(&["a", "b"]),
        "by a path in a function"
    );
    assert_eq!(circles(&[up, ("b.rs", "use crate::{\n    a::{A, C},\n};")]), one(&["a", "b"]), "by a tree");
    let face = ("c/mod.rs", "mod d;\npub(crate) use d::D;\nuse super::e::E;");
    let own = ("c/d.rs", "use super::f;");
    assert_eq!(
        circles(&[face, ("c/d.rs", ""), ("e.rs", "use crate::c::D;")]),
        none,
        "the face only hands on what it has"
    );
    assert_eq!(circles(&[("c/mod.rs", "use d::D;"), own]), one(&["c", "c/d"]), "a child and its parent");
    assert_eq!(circles(&[up, ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}")]), none, "tests");
    let own = ("c/d.rs", "pub(in super::super) fn f() {}");
    assert_eq!(circles(&[("c/mod.rs", "use d::f;"), own, ("lib.rs", "use c::f;")]), none, "visibility");
    let above = "#[cfg(test)]\nmod tests;\nuse crate::a::A;";
    assert_eq!(circles(&[up, ("b.rs", above)]), one(&["a", "b"]), "below the declaration of tests");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for sources in CRATES {
        let modules = Modules::read(rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(sources)));
        for circle in modules.circles() {
            let files: Vec<String> =
                circle.iter().map(|module| format!("{sources}/{}", module.join("/"))).collect();
            wrong.push(format!("a circle of {}", files.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
