//! Terms of a filter: comparisons of a column with a value.

use serde::{Deserialize, Serialize};

use super::Op;
use crate::operand::Value;

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
    /// The name of the column.
    pub column: String,
    /// The comparison to make.
    pub op: Op,
    /// The value to compare with: a list for `in` and `not in`, one value for all others.
    pub value: Value,
}

impl Term {
    /// A comparison, which [`build`](crate::LoaderBuilder::build) checks against a data set.
    pub fn new(column: impl Into<String>, op: Op, value: impl Into<Value>) -> Self {
        Term { column: column.into(), op, value: value.into() }
    }

    pub(super) fn test(&self) -> Test<'_> {
        Test { column: &self.column, op: self.op, value: &self.value }
    }
}

/// A term whose parts are borrowed from a [`Term`] or from an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test<'a> {
    pub(super) column: &'a str,
    pub(super) op: Op,
    pub(super) value: &'a Value,
}

impl<'a> Test<'a> {
    /// The values to compare with: one value, or for `in` and `not in` the values of the list.
    pub(super) fn values(&self) -> &'a [Value] {
        match self.value {
            Value::List(values) => values,
            one => std::slice::from_ref(one),
        }
    }
}
