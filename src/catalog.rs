//! What a data set consists of, known from its footers alone: files, row groups, columns and their costs.
//!
//! Pure data and arithmetic. Finding the files and reading their footers is the job of `source`, reading rows that of
//! `reader`; nothing here touches a disk or a network.

mod cost;
mod fingerprint;
mod layout;
pub(crate) mod thrift;
mod types;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::error::{Error, ErrorKind, OrFail, Place, Result, nearest};

pub use fingerprint::Fingerprint;
pub(crate) use layout::Layout;
pub(crate) use types::{check_plain, leaf_width, same_type};

/// How many column names an "unknown column" message lists before it stops.
const NAMES_SHOWN: usize = 20;

/// A data set as its footers describe it.
#[derive(Clone)]
pub struct Catalog {
    /// The files in order: by path relative to what was opened, bytewise.
    pub files: Vec<File>,
    /// The row groups that hold rows, file by file; empty ones are left out.
    pub groups: Vec<Group>,
    /// All stored columns, typed as they are delivered: strings and binary as views, dictionaries as their values.
    /// Names and order are the first file's. A type that is not read stands here as Arrow names it, and is refused when
    /// the column is selected. The metadata is that of the first file.
    pub schema: SchemaRef,
    /// What identifies the data set, wherever it is stored.
    pub fingerprint: Fingerprint,
}

/// One Parquet file.
#[derive(Clone)]
pub struct File {
    /// The path or URL as people know it.
    pub location: Arc<str>,
    /// The path relative to what was opened, with `/`: the same for the same data in another store.
    pub relative: Arc<str>,
    /// Which of the store's volumes it lies in: a data set can be spread over several stores.
    pub volume: u32,
    /// Where the volume finds it.
    pub path: object_store::path::Path,
    /// Bytes.
    pub size: u64,
    /// Which writing of the file was catalogued.
    pub version: FileVersion,
    /// xxh3-64 of the footer's bytes: of its schema, statistics and offsets.
    pub footer_hash: u64,
    /// The footer, without its key-value metadata.
    pub metadata: Arc<ParquetMetaData>,
    /// How this file's columns map to the catalogue's.
    pub(crate) layout: Arc<Layout>,
}

/// What tells one writing of a file from the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileVersion {
    /// Time of the last change, in nanoseconds since 1970.
    Modified(i128),
    /// The store's own tag of the content.
    ETag(Arc<str>),
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileVersion::Modified(nanoseconds) => write!(f, "mtime:{nanoseconds}"),
            FileVersion::ETag(tag) => write!(f, "etag:{tag}"),
        }
    }
}

/// One row group that holds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index into [`Catalog::files`].
    pub file: usize,
    /// Ordinal of the row group in its file.
    pub index: usize,
    /// Rows, at least one.
    pub rows: u64,
    /// Ordinal in the data set of its first row.
    pub first_row: u64,
}

/// Columns of a catalogue, in the order in which they are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

impl Projection {
    /// Indices into the catalogue's schema.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The schema of the batches that are read with it.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Catalog {
    /// Puts files into a catalogue. `files` must be in their final order, and `schema` their common one.
    ///
    /// Fails with `Corrupt` where a footer counts less than zero rows, or more than 64 bits can count.
    pub(crate) fn new(files: Vec<File>, schema: SchemaRef) -> Result<Self> {
        let mut groups = Vec::new();
        let mut first_row = 0u64;
        for (file, found) in files.iter().enumerate() {
            for (index, group) in found.metadata.row_groups().iter().enumerate() {
                let rows = u64::try_from(group.num_rows()).map_err(|_| {
                    Error::new(ErrorKind::Corrupt, format!("{} rows are declared", group.num_rows()))
                        .at(Place::file(found.location.clone()).row_group(index))
                })?;
                if rows > 0 {
                    groups.push(Group { file, index, rows, first_row });
                    first_row = first_row.checked_add(rows).ok_or_else(|| {
                        let cause = format!("{rows} more rows than the {first_row} before cannot be counted");
                        Error::new(ErrorKind::Corrupt, cause)
                            .at(Place::file(found.location.clone()).row_group(index))
                    })?;
                }
            }
        }
        let fingerprint = Fingerprint::of(&files, &schema);
        Ok(Catalog { files, groups, schema, fingerprint })
    }

