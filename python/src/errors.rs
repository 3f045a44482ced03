//! Maps each error of the library to a Python exception. The exception classes are written in Python
//! (`forebay/errors.py`), where they can also derive from built-in exceptions.

use forebay::{Error, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The module that holds the exception classes.
const MODULE: &str = "forebay.errors";

/// The name of the Python class for a kind of error. A kind that is not listed here becomes a `ForebayError`.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::UnknownColumn => "UnknownColumnError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::BadRow => "BadRowError",
        ErrorKind::DatasetChanged => "DatasetChangedError",
        ErrorKind::StateMismatch => "StateMismatchError",
        ErrorKind::TooLarge => "TooLargeError",
        ErrorKind::Denied => "DeniedError",
        ErrorKind::Io => "IoError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Internal => "InternalError",
        _ => "ForebayError",
    }
}

/// The Python exception for `error`: its message, with the file, row group, row and column as attributes.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, class(error.kind()), error).unwrap_or_else(|broken| broken)
}

/// The Python exception for a null in a column that becomes an array.
pub(crate) fn null(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, "NullError", error).unwrap_or_else(|broken| broken)
}

fn exception(py: Python<'_>, class: &str, error: &Error) -> PyResult<PyErr> {
    let place = error.place();
    let attributes = PyDict::new(py);
    attributes.set_item("file", place.file.as_deref())?;
    attributes.set_item("row_group", place.row_group)?;
    attributes.set_item("row", place.row)?;
    attributes.set_item("column", place.column.as_deref())?;
    let value = py.import(MODULE)?.getattr(class)?.call((error.sentence(option),), Some(&attributes))?;
    Ok(PyErr::from_value(value))
}

/// Writes an option of the library as a Python argument, for error messages.
fn option(name: &str, value: Option<&str>) -> String {
    match (name, value) {
        ("lanes", Some(value)) => {
            format!("lanes={value} in the shuffle, forebay.Shuffle(lanes={value}, ...),")
        }
        (name, Some(value)) => format!("{name}={value}"),
        ("cache", None) => "cache=".to_owned(),
        ("columns", None) => "columns=[...]".to_owned(),
        ("decode", None) => "decode={...}".to_owned(),
        ("drop_last", None) => "drop_last=True".to_owned(),
        ("on_bad_row", None) => "on_bad_row=forebay.Skip(at_most=...)".to_owned(),
        (name, None) => name.to_owned(),
    }
}

/// Converts results of the library into Python results.
pub(crate) trait IntoPython<T> {
    /// Returns the value, or the error as a Python exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for forebay::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}

/// The Python exception for a bug in this crate, which is raised instead of a panic.
pub(crate) fn internal(cause: &str) -> PyErr {
    PyRuntimeError::new_err(format!("forebay: {cause}; this is a bug, please report it"))
}
