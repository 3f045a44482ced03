//! Terms: a column, an operator and a value.

use serde::{Deserialize, Serialize};

use super::Op;

/// A comparison of a column with a value.
///
/// ```
/// use forebay::filter::{Op, Term};
///
/// let term = Term::new("split", Op::In, vec!["train", "extra"]);
/// assert_eq!((term.column.as_str(), term.op), ("split", Op::In));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Name of the column.
    pub column: String,
    /// How to compare.
    pub op: Op,
    /// The value to compare with: a list for `in` and `not in`, one value for all others.
    pub value: Value,
}

impl Term {
    /// A comparison; [`build`](crate::LoaderBuilder::build) checks it against a data set.
    pub fn new(column: impl Into<String>, op: Op, value: impl Into<Value>) -> Self {
        Term { column: column.into(), op, value: value.into() }
    }

    pub(super) fn test(&self) -> Test<'_> {
        Test { column: &self.column, op: self.op, value: &self.value }
    }
}

/// A term, borrowed from wherever it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test<'a> {
    pub(super) column: &'a str,
    pub(super) op: Op,
    pub(super) value: &'a Value,
}

impl<'a> Test<'a> {
    /// The values to compare with: one, but for `in` and `not in`.
    pub(super) fn values(&self) -> &'a [Value] {
        match self.value {
            Value::List(values) => values,
            one => std::slice::from_ref(one),
        }
    }
}

/// A value to compare with.
///
/// ```
/// use forebay::filter::Value;
///
/// assert_eq!(Value::from(7), Value::Int(7));
/// assert_eq!(Value::from(vec!["a", "b"]), Value::List(vec!["a".into(), "b".into()]));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Compares with booleans.
    Bool(bool),
    /// Compares with integers and floats.
    Int(i64),
    /// The same, for those above `i64::MAX`.
    UInt(u64),
    /// Compares with floats and, exactly, with integers. Never NaN or infinite.
    Float(f64),
    /// Compares with strings and binary, byte by byte, and with dates and times: `2024-05-17`, `2024-05-17T12:30:00.5`, and
    /// in a column with a time zone with an offset, `2024-05-17T12:30:00Z`.
    Text(String),
    /// For `in` and `not in`.
    List(Vec<Value>),
}

impl Value {
    /// The memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let own = size_of::<Value>() as u64;
        match self {
            Value::Text(text) => own + text.len() as u64,
            Value::List(values) => own + values.iter().map(Value::bytes).sum::<u64>(),
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => own,
        }
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
