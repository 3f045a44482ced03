//! Reads the length of each row from one column: the length of its list or text, or a whole number that is
//! the length.

use forebay_arrow::array::{Array, ArrayRef, AsArray};
use forebay_arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_arrow::names::TypeName;
use forebay_arrow::vectors::Vectors;
use forebay_base::Error;

/// The value that stands for the length of a row without a length.
pub(crate) const NO_LENGTH: u32 = u32::MAX;

/// Returns the length of each row; [`NO_LENGTH`] for a row without one.
///
/// # Errors
/// Fails if the column has a type that gives no lengths, or if a value is not a valid length. The second
/// error comes with the ordinal of the row.
pub(crate) fn lengths(column: &ArrayRef) -> Result<Vec<u32>, (Option<usize>, Error)> {
    macro_rules! whole {
        ($type:ty) => {
            Box::new(column.as_primitive::<$type>().iter().map(|it| it.map(i128::from)))
        };
    }
    if let Some(vectors) = Vectors::from_array(column) {
        return Ok((0..column.len()).map(|row| of_vector(&vectors, row)).collect());
    }
    let found: Found<'_> = match column.data_type() {
        DataType::List(_) => of_offsets(column, column.as_list::<i32>().value_offsets()),
        DataType::LargeList(_) => of_offsets(column, column.as_list::<i64>().value_offsets()),
        DataType::FixedSizeList(_, length) => {
            Box::new((0..column.len()).map(|row| column.is_valid(row).then_some((*length).into())))
        }
        DataType::Utf8View => of_views(column, column.as_string_view().lengths()),
        DataType::BinaryView => of_views(column, column.as_binary_view().lengths()),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        other => {
            let error = Error::invalid(format!("holds {}, which gives no lengths or costs", TypeName(other)))
                .hint("name a column of lists, texts or whole numbers");
            return Err((None, error));
        }
    };
    let mut lengths = Vec::with_capacity(column.len());
    for (row, length) in found.enumerate() {
        let Some(length) = length else {
            lengths.push(NO_LENGTH);
            continue;
        };
        let fitting = u32::try_from(length).ok().filter(|length| *length != NO_LENGTH);
        let fitting = fitting.ok_or_else(|| {
            let error = Error::invalid(format!("is {length}, which is not a length or a cost"));
            let hint =
                "they are whole numbers from 0 to 2^32 - 2; leave such rows out with `filter` or `deny`";
            (Some(row), error.hint(hint))
        });
        lengths.push(fitting?);
    }
    Ok(lengths)
}

/// The lengths of the rows in order; `None` for a row without a length.
type Found<'a> = Box<dyn Iterator<Item = Option<i128>> + 'a>;

fn of_offsets<'a, O: Copy + Into<i64>>(column: &'a ArrayRef, offsets: &'a [O]) -> Found<'a> {
    let lengths = offsets.windows(2).map(|pair| i128::from(pair[1].into() - pair[0].into()));
    Box::new(lengths.enumerate().map(|(row, length)| column.is_valid(row).then_some(length)))
}

/// Returns the number of all values of a vector, including the zeros that a sparse vector does not store. A
/// damaged vector has no length: it causes an error when it is delivered.
fn of_vector(vectors: &Vectors<'_>, row: usize) -> u32 {
    let length = vectors.length(row).ok().flatten();
    length.and_then(|length| u32::try_from(length).ok()).unwrap_or(NO_LENGTH)
}

fn of_views<'a>(column: &'a ArrayRef, lengths: impl Iterator<Item = u32> + 'a) -> Found<'a> {
    Box::new(lengths.enumerate().map(|(row, length)| column.is_valid(row).then_some(length.into())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{Float32Array, Int64Array, ListArray, StringViewArray};
    use forebay_arrow::vectors::stored as vectors;

    use super::*;

    #[test]
    fn lists_texts_and_numbers_say_lengths() {
        let lists = [Some(vec![Some(1), Some(2)]), None, Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        assert_eq!(lengths(&lists).unwrap(), [2, NO_LENGTH, 0]);
        assert_eq!(lengths(&lists.slice(1, 2)).unwrap(), [NO_LENGTH, 0]);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("abc"), None]));
        assert_eq!(lengths(&texts).unwrap(), [3, NO_LENGTH]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 0]));
        assert_eq!(lengths(&numbers).unwrap(), [7, 0]);
    }

    #[test]
    fn vectors_are_as_long_as_their_lists_and_bad_ones_have_no_length() {
        let vectors: ArrayRef = Arc::new(vectors(&[
            Some((1, None, None, Some(vec![1.0, 2.0]))),
            Some((0, Some(9), Some(vec![7]), Some(vec![1.0]))),
            None,
            Some((0, None, Some(vec![7]), Some(vec![1.0]))),
            Some((0, Some(-1), Some(vec![]), Some(vec![]))),
            Some((0, Some(7), Some(vec![7]), Some(vec![1.0]))),
        ]));
        let none = [NO_LENGTH; 4];
        assert_eq!(lengths(&vectors).unwrap(), [&[2, 9], &none[..]].concat());
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for number in [-1, i64::from(u32::MAX)] {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, number]));
            assert_eq!(lengths(&numbers).unwrap_err().0, Some(1));
        }
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![1.0]));
        assert_eq!(lengths(&floats).unwrap_err().0, None);
    }
}
