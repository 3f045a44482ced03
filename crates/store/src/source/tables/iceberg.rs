//! Reads tables of Apache Iceberg: this module fetches the metadata, and the crate `forebay-iceberg` computes
//! the table's state from it.

mod deletes;
mod newest;
mod opened;

use std::sync::Arc;

use forebay_arrow::datatypes::{Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_iceberg::{Manifest, ROW_ID_COLUMN, Scan, Snapshot as Written, Table, TableColumn, manifests};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::format::{Sign, TableFolder, TableFormat};
use crate::snapshot::{
    ColumnName, ColumnNames, Constant, DataFile, FileStatistics, FoundBy, Snapshot, TableStatistics,
    TableVersion, TrackedIds,
};
use opened::OpenedTable;

/// The most manifests (lists of files) that are read at the same time.
const AT_ONCE: usize = 32;

const SIGN: Sign =
    Sign { format: "Iceberg", folder: newest::FOLDER, suffix: Some(newest::SUFFIX), holds_parquet: true };

/// The table format Apache Iceberg.
pub(super) struct Iceberg;

impl TableFormat for Iceberg {
    fn sign(&self) -> &Sign {
        &SIGN
    }

    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>> {
        async move {
            let opened = OpenedTable::open(table).await.map_err(|error| error.at(table.place()))?;
            snapshot(&opened).await.map_err(|error| error.at(table.place()))
        }
        .boxed()
    }

    fn opens_by_file(&self) -> bool {
        true
    }
}

/// Reads the snapshot that the user wants.
async fn snapshot(opened: &OpenedTable<'_>) -> Result<Snapshot> {
    let chosen = opened.chosen()?;
    let listed = listed(opened, chosen.snapshot).await?;
    let mut table = scan(opened, &listed, chosen.schema).await?;
    let mut files = Vec::with_capacity(table.files.len());
    for file in &table.files {
        files.push(opened.file(&file.location, file.size).await?);
    }
    let deleted = deletes::deleted_rows(opened, &table, &files).await?;
    let schema: SchemaRef =
        Arc::new(Schema::new(table.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>()));
    let about = TableVersion {
        format: SIGN.format,
        location: opened.location.as_str().into(),
        id: opened.metadata.id.as_deref().unwrap_or_default().into(),
        version: opened.mark.version,
        other_schema: (!chosen.is_of_its_time).then_some(chosen.schema),
        time: chosen.snapshot.map(|snapshot| snapshot.time),
        features: vec![format!("version {} of the format", opened.metadata.version)],
        partition_columns: chosen.partitioned_by(&opened.metadata, &listed),
        schema: schema.clone(),
        files: files.len(),
        files_with_deletes: deleted.iter().flatten().count(),
        deleted: deleted.iter().flatten().map(|deleted| u64::from(deleted.count())).sum(),
    };
    let names = Arc::new(opened.names(&table.columns));
    let defaults: Arc<[Constant]> = table.columns.iter().filter_map(default).collect();
    let constants = constants(&table);
    let statistics = Arc::new(TableStatistics { columns: std::mem::take(&mut table.statistics) });
    let ids = Arc::new(row_id_column());
    let each = files.into_iter().zip(&table.files).zip(deleted);
    let files = each.map(|((found, file), deleted)| DataFile {
        constants: constants[file.partition as usize].clone(),
        defaults: defaults.clone(),
        deleted,
        schema: Some(schema.clone()),
        names: Some(names.clone()),
        rows: Some(file.rows),
        statistics: Some(FileStatistics::new(statistics.clone(), file.listed)),
        tracked: file.first_row_id.map(|first| TrackedIds { first, column: ids.clone() }),
        has_one_row_group: file.row_groups == Some(1),
        ..found
    });
    let identities = vec![format!("Iceberg {}", opened.metadata.id.as_deref().unwrap_or_default()).into()];
    let (root, files) = (opened.location.clone(), files.collect());
    Ok(Snapshot { root, files, identities, tables: vec![about], ..Snapshot::default() })
}

/// Reads which manifests (lists of files) a snapshot has.
async fn listed(opened: &OpenedTable<'_>, snapshot: Option<&Written>) -> Result<Vec<Manifest>> {
    match snapshot {
        None => Ok(Vec::new()),
        Some(Written { manifest_list: Some(list), .. }) => {
            let bytes = opened.read(list, None).await?;
            manifests(&bytes).map_err(|error| error.at(Place::file(list.as_str())))
        }
        Some(snapshot) => {
            let alone = snapshot.manifests.as_ref().ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("snapshot {} has no manifests", snapshot.id))
            })?;
            Ok(alone.iter().map(|location| Manifest::alone(location)).collect())
        }
    }
}

/// Reads the manifests of a snapshot, and computes from them which files the table has and which deletes
/// apply.
async fn scan(opened: &OpenedTable<'_>, listed: &[Manifest], schema: i64) -> Result<Table> {
    let mut scan = Scan::new(&opened.metadata, schema)?;
    let read = async |at: usize| {
        let manifest: &Manifest = &listed[at];
        opened.read(&manifest.location, manifest.size).await.map(|bytes| (manifest, bytes))
    };
    let reads = (0..listed.len()).map(|at| read(at).boxed());
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    while let Some((manifest, bytes)) = reads.try_next().await? {
        let taken = scan.manifest(manifest, &bytes);
        taken.map_err(|error| error.at(Place::file(manifest.location.as_str())))?;
    }
    Ok(scan.finish())
}

/// Describes the column in which files store row ids. It is found by its field id, never by its name.
fn row_id_column() -> ColumnNames {
    let (name, id) = ROW_ID_COLUMN;
    let column = ColumnName { name: name.to_owned(), stored: String::new(), id: Some(id), inner: Vec::new() };
    ColumnNames { found: FoundBy::Id, columns: vec![column] }
}

fn default(column: &TableColumn) -> Option<Constant> {
    column.default.clone().map(|value| Constant { field: column.field.clone(), value })
}

/// For each partition, the partition columns with their value in all rows of the partition.
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
