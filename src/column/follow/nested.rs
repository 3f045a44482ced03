//! Reads nested lists of numbers of any depth, such as points or polygons, and builds the columns that are
//! made from them.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, LargeListArray};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use super::tuples::{check_coordinates, numbers};

/// The depth and width of the nested lists of numbers in a stored type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NestedType {
    /// The number of levels of lists.
    pub(super) depth: usize,
    /// The length of the innermost lists, if the type fixes it.
    pub(super) width: Option<usize>,
}

impl NestedType {
    /// # Errors
    /// Fails if the type is not nested lists of numbers.
    pub(super) fn from_data_type(stored: &DataType) -> Result<Self> {
        let unfit = || {
            Error::invalid(format!("holds {}, not lists of lists of numbers", TypeName(stored))).hint(
                "store list<list<float>> or list<fixed_size_list<float>>, of int32, int64, float32 or float64",
            )
        };
        let (mut depth, mut width, mut inside) = (0, None, stored);
        loop {
            (inside, width) = match inside {
                DataType::List(item) | DataType::LargeList(item) if width.is_none() => {
                    (item.data_type(), None)
                }
                // Only the innermost lists may have a fixed length.
                DataType::FixedSizeList(item, width) if depth > 0 => {
                    (item.data_type(), usize::try_from(*width).ok())
                }
                DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64 if depth > 0 => {
                    return Ok(NestedType { depth, width });
                }
                _ => return Err(unfit()),
            };
            depth += 1;
        }
    }
}

/// All lists of a column at one level of nesting.
enum ListLevel<'a> {
    Lists(&'a LargeListArray),
    Fixed(&'a FixedSizeListArray),
}

impl ListLevel<'_> {
    fn is_null(&self, list: usize) -> bool {
        match self {
            ListLevel::Lists(lists) => lists.is_null(list),
            ListLevel::Fixed(lists) => lists.is_null(list),
        }
    }

    fn range(&self, list: usize) -> (usize, usize) {
        match self {
            ListLevel::Lists(lists) => {
                (lists.value_offsets()[list] as usize, lists.value_offsets()[list + 1] as usize)
            }
            ListLevel::Fixed(lists) => {
                let width = lists.value_length() as usize;
                (list * width, (list + 1) * width)
            }
        }
    }
}

/// A part of a row of nested lists, in the order in which [`Nested::row`] reports them.
pub(super) enum RowPart<'a> {
    /// The numbers of an innermost list, which has the index `at` in the list around it.
    Numbers { at: usize, numbers: &'a [f64] },
    /// The end of a list at this depth. The outermost list of a row has depth 0.
    End { depth: usize },
}

/// The place of a list among the nested lists of all rows.
struct NestedPlace {
    /// The number of lists around it.
    depth: usize,
    /// The index among all lists at this depth.
    list: usize,
    /// The index in the list around it; 0 for the list of a row.
    at: usize,
}

/// The nested lists of all rows of a gathered column.
pub(super) struct Nested<'a> {
    levels: Vec<ListLevel<'a>>,
    numbers: Vec<f64>,
    missing: Option<NullBuffer>,
}

impl<'a> Nested<'a> {
    /// Reads the nested lists of a gathered column.
    pub(super) fn new(gathered: &'a dyn Array) -> Result<Self> {
        let (mut levels, mut inside) = (Vec::new(), gathered);
        loop {
            inside = match (inside.as_list_opt::<i64>(), inside.as_fixed_size_list_opt()) {
                (Some(lists), _) => {
                    levels.push(ListLevel::Lists(lists));
                    lists.values().as_ref()
                }
                (_, Some(lists)) => {
                    levels.push(ListLevel::Fixed(lists));
                    lists.values().as_ref()
                }
                _ => break,
            };
        }
        if levels.is_empty() {
            return Err(Error::new(ErrorKind::Internal, format!("{} is not a list", gathered.data_type())));
        }
        Ok(Nested { levels, numbers: numbers(inside)?, missing: inside.nulls().cloned() })
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.levels[0].is_null(row)
    }

    /// Calls `each` with the parts of a row, from the first to the last.
    ///
    /// # Errors
    /// Fails if the row or anything in it is null, if a number is not finite or beyond 1e30, or if `each`
    /// fails.
    pub(super) fn row(
        &self,
        row: usize,
        noun: &str,
        each: &mut dyn FnMut(RowPart<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.is_null(row) {
            return Err(Error::new(ErrorKind::BadRow, format!("null where a list of {noun} is needed"))
                .hint("store an empty list for a row without any, or name the column in `null_mask`"));
        }
        self.list(NestedPlace { depth: 0, list: row, at: 0 }, noun, each)
    }

    /// Works like [`row`](Self::row), but for one list inside a row.
    fn list(
        &self,
        NestedPlace { depth, list, at }: NestedPlace,
        noun: &str,
        each: &mut dyn FnMut(RowPart<'_>) -> Result<()>,
    ) -> Result<()> {
        let level = &self.levels[depth];
        if level.is_null(list) {
            return Err(Error::new(ErrorKind::BadRow, format!("null as number {at} of the {noun}")));
        }
        let (first, last) = level.range(list);
        if depth + 1 == self.levels.len() {
            check_coordinates(&self.numbers, self.missing.as_ref(), first..last, &|_| at, noun)?;
            each(RowPart::Numbers { at, numbers: &self.numbers[first..last] })?;
        } else {
            for inside in first..last {
                let place = NestedPlace { depth: depth + 1, list: inside, at: inside - first };
                self.list(place, noun, each)?;
            }
        }
        each(RowPart::End { depth })
    }
}

/// Builds a column of nested lists, row by row.
pub(super) struct NestedRows {
    /// `ends[depth]` starts with 0, followed by the end of each list at that depth: its index among the lists
    /// at the next depth, or at the last depth among the numbers (or the lists of `width` numbers).
    ends: Vec<Vec<i64>>,
    numbers: Vec<f32>,
    /// The length of the innermost lists, if all have the same length.
    width: Option<usize>,
}

impl NestedRows {
    pub(super) fn new(depth: usize, width: Option<usize>) -> Self {
        let depth = if width.is_some() { depth - 1 } else { depth };
        NestedRows { ends: vec![vec![0]; depth], numbers: Vec::new(), width }
    }

    /// The field of a delivered column of nested lists.
    pub(super) fn field(name: &str, depth: usize, width: Option<usize>) -> FieldRef {
        let mut data_type = DataType::Float32;
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, false));
        for level in (0..depth).rev() {
            data_type = match width {
                Some(width) if level + 1 == depth => DataType::FixedSizeList(item(data_type), width as i32),
                _ => DataType::LargeList(item(data_type)),
            };
        }
        Arc::new(Field::new(name, data_type, false))
    }

