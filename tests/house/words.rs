//! Checks the wording of comments: a comment is a plain sentence that is understood where it stands, no wider
//! than the code, and a type name means one thing.
#![allow(clippy::unwrap_used, reason = "a test stops at the first failure")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::paths::rust_files;

/// The folders with Rust, from the root of the repository.
const FOLDERS: [&str; 6] = ["benches", "crates", "fuzz", "python/src", "src", "tests"];

/// The longest line of a comment, in characters.
const MAX_WIDTH: usize = 110;

/// Phrases after which the reader misses a number or a noun.
const PHRASES: [&str; 8] = [
    " so many",
    " as ever",
    " is no ",
    " are no ",
    " the same of ",
    " of each. ",
    " whoever ",
    " those who ",
];

/// Good phrases that contain one of the others.
const EXCEPTIONS: [&str; 4] = [" there is no ", " there are no ", " is no longer ", " are no longer "];

/// Beginnings of a comment that is only understood with another sentence.
const OPENERS: [&str; 11] = [
    "Of ",
    "Those of ",
    "That of ",
    "The same, ",
    "The same. ",
    "As [`",
    "By which ",
    "Likewise",
    "Or ",
    "What ",
    "Whose ",
];

/// The most definitions that a type name may have.
const MAX_DEFINITIONS: usize = 2;

/// Names that may have more definitions: each command has its `Args`, as clap's examples do.
const CONVENTIONS: [&str; 1] = ["Args"];

#[test]
fn comments_are_understood_where_they_stand() {
    let mut found = Vec::new();
    for (file, text) in texts() {
        for comment in comments(&text) {
            let words = EXCEPTIONS
                .iter()
                .fold(format!(" {} ", comment.text.to_lowercase()), |words, good| words.replace(good, " "));
            let phrase = PHRASES.iter().find(|phrase| words.contains(**phrase));
            let opener = OPENERS.iter().find(|opener| comment.text.starts_with(**opener));
            for unclear in phrase.into_iter().chain(opener) {
                found.push(format!("{file}:{}: {unclear:?}: {}", comment.line, comment.text));
            }
        }
    }
    assert!(found.is_empty(), "say it in a sentence with its noun:\n{}", found.join("\n"));
}

#[test]
fn comments_are_as_wide_as_the_code() {
    let mut found = Vec::new();
    for (file, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            if comment.starts_with("//") && line.chars().count() > MAX_WIDTH && !is_table(comment) {
                found.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "break these lines at {MAX_WIDTH} characters:\n{}", found.join("\n"));
}

#[test]
fn a_type_name_means_one_thing() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in texts() {
        for name in text.lines().filter_map(defined) {
            places.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    places.retain(|name, files| files.len() > MAX_DEFINITIONS && !CONVENTIONS.contains(&name.as_str()));
    assert!(places.is_empty(), "give these types names of their own: {places:#?}");
}

#[test]
fn a_comment_is_its_lines_together() {
    let text = "/// The rows\n/// of each.\n///\n/// Of rows.\nlet x = 1; // Of a line\n  // One\n";
    let found: Vec<(usize, String)> =
        comments(text).into_iter().map(|comment| (comment.line, comment.text)).collect();
    let expected = [(1, "The rows of each."), (4, "Of rows."), (6, "One")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(defined("    pub(crate) struct Name<'a> {"), Some("Name"));
    assert_eq!(defined("let structure = 1;"), None);
}

/// A paragraph of a comment.
struct Comment {
    /// The number of the paragraph's first line.
    line: usize,
    text: String,
}

/// The paragraphs of all comments on lines of their own, without code examples.
fn comments(text: &str) -> Vec<Comment> {
    let mut all: Vec<Comment> = Vec::new();
    let (mut goes_on, mut is_code) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            (goes_on, is_code) = (false, false);
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            (goes_on, is_code) = (false, !is_code);
        } else if comment.is_empty() || is_code {
            goes_on = false;
        } else if goes_on {
            let last = all.last_mut().unwrap();
            last.text = format!("{} {comment}", last.text);
        } else {
            all.push(Comment { line: number + 1, text: comment.to_owned() });
            goes_on = true;
        }
    }
    all
}

/// Whether a comment is a row of a table, which Markdown keeps on one line, or of a drawing.
fn is_table(comment: &str) -> bool {
    let comment = comment.trim_start_matches(['/', '!']);
    comment.trim_start().starts_with('|') || comment.starts_with("    ")
}

/// The name of the type that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|of: char| of != ' ').trim_start(),
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let end = rest.find(|of: char| !of.is_alphanumeric() && of != '_').unwrap_or(rest.len());
    (matches!(kind, "struct" | "enum" | "union" | "trait") && end > 0).then(|| &rest[..end])
}

/// The Rust files of all folders, with their texts.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let below = |folder: &&str| {
        let folder = (*folder).to_owned();
        let files = rust_files(&root.join(&folder)).into_iter();
        files.map(move |(name, text)| (format!("{folder}/{name}"), text))
    };
    FOLDERS.iter().flat_map(below).collect()
}
