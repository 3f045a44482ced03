//! Why an array has no form in another type.

use super::datatypes::DataType;
use super::error::ArrowError;
use super::names::TypeName;

/// Why an array has no such form.
#[derive(Debug)]
pub enum Trouble {
    /// A value that the type does not hold.
    Value(Misfit),
    /// The two types have nothing in common.
    Types(ArrowError),
}

/// A value that a type does not hold.
#[derive(Debug)]
pub struct Misfit {
    /// The row of the array that it is in.
    pub row: usize,
    /// What the type does not hold, as a clause.
    pub cause: String,
    /// Whether it is a list of another length than all others.
    pub is_length: bool,
}

impl From<ArrowError> for Trouble {
    fn from(error: ArrowError) -> Self {
        Trouble::Types(error)
    }
}

impl Misfit {
    pub(super) fn value(row: usize, value: impl std::fmt::Display, to: &DataType) -> Trouble {
        let cause = format!("{value} does not fit {}", TypeName(to));
        Trouble::Value(Misfit { row, cause, is_length: false })
    }
}

impl Trouble {
    /// The same, of an item in a list.
    pub(super) fn in_list(self, row_of: impl Fn(usize) -> usize) -> Self {
        match self {
            Trouble::Value(misfit) => Trouble::Value(Misfit { row: row_of(misfit.row), ..misfit }),
            Trouble::Types(error) => Trouble::Types(error),
        }
    }
}
