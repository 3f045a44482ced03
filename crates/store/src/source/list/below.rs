//! One file by its path.

use forebay_base::{Error, ErrorKind, Result};
use object_store::path::Path;

use super::{local, remote};
use crate::snapshot::{DataFile, Pin};
use crate::source::store::{Store, Volume};
use crate::source::tables::TableRoot;

/// One file below a folder, by its path from there.
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

/// The file at a path of a volume as it is now, if it is there.
pub(in crate::source) async fn pinned(store: &Store, volume: usize, path: &Path) -> Result<Option<Pin>> {
    match store.volume(volume)? {
        Volume::Remote(remote) => Ok(remote.head(path).await?.as_ref().map(Pin::of)),
        Volume::Local => {
            let path = std::path::Path::new("/").join(path.as_ref());
            store.blocking(move || local::pinned(&path)).await
        }
    }
}
