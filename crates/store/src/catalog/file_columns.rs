//! Maps one file's columns to those of the catalogue. Files with the same columns share one value.

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

/// The columns of a file: as Parquet has them, as they are delivered, and their places among the catalogue's
/// columns.
#[derive(Debug)]
pub struct FileColumns {
    /// The columns as Parquet describes them.
    pub parquet: SchemaDescPtr,
    /// The program that wrote them.
    pub created_by: Option<Arc<str>>,
    /// The columns in this file's order, typed as delivered: the request to the Parquet reader.
    pub schema: SchemaRef,
    /// The columns of `schema` that cannot be read.
    pub(crate) refused: Arc<Refusals>,
    /// For each leaf column, the lists around it, if one of them has a fixed length; empty if no leaf has
    /// such lists.
    lists: Arc<[Option<LeafLists>]>,
    /// The origin of each column of the catalogue; empty if they are the columns of `schema`.
    origins: Vec<Origin>,
}

/// The origin of a column of the catalogue in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The column with this index in the file's schema.
    Stored(usize),
    /// The file's constant with this index.
    Constant(usize),
    /// The file lacks the column: it is null, if the file belongs to a table, and refused otherwise.
    Absent,
}

impl FileColumns {
    /// The columns of a file by itself. Two columns of one name are refused.
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

    /// The same columns, for a catalogue with the columns `common`. Each of these is stored, or is one of
    /// `constants`, which take precedence.
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

    /// The origin of a column of the catalogue.
    pub fn origin(&self, column: usize) -> Origin {
        self.origins.get(column).copied().unwrap_or(Origin::Stored(column))
    }

    /// The lists around the values of a leaf column, if one of them has a fixed length.
    pub(super) fn lists(&self, leaf: usize) -> Option<&LeafLists> {
        self.lists.get(leaf)?.as_ref()
    }

    /// The stored columns among the catalogue's `columns`, by their index in this file, ascending.
    pub fn roots(&self, columns: &[usize]) -> Vec<usize> {
        let stored = columns.iter().filter_map(|&column| match self.origin(column) {
            Origin::Stored(root) => Some(root),
            Origin::Constant(_) | Origin::Absent => None,
        });
        let mut roots: Vec<usize> = stored.collect();
        roots.sort_unstable();
        roots
    }

    /// The leaf columns of a projection, ascending, in the file's order.
    pub fn leaves(&self, projection: &Projection) -> Vec<usize> {
        self.read_of(&self.roots(projection.columns()), projection)
    }

    /// The leaf columns of the file's columns `roots` that a projection reads, both ascending.
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

    /// The Parquet schema of the file's columns `roots` alone, which ascend.
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

    /// Whether the pages of all leaf columns of the file's column `root` can be read one by one: each has one
    /// value for each row. 96-bit times are decoded a second time, so they cannot.
    pub fn is_read_by_pages(&self, root: usize) -> bool {
        let mut leaves = self.leaves_of(&[root]).into_iter().map(|leaf| &self.parquet.columns()[leaf]);
        leaves.all(|leaf| leaf.max_rep_level() == 0 && leaf.physical_type() != PhysicalType::INT96)
    }

    /// The leaf columns of the file's columns `roots`, both ascending.
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

/// The leaf columns of a projection, which are looked up only once for consecutive files with the same
/// columns.
pub struct ProjectedLeaves<'a> {
    projection: &'a Projection,
    of: Option<&'a FileColumns>,
    leaves: Vec<usize>,
}

impl<'a> ProjectedLeaves<'a> {
    /// A look-up of the leaves of `projection` in one file after the other.
    pub fn new(projection: &'a Projection) -> Self {
        ProjectedLeaves { projection, of: None, leaves: Vec::new() }
    }

    /// The leaves in a file, ascending.
    pub fn in_file(&mut self, columns: &'a FileColumns) -> &[usize] {
        if !self.of.is_some_and(|known| std::ptr::eq(known, columns)) {
            (self.of, self.leaves) = (Some(columns), columns.leaves(self.projection));
        }
        &self.leaves
    }
}

/// The columns seen so far: files with the same columns share one value, which is most of the memory of a
/// footer.
#[derive(Debug, Default)]
pub struct KnownColumns {
    /// The columns, each with the metadata that says how they are typed.
    known: Mutex<Vec<(Vec<KeyValue>, Arc<FileColumns>)>>,
    placed: Mutex<HashMap<SharedBy, Placed>>,
}

/// The columns of a file with their places in a catalogue.
#[derive(Debug)]
struct Placed {
    columns: Arc<FileColumns>,
    /// The declared schema, which is kept so that its address is not reused.
    _declared: Option<SchemaRef>,
}

/// The properties that files must have in common to share their columns in a catalogue: the addresses of the
/// stored and of the declared fields, and the constants.
pub type SharedBy = (Option<usize>, Option<usize>, Vec<String>);

impl KnownColumns {
    /// The columns of a file by itself. The columns of a table's file are typed by the table, and by Parquet.
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

    /// The columns of the file in the catalogue: those of another file with the same `key`, otherwise the
    /// result of `place`.
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
