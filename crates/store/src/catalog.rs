//! The contents of a data set, from its footers alone: files, row groups, columns and their costs.
//!
//! This module has only data and arithmetic. `source` finds the files and reads their footers, and `reader`
//! reads rows; nothing here accesses a disk or a network.
//!
//! Only the part of a footer that plans and reads need is kept. A file whose rows and columns a table's list
//! declares is one row group of the catalogue, however many are stored, and has no footer before its rows are
//! fetched; until then its costs are estimates.

pub mod arrow_schema;
mod cost;
mod file_columns;
mod fingerprint;
mod footer;
mod lists;
pub mod page_header;
pub mod pages;
mod projection;
mod row_ids;
pub mod thrift;
mod types;
mod unify;
pub mod writers;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use forebay_arrow::datatypes::SchemaRef;
use forebay_base::error::nearest;
use forebay_base::{Error, ErrorKind, Place, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::row_set::RowSet;
use crate::snapshot::{ColumnNames, Constant, FileStatistics, Listed, Pin, TableVersion, TrackedIds};
use row_ids::{IdsOfFile, RowIds};

pub use crate::snapshot::FileVersion;
pub use arrow_schema::{ARROW_SCHEMA, Refusals, arrow_schema, int96_roots};
pub use cost::{LEVEL_BYTES, PageMemory, value_width};
pub use file_columns::{FileColumns, KnownColumns, Origin, ProjectedLeaves, SharedBy};
pub use fingerprint::Fingerprint;
pub use footer::{ColumnChunk, Footer};
pub use projection::Projection;
pub use projection::{Reads, Selected, fields_of, joined};
pub(crate) use row_ids::IdRuns;
pub use row_ids::{GroupIds, RowId, RowPlace};
pub use types::leaf_width;
pub use unify::{Differences, Unified, unify};

/// The memory in bytes of the default window of a shuffle, which holds rows after Parquet is decoded. The
/// order of rows depends on it.
pub const WINDOW_BYTES: u64 = 1 << 30;
/// How many column names an "unknown column" message lists before it stops.
const NAMES_SHOWN: usize = 20;

/// A data set as its footers describe it.
#[derive(Clone)]
pub struct Catalog {
    /// The files in order: by path relative to the location that was opened, compared bytewise.
    pub files: Vec<File>,
    /// The row groups that hold rows, file by file; empty ones are left out.
    pub groups: Vec<Group>,
    /// All stored columns, typed as they are delivered: strings and binary as views, dictionaries as their
    /// values. Names and order are the first file's. An unsupported type is listed as Arrow names it, and is
    /// refused when the column is selected; so is a column whose types in the files have no common one. The
    /// metadata is that of the first file, if its footer was read when the data set was opened.
    pub schema: SchemaRef,
    /// The identity of the data set, wherever it is stored.
    pub fingerprint: Fingerprint,
    /// For each location with files of several splits, a sentence that says so.
    pub splits: Arc<[String]>,
    /// The tables that were opened, each at one version.
    pub tables: Arc<[TableVersion]>,
    /// The columns that files have been found to have, which files whose footers are read later can share.
    pub known: Arc<KnownColumns>,
    /// The columns that cannot be read in some file, or whose types have nothing in common.
    refused: Arc<Refusals>,
    /// Texts that identify the rows in addition to the files, such as the id of a table.
    identities: Arc<[Arc<str>]>,
    /// The row ids, once one is asked for.
    row_ids: OnceLock<RowIds>,
}

/// One Parquet file.
#[derive(Clone)]
pub struct File {
    /// The path or URL of the file as users write it.
    pub location: Arc<str>,
    /// The path relative to the location that was opened, with `/` as the separator. It is the same for a
    /// copy of the data in another store.
    pub relative: Arc<str>,
    /// The index of the volume that holds the file: a data set can be spread over several stores.
    pub volume: u32,
    /// The path of the file in its volume.
    pub path: object_store::path::Path,
    /// The size in bytes.
    pub size: u64,
    /// The version of the file that was catalogued.
    pub version: FileVersion,
    /// The kept part of the footer, once the footer was read.
    pub footer: OnceLock<Footer>,
    /// The rows and columns that the table's list declares, if that is enough to plan with. They are compared
    /// with the footer.
    pub declared: Option<Declared>,
    /// The names that the table's columns have in the file.
    pub names: Option<Arc<ColumnNames>>,
    /// The columns with a single value in all rows of the file.
    pub constants: Arc<[Constant]>,
    /// The number of constants that were known before the footer was read; they are the first of `constants`.
    pub(crate) listed_constants: u32,
    /// The bounds of the file's values, as the list of its table gives them.
    pub(crate) statistics: Option<FileStatistics>,
    /// The rows that are deleted, by their ordinals in the file.
    pub deleted: Option<RowSet>,
    /// The ids of the file's rows, if its table tracks row ids.
    pub(crate) tracked: Option<TrackedIds>,
    /// A hash of constants and deleted rows; `None` for a file without either.
    pub table_hash: Option<u64>,
}

/// The rows and columns of a file that the list of a table declares.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The number of rows.
    pub(crate) rows: u64,
    /// The columns, in order.
    pub(crate) schema: SchemaRef,
}

