//! Reads lists of short lists of numbers, such as `[[x, y, w, h], ...]`, and builds the columns that are made
//! from them.

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, LargeListArray};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type,
};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

/// The length of the inner lists, if the stored type fixes it; otherwise `None`.
///
/// # Errors
/// Fails if the type is not a list of lists of numbers.
pub(super) fn stored_width(stored: &DataType) -> Result<Option<usize>> {
    let unfit = || {
        Error::invalid(format!("holds {}, not lists of lists of numbers", TypeName(stored))).hint(
            "store list<list<float>> or list<fixed_size_list<float>>, of int32, int64, float32 or float64",
        )
    };
    let items = match stored {
        DataType::List(items) | DataType::LargeList(items) => items,
        _ => return Err(unfit()),
    };
    let (numbers, width) = match items.data_type() {
        DataType::List(numbers) | DataType::LargeList(numbers) => (numbers, None),
        DataType::FixedSizeList(numbers, width) => (numbers, usize::try_from(*width).ok()),
        _ => return Err(unfit()),
    };
    match numbers.data_type() {
        DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64 => Ok(width),
        _ => Err(unfit()),
    }
}

/// The field of a delivered column, whose rows are lists of `width` float32 numbers each.
pub(super) fn field(name: &str, width: usize) -> FieldRef {
    Arc::new(Field::new(name, DataType::LargeList(item_field(width)), false))
}

fn item_field(width: usize) -> FieldRef {
    Arc::new(Field::new("item", DataType::FixedSizeList(number_field(), width as i32), false))
}

fn number_field() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float32, false))
}

/// The inner lists (items) of all rows of a gathered column, and their numbers.
pub(super) struct Tuples<'a> {
    lists: &'a LargeListArray,
    items: TupleItems<'a>,
    numbers: Vec<f64>,
    missing: Option<NullBuffer>,
    width: usize,
}

/// The largest coordinate that is accepted. It is far larger than any image, and stays within the range of a
/// float32 when it is cropped and scaled.
const MAX_COORDINATE: f64 = 1e30;

