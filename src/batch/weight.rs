//! Computes the memory that the rows of a batch take, before the batch is made.
//!
//! A footer gives the number of stored bytes, not the length of values that a dictionary repeats. Once a row
//! group is decoded, the lengths are in its views and offsets.

use forebay_arrow::array::{Array, AsArray, GenericByteViewArray, MAX_INLINE_VIEW_LEN};
use forebay_arrow::datatypes::{ByteViewType, DataType};
use forebay_arrow::vectors::Vectors;

/// The number of bytes that a value takes in addition to its own bytes: an offset of 64 bits.
const OFFSET: u64 = 8;

/// Whether the values of a column differ in length.
pub(crate) fn is_variable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => true,
        DataType::FixedSizeList(item, _) => is_variable(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_variable(field.data_type())),
        _ => false,
    }
}

/// Returns the number of bytes that the longest value of an array takes in a batch.
pub(crate) fn longest(array: &dyn Array) -> u64 {
    let lengths = Lengths::for_array(array);
    (0..array.len()).map(|row| lengths.at(row)).max().unwrap_or(0)
}

/// Returns the bytes that rows of a column take in a batch. `picks` has pairs of an array in `sources` and a
/// row in it.
pub(crate) fn weigh(sources: &[&dyn Array], picks: &[(u32, u32)]) -> u64 {
    let sources: Vec<Lengths<'_>> = sources.iter().map(|source| Lengths::for_array(*source)).collect();
    picks.iter().map(|&(source, row)| sources[source as usize].at(row as usize)).sum()
}

/// Returns the number of bytes that the largest of these rows takes in a batch.
pub(crate) fn heaviest(sources: &[&dyn Array], picks: &[(u32, u32)]) -> u64 {
    weigh_each(sources, picks).into_iter().max().unwrap_or(0)
}

/// Returns for each of these rows the number of bytes that it takes in a batch.
pub(crate) fn weigh_each(sources: &[&dyn Array], picks: &[(u32, u32)]) -> Vec<u64> {
    let sources: Vec<Lengths<'_>> = sources.iter().map(|source| Lengths::for_array(*source)).collect();
    picks.iter().map(|&(source, row)| sources[source as usize].at(row as usize)).collect()
}

