//! Columns whose values all have one width: numbers, dates, times, decimals, binary of fixed length.

use std::fmt;

use forebay_arrow::array::{Array, ArrayData, ArrayRef, AsArray, downcast_primitive_array, make_array};
use forebay_arrow::buffer::{Buffer, NullBuffer};
use forebay_arrow::datatypes::{ArrowNativeType, DataType, i256};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};
use half::f16;

use super::{Fill, Selection};

/// A number that is given for a column: an integer, or the nearest float64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Float(f64),
    Whole(i128),
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Number::Float(number)
    }
}

impl Number {
    /// The integer that it is.
    pub(crate) fn whole(self) -> Option<i128> {
        match self {
            Number::Whole(number) => Some(number),
            // Beyond 2^127 the cast saturates, at a value that no type of integers has.
            Number::Float(number) => (number.fract() == 0.0).then_some(number as i128),
        }
    }

    /// The float64 that it is.
    fn float(self) -> Option<f64> {
        match self {
            Number::Whole(number) => Some(number as f64).filter(|float| *float as i128 == number),
            Number::Float(number) => Some(number),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.whole()) {
            // With all digits: those of a float end in zeros.
            (_, Some(whole)) if whole != i128::MAX && whole != i128::MIN => write!(f, "{whole}"),
            // Shortest, so that 1e300 has no 301 digits.
            (Number::Float(number), _) => write!(f, "{number:?}"),
            (Number::Whole(number), _) => write!(f, "{number}"),
        }
    }
}

/// Gathers by width: the same copy serves all types of it.
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

/// The bits of the values of a row that is `fill`, or of the one that all of them have; `None` where it is not for such types.
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

/// The bytes of a value, and the values of a row.
fn layout(data_type: &DataType) -> Result<(usize, usize)> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => Ok((1, *bytes as usize)),
        _ => data_type
            .primitive_width()
            .map(|width| (width, 1))
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("{data_type} has no fixed width"))),
    }
}

/// Whether the values of a type all have one width.
pub(super) fn is_fixed(data_type: &DataType) -> bool {
    layout(data_type).is_ok()
}

/// The column with its nulls replaced in place, if nothing else uses its memory; otherwise unchanged.
///
/// # Errors
/// `value` is not one of its type.
pub(super) fn fill(column: ArrayRef, value: &Fill) -> Result<ArrayRef> {
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

/// Writes the values of a `row`, or the one that all have, to the rows of `stride` values that are not present.
fn write_nulls<T: Copy>(values: &mut [T], stride: usize, present: &NullBuffer, row: &[T]) {
    let nulls = !present.inner();
    match row {
        // Most columns: no call for each null.
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

/// The values of an array, with what stands in place of nulls.
fn values<T: ArrowNativeType>(array: &dyn Array) -> Result<&[T]> {
    let values: &Buffer = downcast_primitive_array!(
        array => array.values().inner(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().values(),
        other => return Err(Error::new(ErrorKind::Internal, format!("{other} has no fixed width"))),
    );
    Ok(values.typed_data())
}

/// The bytes of `value` in a numeric type, as arrays hold it.
///
/// # Errors
/// It is not one of its values.
pub(crate) fn value_bytes(data_type: &DataType, value: impl Into<Number>) -> Result<Vec<u8>> {
    let bits = pattern(data_type, value.into())?;
    let width = data_type.primitive_width().unwrap_or(0).min(size_of_val(&bits));
    // Two's complement and IEEE 754: the low bytes are the narrower number.
    let mut bytes = bits.to_le_bytes()[..width].to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    Ok(bytes)
}

/// The bits of `value` in a numeric type, in the low end of a word; of times, in their own unit; of binary values of fixed
/// length, those of a byte.
///
/// # Errors
/// The type is none of these, or `value` is not one of its values.
pub(super) fn pattern(data_type: &DataType, value: Number) -> Result<u64> {
    let unfit =
        || Error::invalid(format!("fill_null value {value} is not a value of type {}", TypeName(data_type)));
    let integer = |low: i128, high: i128| match value.whole() {
        // Two's complement.
        Some(whole) if (low..=high).contains(&whole) => Ok(whole as u64),
        _ => Err(unfit()),
    };
    if data_type.is_floating() {
        let value = value.float().ok_or_else(unfit)?;
        let (bits, is_infinite) = match data_type {
            DataType::Float16 => {
                (u64::from(f16::from_f64(value).to_bits()), f16::from_f64(value).is_infinite())
            }
            DataType::Float32 => (u64::from((value as f32).to_bits()), (value as f32).is_infinite()),
            _ => (value.to_bits(), value.is_infinite()),
        };
        return if is_infinite && value.is_finite() { Err(unfit()) } else { Ok(bits) };
    }
    match data_type {
        DataType::Int8 => integer(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integer(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => integer(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => integer(i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 | DataType::FixedSizeBinary(_) => integer(0, u8::MAX.into()),
        DataType::UInt16 => integer(0, u16::MAX.into()),
        DataType::UInt32 => integer(0, u32::MAX.into()),
        DataType::UInt64 => integer(0, u64::MAX.into()),
        other => Err(Error::invalid(format!(
            "fill_null takes numbers, booleans, times, text, binary and lists of fixed width, not {}",
            TypeName(other)
        ))),
    }
}
