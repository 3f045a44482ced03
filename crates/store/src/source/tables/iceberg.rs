//! Tables of Apache Iceberg: their metadata is read from the store and folded by the crate `forebay-iceberg`.

mod deletes;
mod newest;

use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::datatypes::{Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_iceberg::{
    Column, FieldName, File, Manifest, Metadata, Scan, Snapshot as Written, Table, Wanted, Where, locate,
    manifests,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::format::{Sign, TableFolder, TableFormat};
use crate::snapshot::{AsOf, ColumnName, ColumnNames, Constant, DataFile, FoundBy, Snapshot, TableVersion};

/// Manifests, or files that delete rows, that are read at the same time.
const AT_ONCE: usize = 32;

const SIGN: Sign =
    Sign { format: "Iceberg", folder: "metadata", suffix: Some(".metadata.json"), holds_parquet: true };

/// The format.
pub(super) struct Iceberg;

impl TableFormat for Iceberg {
    fn sign(&self) -> &Sign {
        &SIGN
    }

    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>> {
        async move {
            let opened = Opened::open(table).await.map_err(|error| error.at(table.place()))?;
            opened.snapshot().await.map_err(|error| error.at(table.place()))
        }
        .boxed()
    }

    fn opens_by_file(&self) -> bool {
        true
    }
}

/// A table whose metadata was read.
struct Opened<'a> {
    table: &'a TableFolder<'a>,
    location: String,
    metadata: Metadata,
}

impl<'a> Opened<'a> {
    async fn open(table: &'a TableFolder<'a>) -> Result<Self> {
        let location = table.location()?;
        let name = match table.opened() {
            Some(name) => name.to_owned(),
            None => newest::name(table).await?,
        };
        let relative = format!("{}/{name}", SIGN.folder);
        let place = || Place::file(format!("{location}/{relative}"));
        let bytes = table.read(&relative).await?;
        let metadata = Metadata::parse(&bytes).map_err(|error| error.at(place()))?;
        Ok(Opened { table, location, metadata })
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let as_of = self.table.as_of();
        let chosen = self.metadata.choose(match &as_of {
            AsOf::Newest => Wanted::Newest,
            AsOf::Version(version) => Wanted::Id(*version),
            AsOf::Named(name) => Wanted::Named(name),
            AsOf::Time(time) => Wanted::Time(*time),
        })?;
        let version = chosen.snapshot.map_or(0, |snapshot| snapshot.id.unsigned_abs());
        let table = self.scan(chosen.snapshot, chosen.schema).await?;
        let mut files = Vec::with_capacity(table.files.len());
        for file in &table.files {
            files.push(self.file(&file.location, file.size, version).await?);
        }
        let deleted = deletes::deleted_rows(self, &table, &files).await?;
        let schema: SchemaRef = Arc::new(Schema::new(
            table.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>(),
        ));
        let about = TableVersion {
            format: SIGN.format,
            location: self.location.as_str().into(),
            id: self.metadata.id.as_deref().unwrap_or_default().into(),
            version,
            other_schema: (!chosen.is_of_its_time).then_some(chosen.schema),
            time: chosen.snapshot.map(|snapshot| snapshot.time),
            features: vec![format!("version {} of the format", self.metadata.version)],
            partition_columns: self.metadata.partitioned_by(),
            schema: schema.clone(),
            files: files.len(),
            files_with_deletes: deleted.iter().flatten().count(),
            deleted: deleted.iter().flatten().map(|deleted| u64::from(deleted.count())).sum(),
        };
        let names = Arc::new(self.names(&table.columns));
        let defaults: Arc<[Constant]> = table.columns.iter().filter_map(default).collect();
        let constants = constants(&table);
        let each = files.into_iter().zip(&table.files).zip(deleted);
        let files = each.map(|((found, file), deleted)| DataFile {
            constants: constants[file.partition as usize].clone(),
            defaults: defaults.clone(),
            deleted,
            schema: Some(schema.clone()),
            names: Some(names.clone()),
            rows: Some(file.rows),
            // Which columns a file lacks, and has by their defaults, its footer says.
            row_counts: row_counts(file).filter(|_| defaults.is_empty()),
            ..found
        });
        let identities = vec![format!("Iceberg {}", self.metadata.id.as_deref().unwrap_or_default()).into()];
        let (root, files) = (self.location.clone(), files.collect());
        Ok(Snapshot { root, files, identities, tables: vec![about], ..Snapshot::default() })
    }

    /// Folds the manifests of a snapshot.
    async fn scan(&self, snapshot: Option<&Written>, schema: i64) -> Result<Table> {
        let mut scan = Scan::new(&self.metadata, schema)?;
        let listed = match snapshot {
            None => Vec::new(),
            Some(Written { manifest_list: Some(list), .. }) => {
                let bytes = self.read(list, None).await?;
                manifests(&bytes).map_err(|error| error.at(Place::file(list.as_str())))?
            }
            Some(snapshot) => {
                let alone = snapshot.manifests.as_ref().ok_or_else(|| {
                    Error::new(ErrorKind::Corrupt, format!("snapshot {} has no manifests", snapshot.id))
                })?;
                alone.iter().map(|location| Manifest::alone(location)).collect()
            }
        };
        let read = async |at: usize| {
            let manifest: &Manifest = &listed[at];
            self.read(&manifest.location, manifest.size).await.map(|bytes| (manifest, bytes))
        };
        let reads = (0..listed.len()).map(|at| read(at).boxed());
        let mut reads = stream::iter(reads).buffered(AT_ONCE);
        while let Some((manifest, bytes)) = reads.try_next().await? {
            let taken = scan.manifest(manifest, &bytes);
            taken.map_err(|error| error.at(Place::file(manifest.location.as_str())))?;
        }
        Ok(scan.finish())
    }

    /// A file by its location in the metadata and its size. The table never writes it again.
    async fn file(&self, location: &str, size: u64, version: u64) -> Result<DataFile> {
        match locate(location, &self.metadata.location, &self.location)? {
            Where::Below(relative) => self.table.written(&relative, size, version),
            Where::Beside(path) => self.table.beside(&path, size, version).await,
        }
    }

    /// All bytes of a file by its location in the metadata, and its size where that is known.
    async fn read(&self, location: &str, size: Option<u64>) -> Result<Bytes> {
        let read = async {
            let file = match (locate(location, &self.metadata.location, &self.location)?, size) {
                (Where::Below(relative), None) => self.table.file(&relative).await?,
                (Where::Beside(_), None) => {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        "the file is not in the folder of the table",
                    ));
                }
                (_, Some(size)) => self.file(location, size, 0).await?,
            };
            self.table.bytes(&file.pin).await
        };
        read.await.map_err(|error: Error| error.at(Place::file(location)))
    }

    /// What columns are called in the files.
    fn names(&self, columns: &[Column]) -> ColumnNames {
        let found = if self.metadata.has_names { FoundBy::Id } else { FoundBy::IdAlone };
        ColumnNames { found, columns: columns.iter().flat_map(|column| column_names(&column.name)).collect() }
    }
}

