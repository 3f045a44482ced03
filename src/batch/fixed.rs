//! Columns whose values all have one width: numbers, dates, times, decimals.

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, DataType, i256};
use half::f16;

use super::Selection;
use crate::error::{Error, ErrorKind, Result};

/// Gathers by width: the same copy serves all types of it.
pub(super) fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<f64>) -> Result<ArrayRef> {
    let data_type = sources[0].data_type();
    let Some(width) = data_type.primitive_width() else {
        return Err(Error::new(ErrorKind::Internal, format!("{data_type} has no fixed width")));
    };
    let pattern = fill.map(|value| pattern(data_type, value)).transpose()?;
    match width {
        1 => words::<u8>(sources, selection, pattern.map(|bits| bits as u8)),
        2 => words::<u16>(sources, selection, pattern.map(|bits| bits as u16)),
        4 => words::<u32>(sources, selection, pattern.map(|bits| bits as u32)),
        8 => words::<u64>(sources, selection, pattern),
        16 => words::<i128>(sources, selection, None),
        _ => words::<i256>(sources, selection, None),
    }
}

fn words<T: ArrowNativeType>(
    sources: &[&dyn Array],
    selection: &Selection,
    fill: Option<T>,
) -> Result<ArrayRef> {
    let data: Vec<ArrayData> = sources.iter().map(|source| source.to_data()).collect();
    let values: Vec<&[T]> = data.iter().map(|data| &data.buffer::<T>(0)[..data.len()]).collect();
    let mut out: Vec<T> = Vec::new();
    selection.copy(&values, 1, &mut out);
    let mut nulls = selection.nulls(sources);
    if let (Some(fill), Some(present)) = (fill, &nulls) {
        (!present.inner()).set_indices().for_each(|null| out[null] = fill);
        nulls = None;
    }
    let builder = ArrayData::builder(sources[0].data_type().clone()).len(out.len()).nulls(nulls);
    Ok(make_array(builder.add_buffer(Buffer::from_vec(out)).build()?))
}

/// The bits of `value` in a numeric type, in the low end of a word.
///
/// # Errors
/// The type is not numeric, or `value` is not one of its values.
pub(crate) fn pattern(data_type: &DataType, value: f64) -> Result<u64> {
    let integer = |low: f64, high: f64| {
        if value.fract() == 0.0 && value >= low && value <= high {
            return Ok(if value < 0.0 { value as i64 as u64 } else { value as u64 });
        }
        Err(Error::invalid(format!("fill_null value {value} is not a value of type {data_type}")))
    };
    match data_type {
        DataType::Float16 => Ok(u64::from(f16::from_f64(value).to_bits())),
        DataType::Float32 => Ok(u64::from((value as f32).to_bits())),
        DataType::Float64 => Ok(value.to_bits()),
        DataType::Int8 => integer(f64::from(i8::MIN), f64::from(i8::MAX)),
        DataType::Int16 => integer(f64::from(i16::MIN), f64::from(i16::MAX)),
        DataType::Int32 => integer(f64::from(i32::MIN), f64::from(i32::MAX)),
        DataType::Int64 => integer(i64::MIN as f64, i64::MAX as f64),
        DataType::UInt8 => integer(0.0, f64::from(u8::MAX)),
        DataType::UInt16 => integer(0.0, f64::from(u16::MAX)),
        DataType::UInt32 => integer(0.0, f64::from(u32::MAX)),
        DataType::UInt64 => integer(0.0, u64::MAX as f64),
        other => Err(Error::invalid(format!("fill_null takes numeric columns, not {other}"))),
    }
}
