//! The types that a tensor's values can have, and their names in numpy.

use forebay_arrow::datatypes::DataType;
use serde::{Deserialize, Deserializer, Serializer};

/// The types that a tensor's values can have, each with its name in numpy.
pub(super) const TYPES: [(&str, DataType); 12] = [
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
];

/// A type and a shape in the form for errors, such as "float32[3, 4]".
pub(super) fn described(dtype: &DataType, shape: &[usize]) -> String {
    match name_of(dtype) {
        Some(name) => format!("{name}{shape:?}"),
        None => format!("{dtype}{shape:?}"),
    }
}

/// The number of bytes of a value in a slot, where a boolean takes one.
pub(in crate::column) fn value_bytes(dtype: &DataType) -> usize {
    match dtype {
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or(0),
    }
}

/// The name of a type of values; `None` for a type that tensors cannot have.
pub(in crate::column) fn name_of(dtype: &DataType) -> Option<&'static str> {
    TYPES.iter().find(|(_, found)| found == dtype).map(|(name, _)| *name)
}

fn type_of(name: &str) -> Option<DataType> {
    TYPES.into_iter().find(|(found, _)| *found == name).map(|(_, dtype)| dtype)
}

/// Serializes a type as its numpy name.
pub(super) fn write_name<S: Serializer>(dtype: &DataType, serializer: S) -> Result<S::Ok, S::Error> {
    match name_of(dtype) {
        Some(name) => serializer.serialize_str(name),
        None => Err(serde::ser::Error::custom(format!("a tensor of {dtype} values"))),
    }
}

/// Deserializes a type from its numpy name.
pub(in crate::column) fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DataType, D::Error> {
    let given = String::deserialize(deserializer)?;
    type_of(&given).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{given:?} is not one of {}",
            TYPES.map(|(name, _)| name).join(", ")
        ))
    })
}
