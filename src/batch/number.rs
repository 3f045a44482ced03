//! Numbers that a user gives for a column, such as fills, and their bits in the column's type.

use std::fmt;

use forebay_arrow::datatypes::DataType;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use half::f16;

/// A number that a user gives for a column: an integer, or a float64.
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
    /// The number as an integer; `None` if it has a fraction.
    pub(crate) fn whole(self) -> Option<i128> {
        match self {
            Number::Whole(number) => Some(number),
            // Beyond 2^127, the cast saturates at a value that does not fit any integer type of a column.
            Number::Float(number) => (number.fract() == 0.0).then_some(number as i128),
        }
    }

    /// The number as a float64; `None` for an integer that a float64 cannot represent exactly.
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
            // A whole number is written as an integer, with all its digits.
            (_, Some(whole)) if whole != i128::MAX && whole != i128::MIN => write!(f, "{whole}"),
            // A float is written in the shortest form, so that 1e300 does not have 301 digits.
            (Number::Float(number), _) => write!(f, "{number:?}"),
            (Number::Whole(number), _) => write!(f, "{number}"),
        }
    }
}

/// The bytes of `value` in a numeric type, as arrays store it.
///
/// # Errors
/// Fails if the type cannot hold `value`.
pub(crate) fn value_bytes(data_type: &DataType, value: impl Into<Number>) -> Result<Vec<u8>> {
    let bits = pattern(data_type, value.into())?;
    let width = data_type.primitive_width().unwrap_or(0).min(size_of_val(&bits));
    // `pattern` puts the bits of a narrow type into the low bytes of the word.
    let mut bytes = bits.to_le_bytes()[..width].to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    Ok(bytes)
}

/// The bits of `value` in a numeric type, in the low end of a word. A time is a count of the column's unit;
/// in fixed-length binary, `value` is one byte.
///
/// # Errors
/// Fails if the type is not numeric, or cannot hold `value`.
pub(super) fn pattern(data_type: &DataType, value: Number) -> Result<u64> {
    let unfit =
        || Error::invalid(format!("fill_null value {value} is not a value of type {}", TypeName(data_type)));
    let integer = |low: i128, high: i128| match value.whole() {
        // The cast keeps the low bits of the two's complement, which are the value's bits in narrower types.
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
