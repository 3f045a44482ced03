//! The command line program, which is the same function as in the binary that cargo installs.

use std::ffi::OsString;

use forebay_cli as cli;
use pyo3::prelude::*;

/// Runs the program, its name first, without the interpreter, and returns its exit status. `again` is the
/// command that starts it in another process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>, again: Vec<OsString>) -> i32 {
    py.detach(|| cli::run_hosted(again, arguments))
}
