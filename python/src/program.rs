//! The command line program, from the same source as the one that cargo installs.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::cli;

/// Runs the program, its name first, without the interpreter, and returns its exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    py.detach(|| cli::run(arguments))
}
