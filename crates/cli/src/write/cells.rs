//! Columns of text whose cells stand for bytes: paths of files, and base64.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;

use super::source::{place, unreadable};
use super::values::ValueType;

/// The columns that the user names.
#[derive(Default)]
pub(super) struct Wanted {
    /// Columns of paths of files.
    pub(super) files: Vec<String>,
    /// Columns of base64.
    pub(super) base64: Vec<String>,
    /// Columns that stay text.
    pub(super) text: Vec<String>,
}

/// A column that is written.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: ValueType,
    /// Whether any row has no value.
    pub(super) has_nulls: bool,
    form: Form,
}

/// What a cell of text stands for.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Itself.
    Value,
    /// The path of a file, from the folder of the table.
    Path,
    Base64,
}

impl Wanted {
    /// Whether a column stays text.
    pub(super) fn is_text(&self, name: &str) -> bool {
        [&self.text, &self.files, &self.base64].iter().any(|names| names.iter().any(|text| text == name))
    }

    /// The columns with what the user says of them.
    pub(super) fn columns(&self, found: Vec<(String, ValueType, bool)>) -> Result<Vec<Column>> {
        for name in self.files.iter().chain(&self.base64).chain(&self.text) {
            if !found.iter().any(|(column, ..)| column == name) {
                let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
                let names: Vec<&str> = found.iter().map(|(column, ..)| column.as_str()).collect();
                return Err(error.hint(format!("there are {}", names.join(", "))));
            }
        }
        let column = |(name, of, has_nulls): (String, ValueType, bool)| {
            let form = match () {
                () if self.files.contains(&name) => Form::Path,
                () if self.base64.contains(&name) => Form::Base64,
                () => Form::Value,
            };
            Column { name, of, has_nulls, form }
        };
        Ok(found.into_iter().map(column).collect())
    }
}

/// The schema of the columns.
pub(super) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let of = if column.form == Form::Value { column.of.data_type() } else { DataType::Binary };
        Field::new(&column.name, of, column.has_nulls)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows of a table whose columns hold `texts` and other values; `first` is the ordinal of the first row.
pub(super) fn batch(
    columns: &[Column],
    schema: &SchemaRef,
    values: Vec<ArrayRef>,
    table: &Path,
    first: u64,
) -> Result<RecordBatch> {
    let cells = columns.iter().zip(values).map(|(column, values)| match column.form {
        Form::Value => Ok(values),
        form => bytes(form, &values, table).map_err(|(row, error)| {
            error.at(Place::default().row(first + row as u64).column(column.name.as_str()))
        }),
    });
    let cells = cells.collect::<Result<Vec<_>>>().map_err(|error| match error.place().file.is_none() {
        true => error.at(place(table)),
        false => error,
    })?;
    RecordBatch::try_new(schema.clone(), cells).or_fail()
}

/// The bytes that cells of text stand for.
fn bytes(form: Form, texts: &ArrayRef, table: &Path) -> Result<ArrayRef, (usize, Error)> {
    let texts = texts.as_string::<i32>();
    let cell = |row: usize| match texts.is_null(row) {
        true => Ok(None),
        false => meant(form, texts.value(row), table).map(Some).map_err(|error| (row, error)),
    };
    let cells: Vec<Option<Vec<u8>>> = (0..texts.len()).into_par_iter().map(cell).collect::<Result<_, _>>()?;
    Ok(Arc::new(BinaryArray::from_iter(cells)))
}

fn meant(form: Form, text: &str, table: &Path) -> Result<Vec<u8>> {
    match form {
        Form::Path => {
            let path = table.parent().unwrap_or(Path::new("")).join(text);
            std::fs::read(&path).map_err(|error| {
                unreadable(&path, &error).hint("paths are from the folder of the table that names them")
            })
        }
        Form::Base64 | Form::Value => {
            let encoded = match text.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
                Some((_, encoded)) => encoded,
                None => text,
            };
            let compact: String = encoded.split_ascii_whitespace().collect();
            STANDARD.decode(compact).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("this is not base64: {error}"))
                    .hint("name in --base64 only columns that hold base64 or data URIs of it")
            })
        }
    }
}
