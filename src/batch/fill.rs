//! Values that replace nulls.

mod serial;

use std::fmt;
use std::sync::Arc;

use forebay_arrow::datatypes::DataType;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};

use super::layout::is_fixed;
use super::number::{Number, pattern};

/// The value that replaces the nulls of a column: a number, a text or bytes, which must fit the column's
/// type.
///
/// ```
/// use forebay::column::Fill;
///
/// assert_eq!(Fill::from(-1.0), Fill::Number(-1.0));
/// assert_eq!(Fill::from("unknown"), Fill::Text("unknown".into()));
/// assert_eq!(Fill::from(u64::MAX), Fill::Integer(u64::MAX.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fill {
    /// A number, for columns of numbers, booleans (0 or 1) and times (in the column's own unit), for
    /// fixed-length binary (each byte becomes this number), and for lists of all these.
    Number(f64),
    /// An integer that a float64 cannot represent exactly. `Fill::from` makes this variant only for such
    /// integers.
    Integer(i128),
    /// A text, for columns of text.
    Text(Arc<str>),
    /// Bytes, for binary columns. For fixed-length binary, their number must be the column's length.
    Bytes(Arc<[u8]>),
}

impl From<f64> for Fill {
    fn from(number: f64) -> Self {
        Fill::Number(number)
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Fill {
            fn from(number: $integer) -> Self {
                Fill::whole(number.into())
            }
        })*
    };
}

from_integers! { i32, u32, i64, u64 }

impl From<&str> for Fill {
    fn from(text: &str) -> Self {
        Fill::Text(text.into())
    }
}

impl From<String> for Fill {
    fn from(text: String) -> Self {
        Fill::Text(text.into())
    }
}

impl From<Vec<u8>> for Fill {
    fn from(bytes: Vec<u8>) -> Self {
        Fill::Bytes(bytes.into())
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::Number(number) => write!(f, "{}", Number::Float(*number)),
            Fill::Integer(number) => write!(f, "{number}"),
            Fill::Text(text) => write!(f, "{text:?}"),
            Fill::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
        }
    }
}

impl Fill {
    /// Returns an error if the fill is not a value of `data_type`.
    pub(crate) fn check(&self, data_type: &DataType) -> Result<()> {
        let unfit = || {
            Error::invalid(format!("fill_null value {self} is not a value of type {}", TypeName(data_type)))
        };
        match (data_type, self) {
            (DataType::Utf8View, Fill::Text(_)) | (DataType::BinaryView, Fill::Bytes(_)) => Ok(()),
            (DataType::Utf8View, _) => Err(unfit().hint("give a text")),
            (DataType::BinaryView, _) => Err(unfit().hint("give bytes")),
            (DataType::FixedSizeBinary(length), Fill::Bytes(bytes)) if bytes.len() == *length as usize => {
                Ok(())
            }
            (DataType::FixedSizeBinary(length), Fill::Bytes(_) | Fill::Text(_)) => {
                Err(unfit().hint(format!("give {length} bytes, or a number from 0 to 255 for each byte")))
            }
            (DataType::List(item) | DataType::LargeList(item), _) => self.check(item.data_type()),
            (DataType::FixedSizeList(item, _), _)
                if is_fixed(item.data_type()) || *item.data_type() == DataType::Boolean =>
            {
                self.check(item.data_type())
            }
            (DataType::Struct(_) | DataType::Map(..) | DataType::FixedSizeList(..) | DataType::Null, _) => {
                Err(unfit().hint("leave the column out of `fill_null`: as an Arrow array it may have nulls"))
            }
            (DataType::Boolean, _) => match self.number() {
                Some(Number::Float(0.0 | 1.0) | Number::Whole(0 | 1)) => Ok(()),
                Some(_) => Err(unfit().hint("give 0 or 1")),
                None => Err(unfit()),
            },
            _ => match self.number() {
                Some(number) => pattern(data_type, number).map(drop).map_err(|_| unfit()),
                None => Err(unfit()),
            },
        }
    }

    /// The fill as a number; `None` if it is text or bytes.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Fill::Number(number) => Some(Number::Float(*number)),
            Fill::Integer(number) => Some(Number::Whole(*number)),
            _ => None,
        }
    }

    /// The fill for an integer: a float64 if that is exact. So equal integers give equal fills, whichever
    /// Rust type they have.
    fn whole(number: i128) -> Self {
        let float = number as f64;
        if float as i128 == number { Fill::Number(float) } else { Fill::Integer(number) }
    }

    /// The bytes of a text or binary fill.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Fill::Number(_) | Fill::Integer(_) => None,
            Fill::Text(text) => Some(text.as_bytes()),
            Fill::Bytes(bytes) => Some(bytes),
        }
    }
}
