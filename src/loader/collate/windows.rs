//! Columns of windows: joins the consecutive rows of each window into one value.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, make_array};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use super::views::{Picks, View};
use crate::column::{tensor_field, tensor_shape};
use crate::samples::Frames;

/// How the rows of a batch form windows, the samples of several consecutive rows.
#[derive(Debug)]
pub(crate) struct WindowShape {
    /// The number of rows of a window.
    pub(super) length: usize,
    /// Says whether all rows of a window use the same random numbers, or each row its own.
    pub(super) frames: Frames,
    /// The field of each column as its codec delivers it, before rows are joined into windows.
    fields: Vec<FieldRef>,
    /// The distinct views: for each, the rows of a window for which its columns are delivered.
    views: Vec<Vec<u32>>,
    /// For each column, the index of its view.
    of: Vec<usize>,
    /// For each column whose codec makes one value of a window, the rows of the window that the codec gets.
    frames_of: Vec<Option<Vec<u32>>>,
}

/// A delivered column of windows. If `takes_window` is true, its codec makes one value of a window, and
/// `field` describes that value; otherwise `field` describes the value of one row. `rows` has the indices
/// of the rows of a window that the column takes.
pub(crate) struct WindowColumn {
    pub(crate) field: FieldRef,
    pub(crate) rows: Vec<u32>,
    pub(crate) takes_window: bool,
}

impl WindowShape {
    /// Windows of `length` rows. `frames` says whether all rows of a window use the same random numbers.
    pub(crate) fn new(length: u32, frames: Frames, columns: impl IntoIterator<Item = WindowColumn>) -> Self {
        let (fields, views, of, frames_of) = Default::default();
        let mut shape = WindowShape { length: length as usize, frames, fields, views, of, frames_of };
        let mut known = HashMap::new();
        for WindowColumn { field, rows, takes_window } in columns {
            let (frames, rows) = match takes_window {
                // The codec makes one value of a whole window, so the view has one row for each window.
                true => (Some(rows), vec![0]),
                false => (None, rows),
            };
            shape.frames_of.push(frames);
            let view = *known.entry(rows).or_insert_with_key(|rows| {
                shape.views.push(rows.clone());
                shape.views.len() - 1
            });
            shape.fields.push(field);
            shape.of.push(view);
        }
        shape
    }

    /// The field of each column of a batch.
    pub(crate) fn delivered(&self) -> Result<Vec<FieldRef>> {
        (0..self.fields.len()).map(|column| self.field(column)).collect()
    }

    /// The field of a column of a batch.
    fn field(&self, column: usize) -> Result<FieldRef> {
        let field = &self.fields[column];
        match self.frames_of[column] {
            Some(_) => Ok(field.clone()),
            None => window_field(field, self.rows_of(column)).map(Arc::new),
        }
    }

    /// The rows of a window that the codec of a column gets, if the codec makes one value of them.
    pub(super) fn frames_of(&self, column: usize) -> &[u32] {
        self.frames_of[column].as_deref().unwrap_or_default()
    }

    /// The number of rows of a window for which a column is delivered.
    pub(crate) fn rows_of(&self, column: usize) -> usize {
        self.views[self.of[column]].len()
    }

    pub(super) fn views(&self, picks: &Picks) -> Vec<View> {
        self.views.iter().map(|rows| View::some(picks, rows, self.length)).collect()
    }

    pub(super) fn view(&self, column: usize) -> usize {
        self.of[column]
    }

    pub(super) fn row_field(&self, column: usize) -> &Field {
        &self.fields[column]
    }

    /// Joins the rows of a column: those of each window become one value.
    pub(super) fn column(&self, column: usize, rows: &ArrayRef) -> Result<ArrayRef> {
        if self.frames_of.get(column).is_some_and(Option::is_some) {
            return Ok(rows.clone());
        }
        let field = self.field(column)?;
        let DataType::FixedSizeList(item, length) = field.data_type() else {
            return Err(Error::new(ErrorKind::Internal, "a column of windows is a list"));
        };
        let values = match is_tensor(&self.fields[column]) {
            true => flat(rows.as_fixed_size_list())?,
            false => rows.clone(),
        };
        Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, None).or_fail()?))
    }
}

