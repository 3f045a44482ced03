//! Values that a user gives in an expression: numbers, texts, booleans, and lists of them.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A value to compare with.
///
/// ```
/// use forebay::filter::Value;
///
/// assert_eq!(Value::from(7), Value::Int(7));
/// assert_eq!(Value::from(vec!["a", "b"]), Value::List(vec!["a".into(), "b".into()]));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A boolean, compared with booleans.
    Bool(bool),
    /// An integer, compared with integers and floats.
    Int(i64),
    /// An integer above `i64::MAX`, compared with integers and floats.
    UInt(u64),
    /// A float, compared with floats and, exactly, with integers. It is never NaN or infinite.
    Float(f64),
    /// A text, compared with strings and binary, byte by byte, and with dates and times: `2024-05-17`,
    /// `2024-05-17T12:30:00.5`, and, in a column with a time zone, with an offset: `2024-05-17T12:30:00Z`.
    Text(String),
    /// A list of values, for `in` and `not in`.
    List(Vec<Value>),
}

impl Value {
    /// The memory that the value takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of::<Value>() as u64;
        match self {
            Value::Text(text) => own + text.len() as u64,
            Value::List(values) => own + values.iter().map(Value::bytes).sum::<u64>(),
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => own,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Builds the value while it is parsed. The code that serde derives for untagged enums would hold a list in
/// memory twice.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean, a number, a text or a list of them")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        values.shrink_to_fit();
        Ok(Value::List(values))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Value::Int(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Value::UInt(value), Value::Int)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}
