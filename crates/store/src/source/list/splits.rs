//! Warns if one location has files of several splits: `train-00000-of-00002.parquet` beside
//! `test-00000-of-00001.parquet`, or folders with such names. All files are read as one data set, which is
//! hardly ever what a user wants.
//!
//! There is no warning if the locations name the splits: each location then has files of one split. Folders
//! such as `split=train` cause no warning either, because their keys become a column.

use std::collections::BTreeMap;
use std::ops::Range;

use super::names::SUFFIX;

/// The purpose of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Split {
    Train,
    Validation,
    Test,
}

/// The words in the names of files and folders by which a split is recognised.
const WORDS: [(&str, Split); 11] = [
    ("train", Split::Train),
    ("training", Split::Train),
    ("validation", Split::Validation),
    ("valid", Split::Validation),
    ("val", Split::Validation),
    ("dev", Split::Validation),
    ("test", Split::Test),
    ("testing", Split::Test),
    ("eval", Split::Test),
    ("evaluation", Split::Test),
    ("holdout", Split::Test),
];

/// The files of one split that were found.
struct SplitFiles<'a> {
    files: usize,
    /// The word that names the split in the path of the first file.
    word: &'a str,
    /// A folder or a glob for files like the first one, as a suggestion.
    like: String,
}

/// The warning about files of several splits, for files at these paths below `root`. Returns `None` if there
/// is only one split, or if the names of most files show no split.
pub(in crate::source) fn several<'a>(root: &str, paths: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let (mut all, mut found) = (0, BTreeMap::<Split, SplitFiles>::new());
    for path in paths {
        all += 1;
        if let Some((split, range)) = split_of(path) {
            let first = || SplitFiles { files: 0, word: &path[range.clone()], like: like(path, range.end) };
            found.entry(split).or_insert_with(first).files += 1;
        }
    }
    let told: usize = found.values().map(|found| found.files).sum();
    if found.len() < 2 || told * 2 < all {
        return None;
    }
    let splits: Vec<String> =
        found.values().map(|SplitFiles { word, files, .. }| format!("{word} ({files})")).collect();
    let (word, first) = found.values().next().map(|found| (found.word, format!("{root}/{}", found.like)))?;
    Some(format!(
        "{root} has files of several splits: {}. All of them are read as one data set; to read one split, pass split, such \
         as {word:?}, or name its files, such as {first}",
        splits.join(", ")
    ))
}

/// The split of a file, and where the word that names it is in the path. The first name in the
/// path that has words of exactly one split decides.
fn split_of(path: &str) -> Option<(Split, Range<usize>)> {
    let mut start = 0;
    for name in path.split('/') {
        let known = words(name).filter_map(|(at, word)| {
            let (_, split) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?;
            Some((*split, start + at..start + at + word.len()))
        });
        let known: Vec<_> = known.collect();
        if let Some((split, range)) = known.first()
            && !name.contains('=')
            && known.iter().all(|(other, _)| other == split)
        {
            return Some((*split, range.clone()));
        }
        start += name.len() + 1;
    }
    None
}

/// The words of a name, each with its position: `train2017-b` has the words `train` and `b`.
fn words(name: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = name.split(|c: char| !c.is_ascii_alphabetic());
    parts.filter(|word| !word.is_empty()).map(move |word| (word.as_ptr().addr() - name.as_ptr().addr(), word))
}

/// A suggestion for opening one split. If the word that ends at `end` is in the name of a folder, it is this
/// folder; otherwise it is a glob for files whose names begin in the same way.
fn like(path: &str, end: usize) -> String {
    match path[end..].find('/') {
        Some(at) => path[..end + at].to_owned(),
        None => format!("{}*{SUFFIX}", &path[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paths: &[&str]) -> Option<String> {
        several("/data", paths.iter().copied())
    }

    #[test]
    fn files_of_several_splits_are_counted_and_one_split_is_named() {
        for (paths, splits, like) in [
            (
                &[
                    "test-00000-of-00001.parquet",
                    "train-00000-of-00002.parquet",
                    "train-00001-of-00002.parquet",
                ][..],
                "train (2), test (1)",
                "/data/train*.parquet",
            ),
            (&["dev/a.parquet", "dev/b.parquet", "eval/a.parquet"], "dev (2), eval (1)", "/data/dev"),
            (&["x/train2017/0.parquet", "x/val2017/0.parquet"], "train (1), val (1)", "/data/x/train2017"),
            (
                &["en/c4-Train.0.parquet", "en/c4-valid.0.parquet", "notes.parquet"],
                "Train (1), valid (1)",
                "/data/en/c4-Train*.parquet",
            ),
            (&["train/test-0.parquet", "test/train-0.parquet"], "train (1), test (1)", "/data/train"),
        ] {
            let said = said(paths).unwrap_or_else(|| panic!("{paths:?}"));
            assert!(said.contains(&format!("splits: {splits}. ")), "{said}");
            assert!(said.ends_with(&format!("such as {like}")), "{said}");
        }
    }

    #[test]
    fn nothing_is_said_of_one_split_nor_of_names_that_only_look_alike() {
        for paths in [
            &["train-0.parquet", "train-1.parquet"][..],
            &["part-0.parquet", "part-1.parquet"],
            &["split=train/0.parquet", "split=test/0.parquet"],
            &["pretrain-0.parquet", "latest-0.parquet", "devices-0.parquet"],
            &["train-test-0.parquet", "train-val-1.parquet"],
            &["train/0.parquet", "train/test-0.parquet"],
            &["a.parquet", "b.parquet", "c.parquet", "d.parquet", "e.parquet", "dev.parquet", "test.parquet"],
        ] {
            assert_eq!(said(paths), None, "{paths:?}");
        }
    }
}