/// The lengths of an array's values.
///
/// Other processes may change the lengths of mapped rows at any time, so each length is limited to the bytes
/// that exist.
enum Lengths<'a> {
    /// Texts or bytes as Arrow's views, and the largest length that a view can have in the buffers that
    /// exist.
    Views(&'a [u128], u64),
    /// The offsets of lists, and the bytes that their items take.
    Lists(&'a [i32], ItemWeight<'a>),
    LongLists(&'a [i64], ItemWeight<'a>),
    /// The length that all lists have, and the bytes that their items take.
    FixedLists(usize, ItemWeight<'a>),
    Struct(Vec<Lengths<'a>>),
    /// Vectors of Spark ML, as the lists that are delivered. A bad vector is delivered as an empty list.
    Vectors(Vectors<'a>),
    /// Values that all take this number of bytes.
    Fixed(u64),
}

/// The number of items in all lists of a column, and the lengths from which their bytes are computed.
struct ItemWeight<'a> {
    most: usize,
    each: Box<Lengths<'a>>,
}

impl<'a> Lengths<'a> {
    /// The lengths of a column's values. They are 0 if all values have the same width, which is counted
    /// elsewhere.
    fn for_array(array: &'a dyn Array) -> Self {
        match is_variable(array.data_type()) {
            true => Lengths::within(array),
            false => Lengths::Fixed(0),
        }
    }

    fn within(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8View => Lengths::views(array.as_string_view()),
            DataType::BinaryView => Lengths::views(array.as_binary_view()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Lengths::Lists(list.value_offsets(), ItemWeight::for_values(list.values().as_ref()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Lengths::LongLists(list.value_offsets(), ItemWeight::for_values(list.values().as_ref()))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Lengths::Lists(map.value_offsets(), ItemWeight::for_values(map.entries()))
            }
            DataType::FixedSizeList(_, length) if is_variable(array.data_type()) => {
                let values = array.as_fixed_size_list().values().as_ref();
                Lengths::FixedLists(usize::try_from(*length).unwrap_or(0), ItemWeight::for_values(values))
            }
            DataType::Struct(_) => {
                if let Some(vectors) = Vectors::from_array(array) {
                    return Lengths::Vectors(vectors);
                }
                let fields = array.as_struct().columns().iter();
                Lengths::of_fields(fields.map(|field| Lengths::within(field.as_ref())).collect())
            }
            other => Lengths::Fixed(width(other)),
        }
    }

    fn views<T: ByteViewType>(array: &'a GenericByteViewArray<T>) -> Self {
        let bytes = array.data_buffers().iter().map(|buffer| buffer.len() as u64).max().unwrap_or(0);
        Lengths::Views(array.views(), bytes.max(u64::from(MAX_INLINE_VIEW_LEN)))
    }

    /// The lengths of structures with these fields: one number of bytes if each field takes a fixed number.
    fn of_fields(fields: Vec<Lengths<'a>>) -> Self {
        let fixed = fields.iter().map(|field| match field {
            Lengths::Fixed(bytes) => Some(*bytes),
            _ => None,
        });
        fixed.sum::<Option<u64>>().map_or(Lengths::Struct(fields), Lengths::Fixed)
    }

    fn at(&self, row: usize) -> u64 {
        self.between(row, row + 1)
    }

    /// The bytes of the rows `from..to`, which must exist. The items of consecutive lists are consecutive
    /// too, so they are weighed together.
    fn between(&self, from: usize, to: usize) -> u64 {
        let rows = (to - from) as u64;
        match self {
            // The length of a view is its first 32 bits.
            Lengths::Views(views, most) => {
                let lengths = views[from..to].iter().map(|view| u64::from(*view as u32).min(*most));
                rows * OFFSET + lengths.sum::<u64>()
            }
            Lengths::Lists(offsets, items) => {
                rows * OFFSET + items.between(offsets[from] as usize, offsets[to] as usize)
            }
            Lengths::LongLists(offsets, items) => {
                rows * OFFSET + items.between(offsets[from] as usize, offsets[to] as usize)
            }
            Lengths::FixedLists(length, items) => items.between(from * length, to * length),
            Lengths::Struct(fields) => fields.iter().map(|field| field.between(from, to)).sum(),
            Lengths::Vectors(vectors) => (from..to).map(|row| vector(vectors, row)).sum(),
            Lengths::Fixed(bytes) => rows * bytes,
        }
    }
}

impl<'a> ItemWeight<'a> {
    fn for_values(values: &'a dyn Array) -> Self {
        ItemWeight { most: values.len(), each: Box::new(Lengths::within(values)) }
    }

    /// The bytes of the items `from..to`; items that do not exist are not counted.
    fn between(&self, from: usize, to: usize) -> u64 {
        let from = from.min(self.most);
        let to = to.clamp(from, self.most);
        self.each.between(from, to)
    }
}

/// The bytes that a Spark ML vector takes in a batch, as the list of all its values.
fn vector(vectors: &Vectors<'_>, row: usize) -> u64 {
    let length = vectors.length(row).ok().flatten().unwrap_or(0);
    OFFSET + length as u64 * size_of::<f64>() as u64
}

/// The number of bytes of one item of a list, if items have a fixed width.
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

    use forebay_arrow::array::{ArrayRef, Int32Array, ListArray, StringViewArray, StructArray};
    use forebay_arrow::buffer::OffsetBuffer;
    use forebay_arrow::datatypes::{Field, Int32Type};
    use forebay_arrow::vectors::stored as vectors;

    use super::*;

    #[test]
    fn sparse_vectors_take_what_their_size_says_and_bad_ones_nothing() {
        let bad = |index| Some((0, Some(i32::MAX), Some(vec![index]), Some(vec![1.0])));
        let vectors: ArrayRef = Arc::new(vectors(&[
            Some((1, None, None, Some(vec![1.0, 2.0]))),
            None,
            Some((0, Some(i32::MAX), Some(vec![7]), Some(vec![1.0]))),
            bad(-1),
            bad(i32::MAX),
        ]));
        assert!(is_variable(vectors.data_type()));
        assert_eq!(weigh(&[&vectors], &[(0, 0)]), 8 + 16);
        assert_eq!(longest(&vectors), 8 + 8 * i32::MAX as u64);
        assert_eq!(longest(&vectors.slice(0, 2)), 8 + 16);
        assert_eq!(weigh_each(&[&vectors], &[(0, 1), (0, 3), (0, 4)]), [8; 3]);
    }

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
        assert_eq!(heaviest(&[&lists], &[(0, 1), (0, 0), (0, 2)]), 16);
        let numbers = Int32Array::from(vec![1, 2, 3]);
        assert_eq!(longest(&numbers), 0, "counted elsewhere");
    }

    #[test]
    fn items_of_a_list_take_what_their_fields_take() {
        let field = |name: &str, array: &ArrayRef| {
            (Arc::new(Field::new(name, array.data_type().clone(), true)), array.clone())
        };
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1; 5]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "", "four", "", "more than twelve"]));
        let lists = |structs: StructArray| -> ArrayRef {
            let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([2, 0, 3]);
            Arc::new(ListArray::new(item, offsets, Arc::new(structs), None))
        };
        let fixed = lists(StructArray::from(vec![field("a", &numbers), field("b", &numbers)]));
        let each = |lists: &ArrayRef| weigh_each(&[lists], &[(0, 0), (0, 1), (0, 2)]);
        assert_eq!(each(&fixed), [8 + 2 * 8, 8, 8 + 3 * 8]);
        let mixed = lists(StructArray::from(vec![field("a", &numbers), field("b", &texts)]));
        assert_eq!(each(&mixed), [8 + 2 * (4 + 8) + 1, 8, 8 + 3 * (4 + 8) + 4 + 16]);
        assert_eq!(longest(&mixed), 8 + 3 * (4 + 8) + 4 + 16);
        let outer = Arc::new(Field::new("item", mixed.data_type().clone(), true));
        let nested = ListArray::new(outer, OffsetBuffer::from_lengths([2, 1]), mixed, None);
        assert_eq!(weigh_each(&[&nested], &[(0, 0), (0, 1)]), [8 + 33 + 8, 8 + 64]);
    }
}
