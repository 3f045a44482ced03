//! Converts numbers to other types: a float is rounded to the nearest value of the type, and a number that
//! does not fit is refused.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array,
    PrimitiveArray, UInt8Array, make_array,
};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, i256,
};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use half::f16;

/// The powers of ten that a float64 represents exactly.
const EXACT_POWERS: [f64; 23] = {
    let mut powers = [1.0; 23];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10.0;
        at += 1;
    }
    powers
};
/// The largest integer up to which a float64 represents every integer exactly.
const EXACT_INTEGERS: u128 = 1 << f64::MANTISSA_DIGITS;
/// Stands for a value that is not an integer: this number fits none of the types that columns can be cast to.
const NOWHERE: i128 = i128::MAX;
/// The most characters of a text that an error shows.
const SHOWN: usize = 40;

/// The converted values, and the indices of those that do not fit.
type Cast = (ArrayRef, Vec<usize>);

/// Whether values of type `from`, which is not a list, can be cast to `to`: a type of numbers, or booleans.
pub(super) fn is_cast(from: &DataType, to: &DataType) -> bool {
    match from {
        DataType::Boolean | DataType::Null => true,
        DataType::Utf8View => *to != DataType::Boolean,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => true,
        other if other.is_temporal() => to.is_integer() && other.primitive_width().is_some(),
        other => other.is_integer() || other.is_floating(),
    }
}

/// Converts a number to another type: to the nearest value of a floating-point type, or the same value of an
/// integer type. Returns `None` if there is no such value.
trait Fit<T> {
    fn fit(self) -> Option<T>;
}

macro_rules! integers_fit_integers {
    ($($from:ty),*; $to:tt) => {
        $(integers_fit_integers! { @ $from; $to })*
    };
    (@ $from:ty; [$($to:ty),*]) => {
        $(impl Fit<$to> for $from {
            fn fit(self) -> Option<$to> {
                <$to>::try_from(self).ok()
            }
        })*
    };
}

macro_rules! integers_fit_floats {
    ($($from:ty),*) => {
        $(
            impl Fit<f16> for $from {
                fn fit(self) -> Option<f16> {
                    Some(f16::from_f32(self as f32)).filter(|near| near.is_finite())
                }
            }
            impl Fit<f32> for $from {
                fn fit(self) -> Option<f32> {
                    Some(self as f32)
                }
            }
            impl Fit<f64> for $from {
                fn fit(self) -> Option<f64> {
                    Some(self as f64)
                }
            }
        )*
    };
}

macro_rules! floats_fit_integers {
    ($($to:ty),*) => {
        $(impl Fit<$to> for f64 {
            fn fit(self) -> Option<$to> {
                // The largest integer plus one is a power of two, which a float represents exactly.
                let is_within = self >= <$to>::MIN as f64 && self < <$to>::MAX as f64 + 1.0;
                (is_within && self.trunc() == self).then_some(self as $to)
            }
        })*
    };
}

integers_fit_integers! { i8, i16, i32, i64, u8, u16, u32, u64, i128; [i8, i16, i32, i64, u8, u16, u32, u64] }
integers_fit_floats! { i8, i16, i32, i64, u8, u16, u32, u64, i128 }
floats_fit_integers! { i8, i16, i32, i64, u8, u16, u32, u64 }

impl Fit<f64> for f64 {
    fn fit(self) -> Option<f64> {
        Some(self)
    }
}

impl Fit<f32> for f64 {
    fn fit(self) -> Option<f32> {
        let near = self as f32;
        (near.is_finite() || !self.is_finite()).then_some(near)
    }
}

impl Fit<f16> for f64 {
    fn fit(self) -> Option<f16> {
        let near = f16::from_f32(to_odd(self));
        (near.is_finite() || !self.is_finite()).then_some(near)
    }
}

/// Rounds a number to odd: if it lies between two float32, the result is the one whose last bit is 1.
/// Rounding the result to fewer bits is then the same as rounding the number itself. (`f16::from_f64` rounds
/// twice on some processors.)
fn to_odd(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) == number || number.is_nan() {
        return near;
    }
    let is_above = f64::from(near).abs() > number.abs();
    f32::from_bits((near.to_bits() - u32::from(is_above)) | 1)
}

