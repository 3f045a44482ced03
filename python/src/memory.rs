//! Arrow memory as an object that numpy can view.

use forebay::arrow::buffer::Buffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::dense::Dense;

/// A block of memory that numpy views through `__array_interface__`, and that stays alive as the view's base.
///
/// It is writable: a batch owns its memory alone, nothing in the library reads it again, and
/// `torch.from_numpy` warns about arrays that are not.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Memory {
    dense: Dense,
}

impl Memory {
    pub(crate) fn new(dense: Dense) -> Self {
        Memory { dense }
    }

    /// One dimension of `buffer`, as offsets or values of a list are.
    pub(crate) fn flat(buffer: Buffer, element: crate::dense::Element) -> Self {
        let rows = buffer.len() / element.bytes();
        Memory { dense: Dense { buffer, shape: vec![rows], element } }
    }
}

#[pymethods]
impl Memory {
    /// numpy's array interface, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        let read_only = false;
        interface.set_item(intern!(py, "data"), (self.dense.buffer.as_ptr() as usize, read_only))?;
        interface.set_item(intern!(py, "shape"), PyTuple::new(py, &self.dense.shape)?)?;
        interface.set_item(intern!(py, "typestr"), PyString::intern(py, self.dense.element.typestr()))?;
        interface.set_item(intern!(py, "version"), 3)?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<forebay memory: {:?} of {}>", self.dense.shape, self.dense.element.typestr())
    }
}
