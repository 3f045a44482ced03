//! Strings and binary values, copied out of the row groups' pages.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringViewArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use super::{Fill, Selection, downcast};
use crate::error::Result;

pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let mut nulls = selection.nulls(sources);
    let fill = nulls.as_ref().and(fill).and_then(Fill::bytes);
    if fill.is_some() {
        nulls = None;
    }
    if sources[0].data_type() == &DataType::Utf8View {
        let arrays: Vec<&StringViewArray> = downcast(sources)?;
        let (offsets, values) = match fill {
            None => copy(selection, |source, row| arrays[source].value(row).as_bytes()),
            Some(fill) => copy(selection, |source, row| match arrays[source].is_null(row) {
                true => fill,
                false => arrays[source].value(row).as_bytes(),
            }),
        };
        return Ok(Arc::new(LargeStringArray::try_new(offsets, values, nulls)?));
    }
    let arrays: Vec<&BinaryViewArray> = downcast(sources)?;
    let (offsets, values) = match fill {
        None => copy(selection, |source, row| arrays[source].value(row)),
        Some(fill) => copy(selection, |source, row| match arrays[source].is_null(row) {
            true => fill,
            false => arrays[source].value(row),
        }),
    };
    Ok(Arc::new(LargeBinaryArray::try_new(offsets, values, nulls)?))
}

fn copy<'a>(selection: &Selection, value: impl Fn(usize, usize) -> &'a [u8]) -> (OffsetBuffer<i64>, Buffer) {
    let mut offsets: Vec<i64> = Vec::with_capacity(selection.len() + 1);
    offsets.push(0);
    let mut end = 0;
    selection.for_each(|source, row| {
        end += value(source, row).len() as i64;
        offsets.push(end);
    });
    let mut values = Vec::with_capacity(end as usize);
    selection.for_each(|source, row| values.extend_from_slice(value(source, row)));
    (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values))
}
