//! The numpy types of fields.

use std::fmt;

use Dtype::*;

/// The numpy type of a field's values.
///
/// Byte order, the length of texts (`U5`) and the unit of times (`M8[ns]`) are left out, because arrays and
/// columns have them in their own headers. Python's `int`, `float`, `bool`, `str` and `bytes` are read as the
/// numpy types that numpy converts them to.
///
/// ```
/// use forebay_petastorm::Dtype;
///
/// assert_eq!(Dtype::Float32.to_string(), "float32");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// `numpy.bool_`
    Bool,
    /// `numpy.int8`
    Int8,
    /// `numpy.int16`
    Int16,
    /// `numpy.int32`
    Int32,
    /// `numpy.int64`
    Int64,
    /// `numpy.uint8`
    UInt8,
    /// `numpy.uint16`
    UInt16,
    /// `numpy.uint32`
    UInt32,
    /// `numpy.uint64`
    UInt64,
    /// `numpy.float16`
    Float16,
    /// `numpy.float32`
    Float32,
    /// `numpy.float64`
    Float64,
    /// `numpy.complex64`
    Complex64,
    /// `numpy.complex128`
    Complex128,
    /// `numpy.str_`, earlier `numpy.unicode_`
    Str,
    /// `numpy.bytes_`, earlier `numpy.string_`
    Bytes,
    /// `numpy.datetime64`
    Datetime64,
    /// `numpy.timedelta64`
    Timedelta64,
    /// `numpy.object_`
    Object,
    /// `decimal.Decimal`, the only type that is not a numpy type
    Decimal,
}

/// The names of the types in numpy, including older names and aliases. The first name of each type is the one
/// that is displayed.
const NAMES: [(&str, Dtype); 27] = [
    ("bool_", Bool),
    ("bool", Bool),
    ("int8", Int8),
    ("int16", Int16),
    ("int32", Int32),
    ("intc", Int32),
    ("int64", Int64),
    ("int_", Int64),
    ("longlong", Int64),
    ("uint8", UInt8),
    ("uint16", UInt16),
    ("uint32", UInt32),
    ("uintc", UInt32),
    ("uint64", UInt64),
    ("ulonglong", UInt64),
    ("float16", Float16),
    ("float32", Float32),
    ("float64", Float64),
    ("complex64", Complex64),
    ("complex128", Complex128),
    ("str_", Str),
    ("unicode_", Str),
    ("bytes_", Bytes),
    ("string_", Bytes),
    ("datetime64", Datetime64),
    ("timedelta64", Timedelta64),
    ("object_", Object),
];

impl Dtype {
    /// The type with this name in numpy.
    pub(crate) fn of_numpy(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
    }

    /// The type that `numpy.dtype(code)` makes, where `code` is a string such as `f4` or `U5`.
    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "b1" => Bool,
            "i1" => Int8,
            "i2" => Int16,
            "i4" => Int32,
            "i8" => Int64,
            "u1" => UInt8,
            "u2" => UInt16,
            "u4" => UInt32,
            "u8" => UInt64,
            "f2" => Float16,
            "f4" => Float32,
            "f8" => Float64,
            "c8" => Complex64,
            "c16" => Complex128,
            "M8" => Datetime64,
            "m8" => Timedelta64,
            "O8" | "O4" => Object,
            _ if is_text(code, 'U') => Str,
            _ if is_text(code, 'S') => Bytes,
            _ => return None,
        })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, dtype)| dtype == self).map_or("Decimal", |(name, _)| name);
        f.write_str(name)
    }
}

/// Whether `code` is `letter` followed by digits, which are the length of a text.
fn is_text(code: &str, letter: char) -> bool {
    code.strip_prefix(letter).is_some_and(|length| length.bytes().all(|byte| byte.is_ascii_digit()))
}
