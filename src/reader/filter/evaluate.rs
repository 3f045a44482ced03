//! Evaluates a term (a column, an operator and a value) over the rows of a batch.
//!
//! `arrow-ord` compares only columns of one type, and orders floats so that NaN equals itself. Here numbers
//! of different types are compared exactly, and NaN equals nothing.

use std::cmp::Ordering;

use forebay_arrow::array::cast::AsArray;
use forebay_arrow::array::{Array, ArrayRef, downcast_integer, downcast_temporal};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::datatypes::*;
use forebay_base::{Error, ErrorKind, Result};

use super::term::Test;
use super::truth::Truth;
use super::{Op, times};
use crate::operand::Value;

/// Whether a filter can compare values of this type.
pub(super) fn is_compared(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Utf8View | DataType::BinaryView)
        || is_number(data_type)
        || times::unit(data_type).is_some()
}

pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}

/// Says for each row whether the term is true. The result for a null is unknown, except that `in` is false.
/// The column must be of a type that [a filter can compare](is_compared).
pub(super) fn term(array: &ArrayRef, term: Test<'_>) -> Result<Truth> {
    macro_rules! integers {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            rows(term, array, |row, value| integer(values[row].into(), value))
        }};
    }
    macro_rules! moments {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            moments(term, array, |row| values[row].into())?
        }};
    }
    let matching = match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            rows(term, array, |row, value| boolean(values.value(row), value))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            rows(term, array, |row, value| bytes(values.value(row).as_bytes(), value))
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            rows(term, array, |row, value| bytes(values.value(row), value))
        }
        other => match floats(array) {
            Some(values) => rows(term, array, |row, value| float(values(row), value)),
            None => downcast_integer! {
                other => (integers),
                _ if times::unit(other).is_some() => downcast_temporal! {
                    other => (moments),
                    _ => return Err(let_through(other))
                },
                _ => return Err(let_through(other))
            },
        },
    };
    let truth = Truth::of_values(matching, array.nulls());
    Ok(if term.op == Op::In { truth.or_false() } else { truth })
}

fn let_through(data_type: &DataType) -> Error {
    Error::new(ErrorKind::Internal, format!("a filter over {data_type} was let through"))
}

/// The largest number of values in a list that are compared one by one. Longer lists are sorted and searched.
const MAX_COMPARED_VALUES: usize = 8;

fn rows(
    term: Test<'_>,
    array: &ArrayRef,
    compare: impl Fn(usize, &Value) -> Option<Ordering>,
) -> BooleanBuffer {
    let values = term.values();
    if values.len() > MAX_COMPARED_VALUES {
        let mut sorted: Vec<&Value> = values.iter().collect();
        sorted.sort_unstable_by(|one, other| order(one, other));
        let found = |row: usize| {
            // NaN equals no value, so the search must not find it.
            let order = |value: &&Value| compare(row, value).map_or(Ordering::Greater, Ordering::reverse);
            sorted.binary_search_by(order).is_ok()
        };
        return BooleanBuffer::collect_bool(array.len(), |row| found(row) == (term.op == Op::In));
    }
    BooleanBuffer::collect_bool(array.len(), |row| holds(term.op, values, |value| compare(row, value)))
}

/// The order in which the values of a list are sorted, so that a binary search finds stored values in it.
fn order(one: &Value, other: &Value) -> Ordering {
    match one {
        Value::Bool(one) => boolean(*one, other),
        Value::Int(one) => integer((*one).into(), other),
        Value::UInt(one) => integer((*one).into(), other),
        Value::Float(one) => float(*one, other),
        Value::Text(one) => bytes(one.as_bytes(), other),
        Value::List(_) => None,
    }
    .unwrap_or(Ordering::Equal)
}

