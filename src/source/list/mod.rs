//! Which files a data set consists of, and in which order: the same on every kind of store.

mod local;
mod remote;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::remote::Pin;
use super::store::{Store, Volume};
use super::url::Target;
use crate::error::{Error, ErrorKind, Place, Result};

/// The suffix by which files in a folder are known.
const SUFFIX: &str = ".parquet";

/// How many of the names in a folder without Parquet the message lists.
const NAMES_SHOWN: usize = 5;

/// A file that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its path or URL as the user would write it.
    pub(super) shown: Arc<str>,
    /// Its absolute path or URL, by which it is told from others.
    pub(super) whole: String,
    /// Its path relative to what all locations share, with `/`.
    pub(super) relative: String,
    /// Which of the store's volumes it lies in.
    pub(super) volume: usize,
    pub(super) pin: Pin,
    /// The file's end, where finding it brought that along.
    pub(super) tail: Option<Bytes>,
}

impl Found {
    pub(super) fn place(&self) -> Place {
        Place::file(self.shown.clone())
    }
}

/// Locations that are looked into at the same time.
const AT_ONCE: usize = 32;

/// Finds the files of all targets, each with the store's volume that it lies in; ordered by relative path.
pub(super) async fn find(store: &Store, targets: Vec<(usize, Target)>) -> Result<Vec<Found>> {
    let finds = targets.into_iter().map(|(volume, target)| find_one(store, volume, target).boxed());
    let found: Vec<_> = stream::iter(finds).buffered(AT_ONCE).try_collect().await?;
    let (roots, found): (Vec<String>, Vec<Vec<Found>>) = found.into_iter().unzip();
    order(found.into_iter().flatten().collect(), &roots)
}

async fn find_one(store: &Store, volume: usize, target: Target) -> Result<(String, Vec<Found>)> {
    match (store.volume(volume)?, target) {
        (Volume::Remote(remote), Target::Remote(address)) => {
            remote::find(remote, volume, address.key(), address.lists()).await
        }
        (_, target) => store.blocking(move || local::find(&target, volume)).await,
    }
}

/// Finds the files below a prefix of a store that the user brought.
pub(super) async fn find_in(store: &Store, volume: usize, key: &str) -> Result<Vec<Found>> {
    let Volume::Remote(remote) = store.volume(volume)? else {
        return Err(Error::new(ErrorKind::Internal, "the volume is not a store"));
    };
    let (root, files) = remote::find(remote, volume, key, true).await?;
    order(files, &[root])
}

/// Puts files into their order. `roots` are the folders that the targets name.
fn order(mut found: Vec<Found>, roots: &[String]) -> Result<Vec<Found>> {
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no location is given"));
    }
    let shared = common(roots);
    for file in &mut found {
        let below = file.whole.strip_prefix(shared).unwrap_or(&file.whole);
        file.relative = below.trim_start_matches('/').to_string();
    }
    found.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
    let mut seen = HashSet::new();
    match found.iter().find(|file| !seen.insert(file.whole.as_str())) {
        Some(twice) => Err(Error::invalid("the file is matched by two locations").at(twice.place())),
        None => Ok(found),
    }
}

/// The deepest folder that all of them lie in.
fn common(folders: &[String]) -> &str {
    let Some((first, rest)) = folders.split_first() else { return "" };
    let lies_in = |folder: &str, outer: &str| {
        folder.strip_prefix(outer).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    let borders = first.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
    let mut outer: Vec<usize> = std::iter::once(0).chain(borders).chain([first.len()]).collect();
    outer.reverse();
    let shared = outer.into_iter().map(|end| &first[..end]);
    shared.into_iter().find(|outer| rest.iter().all(|folder| lies_in(folder, outer))).unwrap_or("")
}

/// Of the files in a folder, those that are read: the ones with the suffix, or, where none has it, those without any.
fn chosen<T>(files: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let parquet: Vec<&T> = files.iter().filter(|file| has_suffix(name(file))).collect();
    match parquet.is_empty() {
        // Spark's own tools, and others, can write part files without any suffix.
        true => files.iter().filter(|file| !name(file).contains('.')).collect(),
        false => parquet,
    }
}

/// Names that Spark, Hive, Hadoop and editors give to what is not data: `_SUCCESS`, `_metadata`, `.part-0.crc`.
fn is_hidden(name: &str) -> bool {
    // A Hive folder of a column whose name begins with an underscore is data: `_key=3`.
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

fn has_suffix(name: &str) -> bool {
    name.len() > SUFFIX.len() && name.is_char_boundary(name.len() - SUFFIX.len()) && {
        name[name.len() - SUFFIX.len()..].eq_ignore_ascii_case(SUFFIX)
    }
}

fn nothing(place: Place, cause: &str, names: BTreeSet<&str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, cause).at(place);
    let listed: Vec<&str> = names.iter().take(NAMES_SHOWN).copied().collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        _ if names.is_empty() => error.hint("it is empty"),
        0 => error.hint(format!("it has {}", listed.join(", "))),
        more => error.hint(format!("it has {} and {more} more", listed.join(", "))),
    }
}

fn empty(place: Place) -> Error {
    Error::new(ErrorKind::Corrupt, "the file is empty, not even a footer is there").at(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_data_are_passed_over() {
        for name in ["_SUCCESS", "_metadata", "_common_metadata", ".part-0.parquet.crc", "_temporary", ".git"]
        {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["part-0.parquet", "year=2024", "_key=3", "a_b"] {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn the_suffix_is_known_in_any_case_and_a_bare_suffix_is_none() {
        assert!(has_suffix("a.parquet") && has_suffix("A.PARQUET") && has_suffix("é.parquet"));
        assert!(!has_suffix(".parquet") && !has_suffix("a.parquet.crc") && !has_suffix("parquet"));
    }

    #[test]
    fn the_common_folder_of_one_is_itself() {
        let shared = |folders: &[&str]| {
            let folders: Vec<String> = folders.iter().map(ToString::to_string).collect();
            common(&folders).to_string()
        };
        assert_eq!(shared(&["/a/b"]), "/a/b");
        assert_eq!(shared(&["/a/b", "/a/c/d"]), "/a");
        assert_eq!(shared(&["/a/b", "/a/b/d"]), "/a/b");
        assert_eq!(shared(&["/a/b", "/a/bc"]), "/a");
        assert_eq!(shared(&["s3://acme/x", "s3://acme/y"]), "s3://acme");
        assert_eq!(shared(&["/a", "s3://acme/y"]), "");
    }
}
