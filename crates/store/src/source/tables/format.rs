//! A table format, and the folder that it reads.

use std::path::Path;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use futures::future::BoxFuture;

use super::root::TableRoot;
use crate::snapshot::{DataFile, Snapshot};
use crate::source::list;
use crate::source::local::place;
use crate::source::store::{Store, Volume};

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
    pub(in crate::source) fn is_file(&self, name: &str) -> bool {
        self.suffix.is_none_or(|suffix| name.ends_with(suffix))
    }

    /// Whether `name` in a local folder is the sign of a table.
    pub(super) fn is_at(&self, folder: &Path, name: &str) -> bool {
        let has_file = || {
            std::fs::read_dir(folder.join(name)).is_ok_and(|items| {
                items.flatten().any(|item| self.is_file(&item.file_name().to_string_lossy()))
            })
        };
        name == self.folder && (self.suffix.is_none() || has_file())
    }
}

/// The folder of a table, for its format to read.
pub struct TableFolder<'a> {
    pub(in crate::source) store: &'a Store,
    pub(in crate::source) volume: usize,
    pub(in crate::source) root: TableRoot,
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

/// The refusal to read files of a table as plain ones.
pub(in crate::source) fn refusal(format: &dyn TableFormat, folder: Place) -> Error {
    let Sign { format: name, folder: list, .. } = format.sign();
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    let cause =
        format!("this is the folder of {article} {name} table: which rows it has is written in {list}");
    Error::new(ErrorKind::Unsupported, cause).at(folder).hint(format.advice())
}
