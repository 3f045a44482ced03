//! The contents of a data set, as its Parquet footers describe them: files, row groups, columns and their
//! costs.
//!
//! This module has only data and arithmetic. `source` finds the files and reads their footers, and `reader`
//! reads rows; nothing here accesses a disk or a network.
//!
//! The catalogue keeps only the part of a footer that is needed to plan and to read. If the metadata of a
//! table declares the rows and columns of a file, the footer is read only when the rows are fetched. Such a
//! file is one row group in the catalogue, however many it has, and its costs are estimates until then.

pub mod arrow_schema;
mod classes;
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
use forebay_base::error::{listed, nearest};
use forebay_base::{Error, ErrorKind, Place, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::row_set::RowSet;
use crate::snapshot::{ColumnNames, Constant, FileStatistics, Listed, Pin, TableVersion, TrackedIds};
use row_ids::{IdsOfFile, RowIds};

pub use crate::snapshot::FileVersion;
pub use arrow_schema::{ARROW_SCHEMA, Refusals, arrow_schema, int96_roots};
pub use classes::ClassNames;
pub(crate) use classes::{DeclaredClasses, KnownClasses};
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

/// The size in bytes of the default shuffle window (the decoded rows that are mixed in memory). The order of
/// rows depends on it, so it must not change.
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
    /// A hash that identifies the data set, and is the same for a copy in another place.
    pub fingerprint: Fingerprint,
    /// Warnings: a sentence for each opened location whose files belong to several splits, such as train and
    /// test.
    pub splits: Arc<[String]>,
    /// The names of classes that the metadata of the files declares. Files whose footers are read later
    /// declare none.
    pub classes: Arc<ClassNames>,
    /// The tables that were opened, each at one version.
    pub tables: Arc<[TableVersion]>,
    /// The column descriptions found so far. Files whose footers are read later share them if they are equal.
    pub known: Arc<KnownColumns>,
    /// The columns that cannot be read in some file, or whose types in the files have no common type.
    refused: Arc<Refusals>,
    /// Texts that identify the rows in addition to the files, such as the id of a table.
    identities: Arc<[Arc<str>]>,
    /// The row ids, which are computed when one is first asked for.
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
    /// The version of the file at the time it was listed; a read of another version fails.
    pub version: FileVersion,
    /// The part of the file's footer that is kept in memory, once the footer has been read.
    pub footer: OnceLock<Footer>,
    /// The rows and columns that the metadata of the file's table declares, if they suffice to plan without
    /// the footer. They are compared with the footer when it is read.
    pub declared: Option<Declared>,
    /// The names and ids by which the columns of the file's table are found in the file.
    pub names: Option<Arc<ColumnNames>>,
    /// The columns with a single value in all rows of the file.
    pub constants: Arc<[Constant]>,
    /// The number of leading entries in `constants` that were known before the footer was read.
    pub(crate) listed_constants: u32,
    /// The bounds of the file's values, as the metadata of its table gives them.
    pub(crate) statistics: Option<FileStatistics>,
    /// The rows that are deleted, by their ordinals in the file.
    pub deleted: Option<RowSet>,
    /// The ids of the file's rows, if its table tracks row ids.
    pub(crate) tracked: Option<TrackedIds>,
    /// A hash of the file's constants and deleted rows; `None` if it has neither.
    pub table_hash: Option<u64>,
}

/// The rows and columns of a file, as the metadata of its table declares them before the footer is read.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The number of rows.
    pub(crate) rows: u64,
    /// The columns of the file, in order.
    pub(crate) schema: SchemaRef,
}

/// One row group with at least one row. If the metadata of a table declares a file's rows, one `Group` stands
/// for all row groups of the file; [`Catalog::stored`] lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index into [`Catalog::files`].
    pub file: usize,
    /// Index of the row group in its file, or of the first row group if this stands for all of them.
    pub index: usize,
    /// The number of rows, at least one.
    pub rows: u64,
    /// The ordinal of the group's first row in the data set.
    pub first_row: u64,
}

