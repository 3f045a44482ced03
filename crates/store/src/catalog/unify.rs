//! One schema for the files of a data set.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use forebay_arrow::common::common;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use forebay_arrow::names::{TypeName, told_apart};
use forebay_base::{Error, ErrorKind, Place};

use super::arrow_schema::Refusals;
use super::types::same_type;

/// How files whose columns differ are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Differences {
    /// A column that differs in more than its encoding is refused.
    #[default]
    Refused,
    /// A column that a file lacks is null there, and values are read in a type that holds those of all files.
    Merged,
}

/// The columns that files have in common.
pub struct Unified {
    /// The columns, in the order of the first file that has them.
    pub schema: SchemaRef,
    /// The columns that are refused: they cannot be read in one of the files, or differ between files.
    pub refused: Refusals,
}

/// One schema for files whose schemas may differ in the order of columns, nullability and metadata, in the
/// encoding of types, and in what `differences` allows. `refused` are the columns that cannot be read in some
/// file.
///
/// `files` are pairs of location and schema, typed as delivered. Names, order and metadata are the first
/// file's, and columns that it lacks come after its own; a column is nullable if it is nullable or missing in
/// any file. A column that differs is refused, with the first two files that differ.
pub fn unify(files: &[(Arc<str>, SchemaRef)], differences: Differences, refused: Refusals) -> Unified {
    let Some((_, first)) = files.first() else {
        return Unified { schema: Arc::new(Schema::empty()), refused };
    };
    let mut columns = Columns { differences, refused, ..Columns::default() };
    let mut last: Option<&SchemaRef> = None;
    for (location, schema) in files {
        if !last.is_some_and(|last| Arc::ptr_eq(last, schema)) {
            columns.add(location, schema, last.is_none());
        }
        last = Some(schema);
    }
    let fields: Vec<Field> = columns.columns.into_iter().map(|column| column.field).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, first.metadata().clone()));
    Unified { schema, refused: columns.refused }
}

/// The columns of the files that were added so far.
#[derive(Default)]
struct Columns<'a> {
    differences: Differences,
    columns: Vec<UnifiedColumn<'a>>,
    /// The indices of `columns` by the names of the columns.
    places: HashMap<&'a str, usize>,
    refused: Refusals,
    first_location: &'a str,
}

struct UnifiedColumn<'a> {
    /// The field with the type that all files have in common.
    field: Field,
    /// The types of the column in the files, each with the location of the first file that has it.
    types: Vec<(&'a str, DataType)>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, location: &'a str, schema: &'a Schema, is_first: bool) {
        if is_first {
            self.first_location = location;
        }
        for field in schema.fields() {
            let at = match self.places.entry(field.name()) {
                Entry::Occupied(place) if !is_first => *place.get(),
                // The column is new, or the first file has two columns of this name, which are refused.
                place => {
                    place.insert_entry(self.columns.len());
                    self.columns.push(UnifiedColumn::new(location, field, is_first));
                    if !is_first && self.differences == Differences::Refused {
                        let name = TypeName(field.data_type());
                        let cause =
                            format!("{} has no such column, this file has it as {name}", self.first_location);
                        self.refuse(location, field.name(), cause, true);
                    }
                    continue;
                }
            };
            if self.refused.contains_key(field.name()) {
                continue;
            }
            if let Err(Clash { other, types }) = self.columns[at].add(location, field, self.differences) {
                let (want, got) = told_apart(&types[0], &types[1]);
                let cause = format!("want {want} as in {other}, got {got}{}", of_zones(&types));
                let could_merge = common(&types.each_ref(), true).is_some();
                self.refuse(location, field.name(), cause, could_merge);
            }
        }
        for at in 0..self.columns.len() {
            let column = &mut self.columns[at];
            let name = column.field.name();
            if schema.column_with_name(name).is_some() || self.refused.contains_key(name) {
                continue;
            }
            match self.differences {
                Differences::Merged => column.field.set_nullable(true),
                Differences::Refused => {
                    let (other, data_type) = &column.types[0];
                    let cause =
                        format!("this file has no such column, {other} has it as {}", TypeName(data_type));
                    let name = name.clone();
                    self.refuse(location, &name, cause, true);
                }
            }
        }
    }

    /// Refuses a column because of what a file has or lacks. `could_merge` says that `merge_schema` would
    /// read it.
    fn refuse(&mut self, location: &str, name: &str, cause: String, could_merge: bool) {
        let hint = match (self.differences, could_merge) {
            (Differences::Merged, _) => {
                "no type holds the values of both: choose other columns with `columns`, or open the files that agree"
            }
            (Differences::Refused, true) => {
                "choose other columns with `columns`, open the files that agree, or open all with `merge_schema`"
            }
            (Differences::Refused, false) => {
                "choose other columns with `columns`, or open the files that agree"
            }
        };
        self.refused.entry(name.to_owned()).or_insert_with(|| {
            Error::new(ErrorKind::Unsupported, cause).at(Place::file(location).column(name)).hint(hint)
        });
    }
}

