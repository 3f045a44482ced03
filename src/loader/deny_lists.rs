//! Lists of rows in files: text, a row in each line, or Parquet.

use std::fs;

use super::build::columns::ROW_ID;
use super::dataset::Dataset;
use super::deny::Deny;
use crate::arrow::array::{Array, AsArray, RecordBatch};
use crate::arrow::datatypes::{DataType, Int64Type};
use crate::arrow::names::TypeName;
use crate::catalog::RowId;
use crate::error::{Error, ErrorKind, Foreign, Place, Result};
use crate::paths;
use crate::reader::filter::Value;

/// Rows of a list that are read at a time.
const ROWS_AT_ONCE: u64 = 65_536;

impl Deny {
    /// The rows of a list in a file: of text, with a [number](RowId) at the beginning of each line and remarks after `#`; or of
    /// Parquet, with a column `row_id`. Parquet is known by the name, which ends in `.parquet`, and may be anywhere that a data
    /// set may be.
    ///
    /// # Errors
    /// The file cannot be read, or has something else than numbers.
    pub fn read(location: &str) -> Result<Self> {
        if is_parquet(location) {
            let mut rows = Vec::new();
            read_column(location, ROW_ID, |read| {
                let Some(numbers) = read.as_primitive_opt::<Int64Type>() else {
                    let cause = format!("column {ROW_ID:?} has type {}", TypeName(read.data_type()));
                    return Err(Error::invalid(cause)
                        .at(Place::file(location))
                        .hint("the numbers of rows are integers"));
                };
                rows.extend(numbers.iter().flatten().map(RowId::new));
                Ok(())
            })?;
            return Ok(Deny::rows(rows));
        }
        let text = read_text(location, "name a file with the number of a row in each line")?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let rows = lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(at, line)| {
            let in_line = |error: Error| {
                let cause = format!("line {}: {}", at + 1, error.cause());
                Error::invalid(cause)
                    .at(Place::file(location))
                    .hint("each line has the number of one row, and remarks after `#`; for values of a column name the column")
            };
            line.parse::<RowId>().map_err(in_line)
        });
        Ok(Deny::rows(rows.collect::<Result<Vec<_>>>()?))
    }

    /// The values of a column in a file: of text, one in each line as it is; or of Parquet, with a column of that name.
    ///
    /// # Errors
    /// The file cannot be read, or has values that a filter cannot compare.
    pub fn read_values(column: &str, location: &str) -> Result<Self> {
        let mut values: Vec<Value> = Vec::new();
        if is_parquet(location) {
            read_column(location, column, |read| {
                match read.data_type() {
                    DataType::Int64 => {
                        values.extend(read.as_primitive::<Int64Type>().iter().flatten().map(Value::Int));
                    }
                    DataType::Utf8View => {
                        values.extend(read.as_string_view().iter().flatten().map(Value::from));
                    }
                    DataType::LargeUtf8 => {
                        values.extend(read.as_string::<i64>().iter().flatten().map(Value::from));
                    }
                    other => {
                        return Err(Error::invalid(format!("a list of values has type {}", TypeName(other)))
                            .hint("whole numbers and text can be listed"));
                    }
                }
                Ok(())
            })?;
        } else {
            let text =
                read_text(location, "name a file with a value in each line, or give the values as a list")?;
            values.extend(text.lines().filter(|line| !line.is_empty()).map(Value::from));
        }
        Ok(Deny::values(column, values))
    }
}

fn is_parquet(location: &str) -> bool {
    let path = location.split(['?', '#']).next().unwrap_or(location);
    path.to_ascii_lowercase().ends_with(".parquet")
}

fn read_text(location: &str, wanted: &str) -> Result<String> {
    let path =
        paths::local(location).map_err(|error| error.hint("a list of text is a file of this machine"))?;
    let in_file = |error: Error| error.at(Place::file(location));
    let bytes = fs::read(path).map_err(|error| in_file(error.into_error()).hint(wanted))?;
    String::from_utf8(bytes).map_err(|_| {
        in_file(Error::new(ErrorKind::Invalid, "the list is not text in UTF-8"))
            .hint("a list in Parquet has a name that ends in .parquet")
    })
}

/// Reads a column of a list, whole numbers as `Int64`.
fn read_column(location: &str, column: &str, mut each: impl FnMut(&dyn Array) -> Result<()>) -> Result<()> {
    let dataset = Dataset::open(location)?;
    let stored = dataset.catalog().schema.field(dataset.catalog().column(column)?).data_type().clone();
    let mut loader = dataset.loader().columns([column]).batch_size(ROWS_AT_ONCE).epochs(1).threads(1);
    if stored.is_integer() {
        loader = loader.cast(column, DataType::Int64);
    }
    if dataset.rows() == 0 {
        return Ok(());
    }
    for batch in loader.build()?.epoch(0) {
        let batch: RecordBatch = batch?;
        each(batch.column(0).as_ref())?;
    }
    Ok(())
}
