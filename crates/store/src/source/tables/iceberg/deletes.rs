//! Finds the deleted rows of each file of an Iceberg table, from deletion vectors, position deletes and
//! equality deletes (deletes by value).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow_row::{RowConverter, SortField};
use forebay_arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use forebay_arrow::compute::take;
use forebay_arrow::datatypes::{DataType, Int64Type};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_iceberg::{DeletionVector, Equality, POSITION_COLUMNS, Table, TableColumn, TableFile};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::opened::OpenedTable;
use crate::row_set::RowSet;
use crate::snapshot::{ColumnName, ColumnNames, DataFile, FoundBy};
use crate::source::stored::{self, StoredRows, WantedColumn};

/// The most files with deletes that are read at the same time.
const AT_ONCE: usize = 32;

/// The most data files that are compared with deleted values at the same time.
const COMPARED_AT_ONCE: usize = 4;

/// Finds the deleted rows of each of `files`; `None` for a file without deleted rows.
pub(super) async fn deleted_rows(
    opened: &OpenedTable<'_>,
    table: &Table,
    files: &[DataFile],
) -> Result<Vec<Option<RowSet>>> {
    let mut rows: Vec<Vec<Range<u64>>> = vec![Vec::new(); files.len()];
    by_vectors(opened, table, &mut rows).await?;
    by_positions(opened, table, &mut rows).await?;
    by_values(opened, table, files, &mut rows).await?;
    let each = rows.into_iter().zip(files);
    each.map(|(rows, file)| row_set(rows).map_err(|error| error.at(file.place()))).collect()
}

/// Makes a set of ranges of rows, which may overlap and be in any order; `None` if there are no ranges.
fn row_set(mut rows: Vec<Range<u64>>) -> Result<Option<RowSet>> {
    if rows.is_empty() {
        return Ok(None);
    }
    rows.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u32>> = Vec::new();
    for range in rows {
        let short = |row: u64| {
            u32::try_from(row).map_err(|_| {
                let cause = format!("the table deletes row {row}, more than a file can have");
                Error::new(ErrorKind::Corrupt, cause)
            })
        };
        let (start, end) = (short(range.start)?, short(range.end)?);
        match merged.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = last.end.max(end),
            None => merged.push(start..end),
        }
    }
    let past_last = merged.last().map_or(0, |last| last.end);
    Ok(Some(RowSet::from_runs(past_last, merged)))
}

async fn by_vectors(opened: &OpenedTable<'_>, table: &Table, rows: &mut [Vec<Range<u64>>]) -> Result<()> {
    // The deletion vectors to read, by the location of the file that stores them: the indices of the data
    // files that they belong to.
    let mut stored: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, file) in table.files.iter().enumerate() {
        if let Some(vector) = &file.deletion {
            stored.entry(vector.location.to_string()).or_default().push(at);
        }
    }
    let read = async |location: String, of: Vec<usize>| {
        let read = async {
            let vectors: Vec<&DeletionVector> =
                of.iter().filter_map(|at| table.files[*at].deletion.as_deref()).collect();
            let ranges = vectors.iter().map(|vector| vector.range()).collect::<Result<Vec<_>>>()?;
            let size = vectors.first().map_or(0, |vector| vector.size);
            let file = opened.file(&location, size).await?;
            let read = opened.table.ranges_of(&file, &ranges).await?;
            let each = of.iter().zip(vectors).zip(read);
            each.map(|((at, vector), bytes)| Ok((*at, vector.rows(&bytes)?))).collect::<Result<Vec<_>>>()
        };
        read.await.map_err(|error: Error| error.at(Place::file(&*location)))
    };
    let reads = stored.into_iter().map(|(location, vectors)| read(location, vectors).boxed());
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    while let Some(read) = reads.try_next().await? {
        read.into_iter().for_each(|(at, deleted)| rows[at].extend(deleted));
    }
    Ok(())
}

