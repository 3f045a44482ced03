//! Makes arrays of structures and of fixed-size lists, and marks them null where a required child is null.

use forebay_arrow::array::{Array, ArrayRef, FixedSizeListArray, StructArray};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{FieldRef, Fields};
use forebay_arrow::error::ArrowError;

/// Makes an array of structures. A structure is also null where a required field is null, because the Parquet
/// crate marks a null structure as null, but not the structures that are nested in it.
pub(super) fn structure(
    fields: Fields,
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<StructArray, ArrowError> {
    let required = fields.iter().zip(&columns).filter(|(field, _)| !field.is_nullable());
    let nulls = required.fold(nulls, |nulls, (_, column)| NullBuffer::union(nulls.as_ref(), column.nulls()));
    StructArray::try_new_with_length(fields, columns, nulls, rows)
}

/// Makes an array of fixed-size lists. A list is also null where one of its required items is null.
pub(super) fn fixed_lists(
    item: FieldRef,
    length: i32,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<FixedSizeListArray, ArrowError> {
    let missing = values.nulls().filter(|_| !item.is_nullable());
    let lists = missing.map(|missing| {
        let items = length.max(0) as usize;
        let is_there = |row: usize| (row * items..(row + 1) * items).all(|at| missing.is_valid(at));
        NullBuffer::from_iter((0..rows).map(is_there))
    });
    let nulls = NullBuffer::union(nulls.as_ref(), lists.as_ref());
    FixedSizeListArray::try_new_with_length(item, length, values, nulls, rows)
}