/// One row group that holds rows, or all row groups of a file whose rows a table declares; see
/// [`Catalog::stored`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index into [`Catalog::files`].
    pub file: usize,
    /// Ordinal in its file of the row group, or of the first one if this stands for several.
    pub index: usize,
    /// The number of rows, at least one.
    pub rows: u64,
    /// The ordinal of the group's first row in the data set.
    pub first_row: u64,
}

/// One row group as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// Ordinal of the row group in its file.
    pub index: usize,
    /// The number of rows, at least one.
    pub rows: u64,
    /// The ordinal of the row group's first row in the [`Group`].
    pub start: u64,
}

impl Catalog {
    /// Makes a catalogue of files. `files` must be in their final order, and `unified` has their common
    /// columns; `identities` are further parts of the identity of the rows. Each file's footer must have been
    /// read, or its rows declared.
    ///
    /// Fails with `Corrupt` for more rows than 64 bits can count.
    pub fn new(
        files: Vec<File>,
        unified: Unified,
        known: Arc<KnownColumns>,
        identities: Arc<[Arc<str>]>,
    ) -> Result<Self> {
        let mut groups = Vec::new();
        let mut first_row = 0u64;
        for (file, about) in files.iter().enumerate() {
            for (index, rows) in about.row_counts().enumerate().filter(|(_, rows)| *rows > 0) {
                groups.push(Group { file, index, rows, first_row });
                first_row = first_row.checked_add(rows).ok_or_else(|| {
                    let cause = format!("{rows} more rows than the {first_row} before cannot be counted");
                    Error::new(ErrorKind::Corrupt, cause)
                        .at(Place::file(about.location.clone()).row_group(index))
                })?;
            }
        }
        groups.shrink_to_fit();
        let Unified { schema, refused } = unified;
        let fingerprint = Fingerprint::compute(&files, &schema, &identities);
        Ok(Catalog {
            files,
            groups,
            schema,
            fingerprint,
            known,
            refused: refused.into(),
            identities,
            splits: Arc::new([]),
            tables: Arc::new([]),
            row_ids: OnceLock::new(),
        })
    }

    /// The catalogue without the files that `keeps` rejects. `keeps` is asked only about files of which
    /// something is known without their footers: the keys of their folders, or facts in the list of a table.
    /// `None` if all files stay. The data set is then that of the remaining files, with another fingerprint.
    pub fn kept_by(&self, keeps: impl Fn(&Listed<'_>) -> bool) -> Result<Option<Self>> {
        let is_kept: Vec<bool> = self
            .files
            .iter()
            .map(|file| {
                let constants = &file.constants[..file.listed_constants as usize];
                let listed = Listed { constants, statistics: file.statistics.as_ref() };
                constants.is_empty() && listed.statistics.is_none() || keeps(&listed)
            })
            .collect();
        if is_kept.iter().all(|is_kept| *is_kept) {
            return Ok(None);
        }
        let kept = self.files.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept);
        let files = kept.map(|(file, _)| file.clone()).collect();
        let ids = self.row_ids().map(|ids| ids.of_some(&is_kept));
        let unified = Unified { schema: self.schema.clone(), refused: self.refused.as_ref().clone() };
        let kept = Catalog::new(files, unified, self.known.clone(), self.identities.clone())?;
        Ok(Some(Catalog {
            row_ids: ids.map_or_else(OnceLock::new, OnceLock::from),
            splits: self.splits.clone(),
            tables: self.tables.clone(),
            ..kept
        }))
    }

