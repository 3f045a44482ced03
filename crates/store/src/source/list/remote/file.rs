//! Looks up single files of an object store.

use forebay_base::{Error, ErrorKind, Place, Result};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::snapshot::{DataFile, Pin};
use crate::source::list::names::empty;
use crate::source::remote::Remote;
use crate::source::tables::FoundFile;

/// Looks up the file whose path `relative` is below `prefix`.
pub(in crate::source::list) async fn file_below(
    remote: &Remote,
    volume: usize,
    prefix: &str,
    relative: &str,
) -> Result<DataFile> {
    let key = joined(prefix, relative);
    let meta = remote.head(&path(&key)?).await?;
    let meta = meta.ok_or_else(|| Error::new(ErrorKind::NotFound, "object not found"));
    let file = meta.and_then(|meta| data_file(remote, volume, &meta));
    file.map_err(|error| error.at(Place::file(remote.shown(&key))))
}

/// Lists the objects directly in the folder `relative` below `prefix`, the folder of a table. There are none
/// if the folder does not exist.
pub(in crate::source::list) async fn files_in(
    remote: &Remote,
    prefix: &str,
    relative: &str,
) -> Result<Vec<FoundFile>> {
    let folder = joined(prefix, relative);
    let listed = match remote.list_folder(&path(&folder)?).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|error| error.at(Place::file(remote.shown(&folder))))?,
    };
    let found = listed.objects.iter().filter_map(|meta| {
        let modified = meta.last_modified.timestamp_millis();
        Some(FoundFile { name: meta.location.filename()?.to_owned(), modified, pin: Pin::from_meta(meta) })
    });
    Ok(found.collect())
}

pub(in crate::source::list) fn path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|_| Error::invalid("the path has an empty, `.` or `..` part"))
}

pub(in crate::source::list) fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_string(),
        (folder, "") => folder.to_string(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

/// The file that `meta`, from a listing or a response, describes.
pub(in crate::source::list) fn data_file(
    remote: &Remote,
    volume: usize,
    meta: &ObjectMeta,
) -> Result<DataFile> {
    let whole = remote.shown(meta.location.as_ref());
    if meta.size == 0 {
        return Err(empty(Place::file(whole)));
    }
    Ok(DataFile::plain(whole.as_str().into(), whole, volume, Pin::from_meta(meta)))
}
