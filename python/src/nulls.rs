//! Nulls where an array has no room for them: refused with the place and both ways out.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field};
use forebay::{Error, ErrorKind, Place};
use pyo3::prelude::*;

use crate::errors;

/// Refuses a column that holds a null, in a row or within the list of a row.
pub(crate) fn refuse(py: Python<'_>, field: &Field, array: &dyn Array) -> PyResult<()> {
    let Some(row) = first_null(array) else { return Ok(()) };
    let name = field.name();
    let error = Error::new(
        ErrorKind::BadRow,
        format!("row {row} of this batch is null, and an array has no nulls"),
    )
    .at(Place::default().column(name.as_str()))
    .hint(format!(
        "give the loader fill_null={{{name:?}: 0.0}}, or read the batch with its nulls through Arrow: \
             pyarrow.record_batch(batch)"
    ));
    Err(errors::null(py, &error))
}

/// The first row that is null or holds one.
fn first_null(array: &dyn Array) -> Option<usize> {
    let own = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(nulls) = own {
        return nulls.iter().position(|valid| !valid);
    }
    match array.data_type() {
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let inner = first_null(list.values().as_ref())?;
            Some(inner / usize::try_from(*length).ok()?.max(1))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            let (first, last) =
                (usize::try_from(*offsets.first()?).ok()?, usize::try_from(*offsets.last()?).ok()?);
            let inner = first + first_null(list.values().slice(first, last - first).as_ref())?;
            offsets.iter().skip(1).position(|end| usize::try_from(*end).is_ok_and(|end| inner < end))
        }
        _ => None,
    }
}
