//! A Python object that keeps Arrow memory alive.

use pyo3::prelude::*;

use crate::dense::Dense;

/// A block of memory, which stays alive as the base of the array that views it.
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
