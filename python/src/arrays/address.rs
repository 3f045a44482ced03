//! The address of the memory of a numpy array.

use pyo3::prelude::*;

/// Returns the address of a contiguous array of this shape and type; `None` if the array is not such, or if
/// it is to be written and is read-only.
///
/// # Errors
/// The object is not an array.
pub(crate) fn address(
    array: &Bound<'_, PyAny>,
    shape: &[usize],
    dtype: &str,
    is_written: bool,
) -> PyResult<Option<usize>> {
    let interface = array.getattr("__array_interface__")?;
    let (address, is_read_only): (usize, bool) = interface.get_item("data")?.extract()?;
    let fits = !(is_written && is_read_only)
        && interface.get_item("strides")?.is_none()
        && interface.get_item("shape")?.extract::<Vec<usize>>()? == shape
        && array.getattr("dtype")?.getattr("name")?.extract::<String>()? == dtype;
    Ok(fits.then_some(address))
}