    /// The number of rows in the data set, including deleted ones.
    pub fn rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.first_row + group.rows)
    }

    /// The number of rows in the data set, without deleted ones.
    pub fn live_rows(&self) -> u64 {
        let deleted = self.files.iter().filter_map(|file| file.deleted.as_ref());
        self.rows() - deleted.map(|deleted| u64::from(deleted.count())).sum::<u64>()
    }

    /// The index of the column called `name`; `UnknownColumn`, with the nearest name, if there is none.
    pub fn column(&self, name: &str) -> Result<usize> {
        if let Some((index, _)) = self.schema.column_with_name(name) {
            return Ok(index);
        }
        let unknown = unknown_column(name, self.schema.fields().iter().map(|field| field.name().as_str()));
        Err(match self.files.iter().find_map(|file| folder_above(&file.location, name)) {
            Some(folder) => unknown.hint(format!(
                "{name} is a key in the names of folders: such keys are columns only if a folder above \
                 them is opened, such as {folder}"
            )),
            None => unknown,
        })
    }

    /// The columns that a loader refuses, each with the reason and a hint.
    pub fn refused(&self) -> Vec<Error> {
        (0..self.schema.fields().len()).filter_map(|column| self.refusal(column)).collect()
    }

    /// The reason why a column cannot be delivered, if there is one.
    pub(crate) fn refusal(&self, column: usize) -> Option<Error> {
        let field = self.schema.field(column);
        self.refused.get(field.name()).cloned().or_else(|| types::refusal(field))
    }

    /// The columns called `names`, in that order.
    ///
    /// Fails with `UnknownColumn`, with `Invalid` for a name given twice, and with `Unsupported` for columns
    /// of unsupported types, all of which it names.
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

    /// All columns, in stored order; `Unsupported` if some have unsupported types.
    pub fn project_all(&self) -> Result<Projection> {
        self.project_columns((0..self.schema.fields().len()).collect())
    }

    /// All columns except those that are refused, in stored order.
    pub fn project_readable(&self) -> Result<Projection> {
        self.project_columns(
            (0..self.schema.fields().len()).filter(|&column| self.refusal(column).is_none()).collect(),
        )
    }

    fn project_columns(&self, columns: Vec<usize>) -> Result<Projection> {
        self.select(columns.into_iter().map(Selected::whole).collect())
    }

    /// Refuses a projection with a column that cannot be read in a file whose footer was read only after the
    /// catalogue was made. Columns that other files cannot give are refused before they are projected.
    ///
    /// Fails with the error of the first such column.
    pub fn check_file(&self, file: usize, projection: &Projection) -> Result<()> {
        let file = &self.files[file];
        let refused = &file.footer()?.columns.refused;
        let names = projection.columns().iter().map(|column| self.schema.field(*column).name());
        let is_stored = |name: &&String| file.constants.iter().all(|constant| constant.field.name() != *name);
        match names.filter(is_stored).find_map(|name| refused.get_key_value(name)) {
            Some((name, error)) => {
                Err(error.clone().at(Place::file(file.location.clone()).column(name.as_str())))
            }
            None => Ok(()),
        }
    }

    /// A projection to columns, and fields of columns.
    ///
    /// Fails with the error of the first column that cannot be read in all files, and with `Unsupported` for
    /// columns of unsupported types, all of which it names.
    pub fn select(&self, selected: Vec<Selected>) -> Result<Projection> {
        let names = selected.iter().map(|selected| self.schema.field(selected.column).name());
        let mut refused: Vec<(&String, &Error)> =
            names.filter_map(|name| self.refused.get_key_value(name)).collect();
        refused.dedup_by_key(|(name, _)| *name);
        match refused.as_slice() {
            [] => Projection::new(&self.schema, selected),
            [(_, error)] => Err((*error).clone()),
            [(_, error), others @ ..] => {
                let shown = others.iter().take(NAMES_SHOWN).map(|(name, _)| format!("{name:?}"));
                let shown = shown.collect::<Vec<_>>().join(", ");
                let more = match others.len().saturating_sub(NAMES_SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                Err((*error).clone().hint_also(&format!("{shown}{more} cannot be read either")))
            }
        }
    }

    /// The place of `group`, for messages: its row group, or only its file if it stands for several stored
    /// row groups.
    pub fn place(&self, group: &Group) -> Place {
        let place = Place::file(self.files[group.file].location.clone());
        if self.stored(group).nth(1).is_some() { place } else { place.row_group(group.index) }
    }

    /// The place of a row of `group`, for messages.
    pub fn place_of_row(&self, group: &Group, row: u64) -> Place {
        let has = |stored: &StoredGroup| (stored.start..stored.start + stored.rows).contains(&row);
        let (index, start) =
            self.stored(group).find(has).map_or((group.index, 0), |stored| (stored.index, stored.start));
        Place::file(self.files[group.file].location.clone()).row_group(index).row(row - start)
    }

    /// The stored row groups of `group`, in order: those of its file if the rows of the file are declared and
    /// its footer has been read, and otherwise only `group` itself.
    pub fn stored(&self, group: &Group) -> impl Iterator<Item = StoredGroup> {
        let file = &self.files[group.file];
        let of_file = file.footer.get().filter(|_| file.declared.is_some()).map(Footer::row_counts);
        let alone =
            of_file.is_none().then_some(StoredGroup { index: group.index, rows: group.rows, start: 0 });
        let mut start = 0;
        let of_file = of_file.into_iter().flatten().enumerate().map(move |(index, rows)| {
            let stored = StoredGroup { index, rows, start };
            start += rows;
            stored
        });
        of_file.filter(|stored| stored.rows > 0).chain(alone)
    }

    /// The row groups of a file, as indices into [`Catalog::groups`].
    pub fn groups_of(&self, file: usize) -> Range<usize> {
        let start = self.groups.partition_point(|group| group.file < file);
        start..start + self.groups[start..].partition_point(|group| group.file == file)
    }

    /// The bytes of memory that the catalogue takes: files with their paths and footers, row groups, and row
    /// ids that files store. A footer that has not been read yet counts like one that has.
    pub fn bytes(&self) -> u64 {
        let footer = |file: &File| file.footer.get().map(Footer::bytes);
        let unread = self.sample().map_or(0, |(_, footer)| footer.bytes());
        let of_file = |file: &File| {
            let paths = file.location.len() + file.relative.len() + file.path.as_ref().len();
            (size_of::<File>() + paths) as u64 + footer(file).unwrap_or(unread)
        };
        let ids = self.row_ids.get().map_or(0, RowIds::stored_bytes);
        ids + size_of_val(&*self.groups) as u64 + self.files.iter().map(of_file).sum::<u64>()
    }

    /// The first row group, by whose costs those of row groups without a footer are estimated, and the footer
    /// of its file, once that was read.
    fn sample(&self) -> Option<(&Group, &Footer)> {
        let first = self.groups.first()?;
        Some((first, self.files[first.file].footer.get()?))
    }

    /// The bytes that must be fetched to read the projected columns of `group`. This and all other costs are
    /// estimates while the footer of the file has not been read: they are then those of the first row group,
    /// scaled by rows, or 0 before [`read_sample`](crate::source::Store::read_sample).
    pub fn stored_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.sum(group, projection, |chunk, _| chunk.length)
    }

    /// The most bytes that the projected columns of `group` hold once they are decoded, according to the
    /// footer.
    ///
    /// The memory budget counts this number. A footer can be wrong: the reader checks it against the pages
    /// before it decodes. It leaves out two things: strings encoded as `DELTA_BYTE_ARRAY` may take more,
    /// since they repeat each other, and small buffers of views that grew page by page may have up to twice
    /// the capacity.
    pub fn held_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.sum(group, projection, |chunk, rows| chunk.held(rows))
            .saturating_add(self.constant_bytes(group, projection))
    }

    /// The most bytes that decoding the projected columns of `group` takes in addition to those that are
    /// fetched and held: for pages while they are decompressed, and for the rows of several stored row groups
    /// before they are joined.
    pub fn decoding_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        let Some(footer) = self.files[group.file].footer.get() else { return 0 };
        let of_stored = |stored: StoredGroup| {
            let chunks = chunks(footer, stored.index, projection);
            chunks.fold(PageMemory::default(), |memory, (_, chunk)| memory.with(&chunk, true)).bytes()
        };
        let pages = self.stored(group).map(of_stored).max().unwrap_or(0);
        let joined = self.stored(group).nth(1).map_or(0, |_| self.held_bytes(group, projection));
        pages.saturating_add(joined)
    }

    /// The bytes by which the default window is measured: [`held_bytes`](Self::held_bytes), except that
    /// narrow numbers count double. They determine the order, so they stay an estimate if the file's rows and
    /// columns are declared.
    pub fn window_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        let file = &self.files[group.file];
        let footer = file.footer.get().filter(|_| file.declared.is_none());
        let stored = self.sum_of(footer, group, projection, cost::wide);
        stored.saturating_add(self.constant_bytes(group, projection))
    }

    /// The number of rows in the default window of a shuffle: as many as [`WINDOW_BYTES`] hold once they are
    /// decoded.
    pub fn window_rows(&self, projection: &Projection) -> u64 {
        WINDOW_BYTES / self.window_row_bytes(projection)
    }

    /// The average bytes of a row by which the default window is measured; see
    /// [`window_bytes`](Self::window_bytes).
    pub fn window_row_bytes(&self, projection: &Projection) -> u64 {
        let bytes: u64 = self.groups.iter().map(|group| self.window_bytes(group, projection)).sum();
        (bytes / self.rows().max(1)).max(1)
    }

    /// The bytes that the values of the projected columns of `group` would take if each value was stored
    /// separately, and whether the footer states them: a file stores repeated values once, and only newer
    /// footers count every value.
    pub fn values_bytes(&self, group: &Group, projection: &Projection) -> (u64, bool) {
        let constants = self.constants(group, projection);
        let constants = constants.map(|constant| cost::constant_values(constant, group.rows)).sum::<u64>();
        let mut are_known = true;
        let stored = self.sum(group, projection, |chunk, rows| {
            cost::values(chunk).unwrap_or_else(|| {
                are_known = false;
                chunk.held(rows)
            })
        });
        (stored.saturating_add(constants), are_known)
    }

    /// Sums a cost over the projected column chunks of `group`. The cost is computed from a chunk and its
    /// rows, and estimated if the footer has not been read.
    fn sum(
        &self,
        group: &Group,
        projection: &Projection,
        cost: impl FnMut(&ColumnChunk<'_>, u64) -> u64,
    ) -> u64 {
        self.sum_of(self.files[group.file].footer.get(), group, projection, cost)
    }

    fn sum_of(
        &self,
        footer: Option<&Footer>,
        group: &Group,
        projection: &Projection,
        mut cost: impl FnMut(&ColumnChunk<'_>, u64) -> u64,
    ) -> u64 {
        let mut sum = |group: &Group, footer: &Footer| {
            let mut sum = 0u64;
            for stored in self.stored(group) {
                let costs =
                    chunks(footer, stored.index, projection).map(|(_, chunk)| cost(&chunk, stored.rows));
                sum = costs.fold(sum, u64::saturating_add);
            }
            sum
        };
        if let Some(footer) = footer {
            return sum(group, footer);
        }
        self.sample().map_or(0, |(sample, footer)| {
            let bytes = u128::from(sum(sample, footer)) * u128::from(group.rows);
            u64::try_from(bytes.div_ceil(sample.rows.into())).unwrap_or(u64::MAX)
        })
    }

    /// The projected columns that are constants of the row group's file.
    fn constants(&self, group: &Group, projection: &Projection) -> impl Iterator<Item = &Constant> {
        projection.columns().iter().filter_map(|&column| self.constant_of(group, column))
    }

    /// The value that a column has in all rows of the row group's file, if it is one of the file's constants.
    pub(crate) fn constant_of(&self, group: &Group, column: usize) -> Option<&Constant> {
        let constants = &self.files[group.file].constants;
        constants.iter().find(|constant| constant.field.name() == self.schema.field(column).name())
    }

    /// Whether a column has a single value in all rows of each file: it is a key of the folders, or of a
    /// table.
    pub fn is_key(&self, column: usize) -> bool {
        self.keys_of(column).next().is_some() && self.keys_of(column).all(|key| key.is_some())
    }

    /// The value that a column has in each file, if it is the same in all of its rows.
    pub fn keys_of(&self, column: usize) -> impl Iterator<Item = Option<&Constant>> {
        let name = self.schema.field(column).name();
        self.files
            .iter()
            .map(move |file| file.constants.iter().find(|constant| constant.field.name() == name))
    }

    /// The most bytes that the first `rows` rows of `group` take by themselves once they are decoded.
    pub fn first_rows_bytes(&self, group: &Group, projection: &Projection, rows: u64) -> u64 {
        let stored = self.sum(group, projection, |chunk, all| cost::held_of_first(chunk, all, rows));
        stored.saturating_add(self.constant_bytes_of(group, projection, rows))
    }

    fn constant_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.constant_bytes_of(group, projection, group.rows)
    }

    /// Bytes that the projected constants of the row group's file hold in `rows` rows.
    pub fn constant_bytes_of(&self, group: &Group, projection: &Projection, rows: u64) -> u64 {
        self.constants(group, projection).map(|constant| cost::constant(constant, rows)).sum()
    }

    /// The byte ranges of the projected column chunks of `group` in its file, in the order of the file's
    /// schema: one range for each leaf column of each stored row group.
    ///
    /// Fails with `Internal` if the footer of the file has not been read.
    pub fn byte_ranges(&self, group: &Group, projection: &Projection) -> Result<Vec<Range<u64>>> {
        let footer = self.files[group.file].footer()?;
        let mut ranges = Vec::new();
        for stored in self.stored(group) {
            ranges.extend(chunks(footer, stored.index, projection).map(|(_, chunk)| chunk.range()));
        }
        Ok(ranges)
    }
}

