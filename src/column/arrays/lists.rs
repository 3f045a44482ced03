//! Turns arrays into lists, with one level of lists for each dimension whose length may differ.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayData, ArrayRef, BinaryViewBuilder, BooleanArray, FixedSizeListArray, LargeListArray,
    StringViewBuilder, make_array,
};
use forebay_arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::DataType;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::layout::{Arrays, Item, item};
use super::read::ReadArray;
use crate::column::tensors::value_bytes;

/// The most lists that an array without values may become. Without this limit, a cell of a few bytes could
/// announce lists that do not fit in memory.
const MAX_EMPTY_LISTS: usize = 1 << 20;

/// Makes one column of lists from the arrays of its rows, which are added one after the other.
pub(super) struct ArrayLists<'a> {
    arrays: &'a Arrays,
    /// For each level of lists, the offsets of its lists into the items of the next level.
    levels: Vec<Vec<i64>>,
    values: ListedValues,
    /// For each row, `false` if it is null.
    there: Vec<bool>,
    /// The number of values in the list of a fixed length that the last dimensions become; 1 if there are
    /// none.
    fixed: usize,
}

enum ListedValues {
    /// The bytes of all numbers, one number after the other.
    Numbers(DataType, Vec<u8>),
    Texts(StringViewBuilder),
    Bytes(BinaryViewBuilder),
}

impl<'a> ArrayLists<'a> {
    pub(super) fn new(arrays: &'a Arrays, rows: usize) -> Result<Self> {
        let values = match &arrays.item {
            Item::Number(dtype) => ListedValues::Numbers(dtype.clone(), Vec::new()),
            Item::Text => ListedValues::Texts(StringViewBuilder::new()),
            Item::Bytes => ListedValues::Bytes(BinaryViewBuilder::new()),
        };
        Ok(ArrayLists {
            arrays,
            levels: vec![vec![0]; arrays.open()],
            values,
            there: Vec::with_capacity(rows),
            fixed: usize::try_from(arrays.fixed_length()?).unwrap_or(0),
        })
    }

    /// Adds the array of the next row, whose shape the caller has checked. If this fails, nothing is added.
    pub(super) fn add(&mut self, array: ReadArray) -> Result<()> {
        let ReadArray { shape, values, width } = array;
        if values.is_empty() {
            let lists =
                shape.iter().filter(|side| **side > 0).try_fold(1usize, |all, side| all.checked_mul(*side));
            if lists.is_none_or(|lists| lists > MAX_EMPTY_LISTS) {
                let cause = format!("an array of shape {shape:?}, which has no values and too many sides");
                return Err(Error::new(ErrorKind::BadRow, cause));
            }
        }
        let count = shape.iter().product();
        match &mut self.values {
            ListedValues::Numbers(_, bytes) => bytes.extend(values),
            ListedValues::Texts(texts) => {
                let all = texts_in(&values, width, count)?;
                all.iter().for_each(|text| texts.append_value(text));
            }
            ListedValues::Bytes(all) => {
                (0..count)
                    .for_each(|at| all.append_value(without_zeros(&values[at * width..(at + 1) * width])));
            }
        }
        let mut lists = 1;
        for (level, side) in self.levels.iter_mut().zip(&shape) {
            let end = level.last().copied().unwrap_or(0);
            level.extend((1..=lists).map(|list| end + (list * side) as i64));
            lists *= side;
        }
        self.there.push(true);
        Ok(())
    }

    /// Adds a row without an array: a bad row if `is_there` is true, and otherwise a null.
    pub(super) fn add_none(&mut self, is_there: bool) -> Result<()> {
        self.there.push(is_there);
        if let Some(level) = self.levels.first_mut() {
            level.push(level.last().copied().unwrap_or(0));
            return Ok(());
        }
        match &mut self.values {
            ListedValues::Numbers(dtype, bytes) => {
                bytes.resize(bytes.len() + self.fixed * value_bytes(dtype), 0);
            }
            ListedValues::Texts(texts) => texts.append_value(""),
            ListedValues::Bytes(bytes) => bytes.append_value(b""),
        }
        Ok(())
    }

    /// Makes the column of all rows.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let nulls = self.there.contains(&false).then(|| NullBuffer::from(self.there));
        let is_fixed = !self.arrays.fixed().is_empty();
        let of_values = nulls.clone().filter(|_| self.levels.is_empty() && !is_fixed);
        let mut column = self.values.finish(of_values)?;
        if is_fixed {
            let of_lists = nulls.clone().filter(|_| self.levels.is_empty());
            let item = item(column.data_type().clone());
            let length = self.fixed as i32;
            column = Arc::new(FixedSizeListArray::try_new(item, length, column, of_lists).or_fail()?);
        }
        for (level, ends) in self.levels.into_iter().enumerate().rev() {
            let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
            let nulls = nulls.clone().filter(|_| level == 0);
            let item = item(column.data_type().clone());
            column = Arc::new(LargeListArray::try_new(item, offsets, column, nulls).or_fail()?);
        }
        Ok(column)
    }
}

impl ListedValues {
    fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let with_nulls = |array: &dyn Array| -> Result<ArrayRef> {
            Ok(make_array(array.to_data().into_builder().nulls(nulls.clone()).build().or_fail()?))
        };
        match self {
            ListedValues::Numbers(DataType::Boolean, bytes) => {
                let values = BooleanBuffer::collect_bool(bytes.len(), |at| bytes[at] != 0);
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            ListedValues::Numbers(dtype, bytes) => {
                let count = bytes.len() / value_bytes(&dtype).max(1);
                let data = ArrayData::builder(dtype).len(count).add_buffer(Buffer::from(bytes)).nulls(nulls);
                // The bytes may begin at any address, so they are aligned for the type of the numbers.
                Ok(make_array(data.align_buffers(true).build().or_fail()?))
            }
            ListedValues::Texts(mut texts) => with_nulls(&texts.finish()),
            ListedValues::Bytes(mut bytes) => with_nulls(&bytes.finish()),
        }
    }
}

/// The texts of an array. Each character takes four bytes, and zeros fill each text to `width` bytes.
fn texts_in(values: &[u8], width: usize, count: usize) -> Result<Vec<String>> {
    let text = |at: usize| {
        let characters = values[at * width..(at + 1) * width].as_chunks::<{ size_of::<char>() }>().0;
        let characters = characters.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect::<Vec<_>>();
        let end = characters.iter().rposition(|character| *character != 0).map_or(0, |last| last + 1);
        characters[..end].iter().map(|character| char::from_u32(*character)).collect::<Option<String>>()
    };
    (0..count).map(text).collect::<Option<_>>().ok_or_else(|| {
        Error::new(ErrorKind::BadRow, "a numpy file of text with a number that is no character")
    })
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}
