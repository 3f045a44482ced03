//! The sources of a column of a batch: its arrays in several row groups, all of one type.

use forebay_arrow::array::Array;
use forebay_base::{Error, ErrorKind, Result};

/// Returns the sources as arrays of one concrete type, or an error if one has another type.
pub(super) fn downcast<'a, A: Array + 'static>(sources: &[&'a dyn Array]) -> Result<Vec<&'a A>> {
    let typed = sources.iter().map(|source| source.as_any().downcast_ref::<A>());
    typed.collect::<Option<_>>().ok_or_else(disagreement)
}

/// The error for sources of several types.
pub(super) fn disagreement() -> Error {
    Error::new(ErrorKind::Internal, "row groups disagree on a column's type")
}
