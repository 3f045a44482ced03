//! The interface of a table format, and the access to a table's folder that a format gets.

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

/// A table format: recognises its tables, and reads which files and rows a version of a table has.
pub trait TableFormat: Sync {
    /// The sign by which a table of this format is recognised: a folder with its metadata.
    fn sign(&self) -> &Sign;

    /// Reads the state of the table: its newest version, or the [wanted](TableFolder::as_of) one.
    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>>;

    /// Whether a table can be opened by naming one of its metadata files, which selects a version.
    fn opens_by_file(&self) -> bool {
        false
    }

    /// The number of the newest version of the table.
    fn newest<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<u64>> {
        let of = |snapshot: Snapshot| snapshot.tables.first().map(|table| table.version);
        let unnumbered = || Error::new(ErrorKind::Unsupported, "versions of the table have no numbers");
        async move { of(self.snapshot(table).await?).ok_or_else(|| unnumbered().at(table.place())) }.boxed()
    }

    /// The hint in the error for a user who opens files of the table as plain Parquet.
    fn advice(&self) -> String {
        "open the folder of the table by itself".to_string()
    }
}

/// The sign by which a table is recognised: a folder inside the table's folder that has its metadata.
#[derive(Debug, PartialEq, Eq)]
pub struct Sign {
    /// The name of the format in messages.
    pub format: &'static str,
    /// The name of the folder with the metadata, inside the folder of the table.
    pub folder: &'static str,
    /// The suffix of a file that the metadata folder must have; `None` if any folder of that name is a sign.
    pub suffix: Option<&'static str>,
    /// Whether tables of the format consist of Parquet files, so that a folder inside a table could be opened
    /// by mistake.
    pub holds_parquet: bool,
}

impl Sign {
    /// Whether a file called `name` in the metadata folder shows that this is a table.
    pub(in crate::source) fn is_file(&self, name: &str) -> bool {
        self.suffix.is_none_or(|suffix| name.ends_with(suffix))
    }

    /// Whether the entry `name` of a local folder is the sign that the folder is a table.
    pub(super) fn is_at(&self, folder: &Path, name: &str) -> bool {
        let has_file = || {
            std::fs::read_dir(folder.join(name)).is_ok_and(|items| {
                items.flatten().any(|item| self.is_file(&item.file_name().to_string_lossy()))
            })
        };
        name == self.folder && (self.suffix.is_none() || has_file())
    }
}

/// The folder of a table, through which its format reads files.
pub struct TableFolder<'a> {
    pub(in crate::source) store: &'a Store,
    pub(in crate::source) volume: usize,
    pub(in crate::source) root: TableRoot,
    pub(in crate::source) as_of: AsOf,
    /// The name of the metadata file that the user opened; `None` if the user opened the folder.
    pub(in crate::source) opened: Option<String>,
}

/// A file in the listing of a table's folder.
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
    /// The version of the table that the user wants.
    pub fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// The name of the metadata file that the user opened; `None` if the user opened the folder.
    pub fn opened(&self) -> Option<&str> {
        self.opened.as_deref()
    }

    /// The folder of the table, as an absolute path or URL without a `/` at the end.
    ///
    /// # Errors
    /// The path is relative, and the working directory was removed or its name is not UTF-8.
    pub fn location(&self) -> Result<String> {
        list::location(self.store, self.volume, &self.root)
    }

    /// Lists the files directly in the folder `relative` inside the table's folder; empty if it does not
    /// exist.
    ///
    /// # Errors
    /// The user has no permission to list the folder, or the store cannot be reached.
    pub async fn list(&self, relative: &str) -> Result<Vec<FoundFile>> {
        list::files_in(self.store, self.volume, &self.root, relative).await
    }

    /// Describes a file of the table by its path below the table's folder and its size, without looking it up
    /// in the store. `mark` is the version of the table that is being read. The table must never rewrite the
    /// file.
    ///
    /// # Errors
    /// `Invalid` for a path that no file can have.
    pub fn written(&self, relative: &str, size: u64, mark: TableMark) -> Result<DataFile> {
        list::written(self.store, self.volume, &self.root, relative, size, FileVersion::OfTable(mark))
    }

    /// The locations, besides the table's own folder, in which the user allows files of the table.
    pub fn allowed(&self) -> Vec<String> {
        self.store.allowed.iter().map(|allowed| allowed.location.clone()).collect()
    }

    /// Describes a file outside of the table's folder, by its absolute path and its size. `allowed` is the
    /// index of the [allowed location](Self::allowed) whose store has the file, or `None` for the store of
    /// the table. A remote file is not looked up. `mark` is the version of the table that is being read. The
    /// table must never rewrite the file.
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
        list::beside(self.store, volume, path, size, FileVersion::OfTable(mark)).await
    }

    /// Describes a file as [`beside`](Self::beside) does, with the size and version that it has at present.
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

    /// Reads byte ranges of a file in the store of the table. Each has its full length.
    ///
    /// # Errors
    /// The file is gone, was changed, or cannot be read.
    pub async fn ranges(&self, file: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.read_within(self.volume, file, ranges).await
    }

    /// Reads byte ranges of a file in any store. Each has its full length.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn ranges_of(&self, file: &DataFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.read_within(file.volume, &file.pin, ranges).await
    }

    /// Reads all bytes of a file in any store.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn bytes_of(&self, file: &DataFile) -> Result<Bytes> {
        let mut read = self.ranges_of(file, std::slice::from_ref(&(0..file.pin.size))).await?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
    }

    /// Reads all bytes of a file in the store of the table.
    ///
    /// # Errors
    /// The errors of [`ranges`](Self::ranges).
    pub async fn bytes(&self, file: &Pin) -> Result<Bytes> {
        let mut read = self.ranges(file, std::slice::from_ref(&(0..file.size))).await?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
    }

    /// Stores a warning that is shown to the user of the data set.
    pub fn warn(&self, warning: String) {
        self.store.warn(warning);
    }

    /// Names the table's folder in messages.
    pub fn place(&self) -> Place {
        match (&self.root, self.store.volume(self.volume)) {
            (TableRoot::Folder(folder), _) => place(folder),
            (TableRoot::Key(key), Ok(Volume::Remote(remote))) => Place::file(remote.shown(key)),
            (TableRoot::Key(key), _) => Place::file(key.as_str()),
        }
    }

    /// Looks up the address, size and version of the file at the path `relative` below the table's folder.
    pub async fn file(&self, relative: &str) -> Result<DataFile> {
        list::file_below(self.store, self.volume, &self.root, relative).await
    }

    /// Reads all bytes of the file at the path `relative` below the table's folder.
    pub async fn read(&self, relative: &str) -> Result<Bytes> {
        let file = self.file(relative).await?;
        self.bytes(&file.pin).await.map_err(|error| error.at(file.place()))
    }
}

/// The error for a user who opens files of a table as plain Parquet.
pub(in crate::source) fn refusal(format: &dyn TableFormat, folder: Place) -> Error {
    let Sign { format: name, folder: list, .. } = format.sign();
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    let cause =
        format!("this is the folder of {article} {name} table: which rows it has is written in {list}");
    Error::new(ErrorKind::Unsupported, cause).at(folder).hint(format.advice())
}
