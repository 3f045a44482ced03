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