/// Converts each number with `wide` to a type that can hold it, and from that type to `T`.
fn convert<A: ArrowPrimitiveType, W: Fit<T::Native>, T: ArrowPrimitiveType>(
    array: &PrimitiveArray<A>,
    wide: impl Fn(A::Native) -> W,
) -> Cast {
    let mut all_fit = true;
    let each = array.values().iter().map(|value| {
        let fitted = wide(*value).fit();
        all_fit &= fitted.is_some();
        fitted.unwrap_or_default()
    });
    let values: Vec<T::Native> = each.collect();
    let unfit = match all_fit {
        true => Vec::new(),
        // The value under a null may be any number, so only valid rows are checked.
        false => {
            let is_unfit = |&row: &usize| array.is_valid(row) && wide(array.value(row)).fit().is_none();
            (0..array.len()).filter(is_unfit).collect()
        }
    };
    (Arc::new(PrimitiveArray::<T>::new(values.into(), array.nulls().cloned())), unfit)
}

/// Calls [`convert`] for the type `$to`, which is known only at run time.
macro_rules! convert_to {
    ($to:expr, $array:expr, $from:ty, $wide:expr) => {
        match $to {
            DataType::Int8 => Ok(convert::<$from, _, Int8Type>($array, $wide)),
            DataType::Int16 => Ok(convert::<$from, _, Int16Type>($array, $wide)),
            DataType::Int32 => Ok(convert::<$from, _, Int32Type>($array, $wide)),
            DataType::Int64 => Ok(convert::<$from, _, Int64Type>($array, $wide)),
            DataType::UInt8 => Ok(convert::<$from, _, UInt8Type>($array, $wide)),
            DataType::UInt16 => Ok(convert::<$from, _, UInt16Type>($array, $wide)),
            DataType::UInt32 => Ok(convert::<$from, _, UInt32Type>($array, $wide)),
            DataType::UInt64 => Ok(convert::<$from, _, UInt64Type>($array, $wide)),
            DataType::Float16 => Ok(convert::<$from, _, Float16Type>($array, $wide)),
            DataType::Float32 => Ok(convert::<$from, _, Float32Type>($array, $wide)),
            DataType::Float64 => Ok(convert::<$from, _, Float64Type>($array, $wide)),
            other => Err(Error::new(ErrorKind::Internal, format!("a cast to {other}"))),
        }
    };
}

/// Casts an array that is not a list to `to`.
pub(super) fn cast_values(array: &ArrayRef, to: &DataType) -> Result<Cast> {
    if array.data_type() == to {
        return Ok((array.clone(), Vec::new()));
    }
    if *to == DataType::Boolean {
        return truths(array);
    }
    macro_rules! numbers {
        ($from:ty) => {
            convert_to!(to, array.as_primitive::<$from>(), $from, |value| value)
        };
        ($from:ty, f64) => {
            convert_to!(to, array.as_primitive::<$from>(), $from, f64::from)
        };
    }
    match array.data_type() {
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Float16 => numbers!(Float16Type, f64),
        DataType::Float32 => numbers!(Float32Type, f64),
        DataType::Float64 => numbers!(Float64Type, f64),
        DataType::Boolean => {
            let truths = array.as_boolean();
            let numbers = (0..truths.len()).map(|row| u8::from(truths.value(row)));
            let numbers = UInt8Array::new(numbers.collect(), truths.nulls().cloned());
            cast_values(&(Arc::new(numbers) as ArrayRef), to)
        }
        DataType::Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale, to),
        DataType::Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale, to),
        DataType::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale, to),
        DataType::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale, to),
        DataType::LargeUtf8 => texts(array, to),
        other => match other.primitive_width() {
            Some(4) => cast_values(&retyped(array, DataType::Int32)?, to),
            Some(8) => cast_values(&retyped(array, DataType::Int64)?, to),
            _ => Err(Error::new(ErrorKind::Internal, format!("a cast of {other}"))),
        },
    }
}

/// Reads times as integers, in the unit of their type.
fn retyped(array: &ArrayRef, number: DataType) -> Result<ArrayRef> {
    Ok(make_array(array.to_data().into_builder().data_type(number).build().or_fail()?))
}

/// Casts numbers to booleans. Only 0 and 1 fit.
fn truths(array: &ArrayRef) -> Result<Cast> {
    let (numbers, mut unfit) = cast_values(array, &DataType::Int8)?;
    let numbers = numbers.as_primitive::<Int8Type>();
    let is_other = |&row: &usize| numbers.is_valid(row) && !matches!(numbers.value(row), 0 | 1);
    unfit.extend((0..numbers.len()).filter(is_other));
    unfit.sort_unstable();
    let values = BooleanBuffer::collect_bool(numbers.len(), |row| numbers.value(row) == 1);
    Ok((Arc::new(BooleanArray::new(values, numbers.nulls().cloned())), unfit))
}

