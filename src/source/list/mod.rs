//! Which files a data set consists of, and in which order: the same on every kind of store.

mod local;
mod partition;
mod remote;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::clouds::Meaning;
use super::remote::{Pin, no_footer};
use super::store::{Store, Volume};
use super::url::Target;
use crate::error::{Error, ErrorKind, Place, Result};

pub(super) use partition::Keys;

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

/// What one location holds.
#[derive(Debug)]
struct Listing {
    /// The folder that it names, by which it is told from others.
    root: String,
    files: Vec<Found>,
    keys: Keys,
}

impl Listing {
    /// A file that was named.
    fn of_file(file: Found) -> Self {
        Listing { root: parent(&file.whole), files: vec![file], keys: Keys::default() }
    }
}

/// Finds the files of all targets, each with the store's volume that it lies in; ordered by relative path. Beside them
/// the partition keys that the targets do not name.
pub(super) async fn find(store: &Store, targets: Vec<(usize, Target)>) -> Result<(Vec<Found>, Vec<Keys>)> {
    let finds = targets.into_iter().map(|(volume, target)| find_one(store, volume, target).boxed());
    let listings: Vec<Listing> = stream::iter(finds).buffered(AT_ONCE).try_collect().await?;
    order(listings)
}

async fn find_one(store: &Store, volume: usize, target: Target) -> Result<Listing> {
    match (store.volume(volume)?, target) {
        (Volume::Remote(remote), Target::Remote(address)) => match address.lists() {
            true => remote::find(remote, volume, &address.meanings()).await,
            false => remote::find_alone(remote, volume, address.key()).await,
        },
        (_, target) => store.blocking(move || local::find(&target, volume)).await,
    }
}

/// Finds the files below a prefix of a store that the user brought.
pub(super) async fn find_in(store: &Store, volume: usize, key: &str) -> Result<(Vec<Found>, Vec<Keys>)> {
    let Volume::Remote(remote) = store.volume(volume)? else {
        return Err(Error::new(ErrorKind::Internal, "the volume is not a store"));
    };
    order(vec![remote::find(remote, volume, &[Meaning::of(key)]).await?])
}

/// Puts files into their order.
fn order(listings: Vec<Listing>) -> Result<(Vec<Found>, Vec<Keys>)> {
    let (mut roots, mut found, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for listing in listings {
        roots.push(listing.root);
        found.extend(listing.files);
        keys.push(listing.keys);
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no location is given"));
    }
    let shared = common(&roots);
    for file in &mut found {
        let below = file.whole.strip_prefix(shared).unwrap_or(&file.whole);
        file.relative = below.trim_start_matches('/').to_string();
    }
    found.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
    let mut seen = HashSet::new();
    match found.iter().find(|file| !seen.insert(file.whole.as_str())) {
        Some(twice) => Err(Error::invalid("the file is matched by two locations").at(twice.place())),
        None => Ok((found, keys)),
    }
}

/// The folder that a path or URL lies in.
fn parent(whole: &str) -> String {
    whole.rsplit_once('/').map_or("", |(folder, _)| folder).to_string()
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
    no_footer().at(place)
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