    /// Rows in the whole data set.
    pub fn rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.first_row + group.rows)
    }

    /// The index of the column called `name`; `UnknownColumn`, with the nearest name, if there is none.
    pub fn column(&self, name: &str) -> Result<usize> {
        if let Some((index, _)) = self.schema.column_with_name(name) {
            return Ok(index);
        }
        let names = || self.schema.fields().iter().map(|field| field.name().as_str());
        let listed: Vec<&str> = names().take(NAMES_SHOWN).collect();
        let more = match self.schema.fields().len().saturating_sub(NAMES_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let columns = format!("the columns are {}{more}", listed.join(", "));
        Err(Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}")).hint(match nearest(
            name,
            names(),
        ) {
            Some(near) => format!("did you mean {near:?}? {columns}"),
            None => columns,
        }))
    }

    /// The columns that a loader refuses unless it is told more than to read them, each with the reason and the next move:
    /// those that are not read, and those that are delivered only as decoded images.
    pub fn refused(&self) -> Vec<Error> {
        self.schema.fields().iter().filter_map(|field| types::refusal(field)).collect()
    }

    /// The columns called `names`, in that order.
    ///
    /// Fails with `UnknownColumn`, with `Invalid` for a name given twice, and with `Unsupported` for columns whose types
    /// are not read, all of which it names.
    pub fn project<S: AsRef<str>>(&self, names: &[S]) -> Result<Projection> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            let column = self.column(name)?;
            if columns.contains(&column) {
                return Err(Error::invalid(format!("column {name:?} is selected twice")));
            }
            columns.push(column);
        }
        self.project_columns(columns)
    }

    /// All columns, in stored order; `Unsupported` if the types of some are not read.
    pub fn project_all(&self) -> Result<Projection> {
        self.project_columns((0..self.schema.fields().len()).collect())
    }

    fn project_columns(&self, columns: Vec<usize>) -> Result<Projection> {
        types::check_read(columns.iter().map(|&column| self.schema.field(column)))?;
        let schema = Arc::new(self.schema.project(&columns).or_fail()?);
        Ok(Projection { columns: columns.into(), schema })
    }

    /// Where `group` is, for messages.
    pub fn place(&self, group: &Group) -> Place {
        Place::file(self.files[group.file].location.clone()).row_group(group.index)
    }

    /// Bytes that must be fetched to read the projected columns of `group`.
    pub fn stored_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.leaves(group, projection).map(|(_, chunk)| cost::stored(chunk)).sum()
    }

    /// Bytes that the projected columns of `group` hold at most once they are decoded, as the footer tells it.
    ///
    /// It is what a memory budget counts. A footer can lie: the reader checks it against the pages before it decodes. Two
    /// things it cannot tell: strings encoded as `DELTA_BYTE_ARRAY` may take more, since they repeat each other, and small
    /// buffers of views that grew page by page may have up to twice the room.
    pub fn held_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.leaves(group, projection)
            .map(|(_, chunk)| cost::held(chunk, group.rows))
            .fold(0, u64::saturating_add)
    }

    /// The measure of the default window: [`held_bytes`](Self::held_bytes), but for narrow numbers, which it counts double.
    pub(crate) fn window_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.leaves(group, projection)
            .map(|(_, chunk)| cost::wide(chunk, group.rows))
            .fold(0, u64::saturating_add)
    }

    /// Bytes that the values of the projected columns of `group` come to one by one, and whether the footer tells: values that
    /// repeat each other are stored once, and only newer footers count them.
    pub(crate) fn values_bytes(&self, group: &Group, projection: &Projection) -> (u64, bool) {
        let each = self.leaves(group, projection).map(|(_, chunk)| match cost::values(chunk) {
            Some(values) => (values, true),
            None => (cost::held(chunk, group.rows), false),
        });
        each.fold((0, true), |sum, (bytes, known)| (bytes.saturating_add(sum.0), known && sum.1))
    }

    /// The byte ranges of the projected column chunks of `group` in its file, in the order in which the file's schema
    /// has them: one range for each leaf column.
    pub fn byte_ranges(&self, group: &Group, projection: &Projection) -> Vec<Range<u64>> {
        self.leaves(group, projection).map(|(_, chunk)| cost::range(chunk)).collect()
    }

    /// The leaf columns of a projection with their chunks, in the file's order.
    pub(crate) fn leaves<'a>(
        &'a self,
        group: &Group,
        projection: &Projection,
    ) -> impl Iterator<Item = (usize, &'a ColumnChunkMetaData)> {
        let file = &self.files[group.file];
        let row_group = file.metadata.row_group(group.index);
        file.layout.leaves(projection.columns()).into_iter().map(move |leaf| (leaf, row_group.column(leaf)))
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("files", &self.files.len())
            .field("groups", &self.groups.len())
            .field("rows", &self.rows())
            .field("fingerprint", &self.fingerprint.to_string())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("location", &self.location)
            .field("size", &self.size)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// One schema for files whose schemas may differ in the order of columns, nullability and metadata, but in nothing else.
///
/// `files` are pairs of location and schema, typed as delivered. Names, order and metadata are the first file's; a column
/// is nullable if it is so in any file. Fails with `Unsupported` at the first column that differs, naming both files.
pub(crate) fn unify(files: &[(Arc<str>, SchemaRef)]) -> Result<SchemaRef> {
    let Some((first_location, first)) = files.first() else {
        return Ok(Arc::new(Schema::empty()));
    };
    let mut fields: Vec<Field> = first.fields().iter().map(|field| field.as_ref().clone()).collect();
    let index: HashMap<&str, usize> =
        first.fields().iter().enumerate().map(|(i, field)| (field.name().as_str(), i)).collect();
    let mut last_checked = first;
    for (location, schema) in &files[1..] {
        if Arc::ptr_eq(schema, last_checked) {
            continue;
        }
        last_checked = schema;
        let differs = |column: &str, want: String, got: String| {
            Error::new(ErrorKind::Unsupported, format!("want {want} as in {first_location}, got {got}"))
                .at(Place::file(location.clone()).column(column))
                .hint("the files of a data set need the same columns: open those that agree")
        };
        for field in schema.fields() {
            let Some(&at) = index.get(field.name().as_str()) else {
                return Err(differs(field.name(), "no such column".into(), field.data_type().to_string()));
            };
            if !same_type(fields[at].data_type(), field.data_type()) {
                let want = fields[at].data_type().to_string();
                return Err(differs(field.name(), want, field.data_type().to_string()));
            }
            fields[at] = either(&fields[at], field);
        }
        if let Some(absent) = fields.iter().find(|field| schema.column_with_name(field.name()).is_none()) {
            return Err(differs(absent.name(), absent.data_type().to_string(), "no such column".into()));
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// The first field, nullable at every level at which either is. Both are of the same type.
fn either(first: &Field, second: &Field) -> Field {
    let item = |a: &FieldRef, b: &FieldRef| Arc::new(either(a, b));
    let data_type = match (first.data_type(), second.data_type()) {
        (DataType::List(a), DataType::List(b)) => DataType::List(item(a, b)),
        (DataType::LargeList(a), DataType::LargeList(b)) => DataType::LargeList(item(a, b)),
        (DataType::FixedSizeList(a, length), DataType::FixedSizeList(b, _)) => {
            DataType::FixedSizeList(item(a, b), *length)
        }
        (DataType::Struct(a), DataType::Struct(b)) if a.len() == b.len() => {
            DataType::Struct(a.iter().zip(b).map(|(a, b)| item(a, b)).collect())
        }
        (data_type, _) => data_type.clone(),
    };
    let nullable = first.is_nullable() || second.is_nullable();
    first.clone().with_data_type(data_type).with_nullable(nullable)
}