/// The inner lists, which are of variable or of fixed length.
enum TupleItems<'a> {
    Lists(&'a LargeListArray),
    Fixed(&'a FixedSizeListArray),
}

impl<'a> Tuples<'a> {
    /// Reads a gathered column, whose inner lists must have `width` numbers each.
    pub(super) fn new(gathered: &'a dyn Array, width: usize) -> Result<Self> {
        let unfit =
            || Error::new(ErrorKind::Internal, format!("{} is not a list of lists", gathered.data_type()));
        let lists = gathered.as_list_opt::<i64>().ok_or_else(unfit)?;
        let items = lists.values().as_ref();
        let (items, values) = match (items.as_list_opt::<i64>(), items.as_fixed_size_list_opt()) {
            (Some(items), _) => (TupleItems::Lists(items), items.values()),
            (_, Some(items)) => (TupleItems::Fixed(items), items.values()),
            _ => return Err(unfit()),
        };
        Ok(Tuples { lists, items, numbers: numbers(values)?, missing: values.nulls().cloned(), width })
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.lists.is_null(row)
    }

    /// Returns the numbers of all items of a row, one item after the other.
    ///
    /// # Errors
    /// Fails if the row, an item or a number is null, if an item does not have `width` numbers, or if a
    /// number is not finite or beyond 1e30.
    pub(super) fn row(&self, row: usize, noun: &str) -> Result<&[f64]> {
        let bad = |cause: String| Error::new(ErrorKind::BadRow, cause);
        if self.lists.is_null(row) {
            return Err(bad(format!("null where a list of {noun} is needed"))
                .hint("store an empty list for a row without any, or name the column in `null_mask`"));
        }
        let offsets = self.lists.value_offsets();
        let (first, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let is_missing = |item: usize| match &self.items {
            TupleItems::Lists(lists) => lists.is_null(item),
            TupleItems::Fixed(lists) => lists.is_null(item),
        };
        let length = |item: usize| match &self.items {
            TupleItems::Lists(lists) => lists.value_length(item) as usize,
            TupleItems::Fixed(lists) => lists.value_length() as usize,
        };
        for item in first..end {
            if is_missing(item) {
                return Err(bad(format!("null as number {} of the {noun}", item - first)));
            }
            if length(item) != self.width {
                let (got, wanted) = (length(item), self.width);
                return Err(bad(format!(
                    "{got} numbers where {wanted} are needed, in number {} of the {noun}",
                    item - first
                )));
            }
        }
        let start = |item: usize| match &self.items {
            TupleItems::Lists(lists) => lists.value_offsets()[item] as usize,
            TupleItems::Fixed(_) => item * self.width,
        };
        let range = start(first)..start(end);
        let item = |at: usize| (at - range.start) / self.width;
        check_coordinates(&self.numbers, self.missing.as_ref(), range.clone(), &item, noun)?;
        Ok(&self.numbers[range])
    }
}

/// Returns an error if a coordinate in `range` is null, not finite or beyond 1e30. `item` gives, for an
/// error, the number of the item that a coordinate belongs to.
pub(super) fn check_coordinates(
    numbers: &[f64],
    missing: Option<&NullBuffer>,
    range: Range<usize>,
    item: &dyn Fn(usize) -> usize,
    noun: &str,
) -> Result<()> {
    for at in range {
        let missing = missing.is_some_and(|present| present.is_null(at));
        if missing || !(-MAX_COORDINATE..=MAX_COORDINATE).contains(&numbers[at]) {
            let what = if missing { "null".to_owned() } else { numbers[at].to_string() };
            let cause = format!("{what} as a coordinate, in number {} of the {noun}", item(at));
            let error = Error::new(ErrorKind::BadRow, cause);
            return Err(match missing {
                true => error,
                false => {
                    error.hint(format!("coordinates are from -{MAX_COORDINATE:e} to {MAX_COORDINATE:e}"))
                }
            });
        }
    }
    Ok(())
}

/// Converts the numbers of an array of int32, int64, float32 or float64. The results for nulls are arbitrary.
pub(super) fn numbers(values: &dyn Array) -> Result<Vec<f64>> {
    fn floats<T: ArrowPrimitiveType>(values: &dyn Array, number: impl Fn(T::Native) -> f64) -> Vec<f64> {
        values.as_primitive::<T>().values().iter().map(|value| number(*value)).collect()
    }
    match values.data_type() {
        DataType::Int32 => Ok(floats::<Int32Type>(values, f64::from)),
        // The cast is exact for integers up to 53 bits, which is far more than the coordinates of pixels
        // need.
        DataType::Int64 => Ok(floats::<Int64Type>(values, |value| value as f64)),
        DataType::Float32 => Ok(floats::<Float32Type>(values, f64::from)),
        DataType::Float64 => Ok(floats::<Float64Type>(values, |value| value)),
        other => Err(Error::new(ErrorKind::Internal, format!("coordinates of type {other}"))),
    }
}

/// Builds a column of lists of items, row by row. Each item has `width` numbers.
pub(super) struct TupleRows {
    offsets: Vec<i64>,
    numbers: Vec<f32>,
    width: usize,
}

impl TupleRows {
    pub(super) fn new(width: usize) -> Self {
        TupleRows { offsets: vec![0], numbers: Vec::new(), width }
    }

    /// Adds an item to the current row.
    pub(super) fn push(&mut self, item: impl IntoIterator<Item = f64>) {
        self.numbers.extend(item.into_iter().map(|number| number as f32));
        debug_assert_eq!(self.numbers.len() % self.width, 0);
    }

    /// Ends the current row.
    pub(super) fn end_row(&mut self) {
        self.offsets.push((self.numbers.len() / self.width) as i64);
    }

    /// Returns the column with all rows that were added.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let numbers = Arc::new(Float32Array::from(self.numbers));
        let items =
            FixedSizeListArray::try_new(number_field(), self.width as i32, numbers, None).or_fail()?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let lists = LargeListArray::try_new(item_field(self.width), offsets, Arc::new(items), None);
        Ok(Arc::new(lists.or_fail()?))
    }
}
