//! Pads lists to the length of the longest list of their batch.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, LargeListArray, make_array};
use forebay_arrow::buffer::{Buffer, OffsetBuffer};
use forebay_arrow::compute::interleave;
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::padding::{KeptEnd, ListPlace, PadSide};
use crate::batch::value_bytes;

/// The metadata key of a field whose lists are padded to one length within each batch.
const PADDED: &str = "forebay:padded";

/// The options for padding lists to the longest list of a batch. They are stored in the field's metadata,
/// because joining batches must lengthen the rows of batches whose longest list is shorter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LongestRows {
    /// The number with which lists are padded, as a text, because JSON has no infinite numbers.
    value: String,
    side: PadSide,
    /// The padded length is a multiple of this number. Columns with different multiples cannot be joined.
    multiple: usize,
}

impl LongestRows {
    pub(super) fn new(value: f64, side: PadSide, multiple: usize) -> Self {
        LongestRows { value: format!("{value:?}"), side, multiple }
    }

    /// The field metadata that contains these options; [`of_field`](Self::of_field) reads them back.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
        // Serializing texts and numbers cannot fail.
        HashMap::from([(PADDED.to_owned(), serde_json::to_string(self).unwrap_or_default())])
    }

    /// Reads these options from a field's metadata; `None` if the field's lists are not padded to the longest
    /// list.
    pub(crate) fn of_field(field: &Field) -> Option<Self> {
        serde_json::from_str(field.metadata().get(PADDED)?).ok()
    }

    /// Lengthens the rows of one column of several batches to the longest row among the batches.
    pub(crate) fn evened(&self, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let filled = columns.iter().filter(|column| !column.is_empty());
        let longest = filled.map(|column| column.as_list::<i64>().value_length(0)).max().unwrap_or(0);
        let evened = columns.into_iter().map(|column| self.lengthened(column, longest as usize));
        evened.collect()
    }

    /// Pads the rows of a column to the length `row`. No row is longer than that.
    fn lengthened(&self, column: ArrayRef, row: usize) -> Result<ArrayRef> {
        let lists = column.as_list::<i64>();
        let DataType::LargeList(item) = column.data_type() else {
            return Err(Error::new(ErrorKind::Internal, "padded rows that are no lists"));
        };
        if (0..lists.len()).all(|at| lists.value_length(at) as usize == row) {
            return Ok(column);
        }
        let filler = self.filler(item.data_type())?;
        let places = lists.offsets().windows(2).flat_map(|ends| {
            let (from, length) = (ends[0] as usize, (ends[1] - ends[0]) as usize);
            let place = ListPlace::new(length, row, self.side, KeptEnd::First);
            let after = row - place.before - place.count;
            let values = (from..from + place.count).map(|at| (0, at));
            repeat_n((1, 0), place.before).chain(values).chain(repeat_n((1, 0), after))
        });
        let places: Vec<(usize, usize)> = places.collect();
        let values = interleave(&[lists.values().as_ref(), filler.as_ref()], &places).or_fail()?;
        let offsets = OffsetBuffer::from_repeated_length(row, lists.len());
        let nulls = lists.nulls().cloned();
        Ok(Arc::new(LargeListArray::try_new(item.clone(), offsets, values, nulls).or_fail()?))
    }

    /// The value with which lists are padded, as an array of one value.
    fn filler(&self, item: &DataType) -> Result<ArrayRef> {
        if *item == DataType::Boolean {
            return Ok(Arc::new(BooleanArray::from(vec![false])));
        }
        let number = |_| Error::new(ErrorKind::Internal, "rows are padded with no number");
        let bytes = value_bytes(item, self.value.parse::<f64>().map_err(number)?)?;
        let value = ArrayData::builder(item.clone()).len(1).add_buffer(Buffer::from_vec(bytes));
        Ok(make_array(value.align_buffers(true).build().or_fail()?))
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Float32Array, new_null_array};

    use super::*;

    /// Makes a column of lists by splitting `values` into lists of length `row`.
    fn column(values: ArrayRef, row: usize) -> ArrayRef {
        let item = Arc::new(Field::new("item", values.data_type().clone(), false));
        let offsets = OffsetBuffer::from_repeated_length(row, values.len() / row);
        Arc::new(LargeListArray::new(item, offsets, values, None))
    }

    #[test]
    fn joined_rows_have_the_length_of_the_longest() {
        let floats = |values: &[f32], row| column(Arc::new(Float32Array::from(values.to_vec())), row);
        for (side, expected) in
            [(PadSide::Right, [1.0, -1.0, 2.0, -1.0]), (PadSide::Left, [-1.0, 1.0, -1.0, 2.0])]
        {
            let rows = LongestRows::new(-1.0, side, 1);
            let field = Field::new("a", DataType::Null, false).with_metadata(rows.metadata());
            let rows = LongestRows::of_field(&field).unwrap();
            let (short, long) = (floats(&[1.0, 2.0], 1), floats(&[3.0, 4.0], 2));
            let absent = new_null_array(short.data_type(), 1);
            let evened = rows.evened(vec![short.slice(0, 0), short, long.clone(), absent]).unwrap();
            assert_eq!((evened[0].len(), &evened[1], &evened[2]), (0, &floats(&expected, 2), &long));
            assert_eq!((evened[3].null_count(), evened[3].as_list::<i64>().value_length(0)), (1, 2));
        }
    }

    #[test]
    fn a_mask_is_false_where_rows_became_longer() {
        let flags = |values: &[bool], row| column(Arc::new(BooleanArray::from(values.to_vec())), row);
        let rows = LongestRows::new(f64::INFINITY, PadSide::Right, 1);
        let evened = rows.evened(vec![flags(&[true], 1), flags(&[true, false], 2)]).unwrap();
        assert_eq!(evened, [flags(&[true, false], 2), flags(&[true, false], 2)]);
        assert_eq!(
            rows.filler(&DataType::Float32).unwrap().as_ref(),
            &Float32Array::from(vec![f32::INFINITY]) as &dyn Array
        );
    }
}
