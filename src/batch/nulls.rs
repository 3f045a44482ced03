//! Rows with a null in columns whose arrays cannot hold one.

use crate::arrow::array::{Array, AsArray};
use crate::arrow::datatypes::DataType;

/// Whether a column of this type becomes an array of values, in which each row needs one: numbers, booleans, times,
/// binary of fixed length, and lists of these. Text, binary and decimals become objects, and a null is `None`.
pub fn needs_values(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            needs_values(item.data_type())
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => false,
        other => other.primitive_width().is_some(),
    }
}

/// The rows of a gathered column that are null or whose lists hold a null, in order.
pub fn null_rows(column: &dyn Array) -> Vec<usize> {
    let mut rows: Vec<usize> = match column.logical_nulls() {
        Some(nulls) if nulls.null_count() > 0 => (!nulls.inner()).set_indices().collect(),
        _ => Vec::new(),
    };
    let own = rows.len();
    match column.data_type() {
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0).max(1);
            let values = column.as_fixed_size_list().values();
            rows.extend(null_rows(values.as_ref()).into_iter().map(|value| value / length));
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            let offset = |at: usize| list.value_offsets()[at] as usize;
            let (first, last) = (offset(0), offset(list.len()));
            let values = list.values().slice(first, last - first);
            // Both are in order, so the search for each value starts at the row of the previous one.
            let mut row = 0;
            for value in null_rows(values.as_ref()) {
                while offset(row + 1) <= first + value {
                    row += 1;
                }
                rows.push(row);
            }
        }
        _ => return rows,
    }
    if rows.len() > own {
        rows.sort_unstable();
        rows.dedup();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow::array::{FixedSizeListArray, Int32Array, LargeListArray};
    use crate::arrow::datatypes::Int32Type;

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
