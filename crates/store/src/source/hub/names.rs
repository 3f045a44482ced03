//! Finds the split of files by their names and their folders, in the order of preference in which Hugging
//! Face's `datasets` tries the kinds of names.

use std::collections::BTreeSet;

/// The words for each of the usual splits, of which the first is its name.
const WORDS: [&[&str]; 3] = [
    &["train", "training"],
    &["validation", "valid", "dev", "val"],
    &["test", "testing", "eval", "evaluation"],
];

/// The beginning of the folder in which the hub keeps a part of a split that is too large to convert.
const PARTIAL: &str = "partial-";

/// The name that all names of a split share.
fn canonical(word: &str) -> String {
    let word = word.to_lowercase();
    WORDS.iter().find(|words| words.contains(&&*word)).map_or(word, |words| words[0].to_owned())
}

/// A kind of names that show a split.
#[derive(Clone, Copy)]
enum NameKind {
    /// `train-00000-of-00005.parquet`: any split, and its number of files.
    Numbered,
    /// A folder with the name of a split.
    Folder,
    /// A word in the name of the file.
    Word,
}

/// For each path, whether it belongs to `split`. If no name shows a split, all files are of the split
/// `train`.
///
/// # Errors
/// The splits that the names show, if `split` is not one of them.
pub(super) fn of_split(split: &str, paths: &[&str]) -> Result<Vec<bool>, Vec<String>> {
    let wanted = canonical(split);
    let mut shown = BTreeSet::new();
    for kind in [NameKind::Numbered, NameKind::Folder, NameKind::Word] {
        let found: Vec<Option<String>> = paths.iter().map(|path| shown_by(kind, &wanted, path)).collect();
        if found.iter().flatten().any(|split| *split == wanted) {
            return Ok(found.into_iter().map(|split| split.as_deref() == Some(&*wanted)).collect());
        }
        shown.extend(found.into_iter().flatten());
    }
    match shown.is_empty() && wanted == WORDS[0][0] && !paths.is_empty() {
        true => Ok(vec![true; paths.len()]),
        false => Err(shown.into_iter().collect()),
    }
}

/// The folder above the one whose name shows that a file belongs to `split`; `None` if no folder shows it.
pub(super) fn above_folder_of<'a>(split: &str, path: &'a str) -> Option<&'a str> {
    let wanted = canonical(split);
    if shown_by(NameKind::Numbered, &wanted, path).is_some() {
        return None;
    }
    let mut start = 0;
    for name in path.split('/') {
        let is_folder = start + name.len() < path.len();
        if is_folder && canonical(name.strip_prefix(PARTIAL).unwrap_or(name)) == wanted {
            return Some(path[..start].trim_end_matches('/'));
        }
        start += name.len() + 1;
    }
    None
}

/// The split that a path shows by names of one kind. A word that is not one of the usual ones is a split only
/// if it is the `wanted` one.
fn shown_by(kind: NameKind, wanted: &str, path: &str) -> Option<String> {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let known = |word: &str| {
        let word = canonical(word);
        (word == wanted || WORDS.iter().any(|words| words[0] == word)).then_some(word)
    };
    match kind {
        NameKind::Numbered => numbered(file).map(canonical),
        NameKind::Folder => {
            let mut names = folders.split('/').map(|name| name.strip_prefix(PARTIAL).unwrap_or(name));
            names.find_map(known)
        }
        NameKind::Word => {
            let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
            let words = stem.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
            std::iter::once(stem).chain(words).find_map(known)
        }
    }
}

/// The split in a name such as `train-00000-of-00005.parquet`.
fn numbered(file: &str) -> Option<&str> {
    let are_digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (before, after) = file.rsplit_once("-of-")?;
    let (split, number) = before.rsplit_once('-')?;
    let is_numbered = are_digits(number) && after.get(..5).is_some_and(are_digits) && !split.is_empty();
    is_numbered.then_some(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_the_first_kind_of_names_that_shows_the_split() {
        let cases: [(&str, &[&str], &[usize]); 9] = [
            ("train", &["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"], &[0, 1]),
            (
                "unsupervised",
                &["data/unsupervised-00000-of-00001-a8.parquet", "data/test-00000-of-00001.parquet"],
                &[0],
            ),
            ("validation", &["dev/0.parquet", "train/0.parquet"], &[0]),
            ("train", &["partial-train/0000.parquet", "test/0000.parquet"], &[0]),
            ("test", &["eval.parquet", "train.parquet"], &[0]),
            ("test", &["my_file-test_2.parquet", "latest.parquet"], &[0]),
            ("train", &["a.parquet", "b.parquet"], &[0, 1]),
            ("forget10", &["forget10.parquet", "retain90.parquet"], &[0]),
            ("train", &["train/test-part.parquet", "test/train-part.parquet"], &[0]),
        ];
        for (split, paths, expected) in cases {
            let found = of_split(split, paths).unwrap_or_else(|splits| panic!("{paths:?}: {splits:?}"));
            let found: Vec<usize> = (0..).zip(found).filter(|(_, found)| *found).map(|(at, _)| at).collect();
            assert_eq!(found, expected, "{split} of {paths:?}");
        }
        assert_eq!(
            of_split("dev", &["train/a.parquet", "test.parquet"]),
            Err(vec!["test".into(), "train".into()])
        );
        assert_eq!(of_split("dev", &["a.parquet"]), Err(vec![]));
    }

    #[test]
    fn a_folder_of_a_split_is_in_another_folder() {
        assert_eq!(above_folder_of("train", "en/train/0.parquet"), Some("en"));
        assert_eq!(above_folder_of("val", "en/x/validation/0.parquet"), Some("en/x"));
        assert_eq!(above_folder_of("train", "train/0.parquet"), Some(""));
        assert_eq!(above_folder_of("train", "en/train/train-00000-of-00001.parquet"), None);
        assert_eq!(above_folder_of("train", "en/train.parquet"), None);
    }
}