/// One of the row groups in a file that a [`Group`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// Ordinal of the row group in its file.
    pub index: usize,
    /// The number of rows, at least one.
    pub rows: u64,
    /// The position of the row group's first row among the rows of the [`Group`].
    pub start: u64,
}

impl Catalog {
    /// Makes a catalogue of files. `files` must be in their final order, and `unified` has their common
    /// columns; `identities` are texts that identify the rows in addition to the files. Each file's footer
    /// must have been read, or its rows declared.
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
            classes: Arc::default(),
            tables: Arc::new([]),
            row_ids: OnceLock::new(),
        })
    }

    /// A catalogue of only the files that `keeps` accepts, with their own fingerprint; `None` if it accepts
    /// all files. Something about the values of a file may be known without its footer: from keys in the
    /// names of folders, or from a table's metadata. `keeps` is called only for such files. Other files stay.
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
            classes: self.classes.clone(),
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

    /// The index of the column called `name`. Fails with `UnknownColumn`, which suggests the nearest name.
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

    /// Checks that `file` can give every column of `projection`, once its footer has been read. This is for
    /// footers read after the catalogue was made; the columns of other files are checked by
    /// [`select`](Self::select).
    ///
    /// Fails with the error of the first column that cannot be read.
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

    /// Makes a projection to the selected columns and fields of columns.
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
                let others = listed(others.iter().map(|(name, _)| format!("{name:?}")), NAMES_SHOWN);
                Err((*error).clone().hint_also(&format!("{others} cannot be read either")))
            }
        }
    }

    /// Names the file and row group of `group` in messages, or only the file if it stands for several row
    /// groups.
    pub fn place(&self, group: &Group) -> Place {
        let place = Place::file(self.files[group.file].location.clone());
        if self.stored(group).nth(1).is_some() { place } else { place.row_group(group.index) }
    }

    /// Names the file, row group and row of the row `row` of `group` in messages.
    pub fn place_of_row(&self, group: &Group, row: u64) -> Place {
        let has = |stored: &StoredGroup| (stored.start..stored.start + stored.rows).contains(&row);
        let (index, start) =
            self.stored(group).find(has).map_or((group.index, 0), |stored| (stored.index, stored.start));
        Place::file(self.files[group.file].location.clone()).row_group(index).row(row - start)
    }

    /// The row groups in the file that `group` stands for, in order. These are all row groups of the file if
    /// the metadata of a table declares its rows and its footer has been read, and otherwise only `group`
    /// itself.
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
    /// ids that files store. A footer that has not been read yet is assumed to be as large as the first one.
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

    /// The first row group and the footer of its file, or `None` before that footer is read. The costs of row
    /// groups without a footer are estimated from it.
    fn sample(&self) -> Option<(&Group, &Footer)> {
        let first = self.groups.first()?;
        Some((first, self.files[first.file].footer.get()?))
    }

    /// The bytes that must be fetched to read the projected columns of `group`.
    ///
    /// Before the footer of the file is read, this and all other costs are estimates: the cost of the first
    /// row group, scaled by rows, or 0 before [`read_sample`](crate::source::Store::read_sample).
    pub fn stored_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.sum(group, projection, |chunk, _| chunk.length)
    }

    /// The most bytes that the projected columns of `group` hold once they are decoded, according to the
    /// footer.
    ///
    /// The memory budget counts this number. A footer can be wrong: the reader checks it against the pages
    /// before it decodes. The number can be too low in two cases: strings encoded as `DELTA_BYTE_ARRAY` may
    /// take more, since their common prefixes are stored once, and a small buffer of views that grew page by
    /// page may have up to twice the capacity that it needs.
    pub fn held_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.sum(group, projection, |chunk, rows| chunk.held(rows))
            .saturating_add(self.constant_bytes(group, projection))
    }

    /// The most memory in bytes that decoding the projected columns of `group` takes, in addition to the
    /// fetched bytes and the decoded rows. It holds decompressed pages, and a second copy of the rows if
    /// several row groups are joined to one.
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

    /// The bytes that `group` takes of the default shuffle window: [`held_bytes`](Self::held_bytes), but with
    /// 64 bits for each narrower number and without the padding of null lists.
    ///
    /// The order of rows depends on this number, so it must not change when a footer is read: if the metadata
    /// of a table declares the file's rows, it is always an estimate.
    pub fn window_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        let file = &self.files[group.file];
        let footer = file.footer.get().filter(|_| file.declared.is_none());
        let stored = self.sum_of(footer, group, projection, cost::wide);
        stored.saturating_add(self.constant_bytes(group, projection))
    }

    /// The number of rows in the default shuffle window: as many decoded rows as fit into [`WINDOW_BYTES`].
    pub fn window_rows(&self, projection: &Projection) -> u64 {
        WINDOW_BYTES / self.window_row_bytes(projection)
    }

    /// The bytes that a row takes of the default shuffle window on average, computed as in
    /// [`window_bytes`](Self::window_bytes).
    pub fn window_row_bytes(&self, projection: &Projection) -> u64 {
        let bytes: u64 = self.groups.iter().map(|group| self.window_bytes(group, projection)).sum();
        (bytes / self.rows().max(1)).max(1)
    }

    /// The bytes that the projected columns of `group` would take if every repetition of a value was stored,
    /// and whether the footer gives this number. Older footers do not state the size of texts before they
    /// were encoded, so the number is then an estimate.
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

    /// Sums `cost` over the projected column chunks of `group`. The arguments of `cost` are a chunk and the
    /// number of rows in its row group. The sum is an estimate if the footer has not been read.
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

    /// The projected columns that have a single value in the whole file of `group`, with that value.
    fn constants(&self, group: &Group, projection: &Projection) -> impl Iterator<Item = &Constant> {
        projection.columns().iter().filter_map(|&column| self.constant_of(group, column))
    }

    /// The value of a column that has a single value in the whole file of `group`; `None` for other columns.
    pub(crate) fn constant_of(&self, group: &Group, column: usize) -> Option<&Constant> {
        let constants = &self.files[group.file].constants;
        constants.iter().find(|constant| constant.field.name() == self.schema.field(column).name())
    }

    /// Whether every file has a single value of the column in all its rows, as for a key in the names of
    /// folders or a partition key of a table.
    pub fn is_key(&self, column: usize) -> bool {
        self.keys_of(column).next().is_some() && self.keys_of(column).all(|key| key.is_some())
    }

    /// For each file, the single value that a column has in all rows of the file, if there is one.
    pub fn keys_of(&self, column: usize) -> impl Iterator<Item = Option<&Constant>> {
        let name = self.schema.field(column).name();
        self.files
            .iter()
            .map(move |file| file.constants.iter().find(|constant| constant.field.name() == name))
    }

    /// The most bytes that the first `rows` rows of `group` take if only they are decoded.
    pub fn first_rows_bytes(&self, group: &Group, projection: &Projection, rows: u64) -> u64 {
        let stored = self.sum(group, projection, |chunk, all| cost::held_of_first(chunk, all, rows));
        stored.saturating_add(self.constant_bytes_of(group, projection, rows))
    }

    fn constant_bytes(&self, group: &Group, projection: &Projection) -> u64 {
        self.constant_bytes_of(group, projection, group.rows)
    }

    /// The bytes of memory that the projected columns with a single value in the file take for `rows` rows.
    pub fn constant_bytes_of(&self, group: &Group, projection: &Projection, rows: u64) -> u64 {
        self.constants(group, projection).map(|constant| cost::constant(constant, rows)).sum()
    }

    /// The byte ranges of the projected column chunks of `group` in its file: one for each leaf column of
    /// each row group in the file, in the order of the file's schema.
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
    /// Whether the ids that a table itself gives its rows are used as row ids. This is only so if the data
    /// set is a single table, because the ids of two tables can be equal.
    fn tracks_row_ids(&self) -> bool {
        self.tables.len() == 1 && self.files.iter().all(|file| file.tracked.is_some())
    }

    /// Whether row ids are known. If a table gives its rows ids, its files may store some of them, which
    /// [must be read](crate::source::Store::read_row_ids) first.
    pub fn has_row_ids(&self) -> bool {
        self.row_ids.get().is_some() || !self.tracks_row_ids()
    }

    /// Whether some files store ids of their rows; always `false` before the ids have been read.
    pub fn stores_row_ids(&self) -> bool {
        self.row_ids.get().is_some_and(|ids| ids.stored_bytes() > 0)
    }

    /// The row ids; `None` if they are not known yet.
    fn row_ids(&self) -> Option<&RowIds> {
        if self.row_ids.get().is_none() && self.tracks_row_ids() {
            return None;
        }
        Some(self.row_ids.get_or_init(|| {
            // The rows of a file are added up from `groups`, because the kept footers are encoded.
            let rows = (0..self.files.len()).map(|file| self.rows_of(file));
            RowIds::new(self.files.iter().zip(rows).map(|(file, rows)| (&*file.relative, rows)))
        }))
    }

    /// Sets the row ids from the ids that files store: `stored` has an entry for each file, `None` if the
    /// file stores none.
    ///
    /// # Errors
    /// `Corrupt` if two rows have the same id.
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

    /// The ids of the rows in the row group at index `group` of [`groups`](Self::groups).
    pub fn ids_of(&self, group: usize) -> GroupIds<'_> {
        let at = &self.groups[group];
        let in_file = at.first_row - self.groups[self.groups_of(at.file).start].first_row;
        GroupIds::new(self.row_ids(), at.file, in_file)
    }

    /// The file, row group and position where the row `row` of a row group is stored. If the metadata of a
    /// table declares the rows of the file, the position counts from the beginning of the file.
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

    /// The index of the row group that has the row with this id, and the row's position in it; `None` if no
    /// row of this data set has the id.
    pub fn find_row(&self, id: RowId) -> Option<(usize, u64)> {
        self.find_rows(id).next()
    }

    /// The row groups and positions of all stored rows with this id. There can be several, because rows that
    /// a table deleted are still stored and may have the id of the row that replaced them.
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

