//! Replaces arrays of texts and bytes, at any depth of a column, by others with the same values.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, LargeListArray, ListArray, MapArray};
use forebay_arrow::datatypes::DataType;
use forebay_arrow::error::ArrowError;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;

use super::nested::{fixed_lists, structure};

/// Returns a column in which each array of views (Arrow's form of texts and bytes), at any depth, is replaced
/// by what `exchange` makes of it, an array with the same values.
pub(crate) fn exchange_views(
    array: &ArrayRef,
    exchange: &dyn Fn(&ArrayRef) -> ArrayRef,
) -> std::result::Result<ArrayRef, ArrowError> {
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => exchange(array),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = exchange_views(list.values(), exchange)?;
            Arc::new(ListArray::try_new(item.clone(), list.offsets().clone(), values, nulls)?)
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let values = exchange_views(list.values(), exchange)?;
            Arc::new(LargeListArray::try_new(item.clone(), list.offsets().clone(), values, nulls)?)
        }
        DataType::FixedSizeList(item, length) => {
            let values = exchange_views(array.as_fixed_size_list().values(), exchange)?;
            let (item, rows) = (item.clone(), array.len());
            Arc::new(fixed_lists(item, *length, values, nulls, rows)?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let of_map: ArrayRef = Arc::new(map.entries().clone());
            let values = exchange_views(&of_map, exchange)?.as_struct().clone();
            Arc::new(MapArray::try_new(entries.clone(), map.offsets().clone(), values, nulls, *sorted)?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let columns = columns
                .map(|column| exchange_views(column, exchange))
                .collect::<std::result::Result<_, _>>()?;
            Arc::new(structure(fields.clone(), columns, nulls, array.len())?)
        }
        _ => array.clone(),
    })
}

/// Copies the texts and bytes of a column to memory of their own, so that they no longer keep whole Parquet
/// pages in memory.
pub(crate) fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    let own = |views: &ArrayRef| match views.data_type() {
        DataType::Utf8View => Arc::new(views.as_string_view().gc()) as ArrayRef,
        _ => Arc::new(views.as_binary_view().gc()),
    };
    exchange_views(array, &own).or_fail()
}