impl Catalog {
    /// Whether the row ids are those that a table tracks. Several tables, or a table beside plain files,
    /// could have ids twice.
    fn tracks_row_ids(&self) -> bool {
        self.tables.len() == 1 && self.files.iter().all(|file| file.tracked.is_some())
    }

    /// Whether row ids are known: files of a table that tracks them may store some, which have to be
    /// [read](crate::source::Store::read_row_ids) first.
    pub fn has_row_ids(&self) -> bool {
        self.row_ids.get().is_some() || !self.tracks_row_ids()
    }

    /// Whether some files store ids of their rows; `false` as long as the ids have not been read.
    pub fn stores_row_ids(&self) -> bool {
        self.row_ids.get().is_some_and(|ids| ids.stored_bytes() > 0)
    }

    /// The row ids; `None` if they are not known yet.
    fn row_ids(&self) -> Option<&RowIds> {
        if self.row_ids.get().is_none() && self.tracks_row_ids() {
            return None;
        }
        Some(self.row_ids.get_or_init(|| {
            // The rows are counted by row groups of the catalogue: kept footers would have to be decoded.
            let rows = (0..self.files.len()).map(|file| self.rows_of(file));
            RowIds::of(self.files.iter().zip(rows).map(|(file, rows)| (&*file.relative, rows)))
        }))
    }

