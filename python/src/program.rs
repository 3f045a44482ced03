//! Runs the command line program from Python. It is the same program as the binary that cargo installs.

use std::ffi::OsString;

use forebay_cli as cli;
use pyo3::prelude::*;

/// Runs the program without the interpreter's lock, and returns its exit status. `arguments` begins with the
/// program's name; `again` is the command that starts the program in another process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>, again: Vec<OsString>) -> i32 {
    py.detach(|| cli::run_hosted(again, arguments))
}
