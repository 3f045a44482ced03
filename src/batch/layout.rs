//! The memory layout of values of one width.

use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

/// The number of bytes of a value, and the number of values in a row. Fixed-length binary has one-byte
/// values.
pub(super) fn layout(data_type: &DataType) -> Result<(usize, usize)> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => Ok((1, *bytes as usize)),
        _ => data_type
            .primitive_width()
            .map(|width| (width, 1))
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("{data_type} has no fixed width"))),
    }
}

/// Whether the values of a type all have one width.
pub(super) fn is_fixed(data_type: &DataType) -> bool {
    layout(data_type).is_ok()
}
