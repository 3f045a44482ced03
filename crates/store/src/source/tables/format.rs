//! A table format, and the folder of a table as the format reads it.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::root::TableRoot;
use crate::snapshot::{AsOf, DataFile, FileVersion, Pin, Snapshot, TableMark};
use crate::source::list;
use crate::source::local::place;
use crate::source::store::{Store, Volume};

/// A table format: how its tables are recognised, and which files and rows they have now.
pub trait TableFormat: Sync {
    /// The sign by which a table of this format is recognised.
    fn sign(&self) -> &Sign;

    /// Reads the state of the table: its newest version, or the [wanted](TableFolder::as_of) one.
    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>>;

    /// Whether the table can be opened by naming a file of its list, which then selects one version.
    fn opens_by_file(&self) -> bool {
        false
    }

    /// The number of the newest version of the table.
    fn newest<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<u64>> {
        let of = |snapshot: Snapshot| snapshot.tables.first().map(|table| table.version);
        let unnumbered = || Error::new(ErrorKind::Unsupported, "versions of the table have no numbers");
        async move { of(self.snapshot(table).await?).ok_or_else(|| unnumbered().at(table.place())) }.boxed()
    }

    /// The hint in the refusal to read the table's files as plain ones.
    fn advice(&self) -> String {
        "open the folder of the table by itself".to_string()
    }
}

/// The sign by which a table is recognised: a folder with the list of its files.
#[derive(Debug, PartialEq, Eq)]
pub struct Sign {
    /// The name of the format in messages.
    pub format: &'static str,
    /// The name of the folder with the list, in the folder of the table.
    pub folder: &'static str,
    /// The suffix of a file in that folder; `None` if the folder alone is the sign, even when it is empty.
    pub suffix: Option<&'static str>,
    /// Whether such tables hold Parquet files, so that a folder inside of one could be read by mistake.
    pub holds_parquet: bool,
}

impl Sign {
    /// Whether a file with this name in the folder of the list shows a table.
    pub(in crate::source) fn is_file(&self, name: &str) -> bool {
        self.suffix.is_none_or(|suffix| name.ends_with(suffix))
    }

    /// Whether `name`, inside a local `folder`, is the sign of a table.
    pub(super) fn is_at(&self, folder: &Path, name: &str) -> bool {
        let has_file = || {
            std::fs::read_dir(folder.join(name)).is_ok_and(|items| {
                items.flatten().any(|item| self.is_file(&item.file_name().to_string_lossy()))
            })
        };
        name == self.folder && (self.suffix.is_none() || has_file())
    }
}

/// The folder of a table, from which its format reads.
pub struct TableFolder<'a> {
    pub(in crate::source) store: &'a Store,
    pub(in crate::source) volume: usize,
    pub(in crate::source) root: TableRoot,
    pub(in crate::source) as_of: AsOf,
    /// The file of the table's list that was opened; `None` if the folder was opened.
    pub(in crate::source) opened: Option<String>,
}

/// A file that was found when a table's folder was listed.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// The name of the file in its folder.
    pub name: String,
    /// The time of the last change, in milliseconds since 1970.
    pub modified: i64,
    /// The address, size and version of the file.
    pub pin: Pin,
}

impl TableFolder<'_> {
    /// The version of the table that is wanted.
    pub fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// The name of the file of the table's list that was opened; `None` if the folder was opened.
    pub fn opened(&self) -> Option<&str> {
        self.opened.as_deref()
    }

    /// The folder of the table, as an absolute path or URL without a `/` at the end.
    ///
    /// # Errors
    /// The working directory of the process is gone, or its name is not UTF-8.
    pub fn location(&self) -> Result<String> {
        list::location(self.store, self.volume, &self.root)
    }

    /// The files directly in a folder below the table's own; empty if the folder does not exist.
    ///
    /// # Errors
    /// The folder may not be listed, or the store cannot be reached.
    pub async fn list(&self, relative: &str) -> Result<Vec<FoundFile>> {
        list::files_in(self.store, self.volume, &self.root, relative).await
    }

    /// A file of the table, by its path below the folder and its size. The store is not asked for it. The
    /// table, which has the version `mark` now, must never write the file again.
    ///
    /// # Errors
    /// `Invalid` for a path that no file can have.
    pub fn written(&self, relative: &str, size: u64, mark: TableMark) -> Result<DataFile> {
        list::written(self.store, self.volume, &self.root, relative, (size, FileVersion::OfTable(mark)))
    }

    /// The locations outside of the table's folder that the user allows for its files.
    pub fn allowed(&self) -> Vec<String> {
        self.store.allowed.iter().map(|allowed| allowed.location.clone()).collect()
    }

    /// A file outside of the table's folder, by its absolute path and its size, in the store of an allowed
    /// location, given by its place among [all](Self::allowed), or in the store of the table. A remote store
    /// is not asked for it. The table, which has the version `mark` now, must never write the file again.
    ///
    /// # Errors
    /// `Invalid` for a path that no file can have; on the local disk, any error of looking up the file.
    pub async fn beside(
        &self,
        allowed: Option<usize>,
        path: &str,
        size: u64,
        mark: TableMark,
    ) -> Result<DataFile> {
        let allowed = allowed.and_then(|at| self.store.allowed.get(at));
        let volume = allowed.map_or(self.volume, |allowed| allowed.volume);
        list::beside(self.store, volume, path, (size, FileVersion::OfTable(mark))).await
    }

    /// The file of [`beside`](Self::beside), with the size and version that it has now.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, and any error of looking it up.
    pub async fn found_beside(
        &self,
        allowed: Option<usize>,
        path: &str,
        mark: TableMark,
    ) -> Result<DataFile> {
        let file = self.beside(allowed, path, 0, mark).await?;
        let pin = list::pinned(self.store, file.volume, &file.pin.path).await?;
        let pin = pin.ok_or_else(|| Error::new(ErrorKind::NotFound, "file not found").at(file.place()))?;
        Ok(DataFile { pin, ..file })
    }

    /// Byte ranges of a file, each in full.
    ///
    /// # Errors
    /// The file is gone, was changed, or cannot be read.
    pub async fn ranges(&self, file: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.read_within(self.volume, file, ranges).await
    }

    /// Byte ranges of a file in whichever store it is, each in full.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn ranges_of(&self, file: &DataFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.read_within(file.volume, &file.pin, ranges).await
    }

    /// All bytes of a file in whichever store it is.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn bytes_of(&self, file: &DataFile) -> Result<Bytes> {
        let mut read = self.ranges_of(file, std::slice::from_ref(&(0..file.pin.size))).await?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn bytes(&self, file: &Pin) -> Result<Bytes> {
        let mut read = self.ranges(file, std::slice::from_ref(&(0..file.size))).await?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
    }

    /// Keeps a warning until the user of the data set takes it.
    pub fn warn(&self, warning: String) {
        self.store.warn(warning);
    }

    /// The place of the table, for messages.
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
        self.bytes(&file.pin).await.map_err(|error| error.at(file.place()))
    }
}

/// The error for a user who reads files of a table as plain ones.
pub(in crate::source) fn refusal(format: &dyn TableFormat, folder: Place) -> Error {
    let Sign { format: name, folder: list, .. } = format.sign();
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    let cause =
        format!("this is the folder of {article} {name} table: which rows it has is written in {list}");
    Error::new(ErrorKind::Unsupported, cause).at(folder).hint(format.advice())
}
