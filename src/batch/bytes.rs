//! Strings and binary values, copied out of the row groups' pages.

use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, ByteView, GenericByteViewArray, LargeBinaryArray, LargeStringArray, MAX_INLINE_VIEW_LEN,
};
use crate::arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use crate::arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};

use super::{Fill, Selection, downcast};
use crate::error::{Error, ErrorKind, OrFail, Result};

pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let mut nulls = selection.nulls(sources);
    let fill = nulls.as_ref().and(fill).and_then(Fill::bytes);
    if fill.is_some() {
        nulls = None;
    }
    if sources[0].data_type() == &DataType::Utf8View {
        let (offsets, values) = values::<StringViewType>(sources, selection, fill)?;
        return Ok(Arc::new(LargeStringArray::try_new(offsets, values, nulls).or_fail()?));
    }
    let (offsets, values) = values::<BinaryViewType>(sources, selection, fill)?;
    Ok(Arc::new(LargeBinaryArray::try_new(offsets, values, nulls).or_fail()?))
}

/// Where the selected values begin, and their bytes; `fill` in the place of nulls.
fn values<T: ByteViewType>(
    sources: &[&dyn Array],
    selection: &Selection,
    fill: Option<&[u8]>,
) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let arrays: Vec<&GenericByteViewArray<T>> = downcast(sources)?;
    match fill {
        None => copy(selection, |source, row| value(arrays[source], row)),
        Some(fill) => copy(selection, |source, row| match arrays[source].is_null(row) {
            true => fill,
            false => value(arrays[source], row),
        }),
    }
}

/// The bytes of a value, at the place that its view gives, as far as the array has bytes there. Other processes may
/// change the views of mapped rows at any time, so they are checked at each use, and a batch of changed rows is made
/// again.
pub(crate) fn value<T: ByteViewType>(array: &GenericByteViewArray<T>, row: usize) -> &[u8] {
    let words = array.views();
    let view = ByteView::from(words[row]);
    let length = view.length as usize;
    if view.length <= MAX_INLINE_VIEW_LEN {
        let at = row * size_of::<u128>() + size_of::<u32>();
        return words.inner().as_slice().get(at..at + length).unwrap_or_default();
    }
    let (buffer, from) = (view.buffer_index as usize, view.offset as usize);
    let bytes = array.data_buffers().get(buffer).and_then(|buffer| buffer.get(from..from + length));
    bytes.unwrap_or_default()
}

fn copy<'a>(
    selection: &Selection,
    value: impl Fn(usize, usize) -> &'a [u8],
) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let mut offsets: Vec<i64> = Vec::with_capacity(selection.len() + 1);
    offsets.push(0);
    let mut end = 0;
    selection.for_each(|source, row| {
        end += value(source, row).len() as i64;
        offsets.push(end);
    });
    let mut values = Vec::new();
    values.try_reserve_exact(end as usize).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a batch with {end} bytes of one column"))
            .hint("use smaller batches")
    })?;
    selection.for_each(|source, row| values.extend_from_slice(value(source, row)));
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values)))
}
