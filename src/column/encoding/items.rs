//! Access to the single values of a column that is encoded, whatever its type.

use std::fmt;

use forebay_arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringViewArray,
};
use forebay_arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_base::{Error, ErrorKind, Result};

use crate::batch::view_bytes;

/// The largest number of bytes of a value that an error shows.
const SHOWN: usize = 100;

/// A value of a column that is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// The bytes of a text or a binary value.
    Bytes(&'a [u8]),
    Signed(i64),
    Unsigned(u64),
}

impl Item<'_> {
    /// Applies the hash function `with` to the bytes of a value. An integer is hashed as eight little-endian
    /// bytes.
    pub(super) fn hashed(self, with: impl FnOnce(&[u8]) -> u64) -> u64 {
        match self {
            Item::Bytes(bytes) => with(bytes),
            Item::Signed(number) => with(&number.to_le_bytes()),
            Item::Unsigned(number) => with(&number.to_le_bytes()),
        }
    }
}

impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Item::Signed(number) => write!(f, "{number}"),
            Item::Unsigned(number) => write!(f, "{number}"),
            Item::Bytes(bytes) => {
                // The bytes are copied first, because other processes may change memory-mapped bytes at any
                // time.
                let shown = bytes[..bytes.len().min(SHOWN)].to_vec();
                let more = if shown.len() < bytes.len() { "…" } else { "" };
                match std::str::from_utf8(&shown) {
                    Ok(text) => write!(f, "{text:?}{more}"),
                    // The limit of bytes cut off a part of the last character, which is left out.
                    Err(error) if error.error_len().is_none() && !more.is_empty() => {
                        write!(f, "{:?}{more}", String::from_utf8_lossy(&shown[..error.valid_up_to()]))
                    }
                    Err(_) => write!(f, "b\"{}\"{more}", shown.escape_ascii()),
                }
            }
        }
    }
}

/// The values of an array, whose type is that of a stored or of a gathered column.
pub(super) enum Items<'a> {
    Texts(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    LargeTexts(&'a LargeStringArray),
    LargeBinary(&'a LargeBinaryArray),
    Signed(Box<dyn Fn(usize) -> i64 + 'a>, &'a dyn Array),
    Unsigned(Box<dyn Fn(usize) -> u64 + 'a>, &'a dyn Array),
    /// Arrow's type null, which has no values.
    Nulls,
}

impl<'a> Items<'a> {
    /// Whether values of a stored type can be encoded.
    pub(super) fn are_in(data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) | DataType::Null => true,
            other => other.is_integer(),
        }
    }

    pub(super) fn new(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8View => Items::Texts(array.as_string_view()),
            DataType::BinaryView => Items::Binary(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Items::Fixed(array.as_fixed_size_binary()),
            DataType::LargeUtf8 => Items::LargeTexts(array.as_string()),
            DataType::LargeBinary => Items::LargeBinary(array.as_binary()),
            DataType::Int8 => signed::<Int8Type>(array),
            DataType::Int16 => signed::<Int16Type>(array),
            DataType::Int32 => signed::<Int32Type>(array),
            DataType::Int64 => signed::<Int64Type>(array),
            DataType::UInt8 => unsigned::<UInt8Type>(array),
            DataType::UInt16 => unsigned::<UInt16Type>(array),
            DataType::UInt32 => unsigned::<UInt32Type>(array),
            DataType::UInt64 => unsigned::<UInt64Type>(array),
            DataType::Null => Items::Nulls,
            other => return Err(Error::new(ErrorKind::Internal, format!("{other} values are not encoded"))),
        })
    }

    /// The value of a row; `None` for a null.
    pub(super) fn get(&self, row: usize) -> Option<Item<'a>> {
        match self {
            Items::Texts(array) => array.is_valid(row).then(|| Item::Bytes(view_bytes(array, row))),
            Items::Binary(array) => array.is_valid(row).then(|| Item::Bytes(view_bytes(array, row))),
            Items::Fixed(array) => array.is_valid(row).then(|| Item::Bytes(array.value(row))),
            Items::LargeTexts(array) => array.is_valid(row).then(|| Item::Bytes(array.value(row).as_bytes())),
            Items::LargeBinary(array) => array.is_valid(row).then(|| Item::Bytes(array.value(row))),
            Items::Signed(value, array) => array.is_valid(row).then(|| Item::Signed(value(row))),
            Items::Unsigned(value, array) => array.is_valid(row).then(|| Item::Unsigned(value(row))),
            Items::Nulls => None,
        }
    }
}

fn signed<'a, T: ArrowPrimitiveType<Native: Into<i64>>>(array: &'a dyn Array) -> Items<'a> {
    let values: &'a PrimitiveArray<T> = array.as_primitive();
    Items::Signed(Box::new(move |row| values.value(row).into()), array)
}

fn unsigned<'a, T: ArrowPrimitiveType<Native: Into<u64>>>(array: &'a dyn Array) -> Items<'a> {
    let values: &'a PrimitiveArray<T> = array.as_primitive();
    Items::Unsigned(Box::new(move |row| values.value(row).into()), array)
}
