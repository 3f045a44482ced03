//! Gathers strings and binary values, which are copied out of the row groups' pages.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, ByteView, GenericByteViewArray, LargeBinaryArray, LargeStringArray, MAX_INLINE_VIEW_LEN,
};
use forebay_arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::fill::Fill;
use super::selection::Selection;
use super::sources::downcast;

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

/// The offsets and the bytes of the selected values, with `fill` in place of nulls.
fn values<T: ByteViewType>(
    sources: &[&dyn Array],
    selection: &Selection,
    fill: Option<&[u8]>,
) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let arrays: Vec<&GenericByteViewArray<T>> = downcast(sources)?;
    match fill {
        None if arrays.iter().all(|array| array.data_buffers().is_empty()) => {
            let views: Vec<&[u128]> = arrays.iter().map(|array| &**array.views()).collect();
            Ok(inline(selection, &views))
        }
        None => copy(selection, |source, row| value(arrays[source], row)),
        Some(fill) => copy(selection, |source, row| match arrays[source].is_null(row) {
            true => fill,
            false => value(arrays[source], row),
        }),
    }
}

/// The bytes of a value; empty if its view points outside the array's buffers. Other processes may change the
/// views of memory-mapped rows at any time, so views are checked whenever they are used, and a batch is made
/// again if its rows have changed.
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

/// The number of bits of a view that hold the length of its value.
const LENGTH_BITS: u32 = u32::BITS;

/// Copies short values, which are stored inside their views. A copy always has 16 bytes; the bytes beyond the
/// value's length are overwritten by the next value. A copy of fixed size needs no function call.
fn inline(selection: &Selection, views: &[&[u128]]) -> (OffsetBuffer<i64>, Buffer) {
    const WHOLE: usize = size_of::<u128>();
    let mut offsets: Vec<i64> = Vec::with_capacity(selection.len() + 1);
    offsets.push(0);
    let mut values = vec![0; selection.len() * MAX_INLINE_VIEW_LEN as usize + WHOLE];
    let mut end = 0;
    selection.for_each(|source, row| {
        let view = views[source][row];
        // Another process may change a memory-mapped view at any time, so the length is limited here.
        let length = (view as u32).min(MAX_INLINE_VIEW_LEN) as usize;
        values[end..end + WHOLE].copy_from_slice(&(view >> LENGTH_BITS).to_le_bytes());
        end += length;
        offsets.push(end as i64);
    });
    values.truncate(end);
    values.shrink_to_fit();
    (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values))
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

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{AsArray, BinaryViewArray, StringViewArray};

    use super::*;

    #[test]
    fn short_values_are_gathered_as_long_ones_are() {
        let short = [Some("c0"), None, Some(""), Some("twelve bytes"), Some("é")];
        let long = [Some("more than twelve bytes"), None, Some("c0")];
        let picks = vec![(0, 3), (1, 2), (0, 1), (0, 0), (0, 4), (1, 0), (0, 2), (0, 3)];
        for second in [&short[..3], &long[..]] {
            let sources =
                [StringViewArray::from_iter(short), StringViewArray::from_iter(second.iter().copied())];
            let sources: Vec<&dyn Array> = sources.iter().map(|source| source as &dyn Array).collect();
            for fill in [None, Some(Fill::from("none"))] {
                let gathered = gather(&sources, &Selection::Rows(picks.clone()), fill.as_ref()).unwrap();
                let or_fill = |text: Option<&'static str>| text.or(fill.as_ref().map(|_| "none"));
                let text = |&(source, row): &(u32, u32)| {
                    or_fill([&short[..], second][source as usize][row as usize])
                };
                let wanted: Vec<Option<&str>> = picks.iter().map(text).collect();
                assert_eq!(gathered.as_string::<i64>().iter().collect::<Vec<_>>(), wanted);
            }
        }
        let bytes = BinaryViewArray::from_iter_values([&b"\xff\0"[..], b"", b"\x01"]);
        let gathered = gather(&[&bytes], &Selection::Rows(vec![(0, 2), (0, 0), (0, 1)]), None).unwrap();
        assert_eq!(
            gathered.as_binary::<i64>().iter().collect::<Vec<_>>(),
            [Some(&b"\x01"[..]), Some(b"\xff\0"), Some(b"")]
        );
        assert_eq!(gather(&[&bytes], &Selection::Rows(Vec::new()), None).unwrap().len(), 0);
    }

    #[test]
    fn a_view_that_changed_to_any_length_stays_within_it() {
        let odd = u128::from_le_bytes(*b"\xff\xff\xff\xffabcdefghijkl");
        let views = ScalarBuffer::from(vec![odd, 0]);
        let selection = Selection::Rows(vec![(0, 1), (0, 0), (0, 1)]);
        let (offsets, values) = inline(&selection, &[&views]);
        assert_eq!((&offsets[..], &values[..]), (&[0, 0, 12, 12][..], &b"abcdefghijkl"[..]));
    }
}
