//! Checks small arguments, such as numbers and pairs. The error for a bad one says its name, the allowed
//! values and the given value.

use std::ops::RangeInclusive;

use forebay::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::errors;

/// The largest number of characters of a value that an error shows.
const MAX_SHOWN: usize = 100;

/// The error for an argument with a bad value; `wanted` describes the allowed values.
pub(crate) fn refused(value: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyErr {
    let mut given = value.repr().map_or_else(|_| value.get_type().to_string(), |repr| repr.to_string());
    if given.chars().count() > MAX_SHOWN {
        given = given.chars().take(MAX_SHOWN).chain("...".chars()).collect();
    }
    errors::raise(value.py(), &Error::invalid(format!("{name} must be {wanted}, got {given}")))
}

/// Returns an int, if it is in the range. `True` does not count as an int.
pub(crate) fn int(value: &Bound<'_, PyAny>, range: RangeInclusive<u64>) -> Option<u64> {
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
    number.filter(|number| range.contains(number))
}

/// Returns the numbers of a sequence of length `N`, if `fits` is true for them. `True` and text do not count
/// as numbers.
pub(crate) fn numbers<const N: usize>(
    value: &Bound<'_, PyAny>,
    fits: impl Fn(&[f64; N]) -> bool,
) -> Option<[f64; N]> {
    let mut numbers = [f64::NAN; N];
    for (number, item) in numbers.iter_mut().zip(items::<N>(value)?) {
        *number = float(&item)?;
    }
    fits(&numbers).then_some(numbers)
}

/// A number. `True` and text do not count as numbers.
pub(crate) fn float(value: &Bound<'_, PyAny>) -> Option<f64> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
}

/// The members of a sequence of length `N`: of a tuple, a list or an array, but not of a set, which has no
/// order.
pub(crate) fn items<'py, const N: usize>(value: &Bound<'py, PyAny>) -> Option<[Bound<'py, PyAny>; N]> {
    if value.is_instance_of::<PyString>() || value.len().ok()? != N {
        return None;
    }
    let items: Vec<_> = (0..N).map(|at| value.get_item(at)).collect::<PyResult<_>>().ok()?;
    items.try_into().ok()
}
