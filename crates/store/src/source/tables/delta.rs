//! Reads tables of Delta Lake: this module fetches the files of the log, and the crate `forebay-delta`
//! computes the table's state from them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::datatypes::{Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_delta::{
    Commit, Found, LOG_FOLDER, LogEntry, Replay, SIDECAR_FOLDER, Segment, StoredName, Table, VectorPlace,
    commit_time, commits,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::checkpoint_pages;
use super::format::{FoundFile, Sign, TableFolder, TableFormat};
use crate::row_set::RowSet;
use crate::snapshot::{
    AsOf, ColumnName, ColumnNames, Constant, DataFile, FileStatistics, FoundBy, Snapshot, TableMark,
    TableStatistics, TableVersion, TrackedIds, VersionWords, time_shown,
};

/// The most commits, or files with deletion vectors, that are read at the same time.
const AT_ONCE: usize = 32;

/// The most parts of a checkpoint that are read at the same time. A part can have hundreds of megabytes.
const PARTS_AT_ONCE: usize = 4;

/// The size in bytes of the largest file in the log that is read.
const LARGEST: u64 = 2 << 30;

/// The table property that says that commits record the time at which they were made.
const OWN_TIMES: &str = "delta.enableInCommitTimestamps";

/// The table property with the first version whose commit records its time.
const OWN_TIMES_SINCE: &str = "delta.inCommitTimestampEnablementVersion";

const SIGN: Sign = Sign { format: "Delta", folder: LOG_FOLDER, suffix: None, holds_parquet: true };

/// The words by which messages refer to a version of a Delta table.
const WORDS: VersionWords = VersionWords {
    noun: "version",
    when_gone: "if it was vacuumed, open a newer version; otherwise restore the file, or have the table's engine drop it \
                from the log (FSCK REPAIR TABLE)",
};

/// The table format Delta Lake.
pub(super) struct Delta;

impl TableFormat for Delta {
    fn sign(&self) -> &Sign {
        &SIGN
    }

    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>> {
        async move { Log::open(table).await?.snapshot().await.map_err(|error| error.at(table.place())) }
            .boxed()
    }

    fn newest<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<u64>> {
        let newest = async move {
            Segment::from_entries(&Log::open(table).await?.entries, None).map(|newest| newest.version)
        };
        async move { newest.await.map_err(|error: Error| error.at(table.place())) }.boxed()
    }
}

/// The files in the log of a table, as a listing of the folder `_delta_log` returned them.
struct Log<'a> {
    table: &'a TableFolder<'a>,
    location: String,
    found: Vec<FoundFile>,
    entries: Vec<LogEntry>,
}

impl<'a> Log<'a> {
    async fn open(table: &'a TableFolder<'a>) -> Result<Self> {
        let found = table.list(LOG_FOLDER).await?;
        let entry = |file: &FoundFile| LogEntry { name: file.name.clone(), modified: file.modified };
        let entries = found.iter().map(entry).collect();
        Ok(Log { table, location: table.location()?, found, entries })
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let wanted = match self.table.as_of() {
            AsOf::Newest => None,
            AsOf::Version(version) => Some(version),
            AsOf::Time(time) => Some(self.version_at(time).await?),
            AsOf::Named(name) => {
                let cause = format!("a Delta table has no branches and tags, such as {name:?}");
                return Err(Error::invalid(cause).hint("give the number of a version, or a time"));
            }
        };
        let mut table = self.replay(wanted).await?;
        let time = self.time_of(&table).await?;
        let deleted = self.deleted_rows(&table).await?;
        let schema: SchemaRef = Arc::new(Schema::new(
            table.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>(),
        ));
        let names = table.columns.iter().map(|column| column_name(&column.stored)).collect();
        let found = if table.found == Found::ById { FoundBy::Id } else { FoundBy::Name };
        let names = Arc::new(ColumnNames { found, columns: names });
        let constants = self.constants(&table)?;
        let about = TableVersion {
            format: SIGN.format,
            location: self.location.as_str().into(),
            id: table.id.as_str().into(),
            version: table.version,
            other_schema: None,
            time,
            features: table.features.clone(),
            partition_columns: table.partition_columns.clone(),
            schema: schema.clone(),
            files: table.files.len(),
            files_with_deletes: table.files.iter().filter(|file| file.deletion.is_some()).count(),
            deleted: table
                .files
                .iter()
                .flat_map(|file| &file.deletion)
                .map(|deletion| deletion.count())
                .sum(),
        };
        let statistics = Arc::new(TableStatistics { columns: std::mem::take(&mut table.statistics) });
        let ids = table.row_id_column().map(|name| Arc::new(row_id_column(name)));
        let mut files = Vec::with_capacity(table.files.len());
        for (at, (file, deleted)) in table.files.iter().zip(deleted).enumerate() {
            files.push(DataFile {
                constants: constants[file.partition as usize].clone(),
                deleted,
                schema: Some(schema.clone()),
                names: Some(names.clone()),
                rows: file.rows,
                statistics: Some(FileStatistics::new(statistics.clone(), at as u32)),
                tracked: ids
                    .clone()
                    .zip(file.first_row_id)
                    .map(|(column, first)| TrackedIds { first, column }),
                ..self.table.written(
                    &file.path,
                    file.size,
                    TableMark { version: table.version, words: &WORDS },
                )?
            });
        }
        let identities = vec![format!("Delta {}", table.id).into()];
        let root = self.location.clone();
        Ok(Snapshot { root, files, identities, tables: vec![about], ..Snapshot::default() })
    }

