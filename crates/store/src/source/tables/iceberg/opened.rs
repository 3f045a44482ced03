//! An Iceberg table whose metadata file has been read, and access to the files that the metadata names.

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_iceberg::{Chosen, FieldName, Locator, Metadata, TableColumn, Wanted, Where};

use super::newest;
use crate::snapshot::{AsOf, ColumnName, ColumnNames, DataFile, FoundBy, TableMark, VersionWords};
use crate::source::tables::TableFolder;

/// The size in bytes of the largest manifest or list of manifests that is read. The sizes in the metadata can
/// be wrong.
const LARGEST: u64 = 2 << 30;

/// The words by which messages refer to a version of an Iceberg table.
const WORDS: VersionWords = VersionWords {
    noun: "snapshot",
    when_gone: "if the snapshot was expired, open the newest one; otherwise restore the file",
};

/// An Iceberg table whose metadata file has been read.
pub(super) struct OpenedTable<'a> {
    pub(super) table: &'a TableFolder<'a>,
    pub(super) location: String,
    pub(super) metadata: Metadata,
    /// Identifies the snapshot that the user wants; files that are read are marked with it.
    pub(super) mark: TableMark,
    locator: Locator,
}

impl<'a> OpenedTable<'a> {
    /// Reads the metadata file that the user opened, or else the newest one.
    pub(super) async fn open(table: &'a TableFolder<'a>) -> Result<Self> {
        let location = table.location()?;
        let name = match table.opened() {
            Some(name) => name.to_owned(),
            None => newest::name(table).await?,
        };
        let relative = format!("{}/{name}", newest::FOLDER);
        let place = || Place::file(format!("{location}/{relative}"));
        let bytes = table.read(&relative).await?;
        let metadata = Metadata::parse(&bytes).map_err(|error| error.at(place()))?;
        let locator = metadata.folders.at(&location, table.allowed());
        let version =
            choose(&metadata, &table.as_of())?.snapshot.map_or(0, |snapshot| snapshot.id.unsigned_abs());
        let mark = TableMark { version, words: &WORDS };
        Ok(OpenedTable { table, location, metadata, mark, locator })
    }

    /// The snapshot that the user wants, and the schema to read it with.
    pub(super) fn chosen(&self) -> Result<Chosen<'_>> {
        choose(&self.metadata, &self.table.as_of())
    }

    /// Describes a file of the table by its location in the metadata and its size, for files that the table
    /// never rewrites.
    pub(super) async fn file(&self, location: &str, size: u64) -> Result<DataFile> {
        match self.locator.locate(location)? {
            Where::Below(relative) => self.table.written(&relative, size, self.mark),
            Where::Beside(path) => self.table.beside(None, &path, size, self.mark).await,
            Where::Allowed(at, path) => self.table.beside(Some(at), &path, size, self.mark).await,
        }
    }

    /// Reads all bytes of a file, by its location in the metadata. Without a `size`, the file is looked up
    /// first.
    pub(super) async fn read(&self, location: &str, size: Option<u64>) -> Result<Bytes> {
        let read = async {
            let file = match (self.locator.locate(location)?, size) {
                (Where::Below(relative), None) => self.table.file(&relative).await?,
                (Where::Beside(path), None) => self.table.found_beside(None, &path, self.mark).await?,
                (Where::Allowed(at, path), None) => {
                    self.table.found_beside(Some(at), &path, self.mark).await?
                }
                (_, Some(size)) if size > LARGEST => {
                    let cause =
                        format!("the file has {size} bytes by the metadata, and up to {LARGEST} are read");
                    return Err(Error::new(ErrorKind::TooLarge, cause));
                }
                (_, Some(size)) => self.file(location, size).await?,
            };
            self.table.bytes_of(&file).await
        };
        read.await.map_err(|error: Error| match error.kind() {
            ErrorKind::NotFound => self.mark.gone().at(Place::file(location)),
            _ => error.at(Place::file(location)),
        })
    }

    /// The names and field ids by which `columns` are found in the table's files.
    pub(super) fn names(&self, columns: &[TableColumn]) -> ColumnNames {
        let found = if self.metadata.has_names { FoundBy::Id } else { FoundBy::IdAlone };
        ColumnNames { found, columns: columns.iter().flat_map(|column| column_names(&column.name)).collect() }
    }
}

/// Finds the snapshot that the user wants in the metadata, and the schema to read it with.
fn choose<'a>(metadata: &'a Metadata, as_of: &AsOf) -> Result<Chosen<'a>> {
    metadata.choose(match as_of {
        AsOf::Newest => Wanted::Newest,
        AsOf::Version(version) => Wanted::Id(*version),
        AsOf::Named(name) => Wanted::Named(name),
        AsOf::Time(time) => Wanted::Time(*time),
    })
}

/// Describes how a field is found in files: by its field id or, in files without ids, by its names. The
/// result has an entry for each name.
fn column_names(field: &FieldName) -> Vec<ColumnName> {
    let inner: Vec<ColumnName> = field.inner.iter().flat_map(column_names).collect();
    let of = |stored: &str| ColumnName {
        name: field.name.clone(),
        stored: stored.to_owned(),
        id: Some(field.id),
        inner: inner.clone(),
    };
    match field.stored.as_slice() {
        // An empty name matches no column, so the field is not found in files without field ids.
        [] => vec![of("")],
        stored => stored.iter().map(|stored| of(stored)).collect(),
    }
}