/// The digits of a decimal number without its point; the scale says how many of them come after the point.
trait Digits: Copy {
    /// The float64 that is nearest to the number.
    fn float(self, scale: i8) -> f64;
    /// The number as an integer, if it is one.
    fn whole(self, scale: i8) -> Option<i128>;
}

impl Digits for i128 {
    fn float(self, scale: i8) -> f64 {
        let power = usize::try_from(scale).ok().and_then(|scale| EXACT_POWERS.get(scale));
        match power.filter(|_| self.unsigned_abs() <= EXACT_INTEGERS) {
            // Both numbers are exact, so the result is rounded only once.
            Some(power) => self as f64 / power,
            None => parsed(&self, scale),
        }
    }

    fn whole(self, scale: i8) -> Option<i128> {
        let power = 10i128.checked_pow(u32::from(scale.unsigned_abs()));
        match (power, scale < 0) {
            (Some(power), false) => (self % power == 0).then_some(self / power),
            (Some(power), true) => self.checked_mul(power),
            // The power of ten is larger than any i128, so only 0 can be multiplied by it or is a multiple of
            // it.
            (None, _) => (self == 0).then_some(0),
        }
    }
}

macro_rules! few_digits {
    ($($digits:ty),*) => {
        $(impl Digits for $digits {
            fn float(self, scale: i8) -> f64 {
                i128::from(self).float(scale)
            }

            fn whole(self, scale: i8) -> Option<i128> {
                i128::from(self).whole(scale)
            }
        })*
    };
}

few_digits! { i32, i64 }

impl Digits for i256 {
    fn float(self, scale: i8) -> f64 {
        match self.to_i128() {
            Some(digits) => digits.float(scale),
            None => parsed(&self, scale),
        }
    }

    fn whole(self, scale: i8) -> Option<i128> {
        if let Some(digits) = self.to_i128() {
            return digits.whole(scale);
        }
        let power = i256::from_i128(10).checked_pow(u32::try_from(scale).ok()?)?;
        (self.checked_rem(power)? == i256::ZERO).then(|| self.checked_div(power)?.to_i128())?
    }
}

/// The float64 nearest to a decimal number, which is found by writing the number as text and parsing that.
fn parsed(digits: &impl fmt::Display, scale: i8) -> f64 {
    format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

fn decimals<D: DecimalType>(array: &ArrayRef, scale: i8, to: &DataType) -> Result<Cast>
where
    D::Native: Digits,
{
    let decimals = array.as_primitive::<D>();
    if to.is_floating() {
        let numbers: Float64Array = decimals.unary(|digits| digits.float(scale));
        return cast_values(&(Arc::new(numbers) as ArrayRef), to);
    }
    let numbers: Decimal128Array = decimals.unary(|digits| digits.whole(scale).unwrap_or(NOWHERE));
    convert_to!(to, &numbers, Decimal128Type, |value| value)
}

/// Casts texts to numbers. The whole text must be a number.
fn texts(array: &ArrayRef, to: &DataType) -> Result<Cast> {
    let texts = array.as_string::<i64>();
    if to.is_integer() {
        let each = texts.iter().map(|text| text.map(|text| text.parse().unwrap_or(NOWHERE)));
        return convert_to!(to, &each.collect::<Decimal128Array>(), Decimal128Type, |value| value);
    }
    let mut unfit = Vec::new();
    let each = texts.iter().enumerate().map(|(row, text)| {
        let number = number(text?);
        if number.is_none() {
            unfit.push(row);
        }
        Some(number.unwrap_or_default())
    });
    let numbers: ArrayRef = Arc::new(each.collect::<Float64Array>());
    let (cast, too_large) = cast_values(&numbers, to)?;
    unfit.extend(too_large);
    unfit.sort_unstable();
    Ok((cast, unfit))
}

/// Parses a text as a number. Returns `None` for any other text, and for a number too large for a float64,
/// which Rust parses as infinity.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())).then_some(number)
}

/// A value as error messages show it.
pub(super) fn shown(values: &dyn Array, at: usize) -> String {
    fn decimal<D: DecimalType>(values: &dyn Array, at: usize) -> String {
        let decimals = values.as_primitive::<D>();
        D::format_decimal(decimals.value(at), decimals.precision(), decimals.scale())
    }
    macro_rules! number {
        ($type:ty) => {
            format!("{:?}", values.as_primitive::<$type>().value(at))
        };
    }
    match values.data_type() {
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => number!(Float16Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(values, at),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(values, at),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(values, at),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(values, at),
        DataType::LargeUtf8 => {
            let text = values.as_string::<i64>().value(at);
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{:?}…", &text[..end]),
                None => format!("{text:?}"),
            }
        }
        _ => "a value".to_owned(),
    }
}