    /// Takes the ids that files store for their rows; `None` for a file that stores none.
    ///
    /// # Errors
    /// `Corrupt` if two rows have one id.
    pub(crate) fn set_stored_ids(&self, stored: Vec<Option<IdRuns>>) -> Result<()> {
        let files = self.files.iter().zip(stored).enumerate().map(|(at, (file, stored))| IdsOfFile {
            location: &file.location,
            first: file.tracked.as_ref().map_or(0, |tracked| tracked.first),
            rows: self.rows_of(at),
            deleted: file.deleted.as_ref(),
            stored,
        });
        let ids = RowIds::tracked(files)?;
        // Another task may have set the ids first.
        drop(self.row_ids.set(ids));
        Ok(())
    }

    /// The number of rows in a file, including deleted ones.
    pub(crate) fn rows_of(&self, file: usize) -> u64 {
        self.groups[self.groups_of(file)].iter().map(|group| group.rows).sum()
    }

    /// The ids of the rows of the row group with the index `group`.
    pub fn ids_of(&self, group: usize) -> GroupIds<'_> {
        let at = &self.groups[group];
        let in_file = at.first_row - self.groups[self.groups_of(at.file).start].first_row;
        GroupIds::new(self.row_ids(), at.file, in_file)
    }

    /// The place where a row of a row group is stored. The rows of a file whose rows are declared count from
    /// its beginning, since its row groups are not known.
    pub fn row_place(&self, group: usize, row: u64) -> RowPlace {
        let at = &self.groups[group];
        RowPlace {
            file: self.files[at.file].location.clone(),
            row_group: at.index,
            row,
            id: self.ids_of(group).at(row),
            source: 0,
        }
    }

    /// The row group that has a row, and the row's ordinal there; `None` for a row of another data set.
    pub fn find_row(&self, id: RowId) -> Option<(usize, u64)> {
        self.find_rows(id).next()
    }

    /// The row groups and the ordinals of all stored rows that have an id: the row itself, and rows with the
    /// id that a table has deleted.
    pub fn find_rows(&self, id: RowId) -> impl Iterator<Item = (usize, u64)> {
        let found = self.row_ids().into_iter().flat_map(move |ids| ids.find(id.get()));
        found.filter_map(|(file, row)| {
            let of_file = self.groups_of(file);
            let row = self.groups.get(of_file.start)?.first_row + row;
            let after = self.groups[of_file.clone()].partition_point(|group| group.first_row <= row);
            let group = (of_file.start + after).checked_sub(1)?;
            let found = &self.groups[group];
            (row - found.first_row < found.rows).then(|| (group, row - found.first_row))
        })
    }
}

