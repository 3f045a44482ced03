//! Computes the schema that the files of a data set have in common.

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
    /// A column that differs between files in more than its encoding is refused. This is the default.
    #[default]
    Refused,
    /// A column is null in files that lack it. If its types differ, values are read as a type that can hold
    /// those of all files.
    Merged,
}

/// The columns that files have in common.
pub struct Unified {
    /// The columns, in the order of the first file that has them.
    pub schema: SchemaRef,
    /// The columns that cannot be read in one of the files, or that differ between files, each with its
    /// error.
    pub refused: Refusals,
}

/// Computes one schema for files whose schemas may differ in the order of columns, in nullability, metadata
/// and the encoding of types, and in ways that `differences` allows. `refused` has the columns that cannot be
/// read in some file.
///
/// `files` are pairs of location and schema, with delivered types. Names, order and metadata are those of the
/// first file; columns that it lacks come after its own. A column is nullable if it is nullable or missing in
/// any file. If a column differs in a way that is not allowed, it is refused, and the error names the first
/// two files that differ.
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

/// The columns of all files that were added so far.
#[derive(Default)]
struct Columns<'a> {
    differences: Differences,
    columns: Vec<UnifiedColumn<'a>>,
    /// The index in `columns` of each column, by its name.
    places: HashMap<&'a str, usize>,
    refused: Refusals,
    first_location: &'a str,
}

struct UnifiedColumn<'a> {
    /// The field with the type that all files have in common.
    field: Field,
    /// The different types that the column has, each with the location of the first file with this type.
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
                // The column is new. Or the first file has two columns with this name, which are refused
                // elsewhere.
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

    /// Refuses a column because of a difference between files. If `could_merge`, the error suggests
    /// `merge_schema`, which could read the column.
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

/// An addition to the error for two types, if only one of them has a time zone; else nothing.
fn of_zones(types: &[DataType; 2]) -> &'static str {
    match types {
        [DataType::Timestamp(_, one), DataType::Timestamp(_, other)] if one.is_some() != other.is_some() => {
            ": times without a zone cannot be compared with times in one"
        }
        _ => "",
    }
}

/// The error for a type that cannot be combined with a type from an earlier file.
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

    /// Adds the field that another file has for the column.
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

/// Combines two types that are [the same](same_type) except for nullability: a field of the result is
/// nullable if it is nullable in either.
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
