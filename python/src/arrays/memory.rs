//! Makes a numpy array over a block of memory, also for bfloat16, a type that numpy itself does not have.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::dense::{Dense, Element};
use crate::view;

/// A numpy array over the memory of a block, which stays alive as the array's base.
pub(crate) fn view(py: Python<'_>, dense: Dense) -> PyResult<Bound<'_, PyAny>> {
    let element = dense.element;
    let array = view::array(py, dense)?;
    match element {
        Element::BFloat16 => bfloat16(py, array),
        _ => Ok(array),
    }
}

/// Returns an array of bfloat16 bits with the type `ml_dtypes.bfloat16` if the package `ml_dtypes` is
/// installed, as it is with JAX and Keras, otherwise as integers.
fn bfloat16<'py>(py: Python<'py>, bits: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match py.import("ml_dtypes") {
        Ok(ml_dtypes) => bits.call_method1("view", (ml_dtypes.getattr("bfloat16")?,)),
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(bits),
        Err(error) => Err(error),
    }
}
