//! Gathers columns whose values all have one width: numbers, dates, times, decimals, fixed-length binary.

use forebay_arrow::array::{Array, ArrayData, ArrayRef, AsArray, downcast_primitive_array, make_array};
use forebay_arrow::buffer::{Buffer, NullBuffer};
use forebay_arrow::datatypes::{ArrowNativeType, DataType, i256};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::fill::Fill;
use super::layout::{is_fixed, layout};
use super::number::pattern;
use super::selection::Selection;

/// Gathers a column. All types whose values have the same width share the same code.
pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let data_type = sources[0].data_type();
    let (width, stride) = layout(data_type)?;
    let row = fill.map(|value| row_of(data_type, value)).transpose()?.flatten();
    let row = row.as_deref();
    match width {
        1 => words::<u8>(sources, selection, stride, narrowed(row, |bits| bits as u8).as_deref()),
        2 => words::<u16>(sources, selection, stride, narrowed(row, |bits| bits as u16).as_deref()),
        4 => words::<u32>(sources, selection, stride, narrowed(row, |bits| bits as u32).as_deref()),
        8 => words::<u64>(sources, selection, stride, row),
        16 => words::<i128>(sources, selection, stride, None),
        _ => words::<i256>(sources, selection, stride, None),
    }
}

/// The bits that `fill` writes to a null row: one word for each value of the row, or a single word for all of
/// them. `None` for a text, and for bytes that do not have the type's length.
///
/// # Errors
/// Fails if the type cannot hold the number `fill`.
fn row_of(data_type: &DataType, fill: &Fill) -> Result<Option<Vec<u64>>> {
    let (_, stride) = layout(data_type)?;
    match (fill.number(), fill, data_type) {
        (Some(number), ..) => Ok(Some(vec![pattern(data_type, number)?])),
        (None, Fill::Bytes(bytes), DataType::FixedSizeBinary(_)) if bytes.len() == stride => {
            Ok(Some(bytes.iter().map(|&byte| byte.into()).collect()))
        }
        (None, ..) => Ok(None),
    }
}

fn narrowed<T>(row: Option<&[u64]>, narrow: impl Fn(u64) -> T) -> Option<Vec<T>> {
    Some(row?.iter().map(|&bits| narrow(bits)).collect())
}

/// The column with its nulls replaced in place, if nothing else uses its memory and its values have one
/// width; otherwise the column unchanged.
///
/// # Errors
/// Fails if `value` is not a value of the column's type.
pub(crate) fn fill(column: ArrayRef, value: &Fill) -> Result<ArrayRef> {
    if !is_fixed(column.data_type()) {
        return Ok(column);
    }
    let Some(row) = row_of(column.data_type(), value)? else { return Ok(column) };
    let (width, stride) = layout(column.data_type())?;
    match width {
        1 => overwrite(column, stride, &row, |bits| bits as u8),
        2 => overwrite(column, stride, &row, |bits| bits as u16),
        4 => overwrite(column, stride, &row, |bits| bits as u32),
        _ => overwrite(column, stride, &row, |bits| bits),
    }
}

fn overwrite<T: ArrowNativeType>(
    column: ArrayRef,
    stride: usize,
    row: &[u64],
    narrow: fn(u64) -> T,
) -> Result<ArrayRef> {
    if column.null_count() == 0 {
        return Ok(column);
    }
    let row: Vec<T> = row.iter().map(|&bits| narrow(bits)).collect();
    let data = column.to_data();
    drop(column);
    let (data_type, rows, nulls, offset, buffers, _) = data.into_parts();
    let builder = ArrayData::builder(data_type).len(rows).offset(offset);
    let values = buffers.into_iter().next().unwrap_or_default();
    let builder = match values.into_mutable() {
        Ok(mut values) => {
            let (first, count) = (offset * stride, rows * stride);
            let values_of_rows = &mut values.typed_data_mut::<T>()[first..first + count];
            nulls.iter().for_each(|present| write_nulls(values_of_rows, stride, present, &row));
            builder.add_buffer(values.into())
        }
        Err(shared) => builder.nulls(nulls).add_buffer(shared),
    };
    Ok(make_array(builder.build().or_fail()?))
}

/// Overwrites each null row of `stride` values with `row`, which has all values of a row, or one value that
/// is repeated.
fn write_nulls<T: Copy>(values: &mut [T], stride: usize, present: &NullBuffer, row: &[T]) {
    let nulls = !present.inner();
    match row {
        // Most columns take this branch, which is fast because it makes no call for each null.
        [value] if stride == 1 => nulls.set_indices().for_each(|null| values[null] = *value),
        [value] => nulls.set_indices().for_each(|null| values[null * stride..][..stride].fill(*value)),
        row => nulls.set_indices().for_each(|null| values[null * stride..][..stride].copy_from_slice(row)),
    }
}

fn words<T: ArrowNativeType>(
    sources: &[&dyn Array],
    selection: &Selection,
    stride: usize,
    row: Option<&[T]>,
) -> Result<ArrayRef> {
    let values: Vec<&[T]> = sources.iter().map(|source| values(*source)).collect::<Result<_>>()?;
    let mut out: Vec<T> = Vec::new();
    selection.copy(&values, stride, &mut out);
    let mut nulls = selection.nulls(sources);
    if let (Some(row), Some(present)) = (row, &nulls) {
        write_nulls(&mut out, stride, present, row);
        nulls = None;
    }
    let builder = ArrayData::builder(sources[0].data_type().clone()).len(selection.len()).nulls(nulls);
    Ok(make_array(builder.add_buffer(Buffer::from_vec(out)).build().or_fail()?))
}

/// All values of an array. The values of null rows are arbitrary.
fn values<T: ArrowNativeType>(array: &dyn Array) -> Result<&[T]> {
    let values: &Buffer = downcast_primitive_array!(
        array => array.values().inner(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().values(),
        other => return Err(Error::new(ErrorKind::Internal, format!("{other} has no fixed width"))),
    );
    Ok(values.typed_data())
}
