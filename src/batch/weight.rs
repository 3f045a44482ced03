//! How much memory the rows of a batch take, before it is made.
//!
//! A footer gives the number of stored bytes, not the length of values that a dictionary repeats. Once a row group is
//! decoded, the lengths are in its views and offsets.

use crate::arrow::array::{Array, AsArray, GenericByteViewArray, MAX_INLINE_VIEW_LEN};
use crate::arrow::datatypes::{ByteViewType, DataType};

/// Bytes of a value beside its own: an offset of 64 bits.
const OFFSET: u64 = 8;

/// Whether the values of a column differ in length.
pub(crate) fn is_variable(data_type: &DataType) -> bool {
    use DataType::{BinaryView, LargeList, List, Utf8View};
    matches!(data_type, Utf8View | BinaryView | List(_) | LargeList(_))
}

/// The most bytes that one value takes in a batch.
pub(crate) fn longest(array: &dyn Array) -> u64 {
    let lengths = Lengths::of(array);
    (0..array.len()).map(|row| lengths.at(row)).max().unwrap_or(0)
}

/// The bytes that rows take in a batch: pairs of a source and a row in it.
pub(crate) fn weigh(sources: &[&dyn Array], picks: &[(u32, u32)]) -> u64 {
    let sources: Vec<Lengths<'_>> = sources.iter().map(|source| Lengths::of(*source)).collect();
    picks.iter().map(|&(source, row)| sources[source as usize].at(row as usize)).sum()
}

/// The lengths of an array's values.
///
/// Other processes may change those of mapped rows at any time, so each is limited to the bytes that there are.
enum Lengths<'a> {
    /// Views, and the bytes that they are of.
    Views(&'a [u128], u64),
    /// Offsets, the items that they are of, and the bytes of an item.
    Offsets(&'a [i32], u64, u64),
    LongOffsets(&'a [i64], u64, u64),
    /// All are equal, and counted elsewhere.
    Fixed,
}

impl<'a> Lengths<'a> {
    fn of(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8View => Lengths::views(array.as_string_view()),
            DataType::BinaryView => Lengths::views(array.as_binary_view()),
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                Lengths::Offsets(list.value_offsets(), list.values().len() as u64, width(item.data_type()))
            }
            DataType::LargeList(item) => {
                let list = array.as_list::<i64>();
                Lengths::LongOffsets(
                    list.value_offsets(),
                    list.values().len() as u64,
                    width(item.data_type()),
                )
            }
            _ => Lengths::Fixed,
        }
    }

    fn views<T: ByteViewType>(array: &'a GenericByteViewArray<T>) -> Self {
        let bytes = array.data_buffers().iter().map(|buffer| buffer.len() as u64).max().unwrap_or(0);
        Lengths::Views(array.views(), bytes.max(u64::from(MAX_INLINE_VIEW_LEN)))
    }

    fn at(&self, row: usize) -> u64 {
        match self {
            // The length of a view is its first 32 bits.
            Lengths::Views(views, most) => OFFSET + u64::from(views[row] as u32).min(*most),
            Lengths::Offsets(offsets, most, width) => {
                let items = u64::try_from(i64::from(offsets[row + 1]) - i64::from(offsets[row])).unwrap_or(0);
                OFFSET + items.min(*most) * width
            }
            Lengths::LongOffsets(offsets, most, width) => {
                let items = u64::try_from(offsets[row + 1].wrapping_sub(offsets[row])).unwrap_or(0);
                OFFSET + items.min(*most) * width
            }
            Lengths::Fixed => 0,
        }
    }
}

/// Bytes of one item of a list, at most.
fn width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        DataType::FixedSizeList(item, length) => {
            u64::try_from(*length).unwrap_or(0) * width(item.data_type())
        }
        other => other.primitive_width().unwrap_or(1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::arrow::array::{ArrayRef, Int32Array, ListArray, StringViewArray};
    use crate::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn what_rows_take_is_known_from_their_lengths() {
        let long = "x".repeat(1_000);
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter([Some("short"), None, Some(long.as_str()), Some("")]));
        let sliced = texts.slice(1, 2);
        assert_eq!((longest(&texts), longest(&sliced)), (1_008, 1_008));
        assert_eq!(weigh(&[&texts, &sliced], &[(0, 0), (0, 0), (1, 1), (1, 0)]), 4 * 8 + 5 + 5 + 1_000);
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3)]),
        ]);
        assert_eq!((longest(&lists), weigh(&[&lists], &[(0, 0), (0, 1), (0, 2)])), (16, 3 * 8 + 12));
        let numbers = Int32Array::from(vec![1, 2, 3]);
        assert_eq!(longest(&numbers), 0, "counted elsewhere");
    }
}
