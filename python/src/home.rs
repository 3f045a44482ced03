//! Values with threads, which belong to the process that made them.
//!
//! A forked child has the memory of such a value but not its threads: using it would wait for ever, and so
//! would its destructor. Here, using it raises an exception, and the destructor does nothing.

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

    /// The value, or the error that a forked child gets.
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
