//! Maps the columns of one file to the columns of the catalogue. Files with the same columns share the
//! mapping.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_arrow::datatypes::{Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{FileMetaData, KeyValue};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

use super::arrow_schema::{Refusals, hints_of_table, readable, type_hints};
use super::lists::LeafLists;
use super::{Projection, types};
use crate::snapshot::Constant;

/// The columns of a file: their Parquet schema, their types on delivery, and their positions among the
/// catalogue's columns.
#[derive(Debug)]
pub struct FileColumns {
    /// The columns as Parquet describes them.
    pub parquet: SchemaDescPtr,
    /// The name of the program that wrote the file, as the footer gives it.
    pub created_by: Option<Arc<str>>,
    /// The columns in this file's order, with the types that the Parquet reader is to deliver.
    pub schema: SchemaRef,
    /// The columns of `schema` that cannot be read.
    pub(crate) refused: Arc<Refusals>,
    /// For each leaf column, the nested lists that its values are in, if one of these has a fixed length.
    /// Empty if no leaf column has such lists.
    lists: Arc<[Option<LeafLists>]>,
    /// Where each column of the catalogue comes from in this file; empty if they equal the columns of
    /// `schema`.
    origins: Vec<Origin>,
}

/// Where the values of a column of the catalogue come from in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The column with this index in the file's schema.
    Stored(usize),
    /// The single value that all rows of the file have, at this index in the file's `constants`.
    Constant(usize),
    /// The file lacks the column. Its values are null if the file belongs to a table or columns are merged;
    /// otherwise the column is refused.
    Absent,
}

impl FileColumns {
    /// The columns of a file, before they are mapped to those of a catalogue. Columns with the same name are
    /// refused.
    ///
    /// Fails with `Corrupt` for an inconsistent schema.
    fn new(
        parquet: SchemaDescPtr,
        created_by: Option<&str>,
        key_values: Option<&Vec<KeyValue>>,
    ) -> Result<Self> {
        let (stored, mut refused) = readable(&parquet, key_values)?;
        let fields: Vec<_> = stored.fields().iter().map(|field| types::delivered(field)).collect();
        let mut seen = HashSet::new();
        for name in fields.iter().map(Field::name).filter(|name| !seen.insert(name.as_str())) {
            let error = Error::new(ErrorKind::Unsupported, "two columns have this name");
            let error =
                error.hint("choose other columns with `columns`, or write the file with one of them renamed");
            refused.insert(name.clone(), error);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        let created_by = created_by.map(Into::into);
        let lists = LeafLists::of_leaves(&schema, &parquet).into();
        Ok(FileColumns { parquet, created_by, schema, refused: refused.into(), lists, origins: Vec::new() })
    }

    /// Maps the columns to those of a catalogue, which are `common`. Each of those is a constant of the file,
    /// a stored column or absent; a constant takes precedence over a stored column.
    pub(crate) fn for_catalog(&self, common: &Schema, constants: &[Constant]) -> Self {
        let same = constants.is_empty()
            && common.fields().len() == self.schema.fields().len()
            && common.fields().iter().zip(self.schema.fields()).all(|(a, b)| a.name() == b.name());
        let origins = if same {
            Vec::new()
        } else {
            let of = |name: &String| match constants.iter().position(|constant| constant.field.name() == name)
            {
                Some(constant) => Origin::Constant(constant),
                None => self.schema.index_of(name).map_or(Origin::Absent, Origin::Stored),
            };
            common.fields().iter().map(|field| of(field.name())).collect()
        };
        let FileColumns { parquet, created_by, schema, refused, lists, .. } = self;
        FileColumns {
            parquet: parquet.clone(),
            created_by: created_by.clone(),
            schema: schema.clone(),
            refused: refused.clone(),
            lists: lists.clone(),
            origins,
        }
    }

    /// Says where the values of the catalogue's column with this index come from in this file.
    pub fn origin(&self, column: usize) -> Origin {
        self.origins.get(column).copied().unwrap_or(Origin::Stored(column))
    }

    /// The nested lists that the values of a leaf column are in, if one of these has a fixed length.
    pub(super) fn lists(&self, leaf: usize) -> Option<&LeafLists> {
        self.lists.get(leaf)?.as_ref()
    }

    /// The ascending indices in this file of the catalogue's `columns`. Columns that the file does not store
    /// are left out.
    pub fn roots(&self, columns: &[usize]) -> Vec<usize> {
        let stored = columns.iter().filter_map(|&column| match self.origin(column) {
            Origin::Stored(root) => Some(root),
            Origin::Constant(_) | Origin::Absent => None,
        });
        let mut roots: Vec<usize> = stored.collect();
        roots.sort_unstable();
        roots
    }

    /// The leaf columns that a projection reads, as ascending indices in this file.
    pub fn leaves(&self, projection: &Projection) -> Vec<usize> {
        self.read_of(&self.roots(projection.columns()), projection)
    }

    /// The leaf columns that a projection reads within the file's top-level columns `roots`. Both are in
    /// ascending order.
    pub fn read_of(&self, roots: &[usize], projection: &Projection) -> Vec<usize> {
        let mut leaves = self.leaves_of(roots);
        if projection.is_whole() {
            return leaves;
        }
        let column_of = |root| {
            projection.columns().iter().copied().find(|&column| self.origin(column) == Origin::Stored(root))
        };
        leaves.retain(|&leaf| {
            let path = self.parquet.columns()[leaf].path().parts();
            let column = column_of(self.parquet.get_column_root_idx(leaf));
            column.is_none_or(|column| projection.reads(column, path.get(1..).unwrap_or_default()))
        });
        leaves
    }

    /// The Parquet schema of only the file's top-level columns `roots`, which are in ascending order.
    pub(crate) fn parquet_of(&self, roots: &[usize]) -> Result<SchemaDescPtr> {
        let root = self.parquet.root_schema();
        let fields = root.get_fields();
        if roots.len() == fields.len() {
            return Ok(self.parquet.clone());
        }
        let fields = roots.iter().map(|&root| fields[root].clone()).collect();
        let message = Type::group_type_builder(root.name()).with_fields(fields).build().or_fail()?;
        Ok(Arc::new(SchemaDescriptor::new(Arc::new(message))))
    }

    /// Whether single pages of the file's top-level column `root` can be read. Its leaf columns must have one
    /// value for each row, and no 96-bit times, which are decoded from the chunk a second time.
    pub fn is_read_by_pages(&self, root: usize) -> bool {
        let mut leaves = self.leaves_of(&[root]).into_iter().map(|leaf| &self.parquet.columns()[leaf]);
        leaves.all(|leaf| leaf.max_rep_level() == 0 && leaf.physical_type() != PhysicalType::INT96)
    }

    /// Whether the first pages of the file's top-level column `root` can be read without the others: single
    /// pages can be read, or the column has lists with one leaf, whose rows are counted by their levels.
    pub fn is_read_from_its_front(&self, root: usize) -> bool {
        let is_list = || match self.leaves_of(&[root])[..] {
            [leaf] => self.parquet.columns()[leaf].physical_type() != PhysicalType::INT96,
            _ => false,
        };
        self.is_read_by_pages(root) || is_list()
    }

    /// The leaf columns within the file's top-level columns `roots`. Both are in ascending order.
    pub fn leaves_of(&self, roots: &[usize]) -> Vec<usize> {
        let mut roots = roots.iter().peekable();
        let is_among = |leaf: &usize| {
            let root = self.parquet.get_column_root_idx(*leaf);
            while roots.next_if(|next| **next < root).is_some() {}
            roots.peek() == Some(&&root)
        };
        (0..self.parquet.num_columns()).filter(is_among).collect()
    }
}

/// Finds the leaf columns that a projection reads, only once for consecutive files with the same columns.
pub struct ProjectedLeaves<'a> {
    projection: &'a Projection,
    of: Option<&'a FileColumns>,
    leaves: Vec<usize>,
}