/// Evaluates a term over dates or times like [`rows`]. The values of the term are texts, such as
/// `2024-05-17`.
fn moments(term: Test<'_>, array: &ArrayRef, stored: impl Fn(usize) -> i128) -> Result<BooleanBuffer> {
    let data_type = array.data_type();
    let unit = times::unit(data_type).unwrap_or(1);
    let values = term.values().iter().map(|value| moment(value, data_type));
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(BooleanBuffer::collect_bool(array.len(), |row| {
        let stored = stored(row).saturating_mul(unit);
        holds(term.op, &values, |value| Some(stored.cmp(value)))
    }))
}

/// A date or time that a term has as text, in nanoseconds since 1970.
pub(super) fn moment(value: &Value, data_type: &DataType) -> Result<i128> {
    match value {
        Value::Text(text) => times::nanoseconds(text, data_type),
        _ => Err(let_through(data_type)),
    }
}

/// A function that returns the integer in a row of the column; `None` if the column has no integers.
pub(super) fn whole(array: &ArrayRef) -> Option<Box<dyn Fn(usize) -> i128 + '_>> {
    macro_rules! value {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            Some(Box::new(move |row| values[row].into()))
        }};
    }
    downcast_integer! {
        array.data_type() => (value),
        _ => None
    }
}

/// A function that returns the float in a row of the column; `None` if the column has no floats.
pub(super) fn floats(array: &ArrayRef) -> Option<Box<dyn Fn(usize) -> f64 + '_>> {
    macro_rules! value {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            Some(Box::new(move |row| values[row].into()))
        }};
    }
    match array.data_type() {
        DataType::Float16 => value!(Float16Type),
        DataType::Float32 => value!(Float32Type),
        DataType::Float64 => value!(Float64Type),
        _ => None,
    }
}

/// Whether a stored value satisfies a comparison with `values`. `compare` compares the stored value with one
/// of `values`, and returns `None` for NaN.
pub(super) fn holds<V>(op: Op, values: &[V], compare: impl Fn(&V) -> Option<Ordering>) -> bool {
    let is_in = || values.iter().any(|value| compare(value) == Some(Ordering::Equal));
    let ordered = |wanted: fn(Ordering) -> bool| values.first().and_then(&compare).is_some_and(wanted);
    match op {
        Op::Eq | Op::In => is_in(),
        Op::NotEq | Op::NotIn => !is_in(),
        Op::Less => ordered(Ordering::is_lt),
        Op::LessEq => ordered(Ordering::is_le),
        Op::Greater => ordered(Ordering::is_gt),
        Op::GreaterEq => ordered(Ordering::is_ge),
    }
}

pub(super) fn boolean(stored: bool, value: &Value) -> Option<Ordering> {
    match value {
        Value::Bool(value) => Some(stored.cmp(value)),
        _ => None,
    }
}

pub(super) fn integer(stored: i128, value: &Value) -> Option<Ordering> {
    match value {
        Value::Int(value) => Some(stored.cmp(&i128::from(*value))),
        Value::UInt(value) => Some(stored.cmp(&i128::from(*value))),
        Value::Float(value) => whole_with_float(stored, *value),
        _ => None,
    }
}

/// Compares an integer with a float exactly, even if no float equals the integer.
pub(super) fn whole_with_float(stored: i128, value: f64) -> Option<Ordering> {
    if value.is_nan() {
        return None;
    }
    let whole = value.floor();
    // A float outside the range of `i128` is cast to one of its ends, which no stored integer reaches.
    let order = stored.cmp(&(whole as i128));
    Some(if order == Ordering::Equal && whole < value { Ordering::Less } else { order })
}

pub(super) fn float(stored: f64, value: &Value) -> Option<Ordering> {
    match value {
        Value::Int(value) => whole_with_float((*value).into(), stored).map(Ordering::reverse),
        Value::UInt(value) => whole_with_float((*value).into(), stored).map(Ordering::reverse),
        Value::Float(value) => stored.partial_cmp(value),
        _ => None,
    }
}

pub(super) fn bytes(stored: &[u8], value: &Value) -> Option<Ordering> {
    match value {
        Value::Text(value) => Some(stored.cmp(value.as_bytes())),
        _ => None,
    }
}
