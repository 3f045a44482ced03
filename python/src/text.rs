//! Text that the library reads or writes for Python.

use forebay_base::sizes;
use forebay_store::source;
use pyo3::prelude::*;

use crate::errors::IntoPython;

/// The number of bytes in a size as people write it.
#[pyfunction]
pub(crate) fn parse_size(py: Python<'_>, text: &str) -> PyResult<u64> {
    sizes::parse(text).or_raise(py)
}

/// A location without passwords and signatures.
#[pyfunction]
pub(crate) fn shown(location: &str) -> String {
    source::shown(location)
}
