//! Table formats: folders with a list of their own that says which of their files are live.
//!
//! Reading every Parquet file in such a folder would bring back rows that were removed. Even its live files alone are not
//! the table: rows can be deleted and columns renamed outside of them, and partition keys are in the list. So the format
//! returns the table's [`Snapshot`], or refuses the table if it is only recognised. A table is read if its own folder is
//! opened; a folder above or inside it is refused. Files that are named one by one are read as they are.

mod refused;

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result, paths};
use futures::future::BoxFuture;

use super::list;
use super::local::place;
use super::store::{Store, Volume};
use crate::snapshot::{DataFile, Snapshot};

/// The formats of this crate, which go before those that others [register](register_table_format).
const OWN: [&dyn TableFormat; 4] = [&refused::DELTA, &refused::HUDI, &refused::ICEBERG, &refused::LANCE];

/// The formats of others, in the order in which they were registered.
static REGISTERED: RwLock<Vec<&dyn TableFormat>> = RwLock::new(Vec::new());

/// Makes the tables of a format known to all data sets that this process opens from now on. The first format whose
/// [sign](Sign) a folder has gets it; a format that is registered already is not registered again.
pub fn register_table_format(format: &'static dyn TableFormat) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let sign = format.sign();
    if !registered.iter().any(|known| known.sign() == sign) {
        registered.push(format);
    }
}

/// The first format that `fits`, in order of precedence.
fn find(mut fits: impl FnMut(&dyn TableFormat) -> bool) -> Option<&'static dyn TableFormat> {
    let own = OWN.into_iter().find(|format| fits(*format));
    own.or_else(|| {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().copied().find(|format| fits(*format))
    })
}

/// A table format: how its tables are recognised, and which files and rows they have now.
pub trait TableFormat: Sync {
    /// The sign by which a table of this format is recognised.
    fn sign(&self) -> &Sign;

    /// The present state of the table.
    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>>;

    /// The next move in the refusal to read the table's files as plain ones.
    fn advice(&self) -> String {
        "open the folder of the table by itself".to_string()
    }
}

/// The sign of a table: a folder with its list.
#[derive(Debug, PartialEq, Eq)]
pub struct Sign {
    /// The format as people call it.
    pub format: &'static str,
    /// The folder in the table's own that its list is in.
    pub folder: &'static str,
    /// The suffix of a file in that folder; if it is `None`, the folder alone is the sign, even if it is empty.
    pub suffix: Option<&'static str>,
    /// Whether such tables hold Parquet, so that a folder in one could be read by mistake.
    pub holds_parquet: bool,
}

impl Sign {
    /// Whether a file of this name in the folder shows a table.
    pub(super) fn is_file(&self, name: &str) -> bool {
        self.suffix.is_none_or(|suffix| name.ends_with(suffix))
    }

    /// Whether `name` in a local folder is the sign of a table.
    fn is_at(&self, folder: &Path, name: &str) -> bool {
        let has_file = || {
            std::fs::read_dir(folder.join(name)).is_ok_and(|items| {
                items.flatten().any(|item| self.is_file(&item.file_name().to_string_lossy()))
            })
        };
        name == self.folder && (self.suffix.is_none() || has_file())
    }
}

/// The place of a table in its volume.
pub(super) enum TableRoot {
    /// A local folder.
    Folder(PathBuf),
    /// The key of an object store's prefix.
    Key(String),
}

/// The folder of a table, for its format to read.
pub struct TableFolder<'a> {
    pub(super) store: &'a Store,
    pub(super) volume: usize,
    pub(super) root: TableRoot,
}

impl TableFolder<'_> {
    /// Its place, for messages.
    pub fn place(&self) -> Place {
        match (&self.root, self.store.volume(self.volume)) {
            (TableRoot::Folder(folder), _) => place(folder),
            (TableRoot::Key(key), Ok(Volume::Remote(remote))) => Place::file(remote.shown(key)),
            (TableRoot::Key(key), _) => Place::file(key.as_str()),
        }
    }

    /// The file at a path below the folder: its address, size and version.
    pub async fn file(&self, relative: &str) -> Result<DataFile> {
        list::file_below(self.store, self.volume, &self.root, relative).await
    }

    /// All bytes of the file at a path below the folder.
    pub async fn read(&self, relative: &str) -> Result<Bytes> {
        let file = self.file(relative).await?;
        let range = 0..file.pin.size;
        let read = self.store.read(self.volume, &file.pin, &[range]).await;
        let mut read = read.map_err(|error| error.at(file.place()))?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
    }
}

