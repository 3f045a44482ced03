//! Refuses nulls in columns whose arrays cannot hold them, with the place and the remedies.

use forebay::arrow::array::Array;
use forebay::arrow::datatypes::Field;
use forebay::internals::batch::null_rows;
use forebay::{Error, ErrorKind, Place};
use pyo3::prelude::*;

use crate::errors;

/// Refuses a column that holds a null, in a row or within the list of a row.
pub(crate) fn refuse(py: Python<'_>, field: &Field, array: &dyn Array) -> PyResult<()> {
    let Some(row) = null_rows(array).first().copied() else { return Ok(()) };
    let name = field.name();
    let what = if array.is_null(row) { "is null" } else { "holds a null in its list" };
    let error = Error::new(
        ErrorKind::BadRow,
        format!("row {row} of this batch {what}, and an array has no nulls"),
    )
    .at(Place::default().column(name.as_str()))
    .hint(format!(
        "pass fill_null={{{name:?}: 0.0}}, leave such rows out with `on_bad_row`, or read the batch with its \
         nulls through Arrow: pyarrow.record_batch(batch)"
    ));
    Err(errors::null(py, &error))
}
