//! Reads the values that the listed rows have in the columns that the user asks for.

use std::collections::HashMap;

use forebay::{Dataset, OnBadRow};
use forebay_arrow::array::{Array, ArrayRef, AsArray};
use forebay_arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int64Type, UInt64Type,
};
use forebay_base::{Error, Place, Result};
use forebay_store::catalog::{RowId, RowPlace};
use serde_json::{Map, Value};

/// The column with the ids of rows.
const ROW_ID: &str = "row_id";

/// The values of each row, by column.
pub(super) fn of_rows(
    dataset: &Dataset,
    columns: &[String],
    places: &[RowPlace],
) -> Result<HashMap<RowId, Map<String, Value>>> {
    let mut found = HashMap::new();
    if places.is_empty() {
        return Ok(found);
    }
    let mut builder = dataset.loader().columns(columns.to_vec()).row_id(true).threads(1).epochs(1);
    for name in columns {
        builder = builder.as_stored(name.as_str());
        let catalog = dataset.catalog();
        let data_type = catalog.schema.field(catalog.column(name)?).data_type();
        if let Some(wide) = widened(data_type) {
            builder = builder.cast(name.as_str(), wide);
        } else if !is_shown(data_type) {
            return Err(Error::invalid(format!("a column of {data_type} cannot be shown"))
                .hint("columns of numbers, booleans and text can; the others are read with a loader")
                .at(Place::default().column(name.as_str())));
        }
    }
    let ids = places.iter().map(|place| place.id);
    let loader =
        builder.only_rows(ids).batch_size(places.len() as u64).on_bad_row(OnBadRow::Raise).build()?;
    for batch in loader.epoch(0) {
        let batch = batch?;
        let ids = batch.column_by_name(ROW_ID).map(|ids| ids.as_primitive::<Int64Type>());
        for (row, id) in ids.iter().flat_map(|ids| ids.values().iter()).enumerate() {
            let values = columns
                .iter()
                .filter_map(|name| Some((name.clone(), value(batch.column_by_name(name)?, row))));
            found.insert(RowId::new(*id), values.collect());
        }
    }
    Ok(found)
}

/// The wider type to which numbers are converted when they are read; `None` if the type can be shown as it
/// is.
fn widened(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Some(DataType::Int64),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Some(DataType::UInt64),
        DataType::Float16 => Some(DataType::Float32),
        _ => None,
    }
}

fn is_shown(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Boolean | T::Int64 | T::UInt64 | T::Float32 | T::Float64 | T::Utf8 | T::LargeUtf8 | T::Utf8View
    )
}

fn value(array: &ArrayRef, row: usize) -> Value {
    fn number<T: ArrowPrimitiveType<Native: Into<Value>>>(array: &ArrayRef, row: usize) -> Value {
        array.as_primitive::<T>().value(row).into()
    }
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int64 => number::<Int64Type>(array, row),
        DataType::UInt64 => number::<UInt64Type>(array, row),
        DataType::Float32 => number::<Float32Type>(array, row),
        DataType::Float64 => number::<Float64Type>(array, row),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        _ => Value::Null,
    }
}
