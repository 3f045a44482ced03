//! Refuses nulls in columns whose arrays cannot hold them, with the place and the remedies.

use forebay::arrow::array::Array;
use forebay::arrow::datatypes::{DataType, Field};
use forebay::internals::batch::null_rows;
use forebay::{Error, ErrorKind, Place};
use pyo3::prelude::*;

use crate::errors;

/// A fill for nulls in a column of this type, where one is possible.
fn fill(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::LargeUtf8 => Some("\"\""),
        DataType::LargeBinary => Some("b\"\""),
        DataType::LargeList(item) => fill(item.data_type()),
        DataType::FixedSizeList(item, _) => match item.data_type() {
            DataType::Boolean | DataType::FixedSizeBinary(_) => Some("0.0"),
            other => other.primitive_width().map(|_| "0.0"),
        },
        DataType::Struct(_) | DataType::Map(..) | DataType::Null => None,
        _ => Some("0.0"),
    }
}

/// Refuses a column in which a value is missing that an array needs, in a row or within it.
pub(crate) fn refuse(py: Python<'_>, field: &Field, array: &dyn Array) -> PyResult<()> {
    let Some(row) = null_rows(array).first().copied() else { return Ok(()) };
    let name = field.name();
    let what = if array.is_null(row) { "is null" } else { "holds a null" };
    let error = Error::new(
        ErrorKind::BadRow,
        format!("row {row} of this batch {what}, and an array has no nulls"),
    )
    .at(Place::default().column(name.as_str()))
    .hint(match fill(field.data_type()) {
        Some(fill) => format!(
            "pass fill_null={{{name:?}: {fill}}}{}, leave such rows out with `on_bad_row`, or read the batch with its nulls \
             through Arrow: pyarrow.record_batch(batch)",
            match field.data_type() {
                DataType::LargeList(_) => String::new(),
                _ => format!(" or null_mask=[{name:?}]"),
            }
        ),
        None => "leave such rows out with `on_bad_row`, or read the batch with its nulls through Arrow: \
             pyarrow.record_batch(batch)"
            .into(),
    });
    Err(errors::null(py, &error))
}