    /// Adds a row, which `make` builds. If `make` fails, the row is empty and its error is returned.
    pub(super) fn row(&mut self, make: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let lists: Vec<usize> = self.ends.iter().map(Vec::len).collect();
        let numbers = self.numbers.len();
        let made = make(self);
        if made.is_err() {
            self.numbers.truncate(numbers);
            self.ends.iter_mut().zip(&lists).for_each(|(ends, lists)| ends.truncate(*lists));
        }
        if self.ends[0].len() == lists[0] {
            self.end(0);
        }
        made
    }

    pub(super) fn push(&mut self, numbers: impl IntoIterator<Item = f64>) {
        self.numbers.extend(numbers.into_iter().map(|number| number as f32));
    }

    /// Ends the current list at a depth.
    pub(super) fn end(&mut self, depth: usize) {
        let inside = match self.ends.get(depth + 1) {
            Some(lists) => lists.len() - 1,
            None => self.numbers.len() / self.width.unwrap_or(1),
        };
        if let Some(ends) = self.ends.get_mut(depth) {
            ends.push(inside as i64);
        }
    }

    /// Returns the column with all rows that were added.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let item = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), false));
        let mut values: ArrayRef = Arc::new(Float32Array::from(self.numbers));
        if let Some(width) = self.width {
            let lists = FixedSizeListArray::try_new(item(&values), width as i32, values, None);
            values = Arc::new(lists.or_fail()?);
        }
        for ends in self.ends.into_iter().rev() {
            let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
            values = Arc::new(LargeListArray::try_new(item(&values), ends, values, None).or_fail()?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The innermost lists of each row.
    fn rows(made: NestedRows) -> Vec<Vec<Vec<f64>>> {
        let column = made.finish().unwrap();
        let nested = Nested::new(column.as_ref()).unwrap();
        let row = |row| {
            let mut found = Vec::new();
            let mut each = |part: RowPart<'_>| {
                if let RowPart::Numbers { numbers, at } = part {
                    assert_eq!(at, found.len());
                    found.push(numbers.to_vec());
                }
                Ok(())
            };
            nested.row(row, "points", &mut each).unwrap();
            found
        };
        (0..column.len()).map(row).collect()
    }

    #[test]
    fn a_row_that_fails_is_empty_and_the_others_are_whole() {
        let failed = || Err(Error::new(ErrorKind::BadRow, "no"));
        for width in [None, Some(2)] {
            let mut made = NestedRows::new(2, width);
            let push = |made: &mut NestedRows, number: f64| {
                made.push([number, -number]);
                made.end(1);
            };
            for (first, is_good) in [(1.0, true), (3.0, false), (5.0, true)] {
                let done = made.row(|made| {
                    push(made, first);
                    push(made, first + 1.0);
                    if is_good { Ok(()) } else { failed() }
                });
                assert_eq!(done.is_ok(), is_good);
            }
            made.row(|_| Ok(())).unwrap();
            let ended = made.row(|made| {
                push(made, 7.0);
                made.end(0);
                failed()
            });
            assert!(ended.is_err());
            made.row(|made| {
                push(made, 9.0);
                made.end(0);
                Ok(())
            })
            .unwrap();
            let pairs = |numbers: &[f64]| -> Vec<Vec<f64>> {
                numbers.iter().map(|number| vec![*number, -number]).collect()
            };
            let expected = [&[1.0, 2.0][..], &[], &[5.0, 6.0], &[], &[], &[9.0]].map(pairs);
            assert_eq!(rows(made), expected, "{width:?}");
        }
    }

    #[test]
    fn a_null_at_any_depth_is_a_bad_row() {
        let numbers: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), None, Some(3.0), Some(4.0)]));
        let item = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), true));
        let inside = LargeListArray::new(
            item(&numbers),
            OffsetBuffer::from_lengths([1, 1, 1, 1]),
            numbers,
            Some([true, true, false, true].into_iter().collect()),
        );
        let inside: ArrayRef = Arc::new(inside);
        let outside = LargeListArray::new(
            item(&inside),
            OffsetBuffer::from_lengths([1, 1, 1, 1]),
            inside,
            Some([true, true, true, false].into_iter().collect()),
        );
        let nested = Nested::new(&outside).unwrap();
        let read = |row| nested.row(row, "points", &mut |_| Ok(())).map_err(|error| error.cause().to_owned());
        assert_eq!(read(0), Ok(()));
        assert!(read(1).unwrap_err().contains("null"), "{:?}", read(1));
        assert_eq!(read(2).unwrap_err(), "null as number 0 of the points");
        assert_eq!(read(3).unwrap_err(), "null where a list of points is needed");
        assert_eq!([0, 1, 2, 3].map(|row| nested.is_null(row)), [false, false, false, true]);
    }
}
