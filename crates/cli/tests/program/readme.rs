//! Tests that README.md can be followed as it is: its commands are run, and its Rust code is that of an
//! example that runs. Rust code in docs/ must be part of an example too; `python/tests/test_docs.py` runs the
//! rest of docs/.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The fenced blocks of `language` in a page, in order.
fn blocks_of(page: &Path, language: &str) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let fence = format!("\n```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// The fenced blocks of `language` in README.md.
fn blocks(language: &str) -> Vec<String> {
    blocks_of(&root().join("README.md"), language)
}

/// The files below `folder` that end in `suffix`.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found
}

/// Runs a program in `dir`, and returns what it printed.
fn run(program: &Path, arguments: &[&str], dir: &TempDir) -> String {
    let output = Command::new(program).args(arguments).current_dir(dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {complaint}{text}", program.display());
    text
}

#[test]
fn the_rust_block_is_the_example_word_for_word() {
    let example = fs::read_to_string(root().join("examples/train.rs")).unwrap();
    let [block] = &blocks("rust")[..] else { panic!("README.md has one Rust block") };
    assert!(example.contains(block), "examples/train.rs and README.md differ:\n{block}");
}

#[test]
fn every_rust_program_of_the_documentation_is_part_of_an_example() {
    let examples: Vec<String> = files(&root().join("examples"), ".rs")
        .iter()
        .map(|example| fs::read_to_string(example).unwrap())
        .collect();
    let mut seen = 0;
    for page in files(&root().join("docs"), ".md") {
        for block in blocks_of(&page, "rust").into_iter().filter(|block| block.contains("fn main")) {
            seen += 1;
            let is_part = examples.iter().any(|example| example.contains(&block));
            assert!(is_part, "{}: no example has this block:\n{block}", page.display());
        }
    }
    assert!(seen > 0, "docs/ has a Rust program");
}

#[test]
fn the_commands_and_the_example_run() {
    let forebay = PathBuf::from(env!("CARGO_BIN_EXE_forebay"));
    let dir = TempDir::new().unwrap();
    let commands: Vec<String> = blocks("sh").iter().flat_map(|block| block.lines()).map(Into::into).collect();
    assert!(commands.iter().any(|line| line.starts_with("forebay synth photos")), "{commands:?}");
    for line in &commands {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "forebay", "{line}");
        run(&forebay, &words[1..], &dir);
    }
    let example = forebay.with_file_name("examples").join("train");
    assert!(example.exists(), "build it first: cargo build --release --example train");
    let stats = run(&example, &[], &dir);
    let decoded = stats.lines().find_map(|line| line.trim_start().strip_prefix("decode"));
    let images: u64 = decoded.unwrap().split_whitespace().next().unwrap().replace(',', "").parse().unwrap();
    // The loader may have decoded images of the next epoch ahead, before the example printed its statistics.
    assert!((400..=800).contains(&images), "{stats}");
}
