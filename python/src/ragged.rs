//! Lists of differing lengths: `forebay.Ragged` over the values and the offsets as Arrow has them.

use forebay::arrow::array::{Array, LargeListArray};
use forebay::arrow::buffer::Buffer;
use pyo3::prelude::*;

use crate::dense::{self, Element};
use crate::errors;
use crate::memory::Memory;
use crate::numpy;

/// The rows of `list`, whose items are scalars without nulls. The values are not copied (booleans and dates are); the
/// offsets are where the batch does not begin at the first value.
pub(crate) fn ragged<'py>(
    py: Python<'py>,
    list: &LargeListArray,
    element: Element,
) -> PyResult<Bound<'py, PyAny>> {
    let offsets = list.offsets();
    let (first, last) = (offsets.first(), offsets.last());
    let count = usize::try_from(last - first).unwrap_or(0);
    let values = list.values().slice(usize::try_from(first).unwrap_or(0), count);
    let values = dense::block(values.as_ref(), count)
        .ok_or_else(|| errors::internal("a list whose items are no block of memory"))?;
    let offsets: Buffer = match first {
        0 => offsets.inner().inner().slice_with_length(
            // A sliced scalar buffer already begins at its slice.
            0,
            (list.len() + 1) * size_of::<i64>(),
        ),
        _ => offsets.iter().map(|offset| offset - first).collect(),
    };
    let values = numpy::asarray(py, Memory::flat(values, element))?;
    let offsets = numpy::asarray(py, Memory::flat(offsets, Element::Int(8)))?;
    py.import("forebay.ragged")?.getattr("Ragged")?.call1((values, offsets))
}
