//! The reasons why an array cannot be converted.

use super::datatypes::DataType;
use super::error::ArrowError;
use super::names::TypeName;

/// The reason why an array cannot be converted.
#[derive(Debug)]
pub enum Trouble {
    /// The target type cannot hold a value of the array.
    Value(Misfit),
    /// The two types have nothing in common.
    Types(ArrowError),
}

/// A value of an array that the target type cannot hold.
#[derive(Debug)]
pub struct Misfit {
    /// The row of the value in the array.
    pub row: usize,
    /// The value and the type that cannot hold it, as a clause.
    pub cause: String,
    /// Whether the value is a list of the wrong length, because the target type has lists of one fixed
    /// length.
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
    /// Replaces the index of an item by the row of the list that has it.
    pub(super) fn in_list(self, row_of: impl Fn(usize) -> usize) -> Self {
        match self {
            Trouble::Value(misfit) => Trouble::Value(Misfit { row: row_of(misfit.row), ..misfit }),
            Trouble::Types(error) => Trouble::Types(error),
        }
    }
}
