//! A Python object that keeps the memory of an Arrow buffer alive.

use pyo3::prelude::*;

use crate::dense::Dense;

/// Owns a block of memory. It is the `base` object of the array over that memory, so the memory lives as long
/// as the array.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Memory {
    dense: Dense,
}

impl Memory {
    pub(crate) fn new(dense: Dense) -> Self {
        Memory { dense }
    }
}

#[pymethods]
impl Memory {
    fn __repr__(&self) -> String {
        format!("<forebay memory: {:?} of {}>", self.dense.shape, self.dense.element.typestr())
    }
}
