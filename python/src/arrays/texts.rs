//! Makes numpy arrays of columns that `Text` or `Json` decodes: arrays of strings, or of the Python objects
//! that the JSON describes.

use forebay::arrow::array::ArrayRef;
use forebay::arrow::datatypes::Field;
use forebay::column::TextFormat;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::objects;

/// Returns the array of a column that is decoded as text or JSON; `None` for any other column.
pub(crate) fn array<'py>(
    py: Python<'py>,
    field: &Field,
    column: &ArrayRef,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    match TextFormat::from_field(field)? {
        TextFormat::Plain => Some(strings(py, field, column)),
        TextFormat::Json => Some(values(py, field, column)),
        _ => None,
    }
}

/// An array of numpy's `StringDType`.
fn strings<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let options = PyDict::new(py);
    options.set_item("dtype", numpy.getattr("dtypes")?.getattr("StringDType")?.call0()?)?;
    numpy.call_method("array", (objects::list(py, field, column)?,), Some(&options))
}

/// Returns an array of the objects that `json.loads` makes of the texts of a column; a null becomes `None`.
fn values<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let loads = py.import("json")?.getattr("loads")?;
    let texts = objects::list(py, field, column)?;
    objects::object_array(
        py,
        texts.iter().map(|text| if text.is_none() { Ok(text) } else { loads.call1((text,)) }),
    )
}
