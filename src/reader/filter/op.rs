//! The operators with which filters compare values.

use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// An operator that compares a column with values.
///
/// ```
/// use forebay::filter::Op;
///
/// assert_eq!("<=".parse::<Op>()?, Op::LessEq);
/// assert_eq!(Op::NotIn.name(), "not in");
/// # Ok::<(), forebay::Error>(())
/// ```
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
    /// All operators, in the order of their definition.
    pub const ALL: [Op; 8] =
        [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq, Op::In, Op::NotIn];

    /// Every way to write an operator, in Rust, in Python and on the command line: its [name](Op::name), and
    /// `==` for [`Op::Eq`].
    pub const SPELLINGS: [(&str, Op); 9] = [
        (Op::Eq.name(), Op::Eq),
        ("==", Op::Eq),
        (Op::NotEq.name(), Op::NotEq),
        (Op::Less.name(), Op::Less),
        (Op::LessEq.name(), Op::LessEq),
        (Op::Greater.name(), Op::Greater),
        (Op::GreaterEq.name(), Op::GreaterEq),
        (Op::In.name(), Op::In),
        (Op::NotIn.name(), Op::NotIn),
    ];

    /// The name of the operator in Rust, in Python and on the command line: `=`, `!=`, `<`, `<=`, `>`, `>=`,
    /// `in` or `not in`.
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

impl Op {
    /// The operator that gives the same result if the sides change places; `None` for `in` and `not in`.
    pub(super) fn mirrored(self) -> Option<Op> {
        match self {
            Op::Eq | Op::NotEq => Some(self),
            Op::Less => Some(Op::Greater),
            Op::LessEq => Some(Op::GreaterEq),
            Op::Greater => Some(Op::Less),
            Op::GreaterEq => Some(Op::LessEq),
            Op::In | Op::NotIn => None,
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

    /// Parses a [name](Op::name), or `==` for `=`. Fails with `Invalid` for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let op = Op::SPELLINGS.iter().find(|(spelling, _)| *spelling == text).map(|(_, op)| *op);
        op.ok_or_else(|| {
            let spellings = Op::SPELLINGS.map(|(spelling, _)| spelling).join(", ");
            Error::invalid(format!("a filter cannot compare with {text:?}"))
                .hint(format!("use one of {spellings}"))
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
        for (spelling, op) in Op::SPELLINGS {
            assert_eq!(spelling.parse::<Op>().unwrap(), op);
        }
        let error = "is".parse::<Op>().unwrap_err().to_string();
        assert!(error.contains("one of =, ==, !=, <, <=, >, >=, in, not in"), "{error}");
    }
}
