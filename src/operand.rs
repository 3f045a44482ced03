//! Numbers that are computed from the columns of a row: a column, a value, or arithmetic on both. Filters
//! compare them, and samples take lengths and costs from them.

mod number;
mod value;

use std::ops::{Add, Div, Mul, Rem, Sub};

use serde::{Deserialize, Serialize};

pub(crate) use number::{Number, apply, literal};
pub use value::Value;

/// One side of a comparison: a column, a value, or arithmetic on numbers.
///
/// Arithmetic is exact on integers and uses 64-bit floats otherwise. `/` always gives a float: infinity or
/// NaN for a division by 0. `%` has the sign of the divisor, as in Python; an integer modulo 0 gives null.
///
/// ```
/// use forebay::filter::col;
///
/// let every_tenth = (col("id") % 10).eq(0);
/// # let _: forebay::Filter = every_tenth.into();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operand {
    /// A column, by its name.
    Column(String),
    /// A value.
    Literal(Value),
    /// Arithmetic on two operands.
    Arithmetic(Box<(Operand, Arithmetic, Operand)>),
}

/// A column, by its name, as one side of a comparison.
pub fn col(name: impl Into<String>) -> Operand {
    Operand::Column(name.into())
}

impl Operand {
    fn arithmetic(self, op: Arithmetic, other: impl Into<Operand>) -> Operand {
        Operand::Arithmetic(Box::new((self, op, other.into())))
    }

    /// Collects the columns of the operand, in the order in which they are named.
    pub(crate) fn columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Operand::Column(name) => names.push(name),
            Operand::Literal(_) => {}
            Operand::Arithmetic(parts) => {
                parts.0.columns(names);
                parts.2.columns(names);
            }
        }
    }
}

/// An arithmetic operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arithmetic {
    /// The sum of both numbers.
    #[serde(rename = "+")]
    Add,
    /// The difference of both numbers.
    #[serde(rename = "-")]
    Subtract,
    /// The product of both numbers.
    #[serde(rename = "*")]
    Multiply,
    /// The quotient of both numbers, which is a float even for integers.
    #[serde(rename = "/")]
    Divide,
    /// The quotient of both numbers, rounded down.
    #[serde(rename = "//")]
    FloorDivide,
    /// The remainder of the division, with the sign of the divisor.
    #[serde(rename = "%")]
    Remainder,
}

impl Arithmetic {
    /// The sign of the operation, in Python and in JSON: `+`, `-`, `*`, `/`, `//` or `%`.
    pub const fn name(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::FloorDivide => "//",
            Arithmetic::Remainder => "%",
        }
    }
}

impl<V: Into<Value>> From<V> for Operand {
    fn from(value: V) -> Self {
        Operand::Literal(value.into())
    }
}

impl<O: Into<Operand>> Add<O> for Operand {
    type Output = Operand;

    fn add(self, other: O) -> Operand {
        self.arithmetic(Arithmetic::Add, other)
    }
}

impl<O: Into<Operand>> Sub<O> for Operand {
    type Output = Operand;

    fn sub(self, other: O) -> Operand {
        self.arithmetic(Arithmetic::Subtract, other)
    }
}

impl<O: Into<Operand>> Mul<O> for Operand {
    type Output = Operand;

    fn mul(self, other: O) -> Operand {
        self.arithmetic(Arithmetic::Multiply, other)
    }
}

impl<O: Into<Operand>> Div<O> for Operand {
    type Output = Operand;

    fn div(self, other: O) -> Operand {
        self.arithmetic(Arithmetic::Divide, other)
    }
}

impl<O: Into<Operand>> Rem<O> for Operand {
    type Output = Operand;

    fn rem(self, other: O) -> Operand {
        self.arithmetic(Arithmetic::Remainder, other)
    }
}
