//! Reads values from `_common_metadata`, a file in which Spark and Petastorm keep metadata of a whole folder.

use std::collections::BTreeMap;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use object_store::path::Path;

use super::clouds::Options;
use super::footer::{IF_DAMAGED, fetch_value};
use super::list::{self, COMMON_METADATA, pinned};
use super::open::connect;
use super::store::Store;
use crate::snapshot::{MetadataFile, Snapshot, WantedVersions};

impl Store {
    /// The values of `key` in the files `_common_metadata` of the folders that were opened. Only files that
    /// were seen when the folders were listed are read.
    ///
    /// Fails with the name of the file if one cannot be read.
    pub async fn common_values(&self, key: &str) -> Result<Vec<StoredValue>> {
        values_of(self, &self.common_metadata, key).await
    }

    /// Whether a `_common_metadata` file was seen when the folders were listed.
    pub fn has_common_metadata(&self) -> bool {
        !self.common_metadata.is_empty()
    }
}

/// A value from the key-value metadata of a file.
#[derive(Clone, Debug)]
pub struct StoredValue {
    /// The file's path or URL.
    pub file: String,
    /// The value, which may be text or any other bytes.
    pub bytes: Bytes,
}

/// The values of `key` in the files `_common_metadata` that belong to the locations: the one in each location
/// that is a folder, in the folder of a glob, or in the folder that all named files share. No other file is
/// read.
///
/// Fails like [`open`](super::open()) if a location has no files, and with the name of the file if a
/// `_common_metadata` file cannot be read.
pub async fn common_values(
    locations: &[String],
    options: &BTreeMap<String, String>,
    key: &str,
) -> Result<Vec<StoredValue>> {
    let options = Options::new(options);
    let (store, targets) = connect(locations, &options)?;
    let mut snapshot = list::find(&store, targets, &WantedVersions::default()).await?;
    // No folder was listed, because the locations are names of files: look beside them.
    if snapshot.indexes.is_empty() {
        snapshot.common_metadata.extend(beside_named(&store, &snapshot).await?);
    }
    values_of(&store, &snapshot.common_metadata, key).await
}

async fn values_of(store: &Store, files: &[MetadataFile], key: &str) -> Result<Vec<StoredValue>> {
    let mut values = Vec::new();
    for file in files {
        let place = store.shown(file.volume, &file.pin.path);
        let read = match file.pin.size {
            0 => Err(Error::new(ErrorKind::Corrupt, "the file is empty")),
            _ => fetch_value(store, file.volume, &file.pin, key).await,
        };
        let read = read.map_err(|error| error.at(Place::file(&*place)).hint_if_damaged(IF_DAMAGED))?;
        values.extend(read.map(|bytes| StoredValue { file: place, bytes }));
    }
    Ok(values)
}

/// Looks for `_common_metadata` in the folder that all named files share.
async fn beside_named(store: &Store, snapshot: &Snapshot) -> Result<Option<MetadataFile>> {
    let Some(first) = snapshot.files.first() else { return Ok(None) };
    // Files in different stores share no folder, and a table has metadata of its own.
    if snapshot.files.iter().any(|file| file.volume != first.volume || file.is_declared()) {
        return Ok(None);
    }
    let Some(folder) = first.pin.path.as_ref().strip_suffix(&*first.relative) else { return Ok(None) };
    let path = Path::parse(format!("{folder}{COMMON_METADATA}"))
        .map_err(|error| Error::invalid(error.to_string()))?;
    match pinned(store, first.volume, &path).await {
        Ok(found) => Ok(found.map(|pin| MetadataFile { volume: first.volume, pin })),
        // Credentials that may read the files may not be allowed to look up a missing one.
        Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
        Err(error) => Err(error.at(Place::file(store.shown(first.volume, &path)))),
    }
}