/// The leaf columns of a projection with their column chunks in a row group of its file, in
/// the file's order.
pub fn chunks<'a>(
    footer: &'a Footer,
    index: usize,
    projection: &Projection,
) -> impl Iterator<Item = (usize, ColumnChunk<'a>)> {
    footer.chunks_at(index, footer.columns.leaves(projection))
}

/// The error for a name that is none of `columns`, with the nearest name and a list of all.
pub fn unknown_column<'a>(name: &str, columns: impl ExactSizeIterator<Item = &'a str> + Clone) -> Error {
    let listed: Vec<&str> = columns.clone().take(NAMES_SHOWN).collect();
    let more = match columns.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = format!("the columns are {}{more}", listed.join(", "));
    let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
    error.hint(match nearest(name, columns) {
        Some(near) => format!("did you mean {near:?}? {listed}"),
        None => listed,
    })
}

/// The folder above the first `key=value` folder with this key in a location, if there is one.
fn folder_above<'a>(location: &'a str, key: &str) -> Option<&'a str> {
    let mut start = 0;
    let (folders, _) = location.rsplit_once('/')?;
    for name in folders.split('/') {
        if name.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')) {
            return Some(if start == 0 { "." } else { &location[..start - 1] });
        }
        start += name.len() + 1;
    }
    None
}