/// The rows of each row group, where the manifest says enough: those of a file with one.
fn row_counts(file: &File) -> Option<Arc<[u64]>> {
    (file.row_groups == Some(1)).then(|| [file.rows].into())
}

fn default(column: &Column) -> Option<Constant> {
    column.default.clone().map(|value| Constant { field: column.field.clone(), value })
}

/// The constants of each partition.
fn constants(table: &Table) -> Vec<Arc<[Constant]>> {
    let of_partition = |values: &Vec<_>| {
        let constant = |(at, value): &(usize, _)| Constant {
            field: table.columns[*at].field.clone(),
            value: Arc::clone(value),
        };
        values.iter().map(constant).collect()
    };
    table.partitions.iter().map(of_partition).collect()
}

/// A field under each of its names in files without numbers.
fn column_names(field: &FieldName) -> Vec<ColumnName> {
    let inner: Vec<ColumnName> = field.inner.iter().flat_map(column_names).collect();
    let of = |stored: &str| ColumnName {
        name: field.name.clone(),
        stored: stored.to_owned(),
        id: Some(field.id),
        inner: inner.clone(),
    };
    match field.stored.as_slice() {
        // A name that no column has: without one it is in no file without numbers.
        [] => vec![of("")],
        stored => stored.iter().map(|stored| of(stored)).collect(),
    }
}
