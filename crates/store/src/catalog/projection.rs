//! Selects the columns that are read, and for structures (nested columns) also the fields.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, StructArray, make_array,
};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::types;

/// The selected columns of a catalogue, in the order in which they are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    columns: Arc<[usize]>,
    schema: SchemaRef,
    /// Where each field of `schema` comes from.
    selected: Arc<[Selected]>,
    /// For each column of which only a part is read, the paths of the fields that are read.
    partial: Arc<HashMap<usize, HashSet<Vec<String>>>>,
}

/// A selected column, or a selected part of a column with structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The index of the column in the catalogue's schema.
    pub column: usize,
    /// The part of the column that is read.
    pub of: Reads,
    /// The delivered name, if it differs from the stored one.
    pub name: Option<String>,
}

/// The part of a column that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The whole column as it is stored.
    Whole,
    /// The structure with only the fields at these paths.
    Fields(Vec<Vec<String>>),
    /// The field at this path, as a column of its own such as `meta.author`. If the stored column is a list
    /// of structures, each row becomes a list of this field's values.
    Field(Vec<String>),
}

impl Projection {
    /// Selects columns of `stored`. The fields that a selection names must exist.
    ///
    /// Fails with `Unsupported`, and names all columns in question, if a column has an unsupported type.
    pub(crate) fn new(stored: &Schema, selected: Vec<Selected>) -> Result<Self> {
        let fields = selected.iter().map(|selected| {
            let field = selected.field(stored.field(selected.column))?;
            Ok(match &selected.name {
                Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
                None => field,
            })
        });
        let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
        types::check_read(fields.iter().map(AsRef::as_ref))?;
        let mut columns: Vec<usize> = Vec::with_capacity(selected.len());
        for Selected { column, of, .. } in &selected {
            // Several fields of one structure may be selected; its column is then read once.
            if matches!(of, Reads::Whole) || !columns.contains(column) {
                columns.push(*column);
            }
        }
        let mut partial: HashMap<usize, HashSet<Vec<String>>> = HashMap::new();
        for Selected { column, of, .. } in &selected {
            match of {
                Reads::Whole => {}
                Reads::Fields(paths) => partial.entry(*column).or_default().extend(paths.iter().cloned()),
                Reads::Field(path) => drop(partial.entry(*column).or_default().insert(path.clone())),
            }
        }
        partial.retain(|&column, paths| {
            let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
            let data_type = stored.field(column).data_type();
            pruned(data_type, &paths) != *data_type
        });
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        Ok(Projection { columns: columns.into(), schema, selected: selected.into(), partial: partial.into() })
    }

    /// The indices of the columns in the catalogue's schema, without repetition.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The schema of the batches that are read with this projection.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// For each field of [`schema`](Self::schema), the column and the part of it that the field comes from.
    pub fn selected(&self) -> &[Selected] {
        &self.selected
    }

    /// A projection to only some fields of [`schema`](Self::schema), which `places` lists by index.
    pub fn only(&self, stored: &Schema, places: &[usize]) -> Result<Self> {
        Projection::new(stored, places.iter().map(|&place| self.selected[place].clone()).collect())
    }

    /// The names of all selected columns and fields, as a user would select them. `stored` is the catalogue's
    /// schema.
    pub fn names(&self, stored: &Schema) -> Vec<String> {
        let name = |column: usize, path: &[String]| joined(stored.field(column).name(), path);
        let each = self.selected.iter().flat_map(|Selected { column, of, .. }| match of {
            Reads::Whole => vec![name(*column, &[])],
            Reads::Fields(paths) => paths.iter().map(|path| name(*column, path)).collect(),
            Reads::Field(path) => vec![name(*column, path)],
        });
        each.collect()
    }

    /// Pairs of names, delivered and stored, of the columns that are read as a whole. `stored` is the
    /// catalogue's schema.
    pub fn stored_names<'a>(&'a self, stored: &'a Schema) -> impl Iterator<Item = (&'a str, &'a str)> {
        let each = self.schema.fields().iter().zip(self.selected.iter());
        each.filter(|(_, selected)| selected.of == Reads::Whole)
            .map(|(field, selected)| (field.name().as_str(), stored.field(selected.column).name().as_str()))
    }

    /// Whether a leaf (a column of the Parquet file, possibly nested) is read; `path` leads to the leaf
    /// within its top-level column.
    pub(crate) fn reads(&self, column: usize, path: &[String]) -> bool {
        let Some(paths) = self.partial.get(&column) else { return true };
        (1..=path.len()).any(|depth| paths.contains(&path[..depth]))
    }

    /// Whether all selected columns are read with all of their leaves.
    pub fn is_whole(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether decoded rows may point into the bytes that they were decoded from, so that these bytes must be
    /// kept.
    pub fn keeps_bytes(&self) -> bool {
        let is_view = |field: &&Field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
        self.schema.flattened_fields().iter().any(is_view)
    }
}

impl Selected {
    /// Selects this part of a column.
    pub fn new(column: usize, of: Reads) -> Self {
        Selected { column, of, name: None }
    }

    /// Selects a whole column.
    pub fn whole(column: usize) -> Self {
        Selected::new(column, Reads::Whole)
    }

    /// The field that is delivered for the stored field of the column.
    fn field(&self, stored: &Field) -> Result<FieldRef> {
        match &self.of {
            Reads::Whole => Ok(Arc::new(stored.clone())),
            Reads::Fields(paths) => {
                let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
                let data_type = pruned(stored.data_type(), &paths);
                Ok(Arc::new(stored.clone().with_data_type(data_type)))
            }
            Reads::Field(path) => {
                let list = item_of(stored.data_type());
                let mut field = list.unwrap_or(stored);
                let mut is_nullable = field.is_nullable();
                for name in path {
                    field = child(field.data_type(), name).ok_or_else(|| absent(name))?;
                    is_nullable |= field.is_nullable();
                }
                let name = joined(stored.name(), path);
                let field = field.clone().with_nullable(is_nullable);
                Ok(Arc::new(match list {
                    Some(_) => {
                        stored.clone().with_data_type(list_of(stored.data_type(), field)).with_name(name)
                    }
                    None => field.with_name(name),
                }))
            }
        }
    }

