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

/// The files of a split cannot be told from the names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnfitNames {
    /// No name shows the split. The names show these splits.
    Unshown(Vec<String>),
    /// This file shows the split by names of another kind than those that decide.
    OtherKind(String),
    /// The split has files below each of these folders.
    Folders(Vec<String>),
}

/// For each path, whether it belongs to `split`. The first kind of names by which any file shows a split
/// decides for all files. If no name shows a split, all files are of the split `train`. With `in_one_folder`,
/// the split may not have files below several folders.
pub(super) fn of_split(split: &str, paths: &[&str], in_one_folder: bool) -> Result<Vec<bool>, UnfitNames> {
    let wanted = canonical(split);
    let kinds = [NameKind::Numbered, NameKind::Folder, NameKind::Word];
    let shown = |kind: NameKind, path: &str| shown_by(kind, &wanted, path);
    let Some(kind) = kinds.into_iter().find(|kind| paths.iter().any(|path| shown(*kind, path).is_some()))
    else {
        return match wanted == WORDS[0][0] && !paths.is_empty() {
            true => Ok(vec![true; paths.len()]),
            false => Err(UnfitNames::Unshown(Vec::new())),
        };
    };
    let found: Vec<Option<String>> = paths.iter().map(|path| shown(kind, path)).collect();
    let shows_otherwise = |path: &str| kinds.iter().any(|kind| shown(*kind, path).as_ref() == Some(&wanted));
    let other = paths.iter().zip(&found).find(|(path, found)| found.is_none() && shows_otherwise(path));
    if let Some((path, _)) = other {
        return Err(UnfitNames::OtherKind((*path).to_owned()));
    }
    let is_wanted = |split: &Option<String>| split.as_ref() == Some(&wanted);
    if !found.iter().any(is_wanted) {
        let splits: BTreeSet<String> = found.into_iter().flatten().collect();
        return Err(UnfitNames::Unshown(splits.into_iter().collect()));
    }
    if in_one_folder {
        let chosen = paths.iter().zip(&found).filter(|(_, split)| is_wanted(split));
        let folders: BTreeSet<String> = chosen.map(|(path, _)| folder_of(kind, &wanted, path)).collect();
        if folders.len() > 1 {
            return Err(UnfitNames::Folders(folders.into_iter().collect()));
        }
    }
    Ok(found.iter().map(is_wanted).collect())
}

/// The folder of a file of a split: the one above the folder whose name shows the split, or else the one with
/// the file. Folders of a partition, such as `day=7`, do not count.
fn folder_of(kind: NameKind, wanted: &str, path: &str) -> String {
    let (folders, _) = path.rsplit_once('/').unwrap_or_default();
    let folders = folders.split('/').filter(|folder| !folder.contains('='));
    let shows = |folder: &str| canonical(folder.strip_prefix(PARTIAL).unwrap_or(folder)) == wanted;
    let above: Vec<&str> = match kind {
        NameKind::Folder => folders.take_while(|folder| !shows(folder)).collect(),
        NameKind::Numbered | NameKind::Word => folders.collect(),
    };
    above.join("/")
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
            let found = of_split(split, paths, true).unwrap_or_else(|unfit| panic!("{paths:?}: {unfit:?}"));
            let found: Vec<usize> = (0..).zip(found).filter(|(_, found)| *found).map(|(at, _)| at).collect();
            assert_eq!(found, expected, "{split} of {paths:?}");
        }
        assert_eq!(
            of_split("dev", &["train/a.parquet", "test/b.parquet"], true),
            Err(UnfitNames::Unshown(vec!["test".into(), "train".into()]))
        );
        assert_eq!(of_split("dev", &["a.parquet"], true), Err(UnfitNames::Unshown(vec![])));
    }

    /// Otherwise a file could be in two splits, or in none.
    #[test]
    fn one_kind_of_names_decides_for_all_files() {
        let numbered = ["train/b.parquet", "train/test-00000-of-00001.parquet"];
        assert_eq!(of_split("train", &numbered, true), Err(UnfitNames::OtherKind(numbered[0].into())));
        assert_eq!(of_split("test", &numbered, true), Ok(vec![false, true]));
        let mixed = ["test-00000-of-00001.parquet", "test/more.parquet", "train-00000-of-00001.parquet"];
        assert_eq!(of_split("test", &mixed, true), Err(UnfitNames::OtherKind(mixed[1].into())));
        assert_eq!(of_split("train", &mixed, true), Ok(vec![false, false, true]));
    }

    #[test]
    fn a_split_has_files_below_one_folder() {
        for paths in [
            ["en/train/0.parquet", "fr/train/0.parquet"],
            ["en/train.parquet", "fr/my-train.parquet"],
            ["en/train-00000-of-00001.parquet", "fr/train-00000-of-00001.parquet"],
        ] {
            let folders = UnfitNames::Folders(vec!["en".into(), "fr".into()]);
            assert_eq!(of_split("train", &paths, true), Err(folders), "{paths:?}");
            assert_eq!(of_split("train", &paths, false), Ok(vec![true; 2]), "{paths:?}");
        }
        for paths in [
            ["train/a/0.parquet", "train/b/0.parquet"],
            ["day=1/train-00000-of-00002.parquet", "day=2/train-00001-of-00002.parquet"],
            ["a/0.parquet", "b/0.parquet"],
        ] {
            assert_eq!(of_split("train", &paths, true), Ok(vec![true; 2]), "{paths:?}");
        }
    }
}
