//! Functions of the library for text: parsing sizes, and hiding secrets in locations.

use forebay_base::sizes;
use forebay_store::source;
use pyo3::prelude::*;

use crate::errors::IntoPython;

/// Parses a size as people write it, such as "2 GiB", to a number of bytes.
#[pyfunction]
pub(crate) fn parse_size(py: Python<'_>, text: &str) -> PyResult<u64> {
    sizes::parse(text).or_raise(py)
}

/// Returns a location without passwords and signatures, for messages.
#[pyfunction]
pub(crate) fn shown(location: &str) -> String {
    source::shown(location)
}
