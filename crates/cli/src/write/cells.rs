//! Columns of text whose cells stand for bytes: paths of files, and base64.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use forebay_arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::source::shown;
use rayon::prelude::*;

use super::read::{below, place, read_regular, unreadable};
use super::values::ValueType;

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The columns that the user names with `--files`, `--base64` and `--text`.
#[derive(Default)]
pub(super) struct NamedColumns {
    /// Columns of paths of files.
    pub(super) files: Vec<String>,
    /// Columns of base64.
    pub(super) base64: Vec<String>,
    /// Columns that stay text.
    pub(super) text: Vec<String>,
}

/// A column of the written Parquet files.
pub(super) struct WrittenColumn {
    pub(super) name: String,
    pub(super) of: ValueType,
    /// Whether any row has no value.
    pub(super) has_nulls: bool,
    form: CellForm,
}

/// The meaning of a cell of text.
#[derive(Clone, Copy, PartialEq)]
enum CellForm {
    /// The text itself.
    Value,
    /// The path of a file, relative to the folder of the table.
    Path,
    Base64,
}

impl NamedColumns {
    /// Whether the cells of a column are read as text, which may stand for bytes.
    pub(super) fn is_text(&self, name: &str) -> bool {
        [&self.text, &self.files, &self.base64].iter().any(|names| names.iter().any(|text| text == name))
    }

    /// Whether the cells of a column stand for bytes.
    pub(super) fn is_bytes(&self, name: &str) -> bool {
        [&self.files, &self.base64].iter().any(|names| names.iter().any(|text| text == name))
    }

    /// Combines the columns found in the files with the forms that the user gave for them.
    pub(super) fn columns(&self, found: Vec<(String, ValueType, bool)>) -> Result<Vec<WrittenColumn>> {
        if found.is_empty() {
            return Err(Error::invalid("the rows have no columns").hint("there is nothing to write"));
        }
        let twice = |name: &&String| {
            [&self.files, &self.base64, &self.text].iter().filter(|names| names.contains(name)).count() > 1
        };
        if let Some(name) = self.files.iter().chain(&self.base64).find(twice) {
            let error =
                Error::invalid(format!("two of --files, --base64 and --text name the column {name:?}"));
            return Err(error.hint("name it in one of them"));
        }
        for name in self.files.iter().chain(&self.base64).chain(&self.text) {
            if !found.iter().any(|(column, ..)| column == name) {
                let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
                let names: Vec<&str> = found.iter().map(|(column, ..)| column.as_str()).collect();
                return Err(error.hint(format!("there are {}", names.join(", "))));
            }
        }
        let column = |(name, of, has_nulls): (String, ValueType, bool)| {
            let form = match () {
                () if self.files.contains(&name) => CellForm::Path,
                () if self.base64.contains(&name) => CellForm::Base64,
                () => CellForm::Value,
            };
            WrittenColumn { name, of, has_nulls, form }
        };
        Ok(found.into_iter().map(column).collect())
    }
}

/// The schema of the columns.
pub(super) fn schema(columns: &[WrittenColumn]) -> SchemaRef {
    let field = |column: &WrittenColumn| {
        let of = if column.form == CellForm::Value { column.of.data_type() } else { DataType::Binary };
        Field::new(&column.name, of, column.has_nulls)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Makes rows of a table from the `values` of its columns; `first` is the ordinal of the first row.
pub(super) fn batch(
    columns: &[WrittenColumn],
    schema: &SchemaRef,
    values: Vec<ArrayRef>,
    table: &Path,
    first: u64,
) -> Result<RecordBatch> {
    let cells = columns.iter().zip(values).map(|(column, values)| match column.form {
        CellForm::Value => Ok(values),
        form => bytes(form, &values, table).map_err(|(row, error)| {
            error.at(Place::default().row(first + row as u64).column(column.name.as_str()))
        }),
    });
    let cells = cells.collect::<Result<Vec<_>>>().map_err(|error| match error.place().file.is_none() {
        true => error.at(place(table)),
        false => error,
    })?;
    RecordBatch::try_new(schema.clone(), cells).map_err(|error| {
        // The schema was made from the same rows, so they fit it unless the file changed.
        Error::new(ErrorKind::Corrupt, format!("the file changed while it was read: {error}"))
            .at(place(table))
            .hint("remove what was written, and write it again")
    })
}

/// Replaces each cell of text by the bytes that it stands for: the content of the named file, or the decoded
/// base64.
fn bytes(form: CellForm, texts: &ArrayRef, table: &Path) -> Result<ArrayRef, (usize, Error)> {
    let texts = texts.as_string::<i32>();
    let cell = |row: usize| match texts.is_null(row) {
        true => Ok(None),
        // An empty cell is null, because CSV has no other way to write a null.
        false if texts.value(row).is_empty() => Ok(None),
        false => meant(form, texts.value(row), table).map(Some).map_err(|error| (row, error)),
    };
    let cells: Vec<Option<Vec<u8>>> = (0..texts.len()).into_par_iter().map(cell).collect::<Result<_, _>>()?;
    Ok(Arc::new(BinaryArray::from_iter(cells)))
}

fn meant(form: CellForm, text: &str, table: &Path) -> Result<Vec<u8>> {
    match form {
        CellForm::Path => {
            let name = text.strip_prefix("file://").unwrap_or(text);
            let folder = table.parent().unwrap_or(Path::new(""));
            let path = below(folder, name).ok_or_else(|| {
                no_path(text).unwrap_or_else(|| {
                    let cause = format!("the path {text:?} leads out of the folder of the table");
                    Error::new(ErrorKind::Corrupt, cause)
                        .hint("move the table to a folder above the files, and give paths below that folder")
                })
            })?;
            read_regular(&path)?.map_err(|error| {
                no_path(text).unwrap_or_else(|| {
                    unreadable(&path, &error).hint("paths are from the folder of the table that names them")
                })
            })
        }
        CellForm::Base64 | CellForm::Value => {
            let encoded = match text.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
                Some((head, encoded)) if head.ends_with(";base64") => encoded,
                Some(_) => {
                    return Err(Error::new(ErrorKind::Unsupported, "this data URI does not hold base64"));
                }
                None => text,
            };
            let compact: String = encoded.split_ascii_whitespace().collect();
            LENIENT.decode(compact.replace('-', "+").replace('_', "/")).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("this is not base64: {error}"))
                    .hint("name in --base64 only columns that hold base64 or data URIs of it")
            })
        }
    }
}

/// The error of a text that is not the path of a local file; `None` for other texts.
fn no_path(text: &str) -> Option<Error> {
    if text.starts_with("data:") {
        let error = Error::invalid("this is a data URI, and not the path of a file");
        return Some(error.hint("name the column in --base64"));
    }
    let is_url = text.contains("://") && !text.starts_with("file://");
    is_url.then(|| {
        let cause = format!("--files reads files of this machine, and this is {}", shown(text));
        Error::new(ErrorKind::Unsupported, cause)
            .hint("copy the files to a folder, and name their paths from that of the table")
    })
}
