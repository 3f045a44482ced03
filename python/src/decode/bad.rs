//! Collects the images that `decode_image` cannot decode, and treats them as `on_bad_row` says.

use forebay::{Error, ErrorKind, Place, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arguments::refused;
use crate::errors;

/// The argument `on_bad_row`: the treatment of an image that is null or cannot be decoded.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OnBad {
    Raise,
    /// The pixels of the image are 0.
    Fill,
    /// The image is left out; more than `at_most` bad images are an error.
    Skip {
        at_most: usize,
    },
}

impl OnBad {
    pub(super) fn read(given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = given else { return Ok(OnBad::Raise) };
        let wanted = "\"raise\", \"fill\" or forebay.Skip(at_most=...) without refill";
        if let Ok(name) = given.extract::<String>() {
            return match name.as_str() {
                "raise" => Ok(OnBad::Raise),
                "fill" => Ok(OnBad::Fill),
                _ => Err(refused(given, "on_bad_row", wanted)),
            };
        }
        let skip = |given: &Bound<'_, PyAny>| -> PyResult<(usize, bool)> {
            Ok((given.getattr("at_most")?.extract()?, given.getattr("refill")?.extract()?))
        };
        match skip(given) {
            Ok((at_most, false)) => Ok(OnBad::Skip { at_most }),
            _ => Err(refused(given, "on_bad_row", wanted)),
        }
    }
}

/// The images that were null or could not be decoded so far, in the order of their numbers.
pub(super) struct BadImages {
    on_bad: OnBad,
    found: Vec<(usize, Error)>,
}

impl BadImages {
    pub(super) fn none(on_bad: OnBad) -> Self {
        BadImages { on_bad, found: Vec::new() }
    }

    /// Adds bad images, whose numbers are higher than those that were added before.
    ///
    /// # Errors
    /// The error for the first bad image that `on_bad_row` does not tolerate.
    pub(super) fn extend(&mut self, mut found: Vec<(usize, Error)>) -> Result<()> {
        found.sort_by_key(|(number, _)| *number);
        let place = |number: usize| Place::default().row(number as u64);
        self.found.extend(found.into_iter().map(|(number, error)| (number, error.at(place(number)))));
        let at_most = match self.on_bad {
            OnBad::Raise => 0,
            OnBad::Fill => return Ok(()),
            OnBad::Skip { at_most } => at_most,
        };
        let Some((number, error)) = self.found.get(at_most) else { return Ok(()) };
        if self.on_bad == OnBad::Raise {
            return Err(error.clone().hint_also(
                "pass `on_bad_row` to skip such images, or on_bad_row=\"fill\", and a list as `skipped`",
            ));
        }
        let cause = format!("more bad images than the {at_most} that may be skipped: {}", error.cause());
        Err(Error::new(ErrorKind::BadRow, cause)
            .at(place(*number))
            .hint("raise at_most, or repair the images"))
    }

    /// The numbers of the bad images.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.found.iter().map(|(number, _)| *number)
    }

    pub(super) fn are_left_out(&self) -> bool {
        !self.found.is_empty() && matches!(self.on_bad, OnBad::Skip { .. })
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.found.binary_search_by_key(&number, |(found, _)| *found).is_ok()
    }

    /// Appends the exceptions of the bad images to the user's list `skipped`.
    pub(super) fn append_to(&self, py: Python<'_>, list: Option<&Bound<'_, PyList>>) -> PyResult<()> {
        let Some(list) = list else { return Ok(()) };
        self.found.iter().try_for_each(|(_, error)| list.append(errors::raise(py, error).into_value(py)))
    }
}

/// The error of a null among the images.
pub(super) fn null() -> Error {
    Error::new(ErrorKind::BadRow, "null where an image is needed")
}