async fn by_positions(opened: &OpenedTable<'_>, table: &Table, rows: &mut [Vec<Range<u64>>]) -> Result<()> {
    let column = |(name, id): (&str, i32)| ColumnName {
        name: name.to_owned(),
        stored: name.to_owned(),
        id: Some(id),
        inner: Vec::new(),
    };
    let names = ColumnNames { found: FoundBy::Id, columns: POSITION_COLUMNS.map(column).to_vec() };
    let (names, types) = (Arc::new(names), [DataType::Utf8View, DataType::Int64]);
    let wanted: Vec<WantedColumn> = POSITION_COLUMNS
        .iter()
        .zip(types)
        .map(|((name, _), data_type)| WantedColumn { name: (*name).to_owned(), data_type })
        .collect();
    let (names, wanted) = (&names, &wanted);
    let read = async |at: usize| {
        let positions = &table.positions[at];
        let mut found: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
        let take = |rows: StoredRows| {
            let [Some(paths), Some(places)] = rows.columns.as_slice() else {
                return Err(Error::new(ErrorKind::Corrupt, "the file lacks the positions of deleted rows"));
            };
            let (paths, places) = (paths.as_string_view(), places.as_primitive::<Int64Type>());
            let mut last: Option<(&str, Option<usize>)> = None;
            for row in 0..rows.count {
                let place = Some(places.value(row)).filter(|_| paths.is_valid(row) && places.is_valid(row));
                let place = place.and_then(|place| u64::try_from(place).ok()).ok_or_else(|| {
                    Error::new(ErrorKind::Corrupt, "a deleted row has no position")
                        .at(Place::default().row(row as u64))
                })?;
                let path = paths.value(row);
                let file = match last.filter(|(last, _)| *last == path) {
                    Some((_, file)) => file,
                    None => table.file_at(path).filter(|at| table.concerns(positions, &table.files[*at])),
                };
                last = Some((path, file));
                let Some(at) = file else { continue };
                let ranges = found.entry(at).or_default();
                match ranges.last_mut().filter(|last| last.end == place) {
                    Some(last) => last.end += 1,
                    None => ranges.push(place..place.saturating_add(1)),
                }
            }
            Ok(())
        };
        let place = || Place::file(&*positions.location);
        let file = opened.file(&positions.location, positions.size).await;
        let file = file.map_err(|error| error.at(place()))?;
        stored::each(opened.table.store, &file, names, wanted, take)
            .await
            .map_err(|error| error.at(place()))?;
        Ok::<_, Error>(found)
    };
    let reads = (0..table.positions.len()).map(|at| read(at).boxed());
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    while let Some(found) = reads.try_next().await? {
        found.into_iter().for_each(|(at, deleted)| rows[at].extend(deleted));
    }
    Ok(())
}

/// The values of some columns by which equality deletes delete rows, in one partition or in the whole table.
struct DeletedValues {
    partition: Option<u32>,
    columns: Vec<TableColumn>,
    converter: RowConverter,
    /// For each deleted combination of values, the sequence number of the last commit that deletes it. Only
    /// rows from earlier commits are deleted.
    deleted: HashMap<Box<[u8]>, i64>,
    /// The sequence number of the last commit that deletes any of the values.
    last: i64,
}

impl DeletedValues {
    fn new(equality: &Equality) -> Result<Self> {
        let fields = equality.columns.iter().map(|column| SortField::new(column.field.data_type().clone()));
        Ok(DeletedValues {
            partition: equality.partition,
            columns: equality.columns.clone(),
            converter: RowConverter::new(fields.collect()).or_fail()?,
            deleted: HashMap::new(),
            last: i64::MIN,
        })
    }

    /// Whether rows of a file may be deleted by these values.
    fn concerns(&self, file: &TableFile) -> bool {
        file.sequence < self.last && self.partition.is_none_or(|partition| partition == file.partition)
    }

    fn wanted(&self) -> Vec<WantedColumn> {
        let wanted = |column: &TableColumn| WantedColumn {
            name: column.name.name.clone(),
            data_type: column.field.data_type().clone(),
        };
        self.columns.iter().map(wanted).collect()
    }

