//! Finds rows with nulls in columns that become arrays without nulls, such as numpy arrays.

use forebay_arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use forebay_arrow::datatypes::DataType;

/// Whether columns of this type become arrays that need a value in each row, and cannot have nulls. These are
/// numbers, booleans, times, fixed-length binary, lists, and structures that contain any of them. Text,
/// binary and decimals become arrays of Python objects, in which a null is `None`.
pub fn needs_values(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| needs_values(field.data_type())),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => false,
        other => other.primitive_width().is_some(),
    }
}

/// The rows of a gathered column, in ascending order, in which a needed value is null: the row itself, or a
/// value nested in it.
pub fn null_rows(column: &dyn Array) -> Vec<usize> {
    if !needs_values(column.data_type()) {
        return Vec::new();
    }
    // The fields of a null structure are null too, so rows of null structures are ignored in the fields.
    if let Some(structure) = column.as_struct_opt() {
        let of_structure = null_places(column).into_iter();
        let of_fields = structure.columns().iter().flat_map(|field| {
            let rows = null_rows(field.as_ref()).into_iter();
            rows.filter(|row| column.is_valid(*row))
        });
        return in_order(of_structure.chain(of_fields).collect());
    }
    let mut rows = null_places(column);
    let own = rows.len();
    match column.data_type() {
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0).max(1);
            let values = column.as_fixed_size_list().values();
            rows.extend(null_rows(values.as_ref()).into_iter().map(|value| value / length));
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            rows.extend(rows_of(list.value_offsets(), list.values().as_ref()));
        }
        DataType::Map(..) => {
            let map = column.as_map();
            rows.extend(rows_of(map.value_offsets(), map.entries()));
        }
        _ => return rows,
    }
    if rows.len() > own { in_order(rows) } else { rows }
}

/// The names of the nested fields that lead to a null where a value is needed, in one row of a gathered
/// column. The path is empty if the row itself is null, or if a value of a list is null.
pub fn null_field(column: &dyn Array, row: usize) -> Vec<String> {
    // The row is sliced out and examined alone, because the search below covers all rows of a column.
    if column.len() > 1 {
        return null_field(column.slice(row, 1).as_ref(), 0);
    }
    if column.is_null(row) {
        return Vec::new();
    }
    let within = |items: &dyn Array, from: usize, to: usize| {
        let missing = null_rows(items.slice(from, to - from).as_ref());
        missing.first().map_or(Vec::new(), |item| null_field(items, from + item))
    };
    match column.data_type() {
        DataType::Struct(fields) => {
            let mut each = fields.iter().zip(column.as_struct().columns());
            let is_missing = |member: &ArrayRef| null_rows(member.as_ref()).binary_search(&row).is_ok();
            match each.find(|(_, member)| is_missing(member)) {
                Some((field, member)) => {
                    [vec![field.name().clone()], null_field(member.as_ref(), row)].concat()
                }
                None => Vec::new(),
            }
        }
        DataType::LargeList(_) => {
            let (list, offsets) = (column.as_list::<i64>(), column.as_list::<i64>().value_offsets());
            within(list.values(), offsets[row] as usize, offsets[row + 1] as usize)
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            within(column.as_fixed_size_list().values(), row * length, (row + 1) * length)
        }
        DataType::Map(..) => {
            let (map, offsets) = (column.as_map(), column.as_map().value_offsets());
            within(map.entries(), offsets[row] as usize, offsets[row + 1] as usize)
        }
        _ => Vec::new(),
    }
}

/// The indices of the lists in which an item lacks a needed value. `offsets` says where in `items` each list
/// begins and ends.
fn rows_of<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> Vec<usize> {
    let offset = |at: usize| offsets[at].as_usize();
    let (first, last) = (offset(0), offset(offsets.len() - 1));
    // Offsets and items are both in order, so the search for each item starts at the row of the previous one.
    let mut row = 0;
    let missing = null_rows(items.slice(first, last - first).as_ref()).into_iter();
    let row_of = |item| {
        while offset(row + 1) <= first + item {
            row += 1;
        }
        row
    };
    missing.map(row_of).collect()
}

fn null_places(column: &dyn Array) -> Vec<usize> {
    match column.logical_nulls() {
        Some(nulls) if nulls.null_count() > 0 => (!nulls.inner()).set_indices().collect(),
        _ => Vec::new(),
    }
}

fn in_order(mut rows: Vec<usize>) -> Vec<usize> {
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{FixedSizeListArray, Int32Array, LargeListArray, StructArray};
    use forebay_arrow::datatypes::{Field, Int32Type};

    use super::*;

    #[test]
    fn a_null_in_a_structure_has_the_path_of_its_field() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 9]));
        let structure = |fields: [(&str, &ArrayRef); 2], nulls: Option<Vec<bool>>| -> ArrayRef {
            let of = |(name, array): &(&str, &ArrayRef)| Field::new(*name, array.data_type().clone(), true);
            let columns = fields.iter().map(|(_, array)| (*array).clone()).collect();
            Arc::new(StructArray::new(fields.iter().map(of).collect(), columns, nulls.map(Into::into)))
        };
        let inside = structure([("a", &whole), ("b", &numbers)], None);
        let outside = structure([("id", &whole), ("in", &inside)], Some(vec![true, false, true]));
        assert_eq!(null_rows(&outside), [1, 2]);
        assert_eq!(null_field(&outside, 1), [""; 0]);
        assert_eq!(null_field(&outside, 2), ["in", "b"]);
        let item = Arc::new(Field::new("item", outside.data_type().clone(), true));
        let offsets = forebay_arrow::buffer::OffsetBuffer::from_lengths([1, 2]);
        let lists = LargeListArray::new(item, offsets, outside, None);
        assert_eq!(null_field(&lists, 1), [""; 0], "a structure that is an item");
        let item = Arc::new(Field::new("item", inside.data_type().clone(), true));
        let pairs = FixedSizeListArray::new(item, 3, inside, None);
        assert_eq!(null_field(&pairs, 0), ["b"]);
    }

    #[test]
    fn a_row_is_found_once_however_deep_its_nulls_lie() {
        let numbers = Int32Array::from(vec![Some(1), None, Some(3), None]);
        assert_eq!(null_rows(&numbers), [1, 3]);
        assert_eq!(null_rows(&numbers.slice(1, 2)), [0]);
        let lists = vec![
            Some(vec![Some(1)]),
            Some(vec![None, Some(1), None]),
            Some(vec![]),
            None,
            Some(vec![Some(2), None]),
            Some(vec![Some(4)]),
        ];
        let lists = LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        assert_eq!(null_rows(&lists), [1, 3, 4]);
        assert_eq!(null_rows(&lists.slice(2, 4)), [1, 2]);
        assert_eq!(null_rows(&lists.slice(5, 1)), [0; 0]);
        let pairs = vec![Some([Some(1), Some(2)]), Some([None, None]), None, Some([Some(1), None])];
        let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2);
        assert_eq!(null_rows(&pairs), [1, 2, 3]);
        assert_eq!(null_rows(&pairs.slice(1, 2)), [0, 1]);
    }
}
