//! One file below a folder.

use forebay_base::{Error, ErrorKind, Result};

use super::{local, remote};
use crate::snapshot::DataFile;
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
