//! Types that hold others.

use std::sync::Arc;

use super::datatypes::{DataType, Field, FieldRef};

/// The type with what `each` makes of the fields right inside it; as it is where it has none.
pub(crate) fn with_fields(data_type: &DataType, each: impl Fn(&Field) -> Field) -> DataType {
    let each = |field: &FieldRef| Arc::new(each(field));
    match data_type {
        DataType::List(item) => DataType::List(each(item)),
        DataType::LargeList(item) => DataType::LargeList(each(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(each(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(each).collect()),
        DataType::Map(entries, sorted) => DataType::Map(each(entries), *sorted),
        other => other.clone(),
    }
}
