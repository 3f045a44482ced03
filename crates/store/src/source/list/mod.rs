//! The files of a data set, and their order: the same on every kind of store.

mod key_types;
mod local;
mod partition;
mod remote;
mod splits;

use std::collections::BTreeSet;

use forebay_base::{Error, ErrorKind, Place, Result};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::clouds::Meaning;
use super::other_formats::OtherFormat;
use super::remote::no_footer;
use super::store::{Store, Volume};
use super::tables::{TableFolder, TableFormat, TableRoot};
use super::url::Target;
use crate::snapshot::{DataFile, Snapshot};

pub use key_types::KeyTypes;
pub use partition::FolderFilter;
pub(super) use partition::settle;

/// The suffix of the files in a folder that are read.
const SUFFIX: &str = ".parquet";

/// The end of the names of empty objects by which Hadoop marks folders.
const FOLDER_MARK: &str = "_$folder$";

/// Names in a folder without Parquet that the message lists.
const NAMES_SHOWN: usize = 5;

/// Locations that are searched at the same time.
const AT_ONCE: usize = 32;

/// The content of a location.
enum Location {
    /// Files that are read as they are.
    Files(Snapshot),
    /// A table, whose format says which files are live.
    Table(&'static dyn TableFormat, TableRoot),
}

/// Finds the files of all targets, each with the store's volume that it is in.
pub(super) async fn find(store: &Store, targets: Vec<(usize, Target)>) -> Result<Snapshot> {
    let finds = targets.into_iter().map(|(volume, target)| find_one(store, volume, target).boxed());
    let all = Snapshot::union(stream::iter(finds).buffered(AT_ONCE).try_collect().await?)?;
    store.blocking(move || local::refuse_twins(&all.files).map(|()| all)).await
}

async fn find_one(store: &Store, volume: usize, target: Target) -> Result<Snapshot> {
    let location = match (store.volume(volume)?, target) {
        (Volume::Remote(remote), Target::Remote(address)) => match address.lists() {
            true => remote::find(remote, volume, &address.meanings()).await?,
            false => remote::find_alone(remote, volume, address.key()).await?,
        },
        (_, target) => store.blocking(move || local::find(&target, volume)).await?,
    };
    snapshot(store, volume, location).await
}

/// Finds the files below a prefix of a store that the user brought.
pub(super) async fn find_in(store: &Store, volume: usize, key: &str) -> Result<Snapshot> {
    let Volume::Remote(remote) = store.volume(volume)? else {
        return Err(Error::new(ErrorKind::Internal, "the volume is not a store"));
    };
    let location = remote::find(remote, volume, &[Meaning::of(key)]).await?;
    Snapshot::union(vec![snapshot(store, volume, location).await?])
}

async fn snapshot(store: &Store, volume: usize, location: Location) -> Result<Snapshot> {
    match location {
        Location::Files(mut snapshot) => {
            let paths = snapshot.files.iter().filter_map(|file| file.whole.strip_prefix(&*snapshot.root));
            let paths = paths.map(|path| path.trim_start_matches('/'));
            snapshot.splits = splits::several(&snapshot.root, paths).into_iter().collect();
            Ok(snapshot)
        }
        Location::Table(format, root) => format.snapshot(&TableFolder { store, volume, root }).await,
    }
}

/// One file below a folder, by its path from there.
pub(super) async fn file_below(
    store: &Store,
    volume: usize,
    root: &TableRoot,
    relative: &str,
) -> Result<DataFile> {
    match (store.volume(volume)?, root) {
        (Volume::Remote(remote), TableRoot::Key(key)) => {
            remote::file_below(remote, volume, key, relative).await
        }
        (_, TableRoot::Folder(folder)) => {
            let path = folder.join(relative);
            store.blocking(move || local::file(path, volume)).await
        }
        _ => Err(Error::new(ErrorKind::Internal, "a key on the local disk")),
    }
}

/// The files of a folder that are read: those with the suffix, or, if none has it, those without any.
fn chosen<T>(files: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let parquet: Vec<&T> = files.iter().filter(|file| has_suffix(name(file))).collect();
    match parquet.is_empty() {
        // Spark's own tools, and others, can write part files without a suffix.
        true => files.iter().filter(|file| !name(file).contains('.')).collect(),
        false => parquet,
    }
}

/// Names that Spark, Hive, Hadoop and editors give to files that are not data: `_SUCCESS`, `_metadata`, `.part-0.crc`,
/// `train_$folder$`.
fn is_hidden(name: &str) -> bool {
    // A Hive folder of a column whose name begins with an underscore is data: `_key=3`.
    name.starts_with('.') || (name.starts_with('_') && !name.contains('=')) || name.ends_with(FOLDER_MARK)
}

fn has_suffix(name: &str) -> bool {
    name.len() > SUFFIX.len() && name.is_char_boundary(name.len() - SUFFIX.len()) && {
        name[name.len() - SUFFIX.len()..].eq_ignore_ascii_case(SUFFIX)
    }
}

fn nothing(place: Place, cause: &str, names: BTreeSet<&str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, cause).at(place);
    let listed: Vec<&str> = names.iter().take(NAMES_SHOWN).copied().collect();
    let error = match names.len().saturating_sub(NAMES_SHOWN) {
        _ if names.is_empty() => error.hint("it is empty, but for files whose names begin with _ or ."),
        0 => error.hint(format!("it has {}", listed.join(", "))),
        more => error.hint(format!("it has {} and {more} more", listed.join(", "))),
    };
    match names.iter().find_map(|name| OtherFormat::of_name(name)) {
        Some(format) => error.hint_also(format.hint()),
        None => error,
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
        for name in [
            "_SUCCESS",
            "_metadata",
            "_common_metadata",
            ".part-0.parquet.crc",
            "_temporary",
            ".git",
            "x_$folder$",
        ] {
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
}
