//! Makes `forebay.Ragged` of lists of differing lengths, from the items and offsets that Arrow has.

use forebay::arrow::array::{Array, ArrayRef};
use forebay::arrow::buffer::{Buffer, OffsetBuffer};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dense::{Dense, Element};
use crate::view;

/// Where each row begins among the items, and where the last one ends.
pub(crate) struct Offsets(OffsetBuffer<i64>);

impl Offsets {
    pub(crate) fn new(offsets: OffsetBuffer<i64>) -> Self {
        Offsets(offsets)
    }

    /// The part of `values` that has the items of these rows.
    pub(crate) fn items(&self, values: &ArrayRef) -> ArrayRef {
        let (first, last) = (self.0.first(), self.0.last());
        let count = usize::try_from(last - first).unwrap_or(0);
        values.slice(usize::try_from(first).unwrap_or(0), count)
    }

    /// The rows as `forebay.Ragged`, with these items. The offsets are copied if the rows do not begin at the
    /// first item.
    pub(crate) fn ragged<'py>(
        self,
        py: Python<'py>,
        items: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.named(py, "Ragged", items)
    }

    /// The rows as arrays with these sides; `None` is a side that differs from row to row. The trailing sides
    /// of one length are together a single side of the items.
    pub(crate) fn arrays<'py>(
        self,
        py: Python<'py>,
        items: Bound<'py, PyAny>,
        sides: Vec<Option<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of_arrays = self.named(py, "Arrays", items)?;
        of_arrays.call_method1("_with_sides", (PyTuple::new(py, sides)?,))
    }

    /// The rows with these items as images, each of which is an array of its own shape.
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
                // The slice of a scalar buffer already begins at the first offset.
                self.0.inner().inner().slice_with_length(0, self.0.len() * size_of::<i64>())
            }
            _ => self.0.iter().map(|offset| offset - first).collect(),
        };
        let offsets = view::array(py, Dense::flat(offsets, Element::Int(8)))?;
        py.import("forebay.batch.ragged")?.getattr(class)?.call1((items, offsets))
    }
}