/// The formats whose tables hold Parquet.
pub(super) fn of_parquet() -> impl Iterator<Item = &'static dyn TableFormat> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    OWN.into_iter().chain(registered).filter(|format| format.sign().holds_parquet)
}

/// The table that a path with `/` shows: its folder, with a `/` at the end, and its format.
pub(super) fn shown_by(path: &str) -> Option<(&str, &'static dyn TableFormat)> {
    let (folders, name) = path.rsplit_once('/')?;
    let mut at = 0;
    for (depth, folder) in folders.split('/').enumerate() {
        let start = if depth == 0 { 0 } else { at + 1 };
        at = start + folder.len();
        let is_shown =
            |format: &dyn TableFormat| folder == format.sign().folder && format.sign().is_file(name);
        if let Some(format) = find(is_shown) {
            return Some((&path[..start], format));
        }
    }
    None
}

/// Whether a folder of this name may show that the one it is in is a table.
pub(super) fn is_sign(name: &str) -> bool {
    find(|format| format.sign().folder == name).is_some()
}

/// The refusal to read files of a table as plain ones.
pub(super) fn refusal(format: &dyn TableFormat, folder: Place) -> Error {
    let Sign { format: name, folder: list, .. } = format.sign();
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    let cause =
        format!("this is the folder of {article} {name} table: which rows it has is written in {list}");
    Error::new(ErrorKind::Unsupported, cause).at(folder).hint(format.advice())
}

/// The format of the table whose folder a local one is.
pub(super) fn of_folder(folder: &Path) -> Option<&'static dyn TableFormat> {
    find(|format| {
        let sign = format.sign();
        folder.join(sign.folder).exists() && sign.is_at(folder, sign.folder)
    })
}

/// Refuses a local `folder` if `names`, its contents, are those of a table.
pub(super) fn refuse<'a>(folder: &Path, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find_map(|name| find(|format| format.sign().is_at(folder, name))) {
        Some(format) => Err(refusal(format, place(folder))),
        None => Ok(()),
    }
}

/// Refuses a local folder inside a table, at any depth.
pub(super) fn refuse_above(folder: &Path) -> Result<()> {
    let absolute = paths::absolute(folder).map_err(|error| error.at(place(folder)))?;
    for ancestor in absolute.ancestors().skip(1) {
        let present = of_parquet().map(|format| format.sign().folder);
        refuse(ancestor, present.filter(|name| ancestor.join(name).is_dir()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_refused_by_the_name_of_its_format() {
        let refused = |format: &dyn TableFormat| refusal(format, Place::default()).cause().to_owned();
        assert!(refused(&refused::ICEBERG).starts_with("this is the folder of an Iceberg table: "));
        assert!(refused(&refused::DELTA).starts_with("this is the folder of a Delta table: "));
    }

    #[test]
    fn a_table_shows_in_the_paths_of_its_files() {
        let shown = |path| shown_by(path).map(|(folder, format)| (folder, format.sign().format));
        assert_eq!(shown("t/_delta_log/00.json"), Some(("t/", "Delta")));
        assert_eq!(shown("_delta_log/_last_checkpoint"), Some(("", "Delta")));
        assert_eq!(shown("a/b/.hoodie/x/y"), Some(("a/b/", "Hudi")));
        assert_eq!(shown("t/metadata/v1.metadata.json"), Some(("t/", "Iceberg")));
        assert_eq!(shown("t/metadata/notes.txt"), None);
        assert_eq!(shown("t/_versions/1.manifest"), Some(("t/", "Lance")));
        assert_eq!(shown("t/_delta_log"), None);
        assert_eq!(shown("a.parquet"), None);
    }
}