impl<'a> ProjectedLeaves<'a> {
    /// Makes an empty cache for the leaf columns of `projection`.
    pub fn new(projection: &'a Projection) -> Self {
        ProjectedLeaves { projection, of: None, leaves: Vec::new() }
    }

    /// The leaf columns that the projection reads in a file with these columns, in ascending order.
    pub fn in_file(&mut self, columns: &'a FileColumns) -> &[usize] {
        if !self.of.is_some_and(|known| std::ptr::eq(known, columns)) {
            (self.of, self.leaves) = (Some(columns), columns.leaves(self.projection));
        }
        &self.leaves
    }
}

/// The descriptions of columns found so far. Files with the same columns share one description, because
/// separate ones would take more memory than the rest of the footers.
#[derive(Debug, Default)]
pub struct KnownColumns {
    /// The columns of each kind of file, with the metadata entries that their Arrow types depend on.
    known: Mutex<Vec<(Vec<KeyValue>, Arc<FileColumns>)>>,
    placed: Mutex<HashMap<SharedBy, Placed>>,
}

/// The columns of a file, mapped to those of a catalogue.
#[derive(Debug)]
struct Placed {
    columns: Arc<FileColumns>,
    /// The declared schema. Its address is part of the key, so it is kept alive to prevent another schema
    /// from getting the same address.
    _declared: Option<SchemaRef>,
}

/// The key by which files share their mapping to a catalogue's columns: the addresses of the stored and of
/// the declared fields, and the constants.
pub type SharedBy = (Option<usize>, Option<usize>, Vec<String>);

impl KnownColumns {
    /// The columns of a file, before they are mapped to those of a catalogue. In a file of a table, the
    /// writer's own Arrow schema is ignored.
    ///
    /// Fails with `Corrupt` for an inconsistent schema.
    pub(crate) fn of_file(&self, metadata: &FileMetaData, is_of_table: bool) -> Result<Arc<FileColumns>> {
        let hints = match is_of_table {
            true => hints_of_table(),
            false => type_hints(metadata.key_value_metadata()),
        };
        let created_by = metadata.created_by();
        let mut known = lock(&self.known);
        let alike = known.iter().find(|(of, columns)| {
            *of == hints
                && columns.created_by.as_deref() == created_by
                && *columns.parquet == *metadata.schema_descr()
        });
        if let Some((_, columns)) = alike {
            return Ok(columns.clone());
        }
        let columns = FileColumns::new(metadata.schema_descr_ptr(), created_by, Some(&hints))?;
        let columns = Arc::new(columns);
        known.push((hints, columns.clone()));
        Ok(columns)
    }

    /// The file's columns, mapped to those of the catalogue: shared with an earlier file of the same `key`,
    /// or else made by `place`.
    pub(crate) fn in_catalog(
        &self,
        key: SharedBy,
        declared: Option<&SchemaRef>,
        place: impl FnOnce() -> Result<FileColumns>,
    ) -> Result<Arc<FileColumns>> {
        let mut placed = lock(&self.placed);
        if let Some(known) = placed.get(&key) {
            return Ok(known.columns.clone());
        }
        let columns = Arc::new(place()?);
        placed.insert(key, Placed { columns: columns.clone(), _declared: declared.cloned() });
        Ok(columns)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
