//! Batches of several sources joined into one, column by column.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use forebay_arrow::compute::concat;
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use crate::column::LongestRows;

/// The name of the column that has the number of each row's source.
pub(in crate::loader) const SOURCE: &str = "source";

/// Joins the batches of sources into one.
#[derive(Debug)]
pub(in crate::loader) struct Joiner {
    pub(in crate::loader) schema: SchemaRef,
    /// For each source, the index of each joined column among the source's own columns; `None` if it lacks
    /// the column.
    places: Vec<Vec<Option<usize>>>,
    /// Whether the last column is [`SOURCE`].
    numbered: bool,
}

impl Joiner {
    /// Makes a joiner whose batches have the columns of all sources, in the order in which they first occur.
    /// A column that a source lacks is null in the rows of that source. If `numbered`, the column [`SOURCE`]
    /// is added.
    ///
    /// # Errors
    /// Fails if two sources have a column of one name but of different types, or if [`SOURCE`] is to be added
    /// and a source already has a column of this name.
    pub(in crate::loader) fn new(schemas: &[SchemaRef], numbered: bool) -> Result<Self> {
        let mut fields: Vec<Arc<Field>> = Vec::new();
        for (source, schema) in schemas.iter().enumerate() {
            for field in schema.fields() {
                match fields.iter().position(|known| known.name() == field.name()) {
                    None => fields.push(field.clone()),
                    Some(known) => fields[known] = common(&fields[known], field, source)?,
                }
            }
        }
        let is_missing = |name: &String| schemas.iter().any(|schema| schema.index_of(name).is_err());
        let mut fields: Vec<Field> = fields
            .iter()
            .map(|field| {
                let nullable = field.is_nullable() || is_missing(field.name());
                field.as_ref().clone().with_nullable(nullable)
            })
            .collect();
        if numbered {
            if fields.iter().any(|field| field.name() == SOURCE) {
                return Err(Error::invalid(format!("a source has a column {SOURCE:?} already"))
                    .hint("deliver it under another name with `rename`"));
            }
            fields.push(Field::new(SOURCE, DataType::Int64, false));
        }
        let place = |schema: &SchemaRef| {
            let stored = fields.len() - usize::from(numbered);
            fields[..stored].iter().map(|field| schema.index_of(field.name()).ok()).collect()
        };
        let places = schemas.iter().map(place).collect();
        Ok(Joiner { schema: Arc::new(Schema::new(fields)), places, numbered })
    }

    /// Joins batches of sources into one, in their order. `whole` is a batch that has the rows of all of them
    /// already, if there is one: its columns are those of the first source.
    pub(in crate::loader) fn join(
        &self,
        batches: &[(usize, RecordBatch)],
        whole: Option<RecordBatch>,
    ) -> Result<RecordBatch> {
        let rows: usize = batches.iter().map(|(_, batch)| batch.num_rows()).sum();
        let stored = self.schema.fields().len() - usize::from(self.numbered);
        let whole = whole.zip(batches.first()).map(|(whole, (source, _))| [(*source, whole)]);
        let made = whole.as_ref().map_or(batches, |whole| whole.as_slice());
        let column = |number: usize| -> Result<ArrayRef> {
            let of = |(source, batch): &(usize, RecordBatch)| match self.places[*source][number] {
                Some(place) => batch.column(place).clone(),
                None => new_null_array(self.schema.field(number).data_type(), batch.num_rows()),
            };
            let parts: Vec<ArrayRef> = made.iter().map(of).collect();
            match parts.as_slice() {
                [one] => Ok(one.clone()),
                _ => {
                    let parts = match LongestRows::of_field(self.schema.field(number)) {
                        Some(rows) => rows.evened(parts)?,
                        None => parts,
                    };
                    concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).or_fail()
                }
            }
        };
        let mut columns: Vec<ArrayRef> = (0..stored).map(column).collect::<Result<_>>()?;
        if self.numbered {
            let numbers = batches
                .iter()
                .flat_map(|(source, batch)| std::iter::repeat_n(*source as i64, batch.num_rows()));
            columns.push(Arc::new(Int64Array::from_iter_values(numbers)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).or_fail()
    }
}

/// Returns the field of a column that two sources have.
///
/// # Errors
/// Fails if the types or the meanings of the two columns differ.
fn common(known: &Arc<Field>, other: &Arc<Field>, source: usize) -> Result<Arc<Field>> {
    let named = (TypeName(known.data_type()).to_string(), TypeName(other.data_type()).to_string());
    let (here, there) = match known.data_type() == other.data_type() || named.0 != named.1 {
        true => (words(known, named.0), words(other, named.1)),
        // The types differ only in details that these names leave out, such as nulls in lists, so the error
        // shows the types in full.
        false => (words(known, known.data_type().to_string()), words(other, other.data_type().to_string())),
    };
    if known.data_type() != other.data_type() || here != there {
        let name = known.name();
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("column {name:?} of source {source} is {there}, but {here} in an earlier source"),
        )
        .hint(
            "give them the same type with `cast`, `decode`, `encode` or `pad`, or other names with `rename`",
        ));
    }
    let nullable = known.is_nullable() || other.is_nullable();
    Ok(Arc::new(known.as_ref().clone().with_nullable(nullable)))
}

/// Describes a column in an error message: its type, and the metadata that give its meaning, such as the
/// shape of a tensor or the format of a text.
fn words(field: &Field, data_type: String) -> String {
    let is_ours = |key: &str| key.starts_with("ARROW:extension") || key.starts_with("forebay");
    let mut notes: Vec<String> = field
        .metadata()
        .iter()
        .filter(|(key, _)| is_ours(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    notes.sort_unstable();
    format!("{data_type} {}", notes.join(" ")).trim_end().to_owned()
}