/// The leaf columns that a projection reads, each with its column chunk in the row group `index` of a file,
/// in the file's order.
pub fn chunks<'a>(
    footer: &'a Footer,
    index: usize,
    projection: &Projection,
) -> impl Iterator<Item = (usize, ColumnChunk<'a>)> {
    footer.chunks_at(index, footer.columns.leaves(projection))
}

/// The error for a name that is not among `columns`. It suggests the nearest name and lists the first
/// columns.
pub fn unknown_column<'a>(name: &str, columns: impl ExactSizeIterator<Item = &'a str> + Clone) -> Error {
    let listed = format!("the columns are {}", listed(columns.clone(), NAMES_SHOWN));
    let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
    error.hint(match nearest(name, columns) {
        Some(near) => format!("did you mean {near:?}? {listed}"),
        None => listed,
    })
}

/// The folder that contains the first folder called `key=…` in the path `location`, if there is one.
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
    /// The part of the file's footer that is kept in memory. Fails with `Internal` if it has not been read.
    pub fn footer(&self) -> Result<&Footer> {
        let unread = || Error::new(ErrorKind::Internal, "the footer was not read");
        self.footer.get().ok_or_else(|| unread().at(Place::file(self.location.clone())))
    }

    /// A hash of all properties of the file that count in the data set's fingerprint, except its path.
    pub fn content_hash(&self) -> u64 {
        let rows: Vec<u64> = self.row_counts().collect();
        xxh3_64(format!("{} {:?} {rows:?} {:?}", self.size, self.footer_hash(), self.table_hash).as_bytes())
    }

    /// The xxh3-64 hash of the footer's bytes, which tells apart files of the same size and version. It is
    /// always `None` for a file of a table or with declared rows, whose footer may not have been read.
    pub fn footer_hash(&self) -> Option<u64> {
        match self.declared.is_some() || self.is_of_table() {
            true => None,
            false => self.footer.get().map(|footer| footer.hash),
        }
    }

    /// Whether the file belongs to a table; such a file never changes under the same name.
    pub fn is_of_table(&self) -> bool {
        matches!(self.version, FileVersion::OfTable(_))
    }

    /// The number of rows in each of the catalogue's row groups of this file.
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