    /// Reads the log and computes the table's state at the wanted version, or at the newest if it is `None`.
    async fn replay(&self, wanted: Option<u64>) -> Result<Table> {
        let segment = Segment::from_entries(&self.entries, wanted)?;
        let mut replay = Replay::new(&self.location);
        let reads = segment.commits.iter().copied().map(|commit| self.read(commit.entry).boxed());
        let mut commits = stream::iter(reads).buffered(AT_ONCE);
        while let Some((file, bytes)) = commits.try_next().await? {
            replay.commit(&bytes).map_err(|error| self.of_log(error, &file.name))?;
            replay.check()?;
        }
        let reads = segment.checkpoint.iter().copied().map(|entry| self.read(entry).boxed());
        let mut parts = stream::iter(reads).buffered(PARTS_AT_ONCE);
        let mut sidecars = Vec::new();
        while let Some((file, bytes)) = parts.try_next().await? {
            let taken = checkpoint_pages::check(&bytes).and_then(|()| replay.checkpoint(&file.name, bytes));
            sidecars.extend(taken.map_err(|error| self.of_log(error, &file.name))?);
        }
        replay.check()?;
        let reads = sidecars.into_iter().map(|name| {
            let name = format!("{LOG_FOLDER}/{SIDECAR_FOLDER}/{name}");
            async move { self.table.read(&name).await.map(|bytes| (name, bytes)) }.boxed()
        });
        let mut sidecars = stream::iter(reads).buffered(PARTS_AT_ONCE);
        while let Some((name, bytes)) = sidecars.try_next().await? {
            let taken = checkpoint_pages::check(&bytes).and_then(|()| replay.checkpoint(&name, bytes));
            let more = taken.map_err(|error| error.at(Place::file(format!("{}/{name}", self.location))))?;
            if !more.is_empty() {
                let cause = "a sidecar of the checkpoint refers to another sidecar";
                return Err(Error::new(ErrorKind::Corrupt, cause)
                    .at(Place::file(format!("{}/{name}", self.location))));
            }
        }
        replay.finish(segment.version)
    }

    async fn read(&self, entry: usize) -> Result<(&FoundFile, bytes::Bytes)> {
        let file = &self.found[entry];
        if file.pin.size > LARGEST {
            let cause = format!("the file has {} bytes, and up to {LARGEST} are read", file.pin.size);
            let hint = "let the table's engine write a checkpoint of several parts";
            return Err(self.of_log(Error::new(ErrorKind::TooLarge, cause).hint(hint), &file.name));
        }
        let bytes = self.table.bytes(&file.pin).await.map_err(|error| self.of_log(error, &file.name))?;
        Ok((file, bytes))
    }

    /// Adds the path of the log's file `name` to an error.
    fn of_log(&self, error: Error, name: &str) -> Error {
        error.at(Place::file(format!("{}/{LOG_FOLDER}/{name}", self.location)))
    }

