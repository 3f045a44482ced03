//! The command line program, which is the same function as in the binary that cargo installs.

use std::ffi::OsString;

use forebay_cli as cli;
use pyo3::prelude::*;

/// Runs the program, whose name is the first argument, without the interpreter's lock, and returns its exit
/// status. `again` is the command that starts the program in another process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>, again: Vec<OsString>) -> i32 {
    py.detach(|| cli::run_hosted(again, arguments))
}