    /// Takes the selected part out of a column's rows. The result has the fields of `to`, in their order; the
    /// column may have more fields.
    pub fn values(&self, column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        match &self.of {
            Reads::Whole => Ok(column.clone()),
            Reads::Fields(_) => narrowed(column, to),
            Reads::Field(path) => match (to, column.data_type()) {
                (DataType::List(to), DataType::List(item)) if is_structure(item) => {
                    of_items(column.as_list::<i32>(), path, to)
                }
                (DataType::LargeList(to), DataType::LargeList(item)) if is_structure(item) => {
                    of_items(column.as_list::<i64>(), path, to)
                }
                _ => within(column, path),
            },
        }
    }
}

/// The values of the field at a path in a structure.
fn within(structure: &ArrayRef, path: &[String]) -> Result<ArrayRef> {
    let mut array = structure.clone();
    for name in path {
        let structure = array.as_struct_opt().ok_or_else(|| absent(name))?;
        let field = structure.column_by_name(name).ok_or_else(|| absent(name))?;
        array = under(field, structure.nulls())?;
    }
    Ok(array)
}

/// Replaces the structures in lists by one of their fields, which `path` leads to.
fn of_items<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    path: &[String],
    to: &Field,
) -> Result<ArrayRef> {
    let values = within(lists.values(), path)?;
    // The type in this file may differ from the type that all files have in common. It is converted to that
    // type later.
    let item = to.clone().with_data_type(values.data_type().clone());
    let item = item.with_nullable(to.is_nullable() || values.null_count() > 0);
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(Arc::new(item), offsets, values, nulls).or_fail()?))
}

/// The fields of a structure, or of the structures in a list; `None` for other types.
pub fn fields_of(data_type: &DataType) -> Option<&Fields> {
    match item_of(data_type).map_or(data_type, |item| item.data_type()) {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// The item of a list of structures; `None` for other types.
fn item_of(data_type: &DataType) -> Option<&Field> {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else { return None };
    is_structure(item).then_some(item.as_ref())
}

fn is_structure(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Struct(_))
}

/// The type of a list of the same kind (with small or large offsets) but with other items.
fn list_of(list: &DataType, item: Field) -> DataType {
    let item = Arc::new(item.with_name("item"));
    match list {
        DataType::LargeList(_) => DataType::LargeList(item),
        _ => DataType::List(item),
    }
}

/// The name that a field of a structure gets as a column of its own, such as `meta.author`.
pub fn joined(column: &str, path: &[String]) -> String {
    path.iter().fold(column.to_owned(), |name, field| name + "." + field)
}

/// The field with this name in a structure.
fn child<'a>(structure: &'a DataType, name: &str) -> Option<&'a FieldRef> {
    let DataType::Struct(fields) = structure else { return None };
    fields.iter().find(|field| field.name() == name)
}

fn absent(name: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("there is no field {name:?}"))
}

/// The type of a structure with only the fields at `paths`, in stored order.
fn pruned(data_type: &DataType, paths: &[&[String]]) -> DataType {
    let DataType::Struct(fields) = data_type else { return data_type.clone() };
    if paths.iter().any(|path| path.is_empty()) {
        return data_type.clone();
    }
    let kept = fields.iter().filter_map(|field| {
        let inside = paths.iter().filter(|path| path[0] == *field.name()).map(|path| &path[1..]);
        let inside: Vec<&[String]> = inside.collect();
        let data_type = (!inside.is_empty()).then(|| pruned(field.data_type(), &inside))?;
        Some(Arc::new(field.as_ref().clone().with_data_type(data_type)))
    });
    DataType::Struct(kept.collect())
}

/// The same structures with only the fields of `to`.
fn narrowed(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (Some(structure), DataType::Struct(wanted)) = (array.as_struct_opt(), to) else {
        return Ok(array.clone());
    };
    if has_no_more(array.data_type(), to) {
        return Ok(array.clone());
    }
    let each = wanted.iter().map(|field| {
        let (at, stored) = structure.fields().find(field.name()).ok_or_else(|| absent(field.name()))?;
        let column = narrowed(structure.column(at), field.data_type())?;
        Ok((Arc::new(stored.as_ref().clone().with_data_type(column.data_type().clone())), column))
    });
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
        each.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let (nulls, rows) = (structure.nulls().cloned(), structure.len());
    Ok(Arc::new(StructArray::try_new_with_length(Fields::from(fields), columns, nulls, rows).or_fail()?))
}

/// Whether a stored structure has as many fields as `to`, at every depth, so that none must be removed.
fn has_no_more(stored: &DataType, to: &DataType) -> bool {
    let (DataType::Struct(stored), DataType::Struct(to)) = (stored, to) else { return true };
    let mut each = stored.iter().zip(to);
    stored.len() == to.len() && each.all(|(stored, to)| has_no_more(stored.data_type(), to.data_type()))
}

/// The values of a structure's field, made null in those rows where the structure itself is null.
fn under(field: &ArrayRef, around: Option<&NullBuffer>) -> Result<ArrayRef> {
    if around.is_none_or(|around| around.null_count() == 0) || *field.data_type() == DataType::Null {
        return Ok(field.clone());
    }
    let nulls = NullBuffer::union(field.nulls(), around);
    Ok(make_array(field.to_data().into_builder().nulls(nulls).build().or_fail()?))
}
