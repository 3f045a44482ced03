//! Guards values that own threads against use in a forked child process.
//!
//! A forked child has a copy of such a value but not its threads, so a method or the destructor would wait
//! for them for ever. In a child, [`Home`] raises an exception instead, and its destructor does nothing.

use forebay::bindings::forked;
use pyo3::prelude::*;

use crate::errors;

/// A value that is used and dropped only in the process that made it.
pub(crate) struct Home<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Home<T> {
    pub(crate) fn new(value: T) -> Self {
        Home { value: Some(value), process: std::process::id() }
    }

    /// Returns the value; in a forked child, raises an exception.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.process == std::process::id() => Ok(value),
            _ => Err(errors::raise(py, &forked())),
        }
    }
}

impl<T> Drop for Home<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
