//! Looks up single files by their paths, mainly for tables, which list their files.

use forebay_base::{Error, ErrorKind, Place, Result, paths};
use object_store::path::Path;

use super::{local, remote};
use crate::snapshot::{DataFile, FileVersion, Pin};
use crate::source::local::{object_path, place};
use crate::source::store::{Store, Volume};
use crate::source::tables::{FoundFile, TableRoot};

/// Looks up one file, whose path `relative` is below the folder `root`.
pub(in crate::source) async fn file_below(
    store: &Store,
    volume: usize,
    root: &TableRoot,
    relative: &str,
) -> Result<DataFile> {
    match (store.volume(volume)?, root) {
        (Volume::Remote(remote), TableRoot::Key(key)) => {
            remote::file::file_below(remote, volume, key, relative).await
        }
        (_, TableRoot::Folder(folder)) => {
            let path = folder.join(relative);
            store.blocking(move || local::file::file(path, volume)).await
        }
        _ => Err(Error::new(ErrorKind::Internal, "a key on the local disk")),
    }
}

/// The absolute path or URL of a table's folder, without a `/` at the end.
pub(in crate::source) fn location(store: &Store, volume: usize, root: &TableRoot) -> Result<String> {
    match (store.volume(volume)?, root) {
        (Volume::Remote(remote), TableRoot::Key(key)) => {
            Ok(remote.shown(key).trim_end_matches('/').to_owned())
        }
        (_, TableRoot::Folder(folder)) => {
            let absolute = local::file::absolute(folder)?;
            let text = paths::text(&absolute).map_err(|error| error.at(place(folder)))?;
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(Error::new(ErrorKind::Internal, "a key on the local disk")),
    }
}

/// Lists the files directly in the folder `relative`, which is below the folder of a table. There are none if
/// the folder does not exist.
pub(in crate::source) async fn files_in(
    store: &Store,
    volume: usize,
    root: &TableRoot,
    relative: &str,
) -> Result<Vec<FoundFile>> {
    match (store.volume(volume)?, root) {
        (Volume::Remote(remote), TableRoot::Key(key)) => remote::file::files_in(remote, key, relative).await,
        (_, TableRoot::Folder(folder)) => {
            let folder = folder.join(relative);
            store.blocking(move || local::file::files_in(&folder)).await
        }
        _ => Err(Error::new(ErrorKind::Internal, "a key on the local disk")),
    }
}

/// A file of a table. Its path below the table's folder, its size and its version are known, so it is not
/// looked up.
pub(in crate::source) fn written(
    store: &Store,
    volume: usize,
    root: &TableRoot,
    relative: &str,
    size: u64,
    version: FileVersion,
) -> Result<DataFile> {
    let pin = |path| Pin { path, size, version };
    match (store.volume(volume)?, root) {
        (Volume::Remote(remote), TableRoot::Key(key)) => {
            let key = remote::file::joined(key, relative);
            let whole = remote.shown(&key);
            let path = remote::file::path(&key).map_err(|error| error.at(Place::file(whole.as_str())))?;
            Ok(DataFile::plain(whole.as_str().into(), whole, volume, pin(path)))
        }
        (_, TableRoot::Folder(folder)) => {
            let (shown, absolute) = (folder.join(relative), local::file::absolute(folder)?.join(relative));
            let path = object_path(&absolute)?;
            let whole = absolute.to_string_lossy().into_owned();
            Ok(DataFile::plain(shown.to_string_lossy().into(), whole, volume, pin(path)))
        }
        _ => Err(Error::new(ErrorKind::Internal, "a key on the local disk")),
    }
}

/// A file anywhere in a volume, with a known path, size and version. On the local disk it is looked up
/// nevertheless, because the path may lead to something other than a file.
pub(in crate::source) async fn beside(
    store: &Store,
    volume: usize,
    path: &str,
    size: u64,
    version: FileVersion,
) -> Result<DataFile> {
    match store.volume(volume)? {
        Volume::Remote(remote) => {
            let whole = remote.shown(path);
            let path = remote::file::path(path).map_err(|error| error.at(Place::file(whole.as_str())))?;
            let pin = Pin { path, size, version };
            Ok(DataFile::plain(whole.as_str().into(), whole, volume, pin))
        }
        Volume::Local => {
            let path = std::path::Path::new("/").join(path);
            store.blocking(move || local::file::file(path, volume)).await
        }
    }
}

/// Looks up the present size and version of a file; `None` if it does not exist.
pub(in crate::source) async fn pinned(store: &Store, volume: usize, path: &Path) -> Result<Option<Pin>> {
    match store.volume(volume)? {
        Volume::Remote(remote) => Ok(remote.head(path).await?.as_ref().map(Pin::from_meta)),
        Volume::Local => {
            let path = std::path::Path::new("/").join(path.as_ref());
            store.blocking(move || local::pinned(&path)).await
        }
    }
}
