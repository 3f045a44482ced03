//! Maps the types of stored columns to the types that batches deliver.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::nested::with_fields;

/// The field with which a batch delivers a stored field.
pub(crate) fn delivered(field: &Field) -> FieldRef {
    Arc::new(delivered_field(field))
}

fn delivered_field(field: &Field) -> Field {
    Field::new(field.name(), delivered_type(field.data_type()), field.is_nullable())
}

pub(super) fn delivered_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::Utf8 => DataType::LargeUtf8,
        DataType::BinaryView | DataType::Binary => DataType::LargeBinary,
        DataType::List(item) => DataType::LargeList(delivered(item)),
        other => with_fields(other, delivered_field),
    }
}
