//! Reads the indexes of folders when the folders are opened.

use forebay_base::{Error, ErrorKind, Place, Result};

use super::{Index, MAX_BYTES, below};
use crate::snapshot::{IndexPlace, Pin};
use crate::source::store::Store;

/// The hint if an index cannot be used.
pub(in crate::source) const WRITE_AGAIN: &str =
    "write it again with `forebay index`, or leave it out with the storage option index=off";

/// Reads the existing indexes of the folders that were opened. An index that cannot be used, or that has no
/// footer of any of the `files` in its folder, is ignored with a warning.
pub(in crate::source) async fn load(
    store: &Store,
    files: impl Iterator<Item = (String, Pin)> + Clone,
) -> Result<Vec<Index>> {
    let mut indexes = Vec::new();
    for place in store.indexes.iter() {
        let index = match read(store, place).await {
            Ok(None) => continue,
            Ok(Some(index)) => index,
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            // The index was rewritten after the folder was listed, so it is ignored without a warning.
            Err(error) if matches!(error.kind(), ErrorKind::DatasetChanged | ErrorKind::NotFound) => continue,
            Err(error) => {
                store.warn(format!("footers are read without the index: {}", error.at(at(store, place))));
                continue;
            }
        };
        let mut inside = files.clone().filter(|(whole, _)| below(whole, &place.root).is_some()).peekable();
        match inside.peek().is_none() || inside.any(|(whole, pin)| index.has(&whole, &pin)) {
            true => indexes.push(index),
            false => {
                let cause =
                    "it was written for other files: no file of the folder is in it in its present version";
                let error = Error::new(ErrorKind::Corrupt, cause).at(at(store, place)).hint(WRITE_AGAIN);
                store.warn(format!("footers are read without the index: {error}"));
            }
        }
    }
    Ok(indexes)
}

async fn read(store: &Store, place: &IndexPlace) -> Result<Option<Index>> {
    let Some(pin) = &place.found else { return Ok(None) };
    if pin.size > MAX_BYTES {
        let cause = format!("it has {} bytes, over the limit of {MAX_BYTES}", pin.size);
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("open several folders, each with its index"));
    }
    let whole = 0..pin.size;
    let mut read = store.read(place.volume, pin, &[whole]).await?;
    let bytes = read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read returned nothing"))?;
    let index = Index::read(place.root.clone(), bytes);
    index.map(Some).map_err(|cause| Error::new(ErrorKind::Corrupt, cause).hint(WRITE_AGAIN))
}

/// The path of an index as a place in error messages.
pub(super) fn at(store: &Store, place: &IndexPlace) -> Place {
    Place::file(store.shown(place.volume, &place.path))
}
