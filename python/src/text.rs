//! Functions of the library for text: parsing sizes, matching names with patterns, and hiding secrets in
//! locations.

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

/// Returns those of `names` that a name or a pattern such as `"I*"` means, in order. A name among them is not
/// a pattern.
#[pyfunction]
pub(crate) fn matching_names(name: &str, names: Vec<String>) -> Vec<String> {
    if names.iter().any(|one| one == name) {
        return vec![name.to_owned()];
    }
    names.into_iter().filter(|one| source::is_pattern(name) && source::matches_name(name, one)).collect()
}