/// The hint for two types of which only one has a time zone.
fn of_zones(types: &[DataType; 2]) -> &'static str {
    match types {
        [DataType::Timestamp(_, one), DataType::Timestamp(_, other)] if one.is_some() != other.is_some() => {
            ": times without a zone cannot be compared with times in one"
        }
        _ => "",
    }
}

/// A type that has nothing in common with an earlier one.
struct Clash<'a> {
    /// The first file with the earlier type.
    other: &'a str,
    /// The earlier type, and the new one.
    types: [DataType; 2],
}

impl<'a> UnifiedColumn<'a> {
    fn new(location: &'a str, field: &Field, is_first: bool) -> Self {
        let nullable = field.is_nullable() || !is_first;
        let types = vec![(location, field.data_type().clone())];
        UnifiedColumn { field: field.clone().with_nullable(nullable), types }
    }

    /// Adds the column's field in another file.
    fn add(&mut self, location: &'a str, field: &Field, differences: Differences) -> Result<(), Clash<'a>> {
        if field.is_nullable() {
            self.field.set_nullable(true);
        }
        let widens = differences == Differences::Merged;
        match self.types.iter_mut().find(|(_, known)| same_type(known, field.data_type())) {
            Some((_, known)) if known == field.data_type() => return Ok(()),
            Some((_, known)) => *known = either_type(known, field.data_type()),
            None => self.types.push((location, field.data_type().clone())),
        }
        let types: Vec<&DataType> = self.types.iter().map(|(_, data_type)| data_type).collect();
        if let Some(common) = common(&types, widens) {
            self.field.set_data_type(common);
            return Ok(());
        }
        let clashes = |(_, known): &&(&str, DataType)| common(&[known, field.data_type()], widens).is_none();
        let (other, known) = self.types.iter().find(clashes).unwrap_or(&self.types[0]);
        Err(Clash { other, types: [known.clone(), field.data_type().clone()] })
    }
}

/// The first type, in which each field is nullable if it is so in either type. The types must be the
/// [same](same_type).
fn either_type(first: &DataType, second: &DataType) -> DataType {
    let item = |a: &FieldRef, b: &FieldRef| {
        let nullable = a.is_nullable() || b.is_nullable();
        let data_type = either_type(a.data_type(), b.data_type());
        Arc::new(a.as_ref().clone().with_data_type(data_type).with_nullable(nullable))
    };
    match (first, second) {
        (DataType::List(a), DataType::List(b)) => DataType::List(item(a, b)),
        (DataType::LargeList(a), DataType::LargeList(b)) => DataType::LargeList(item(a, b)),
        (DataType::FixedSizeList(a, length), DataType::FixedSizeList(b, _)) => {
            DataType::FixedSizeList(item(a, b), *length)
        }
        (DataType::Struct(a), DataType::Struct(b)) if a.len() == b.len() => {
            DataType::Struct(a.iter().zip(b).map(|(a, b)| item(a, b)).collect())
        }
        (DataType::Map(a, sorted), DataType::Map(b, _)) => DataType::Map(item(a, b), *sorted),
        (data_type, _) => data_type.clone(),
    }
}