/// The field of a column after groups of `count` rows are joined. Tensors of equal shape get one more
/// dimension; other values become lists of `count` values.
fn window_field(row: &Field, count: usize) -> Result<Field> {
    let metadata = row.metadata();
    if is_tensor(row)
        && let DataType::FixedSizeList(item, length) = row.data_type()
    {
        let sides = tensor_shape(row).unwrap_or_else(|| vec![*length as usize]);
        let shape: Vec<usize> = std::iter::once(count).chain(sides).collect();
        let field = tensor_field(row.name(), &shape, item.data_type().clone())?;
        let item = item.as_ref().clone().with_nullable(item.is_nullable() || row.is_nullable());
        let DataType::FixedSizeList(_, length) = field.data_type() else { return Ok(field) };
        let list = DataType::FixedSizeList(Arc::new(item), *length);
        let metadata: HashMap<String, String> =
            metadata.clone().into_iter().chain(field.metadata().clone()).collect();
        return Ok(Field::new(row.name(), list, false).with_metadata(metadata));
    }
    let length = i32::try_from(count).map_err(|_| Error::invalid("a window has more than 2^31 rows"))?;
    let item = Field::new("item", row.data_type().clone(), row.is_nullable()).with_metadata(metadata.clone());
    Ok(Field::new(row.name(), DataType::FixedSizeList(Arc::new(item), length), false))
}

/// Whether the values of a column are arrays of numbers, all of one shape.
fn is_tensor(row: &Field) -> bool {
    match row.data_type() {
        DataType::FixedSizeList(item, _) => {
            item.data_type().is_primitive() || *item.data_type() == DataType::Boolean
        }
        _ => false,
    }
}

/// The values in all lists, one after the other; the values of a null list are nulls.
fn flat(list: &FixedSizeListArray) -> Result<ArrayRef> {
    let values = list.values();
    let Some(nulls) = list.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(values.clone()) };
    let nulls = NullBuffer::union(Some(&nulls.expand(list.value_length() as usize)), values.nulls());
    Ok(make_array(values.to_data().into_builder().nulls(nulls).build().or_fail()?))
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{FixedSizeListBuilder, Float32Builder, Int64Array, StringArray};
    use forebay_arrow::datatypes::{Float32Type, Int64Type};

    use super::*;

    fn windows(row: Field, rows: Vec<u32>, values: ArrayRef) -> (Field, ArrayRef) {
        let column = WindowColumn { field: Arc::new(row), rows, takes_window: false };
        let shape = WindowShape::new(3, Frames::Together, [column]);
        let field = shape.delivered().unwrap()[0].as_ref().clone();
        let column = shape.column(0, &values).unwrap();
        assert_eq!(column.data_type(), field.data_type());
        (field, column)
    }

    #[test]
    fn numbers_of_rows_are_lists() {
        let row = Field::new("x", DataType::Int64, true);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let (_, column) = windows(row, vec![0, 2], values);
        assert_eq!(column.len(), 2);
        let second = column.as_fixed_size_list().value(1);
        assert_eq!(second.as_primitive::<Int64Type>().values(), &[3, 4]);
    }

    #[test]
    fn tensors_get_one_side_more_and_keep_their_nulls() {
        let mut lists = FixedSizeListBuilder::new(Float32Builder::new(), 2);
        for row in 0..6 {
            lists.values().append_slice(&[row as f32, 0.5]);
            lists.append(row != 4);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let row = Field::new("x", lists.data_type().clone(), true);
        let (field, column) = windows(row, vec![0, 1, 2], lists);
        assert_eq!(tensor_shape(&field), Some(vec![3, 2]));
        let column = column.as_fixed_size_list();
        assert_eq!((column.len(), column.value_length()), (2, 6));
        assert_eq!(column.values().null_count(), 2);
        assert_eq!(column.values().as_primitive::<Float32Type>().value(10), 5.0);
    }

    #[test]
    fn texts_are_lists_of_texts() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let (_, column) = windows(Field::new("x", DataType::Utf8, false), vec![0, 1, 2], values);
        assert_eq!(column.as_fixed_size_list().value(0).as_string::<i32>().value(1), "b");
    }
}
