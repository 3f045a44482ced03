//! The operators of filters, and their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A way to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Op {
    /// `=`
    Eq,
    /// `!=`
    NotEq,
    /// `<`
    Less,
    /// `<=`
    LessEq,
    /// `>`
    Greater,
    /// `>=`
    GreaterEq,
    /// `in`
    In,
    /// `not in`
    NotIn,
}

impl Op {
    /// All operators.
    pub const ALL: [Op; 8] =
        [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq, Op::In, Op::NotIn];

    /// Another way to write [`Op::Eq`].
    const EQ_AS_IN_PYTHON: &str = "==";

    /// The name by which filters are written, in every language: `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Eq => "=",
            Op::NotEq => "!=",
            Op::Less => "<",
            Op::LessEq => "<=",
            Op::Greater => ">",
            Op::GreaterEq => ">=",
            Op::In => "in",
            Op::NotIn => "not in",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Op {
    type Err = Error;

    /// Reads a [name](Op::name), or `==` for `=`; `Invalid` for any other.
    fn from_str(text: &str) -> Result<Self> {
        let named = Op::ALL.into_iter().find(|op| op.name() == text);
        let op = named.or_else(|| (text == Op::EQ_AS_IN_PYTHON).then_some(Op::Eq));
        op.ok_or_else(|| {
            Error::invalid(format!("a filter cannot compare with {text:?}"))
                .hint("use =, ==, !=, <, <=, >, >=, in or not in")
        })
    }
}

impl From<Op> for &'static str {
    fn from(op: Op) -> Self {
        op.name()
    }
}

impl TryFrom<String> for Op {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_has_one_name_in_text_and_json() {
        for op in Op::ALL {
            let json = serde_json::to_string(&op).unwrap();
            assert_eq!(json, format!("\"{op}\""));
            assert_eq!(serde_json::from_str::<Op>(&json).unwrap(), op);
            assert_eq!(op.name().parse::<Op>().unwrap(), op);
        }
        assert_eq!("==".parse::<Op>().unwrap(), Op::Eq);
        assert!(
            "is".parse::<Op>().unwrap_err().to_string().contains("=, ==, !=, <, <=, >, >=, in or not in")
        );
    }
}
