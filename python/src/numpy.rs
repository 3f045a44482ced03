//! An Arrow column as a numpy array: a view where numpy has the type, else Python objects.

use forebay::arrow::array::{Array, ArrayRef, AsArray};
use forebay::arrow::datatypes::{DataType, Field};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::dense::{self, Dense, Element};
use crate::memory::Memory;
use crate::{nulls, objects, ragged};

/// The array of a column: see the table in the documentation of `forebay.Batch`.
pub(crate) fn array<'py>(py: Python<'py>, field: &Field, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    if let Some(dense) = dense::dense(field, column.as_ref()) {
        nulls::refuse(py, field, column.as_ref())?;
        return view(py, dense);
    }
    if let DataType::LargeList(item) = column.data_type()
        && let Some(element) = dense::element(item.data_type())
    {
        nulls::refuse(py, field, column.as_ref())?;
        return ragged::ragged(py, column.as_list::<i64>(), element);
    }
    objects::array(py, field, column)
}

/// A numpy array over the same memory, which stays alive as the array's base.
pub(crate) fn view(py: Python<'_>, dense: Dense) -> PyResult<Bound<'_, PyAny>> {
    let element = dense.element;
    let array = asarray(py, Memory::new(dense))?;
    match element {
        Element::BFloat16 => bfloat16(py, array),
        _ => Ok(array),
    }
}

/// numpy's view of `memory`.
pub(crate) fn asarray(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    ASARRAY.import(py, "numpy", "asarray")?.call1((Bound::new(py, memory)?,))
}

/// The bits of bfloat16 as `ml_dtypes.bfloat16` where that is installed (JAX and Keras bring it), else as they are.
fn bfloat16<'py>(py: Python<'py>, bits: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match py.import("ml_dtypes") {
        Ok(ml_dtypes) => bits.call_method1("view", (ml_dtypes.getattr("bfloat16")?,)),
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(bits),
        Err(error) => Err(error),
    }
}
