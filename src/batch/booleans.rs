//! Gathers booleans, which are stored as bits.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, BooleanArray};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_base::Result;

use super::fill::Fill;
use super::selection::Selection;
use super::sources::downcast;

pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let arrays: Vec<&BooleanArray> = downcast(sources)?;
    let values: Vec<Option<&BooleanBuffer>> = arrays.iter().map(|array| Some(array.values())).collect();
    let values = selection.bits(&values);
    let nulls = selection.nulls(sources);
    let filled = match (&nulls, fill.and_then(Fill::number)) {
        (Some(present), Some(number)) if number.whole() == Some(0) => &values & present.inner(),
        (Some(present), Some(_)) => &values | &!present.inner(),
        _ => return Ok(Arc::new(BooleanArray::new(values, nulls))),
    };
    Ok(Arc::new(BooleanArray::new(filled, None)))
}
