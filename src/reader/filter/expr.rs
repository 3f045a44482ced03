//! Conditions as expressions: comparisons of columns, which are combined with `&`, `|` and `!`.

use std::ops::{BitAnd, BitOr, Not};

use serde::{Deserialize, Serialize};

use super::op::Op;
use super::sample::Sample;
use super::term::Test;
use crate::operand::{Operand, Value};

/// A condition on rows: comparisons, combined with `&`, `|` and `!`.
///
/// Conditions follow SQL: a comparison with null is neither true nor false, and a row is read only if the
/// whole condition is true. For example, `!col("x").lt(5)` is not true if `x` is null. Only
/// [`in_list`](Operand::in_list) is false for null, and [`is_null`](Operand::is_null) is always true or
/// false.
///
/// ```
/// use forebay::filter::{col, row_fraction};
///
/// let large = col("width").gt_eq(224) & (col("height") * 2).gt_eq(col("width"));
/// let labelled = !col("label").is_null();
/// let train = large & labelled & row_fraction(0.9, 1);
/// # let _: forebay::Filter = train.into();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Expr(pub(super) Node);

/// The serialized form of a condition. Saved positions contain it, or a hash of it, to recognise the filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Compare(Operand, Op, Operand),
    IsNull(Operand),
    StartsWith(Operand, String),
    Sample(Sample),
}

/// Selects a share of the rows by a hash of each row's place, which is the path of its file in the data set
/// and its index in that file.
///
/// The same rows are selected in every run and on every rank, and other rows with another seed;
/// `!row_fraction(0.9, 1)` selects the remaining rows. `fraction` is from 0 to 1. The number of rows is
/// approximate; [`Loader::len`](crate::Loader::len) has the exact number.
pub fn row_fraction(fraction: f64, seed: u64) -> Expr {
    Expr(Node::Sample(Sample::new(fraction, seed)))
}

/// Selects a share of the rows like [`row_fraction`], but by a hash of the value in a column of integers,
/// texts or binary. Rows with the same value are selected together, or none of them is.
pub fn row_fraction_by(column: impl Into<String>, fraction: f64, seed: u64) -> Expr {
    Expr(Node::Sample(Sample::new(fraction, seed).by(column.into())))
}

/// Comparisons of an operand with another.
impl Operand {
    /// True if both sides are equal.
    pub fn eq(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::Eq, other)
    }

    /// True if both sides are not equal. NaN is not equal to anything.
    pub fn not_eq(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::NotEq, other)
    }

    /// True if this side is less than the other.
    pub fn lt(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::Less, other)
    }

    /// True if this side is less than or equal to the other.
    pub fn lt_eq(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::LessEq, other)
    }

    /// True if this side is greater than the other.
    pub fn gt(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::Greater, other)
    }

    /// True if this side is greater than or equal to the other.
    pub fn gt_eq(self, other: impl Into<Operand>) -> Expr {
        self.compare(Op::GreaterEq, other)
    }

    /// True if this side equals one of `values`, and false if it is null.
    pub fn in_list<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Expr {
        self.compare(Op::In, Value::List(values.into_iter().map(Into::into).collect()))
    }

    /// True if this side is null: a column of any type, or arithmetic with a null result.
    pub fn is_null(self) -> Expr {
        Expr(Node::IsNull(self))
    }

    /// True if a text or binary value begins with `prefix`. Only columns can be tested.
    pub fn starts_with(self, prefix: impl Into<String>) -> Expr {
        Expr(Node::StartsWith(self, prefix.into()))
    }

    fn compare(self, op: Op, other: impl Into<Operand>) -> Expr {
        Expr(Node::Compare(self, op, other.into()))
    }
}

impl BitAnd for Expr {
    type Output = Expr;

    fn bitand(self, other: Expr) -> Expr {
        let parts = |node| match node {
            Node::And(parts) => parts,
            one => vec![one],
        };
        Expr(Node::And([parts(self.0), parts(other.0)].concat()))
    }
}

impl BitOr for Expr {
    type Output = Expr;

    fn bitor(self, other: Expr) -> Expr {
        let parts = |node| match node {
            Node::Or(parts) => parts,
            one => vec![one],
        };
        Expr(Node::Or([parts(self.0), parts(other.0)].concat()))
    }
}

impl Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        Expr(Node::Not(Box::new(self.0)))
    }
}

impl Node {
    /// Collects the columns of the condition, in the order in which they are named.
    pub(super) fn columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Node::And(parts) | Node::Or(parts) => parts.iter().for_each(|part| part.columns(names)),
            Node::Not(part) => part.columns(names),
            Node::Compare(left, _, right) => {
                left.columns(names);
                right.columns(names);
            }
            Node::IsNull(operand) | Node::StartsWith(operand, _) => operand.columns(names),
            Node::Sample(sample) => names.extend(sample.column()),
        }
    }

    /// Calls `each` for every comparison of a column with a value.
    pub(super) fn terms<'a>(&'a self, each: &mut dyn FnMut(Test<'a>)) {
        match self {
            Node::And(parts) | Node::Or(parts) => parts.iter().for_each(|part| part.terms(each)),
            Node::Not(part) => part.terms(each),
            other => other.test().into_iter().for_each(each),
        }
    }

    /// The comparison of a column with a value as a term, in which the column is on the left; `None` for
    /// other conditions.
    pub(super) fn test(&self) -> Option<Test<'_>> {
        match self {
            Node::Compare(Operand::Column(column), op, Operand::Literal(value)) => {
                Some(Test { column, op: *op, value })
            }
            Node::Compare(Operand::Literal(value), op, Operand::Column(column)) => {
                Some(Test { column, op: op.mirrored()?, value })
            }
            _ => None,
        }
    }
}