    /// The newest version that existed at `time`, in milliseconds since 1970.
    async fn version_at(&self, time: i64) -> Result<u64> {
        let commits = commits(&self.entries);
        let newest = self.replay(None).await?;
        let since = own_times_since(&newest);
        let from =
            since.map_or(commits.len(), |since| commits.partition_point(|commit| commit.version < since));
        let (by_file, by_commit) = commits.split_at(from);
        // A modification time that is not later than the previous one is replaced by a later time, as in
        // Delta.
        let mut last = i64::MIN;
        let times = by_file.iter().map(|commit| {
            last = self.entries[commit.entry].modified.max(last.saturating_add(1));
            (commit.version, last)
        });
        let mut found = times.take_while(|(_, at)| *at <= time).map(|(version, _)| version).last();
        // The times that commits record are in ascending order, so a binary search reads only a few commits.
        let (mut low, mut high) = (0, by_commit.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.own_time(&by_commit[middle]).await? <= time {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if let Some(last) = low.checked_sub(1) {
            found = Some(by_commit[last].version);
        }
        found.ok_or_else(|| {
            let first = commits.first().map(|first| time_shown(self.entries[first.entry].modified));
            let since = first.map_or_else(String::new, |first| format!(": the oldest is of {first}"));
            let cause = format!("the table has no version of {}{since}", time_shown(time));
            Error::new(ErrorKind::NotFound, cause)
        })
    }

    /// Reads the time that a commit records.
    async fn own_time(&self, commit: &Commit) -> Result<i64> {
        let (file, bytes) = self.read(commit.entry).await?;
        let lacks = || Error::new(ErrorKind::Corrupt, "the commit lacks its time");
        commit_time(&bytes).ok_or_else(|| self.of_log(lacks(), &file.name))
    }

    /// The time when the version of `table` was written; `None` if its commit was removed from the log.
    async fn time_of(&self, table: &Table) -> Result<Option<i64>> {
        let commit = commits(&self.entries).into_iter().find(|commit| commit.version == table.version);
        let Some(commit) = commit else { return Ok(None) };
        match own_times_since(table).is_some_and(|since| since <= table.version) {
            true => self.own_time(&commit).await.map(Some),
            false => Ok(Some(self.entries[commit.entry].modified)),
        }
    }

    /// For each partition, the partition columns with their value in all rows of the partition.
    fn constants(&self, table: &Table) -> Result<Vec<Arc<[Constant]>>> {
        let field = |name: &String| table.columns.iter().find(|column| column.field.name() == name);
        let fields: Vec<_> = table.partition_columns.iter().filter_map(field).collect();
        let of_partition = |values: &[Option<String>]| {
            let values = table.values(values)?.into_iter().zip(&fields);
            Ok(values.map(|(value, column)| Constant { field: column.field.clone(), value }).collect())
        };
        table.partitions.iter().map(|values| of_partition(values)).collect()
    }

    /// Reads the deletion vectors: for each file, its deleted rows, or `None` if it has none.
    async fn deleted_rows(&self, table: &Table) -> Result<Vec<Option<RowSet>>> {
        let mut deleted = vec![None; table.files.len()];
        // The deletion vectors to read, by the path of the file that stores them. Each has the index of the
        // data file whose rows it deletes, and its byte range.
        let mut stored: BTreeMap<String, Vec<(usize, Range<u64>)>> = BTreeMap::new();
        for (at, file) in table.files.iter().enumerate() {
            let Some(vector) = &file.deletion else { continue };
            let place = || Place::file(format!("{}/{}", self.location, file.path));
            match vector.place(&self.location).map_err(|error| error.at(place()))? {
                VectorPlace::Inline(bytes) => {
                    deleted[at] =
                        Some(vector.rows(&bytes).and_then(row_set).map_err(|error| error.at(place()))?);
                }
                VectorPlace::File { path, range } => stored.entry(path).or_default().push((at, range)),
            }
        }
        let read = async |path: String, vectors: Vec<(usize, Range<u64>)>| {
            let place = || Place::file(format!("{}/{path}", self.location));
            let file = self.table.file(&path).await?;
            let ranges: Vec<_> = vectors.iter().map(|(_, range)| range.clone()).collect();
            let read = self.table.ranges(&file.pin, &ranges).await.map_err(|error| error.at(place()))?;
            let rows = vectors.iter().zip(read).map(|((at, _), bytes)| {
                let vector = table.files[*at].deletion.as_deref();
                let rows = vector.map(|vector| vector.rows(&bytes).and_then(row_set)).transpose();
                Ok((*at, rows.map_err(|error| error.at(place()))?))
            });
            rows.collect::<Result<Vec<_>>>()
        };
        let reads = stored.into_iter().map(|(path, vectors)| read(path, vectors).boxed());
        let mut reads = stream::iter(reads).buffered(AT_ONCE);
        while let Some(rows) = reads.try_next().await? {
            rows.into_iter().for_each(|(at, rows)| deleted[at] = rows);
        }
        Ok(deleted)
    }
}

/// The first version whose commit records its time; `None` if no commit does.
fn own_times_since(table: &Table) -> Option<u64> {
    let property = |name: &str| table.configuration.get(name).map(String::as_str);
    (property(OWN_TIMES) == Some("true"))
        .then(|| property(OWN_TIMES_SINCE).and_then(|since| since.parse().ok()).unwrap_or(0))
}

fn row_set(rows: Vec<Range<u64>>) -> Result<RowSet> {
    let past_last = rows.last().map_or(0, |last| last.end);
    let past_last = u32::try_from(past_last).map_err(|_| {
        let cause = format!("the deletion vector has row {}, more than a file can have", past_last - 1);
        Error::new(ErrorKind::Corrupt, cause)
    })?;
    Ok(RowSet::from_runs(past_last, rows.into_iter().map(|rows| rows.start as u32..rows.end as u32)))
}

/// Describes the column `name`, in which files of the table store row ids.
fn row_id_column(name: &str) -> ColumnNames {
    let column = ColumnName { name: name.to_owned(), stored: name.to_owned(), id: None, inner: Vec::new() };
    ColumnNames { found: FoundBy::Name, columns: vec![column] }
}

fn column_name(stored: &StoredName) -> ColumnName {
    ColumnName {
        name: stored.name.clone(),
        stored: stored.stored.clone(),
        id: stored.id,
        inner: stored.inner.iter().map(column_name).collect(),
    }
}
