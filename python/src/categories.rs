//! Counts the values of a column, for a vocabulary.

use forebay::column::{Categories, CategoryCounts};
use forebay::{Error, Place};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::batch::Batch;
use crate::errors;

/// The number of occurrences of each value of a column.
#[pyclass(module = "forebay._forebay", name = "CategoryCounts")]
pub(crate) struct Counts {
    counts: CategoryCounts,
    column: String,
}

#[pymethods]
impl Counts {
    #[new]
    fn new(column: String) -> Self {
        Counts { counts: CategoryCounts::new(), column }
    }

    /// Counts the column's values in a batch.
    fn add(&mut self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let name = self.column.as_str().into_pyobject(py)?.into_any();
        let (_, array) = batch.lookup(py, &name)?;
        let counts = &mut self.counts;
        let added = py.detach(|| counts.add(array));
        added.map_err(|error| self.raised(py, error))
    }

    /// The values that were counted at least `at_least` times, the most frequent first, and at most `at_most`
    /// of them; none if no value was counted as often.
    fn values<'py>(
        &self,
        py: Python<'py>,
        at_least: u64,
        at_most: Option<usize>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let vocabulary = self.counts.clone().vocabulary(at_least, at_most);
        match vocabulary.map_err(|error| self.raised(py, error))?.values() {
            Categories::Texts(values) => PyTuple::new(py, values),
            Categories::Bytes(values) => PyTuple::new(py, values.iter().map(|value| PyBytes::new(py, value))),
            Categories::Numbers(values) => PyTuple::new(py, values),
            Categories::Empty => Ok(PyTuple::empty(py)),
            other => Err(self.raised(py, Error::invalid(format!("categories of another kind: {other:?}")))),
        }
    }
}

impl Counts {
    fn raised(&self, py: Python<'_>, error: Error) -> PyErr {
        errors::raise(py, &error.at(Place::default().column(self.column.as_str())))
    }
}
