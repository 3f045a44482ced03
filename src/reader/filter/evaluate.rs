//! A term over the rows of a batch.

use std::cmp::Ordering;

use crate::arrow::array::cast::AsArray;
use crate::arrow::array::{Array, ArrayRef};
use crate::arrow::buffer::BooleanBuffer;
use crate::arrow::datatypes::*;

use super::{Op, Term, Value};
use crate::error::{Error, ErrorKind, Result};

/// Whether a filter compares values of a type at all.
pub(super) fn is_compared(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Utf8View | DataType::BinaryView)
        || data_type.is_integer()
        || data_type.is_floating()
}

/// For each row whether the term holds; null never does. The column must be of a type that [is compared](is_compared).
pub(super) fn term(array: &ArrayRef, term: &Term) -> Result<BooleanBuffer> {
    let matching = match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            rows(values.len(), |row| holds(term, |value| boolean(values.value(row), value)))
        }
        DataType::Int8 => integers::<Int8Type>(array, term),
        DataType::Int16 => integers::<Int16Type>(array, term),
        DataType::Int32 => integers::<Int32Type>(array, term),
        DataType::Int64 => integers::<Int64Type>(array, term),
        DataType::UInt8 => integers::<UInt8Type>(array, term),
        DataType::UInt16 => integers::<UInt16Type>(array, term),
        DataType::UInt32 => integers::<UInt32Type>(array, term),
        DataType::UInt64 => integers::<UInt64Type>(array, term),
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>();
            rows(values.len(), |row| holds(term, |value| float(values.value(row).into(), value)))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            rows(values.len(), |row| holds(term, |value| float(values.value(row).into(), value)))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            rows(values.len(), |row| holds(term, |value| float(values.value(row), value)))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            rows(values.len(), |row| holds(term, |value| bytes(values.value(row).as_bytes(), value)))
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            rows(values.len(), |row| holds(term, |value| bytes(values.value(row), value)))
        }
        other => {
            return Err(Error::new(ErrorKind::Internal, format!("a filter over {other} was let through")));
        }
    };
    Ok(match array.nulls() {
        Some(nulls) => &matching & nulls.inner(),
        None => matching,
    })
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef, term: &Term) -> BooleanBuffer
where
    T::Native: Into<i128>,
{
    let values = array.as_primitive::<T>();
    rows(values.len(), |row| holds(term, |value| integer(values.value(row).into(), value)))
}

fn rows(len: usize, matches: impl FnMut(usize) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(len, matches)
}

/// Whether a term holds for a stored value, given how that compares with the term's: `None` for NaN.
pub(super) fn holds(term: &Term, compare: impl Fn(&Value) -> Option<Ordering>) -> bool {
    let is_in = |value: &Value| match value {
        Value::List(values) => values.iter().any(|value| compare(value) == Some(Ordering::Equal)),
        one => compare(one) == Some(Ordering::Equal),
    };
    let ordered = |wanted: fn(Ordering) -> bool| compare(&term.value).is_some_and(wanted);
    match term.op {
        Op::Eq | Op::In => is_in(&term.value),
        Op::NotEq | Op::NotIn => !is_in(&term.value),
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

/// Exact even where a 64-bit integer has no equal float.
pub(super) fn integer(stored: i128, value: &Value) -> Option<Ordering> {
    match value {
        Value::Int(value) => Some(stored.cmp(&i128::from(*value))),
        Value::Float(value) => {
            let whole = value.floor();
            // Beyond 2^126 the cast saturates at a value that no stored integer reaches.
            let order = stored.cmp(&(whole as i128));
            Some(if order == Ordering::Equal && whole < *value { Ordering::Less } else { order })
        }
        _ => None,
    }
}

pub(super) fn float(stored: f64, value: &Value) -> Option<Ordering> {
    match value {
        // As pyarrow does, and as statistics are compared: in the column's own number type.
        Value::Int(value) => stored.partial_cmp(&(*value as f64)),
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