impl File {
    /// The kept part of the file's footer; `Internal` if the footer has not been read.
    pub fn footer(&self) -> Result<&Footer> {
        let unread = || Error::new(ErrorKind::Internal, "the footer was not read");
        self.footer.get().ok_or_else(|| unread().at(Place::file(self.location.clone())))
    }

    /// A hash of everything about the file that counts in the data set's fingerprint, except its path.
    pub fn content_hash(&self) -> u64 {
        let rows: Vec<u64> = self.row_counts().collect();
        xxh3_64(format!("{} {:?} {rows:?} {:?}", self.size, self.footer_hash(), self.table_hash).as_bytes())
    }

    /// A hash that distinguishes the file's content, in addition to size and version: the xxh3-64 of the
    /// footer's bytes. `None` for a file of a table or with declared rows, whether the footer was read or
    /// not.
    pub fn footer_hash(&self) -> Option<u64> {
        match self.declared.is_some() || self.is_of_table() {
            true => None,
            false => self.footer.get().map(|footer| footer.hash),
        }
    }

    /// Whether the file belongs to a table, where the name of a file identifies its content.
    pub fn is_of_table(&self) -> bool {
        matches!(self.version, FileVersion::OfTable(_))
    }

    /// The numbers of rows in the file's row groups of the catalogue.
    pub(crate) fn row_counts(&self) -> impl Iterator<Item = u64> {
        let declared = self.declared.as_ref().map(|declared| declared.rows);
        let footer = self.footer.get().filter(|_| self.declared.is_none());
        declared.into_iter().chain(footer.into_iter().flat_map(Footer::row_counts))
    }

    /// The address and size of the file, and the version of it that was catalogued.
    pub(crate) fn pin(&self) -> Pin {
        Pin { path: self.path.clone(), size: self.size, version: self.version.clone() }
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
