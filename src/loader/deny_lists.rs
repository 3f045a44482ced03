//! Reads lists of denied rows or values from files: text with one entry in each line, or Parquet.

use std::fs;

use forebay_arrow::array::{Array, AsArray, RecordBatch};
use forebay_arrow::datatypes::{
    DataType, Date32Type, Date64Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use forebay_arrow::fail::Foreign;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Place, Result, paths};
use forebay_store::catalog::RowId;

use super::build::columns::ROW_ID;
use super::dataset::Dataset;
use super::deny::Deny;
use crate::operand::Value;
use crate::reader::filter::written;

/// The number of rows that are read at a time from a list in Parquet.
const ROWS_AT_ONCE: u64 = 65_536;

/// The byte order mark, which editors on Windows write at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl Deny {
    /// The rows of a list in a file: text, with a [number](RowId) at the beginning of each line and remarks
    /// after `#`; or Parquet, with a column `row_id`. A file whose name ends in `.parquet` is read as
    /// Parquet, from any location that [`Dataset::open`] takes; a text must be a local file.
    ///
    /// # Errors
    /// The file cannot be read, or has something other than numbers.
    pub fn read(location: &str) -> Result<Self> {
        if is_parquet(location) {
            let mut rows = Vec::new();
            read_column(location, ROW_ID, |read| {
                let Some(numbers) = read.as_primitive_opt::<Int64Type>() else {
                    let cause = format!("column {ROW_ID:?} has type {}", TypeName(read.data_type()));
                    return Err(Error::invalid(cause).hint("row ids are integers: give a column of these"));
                };
                rows.extend(numbers.iter().flatten().map(RowId::new));
                Ok(())
            })?;
            return Ok(Deny::rows(rows));
        }
        let text = read_text(location, "name a file with a row id in each line")?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let rows = lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(at, line)| {
            let in_line = |error: Error| {
                let cause = format!("line {}: {}", at + 1, error.cause());
                Error::invalid(cause)
                    .about("deny")
                    .at(Place::file(location))
                    .hint("write one row id in each line, and remarks after `#`; for the values of a column, name the column in `deny`")
            };
            line.parse::<RowId>().map_err(in_line)
        });
        Ok(Deny::rows(rows.collect::<Result<Vec<_>>>()?))
    }

    /// The values of a column in a file: text, with one unquoted value in each line; or Parquet, with a
    /// column of that name. Numbers, booleans, dates, times and text can be listed.
    ///
    /// # Errors
    /// The file cannot be read, or has values that a filter cannot compare.
    pub fn read_values(column: &str, location: &str) -> Result<Self> {
        let mut values: Vec<Value> = Vec::new();
        if is_parquet(location) {
            read_column(location, column, |read| {
                let before = values.len();
                if add_values(read, &mut values).is_none() {
                    let cause = format!("a list of values has type {}", TypeName(read.data_type()));
                    return Err(Error::invalid(cause)
                        .hint("numbers, booleans, dates, times and text in UTF-8 can be listed"));
                }
                let is_odd = |value: &&Value| matches!(value, Value::Float(float) if !float.is_finite());
                match values[before..].iter().find(is_odd) {
                    Some(Value::Float(odd)) => Err(Error::invalid(format!("a list of values has {odd}"))
                        .hint("remove it from the list, and leave such rows out with `filter`")),
                    _ => Ok(()),
                }
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
    let in_list = |error: Error| error.about("deny").at(Place::file(location));
    let path = paths::local(location)
        .map_err(|error| in_list(error.hint("a list of text is a file of this machine")))?;
    let bytes = fs::read(path).map_err(|error| in_list(error.into_error()).hint(wanted))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        in_list(Error::new(ErrorKind::Invalid, "the list is not text in UTF-8"))
            .hint("a list in Parquet has a name that ends in .parquet")
    })?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

/// Reads a column of a list in Parquet and passes it to `each`, batch by batch. Integers and floats are
/// widened to 64 bits.
fn read_column(location: &str, column: &str, mut each: impl FnMut(&dyn Array) -> Result<()>) -> Result<()> {
    let mut read = || -> Result<()> {
        let dataset = Dataset::open(location)?;
        let stored = dataset.catalog().schema.field(dataset.catalog().column(column)?).data_type().clone();
        let mut loader = dataset.loader().columns([column]).batch_size(ROWS_AT_ONCE).epochs(1).threads(1);
        if stored.is_integer() && stored != DataType::UInt64 {
            loader = loader.cast(column, DataType::Int64);
        } else if stored.is_floating() {
            loader = loader.cast(column, DataType::Float64);
        }
        if dataset.rows() == 0 {
            return Ok(());
        }
        for batch in loader.build()?.epoch(0) {
            let batch: RecordBatch = batch?;
            each(batch.column(0).as_ref()).map_err(|error| error.at(Place::default().column(column)))?;
        }
        Ok(())
    };
    read().map_err(|error| error.about("deny").at(Place::file(location)))
}

/// Appends the values of a column to `values`; `None` if a filter cannot compare values of its type.
fn add_values(column: &dyn Array, values: &mut Vec<Value>) -> Option<()> {
    macro_rules! counts {
        ($type:ty) => {{
            let counts = column.as_primitive::<$type>().iter().flatten();
            for count in counts {
                values.push(Value::from(written(count.into(), column.data_type())?));
            }
        }};
    }
    macro_rules! all {
        ($column:expr) => {
            values.extend($column.iter().flatten().map(Value::from))
        };
    }
    match column.data_type() {
        DataType::Int64 => all!(column.as_primitive::<Int64Type>()),
        DataType::UInt64 => all!(column.as_primitive::<UInt64Type>()),
        DataType::Float64 => all!(column.as_primitive::<Float64Type>()),
        DataType::Boolean => all!(column.as_boolean()),
        DataType::Utf8View => all!(column.as_string_view()),
        DataType::LargeUtf8 => all!(column.as_string::<i64>()),
        DataType::LargeBinary => {
            for bytes in column.as_binary::<i64>().iter().flatten() {
                values.push(Value::from(std::str::from_utf8(bytes).ok()?));
            }
        }
        DataType::Date32 => counts!(Date32Type),
        DataType::Date64 => counts!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => counts!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => counts!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => counts!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => counts!(TimestampNanosecondType),
        _ => return None,
    }
    Some(())
}