    /// The arrays of the compared columns for some rows. A column that the file lacks is filled with its
    /// value in `instead`, or with nulls.
    fn arrays(&self, rows: StoredRows, instead: &[Option<ArrayRef>]) -> Result<Vec<ArrayRef>> {
        let each = rows.columns.into_iter().zip(instead).zip(&self.columns);
        let each = each.map(|((stored, instead), column)| match (stored, instead) {
            (Some(stored), _) => Ok(stored),
            (None, Some(value)) => take(value, &UInt32Array::from(vec![0; rows.count]), None).or_fail(),
            (None, None) => Ok(new_null_array(column.field.data_type(), rows.count)),
        });
        each.collect()
    }
}

async fn by_values(
    opened: &OpenedTable<'_>,
    table: &Table,
    files: &[DataFile],
    rows: &mut [Vec<Range<u64>>],
) -> Result<()> {
    let all = values(opened, table).await?;
    let compare = async |at: usize| {
        let (file, about) = (&table.files[at], &files[at]);
        let mut deleted = Vec::new();
        for values in all.iter().filter(|values| values.concerns(file)) {
            // A column that the file may lack has the value of the file's partition, or else its default.
            let constants = &table.partitions[file.partition as usize];
            let instead = values.columns.iter().map(|column| {
                let is_it = |(at, _): &&(usize, ArrayRef)| table.columns[*at].name.id == column.name.id;
                constants
                    .iter()
                    .find(is_it)
                    .map(|(_, value)| value.clone())
                    .or_else(|| column.default.clone())
            });
            let (instead, names) = (instead.collect::<Vec<_>>(), Arc::new(opened.names(&values.columns)));
            let mut first = 0u64;
            let take = |rows: StoredRows| {
                let count = rows.count;
                let arrays = values.arrays(rows, &instead)?;
                let keys = values.converter.convert_columns(&arrays).or_fail()?;
                for row in 0..count {
                    let last = values.deleted.get(keys.row(row).as_ref());
                    if last.is_some_and(|last| file.sequence < *last) {
                        let row = first + row as u64;
                        deleted.push(row..row + 1);
                    }
                }
                first += count as u64;
                Ok(())
            };
            stored::each(opened.table.store, about, &names, &values.wanted(), take)
                .await
                .map_err(|error| error.at(about.place()))?;
        }
        Ok::<_, Error>((at, deleted))
    };
    let compared = (0..files.len()).filter(|at| all.iter().any(|values| values.concerns(&table.files[*at])));
    let compared = compared.map(|at| compare(at).boxed());
    let mut compared = stream::iter(compared).buffered(COMPARED_AT_ONCE);
    while let Some((at, deleted)) = compared.try_next().await? {
        rows[at].extend(deleted);
    }
    Ok(())
}

/// Reads the deleted values from the files of equality deletes, grouped by partition and compared columns.
async fn values(opened: &OpenedTable<'_>, table: &Table) -> Result<Vec<DeletedValues>> {
    let mut all: BTreeMap<(Option<u32>, Vec<i32>), DeletedValues> = BTreeMap::new();
    for equality in &table.equalities {
        if !table.files.iter().any(|file| table.compares(equality, file)) {
            continue;
        }
        let place = || Place::file(&*equality.location);
        let ids = equality.columns.iter().map(|column| column.name.id).collect();
        let values = match all.entry((equality.partition, ids)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(DeletedValues::new(equality)?),
        };
        values.last = values.last.max(equality.sequence);
        let (names, wanted) = (Arc::new(opened.names(&values.columns)), values.wanted());
        let take = |rows: StoredRows| {
            let count = rows.count;
            let arrays = values.arrays(rows, &vec![None; wanted.len()])?;
            let keys = values.converter.convert_columns(&arrays).or_fail()?;
            for row in 0..count {
                let last = values.deleted.entry(keys.row(row).as_ref().into()).or_insert(equality.sequence);
                *last = (*last).max(equality.sequence);
            }
            Ok(())
        };
        let file = opened.file(&equality.location, equality.size).await;
        let file = file.map_err(|error| error.at(place()))?;
        let read = stored::each(opened.table.store, &file, &names, &wanted, take).await;
        read.map_err(|error| error.at(place()))?;
    }
    Ok(all.into_values().collect())
}
