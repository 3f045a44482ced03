//! Converts Arrow lists of differing lengths to `forebay.Ragged`, which has their items and offsets.

use forebay::arrow::array::{Array, ArrayRef};
use forebay::arrow::buffer::{Buffer, OffsetBuffer};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dense::{Dense, Element};
use crate::view;

/// The offsets of Arrow lists: where each row begins among the items, and where the last row ends.
pub(crate) struct Offsets(OffsetBuffer<i64>);

impl Offsets {
    pub(crate) fn new(offsets: OffsetBuffer<i64>) -> Self {
        Offsets(offsets)
    }

    /// The slice of `values` that contains the items of these rows.
    pub(crate) fn items(&self, values: &ArrayRef) -> ArrayRef {
        let (first, last) = (self.0.first(), self.0.last());
        let count = usize::try_from(last - first).unwrap_or(0);
        values.slice(usize::try_from(first).unwrap_or(0), count)
    }

    /// Returns the rows as a `forebay.Ragged` with these items. The offsets are copied if they do not begin
    /// at 0.
    pub(crate) fn ragged<'py>(
        self,
        py: Python<'py>,
        items: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.named(py, "Ragged", items)
    }

    /// Returns the rows as arrays whose sides (dimensions) have the given lengths; `None` is a length that
    /// differs between rows. Unless the rows are nested lists, `items` has all sides after the last `None`
    /// joined into one.
    pub(crate) fn arrays<'py>(
        self,
        py: Python<'py>,
        items: Bound<'py, PyAny>,
        sides: Vec<Option<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of_arrays = self.named(py, "Arrays", items)?;
        of_arrays.call_method1("_with_sides", (PyTuple::new(py, sides)?,))
    }

    /// Returns the rows as images with these items: each row is an array of its own shape.
    pub(crate) fn images<'py>(
        self,
        py: Python<'py>,
        items: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.named(py, "Images", items)
    }

    fn named<'py>(
        self,
        py: Python<'py>,
        class: &str,
        items: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let first = self.0.first();
        let offsets: Buffer = match first {
            0 => {
                // The memory of a sliced scalar buffer begins at the first offset of the slice.
                self.0.inner().inner().slice_with_length(0, self.0.len() * size_of::<i64>())
            }
            _ => self.0.iter().map(|offset| offset - first).collect(),
        };
        let offsets = view::array(py, Dense::flat(offsets, Element::Int(8)))?;
        py.import("forebay.batch.ragged")?.getattr(class)?.call1((items, offsets))
    }
}
