//! Delivers tensors that are stored as lists of numbers: one flat list for each row, or nested lists with one
//! level for each dimension of the shape.
//!
//! Gathered lists are already one block of values, so only their lengths are checked.

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, MutableArrayData, NullBufferBuilder, make_array,
    new_empty_array,
};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use super::dtype::name_of;
use super::spec::{Tensor, TensorFormat};
use crate::batch::{Fill, Selection, gather};
use crate::column::tensor::tensor_field;
use crate::column::{Gather, GatheredRows, NullOptions};

/// Delivers lists as rows of one shape.
#[derive(Debug)]
pub(super) struct ListsCodec {
    tensor: Tensor,
    /// The required length of the lists at each level of nesting.
    lengths: Vec<usize>,
    /// The value that replaces nulls; `None` if a null is a bad row.
    fill: Option<Fill>,
    /// Whether `fill` was set with `fill_null`, and so also replaces nulls inside a row. Otherwise only rows
    /// that are null as a whole are filled.
    is_given: bool,
}

impl ListsCodec {
    pub(super) fn new(tensor: Tensor, stored: &DataType, nulls: NullOptions<'_>) -> Result<Self> {
        let (levels, values) = levels(stored);
        if levels.is_empty() {
            return Err(Error::invalid(format!("holds {}, not tensors", TypeName(stored)))
                .hint("tensors are binary values, struct<bytes, path>, or lists of numbers"));
        }
        if tensor.format != TensorFormat::Raw {
            return Err(Error::invalid(format!(
                "holds {}, and no {} cells",
                TypeName(stored),
                tensor.format.name()
            ))
            .hint("lists have no format: leave it out"));
        }
        if *values != tensor.dtype {
            let values = name_of(values).map_or_else(|| TypeName(values).to_string(), str::to_owned);
            let wanted = name_of(&tensor.dtype).unwrap_or_default();
            return Err(Error::invalid(format!("holds lists whose values are {values}, not {wanted}"))
                .hint("give the type of the column, or `cast` it"));
        }
        let lengths = match levels.len() {
            1 => vec![tensor.shape.iter().fold(1, |values: usize, side| values.saturating_mul(*side))],
            deep if deep == tensor.shape.len() => tensor.shape.clone(),
            deep => {
                let cause = format!(
                    "holds lists {deep} deep, and {} has {} sides",
                    tensor.described(),
                    tensor.shape.len()
                );
                return Err(Error::invalid(cause).hint("nested lists need a side for each level"));
            }
        };
        for (held, wanted) in levels.iter().zip(&lengths) {
            if let Some(held) = held.filter(|held| held != wanted) {
                let cause =
                    format!("holds lists of {held} values, and {} takes {wanted}", tensor.described());
                return Err(Error::invalid(cause));
            }
        }
        let is_given = nulls.fill.is_some();
        let fill = nulls.are_delivered().then(|| nulls.fill.cloned().unwrap_or(Fill::from(0.0)));
        if let Some(fill) = &fill {
            fill.check(&tensor.dtype)?;
        }
        Ok(ListsCodec { tensor, lengths, fill, is_given })
    }

    /// Returns the values of the lists in `rows` of a column. Fails with `BadRow` if the lists do not have
    /// the tensor's shape, or contain a null that is not filled.
    fn values(&self, column: &dyn Array, rows: Range<usize>) -> Result<(ArrayRef, Range<usize>)> {
        let described = self.tensor.described();
        let bad = |cause: String| Error::new(ErrorKind::BadRow, cause);
        let null = || bad(format!("null where {described} needs a value"));
        let first = rows.start;
        match block(column, rows, &self.lengths) {
            Ok((values, range)) if self.is_given || !has_nulls(values.as_ref(), &range) => {
                Ok((values, range))
            }
            Ok(_) => Err(null().hint(match self.fill {
                Some(_) => "the mask is for whole rows: give a value with `fill_null`",
                None => "give a value with `fill_null`",
            })),
            Err(Unfit::Null) if column.is_null(first) => {
                Err(null().hint("give a value with `fill_null`, or a mask with `null_mask`"))
            }
            Err(Unfit::Null) => Err(null()),
            Err(Unfit::Length { held, wanted }) => {
                Err(bad(format!("a list of {held} values where {described} takes {wanted}")))
            }
        }
    }
}

/// The reason why lists cannot be read as tensors of one shape.
pub(super) enum Unfit {
    /// A list is null.
    Null,
    /// A list has `held` values instead of `wanted`.
    Length { held: usize, wanted: usize },
}

/// Returns the array that holds the innermost values of the lists in `rows`, and the range of these values in
/// the array. Lists at each level of nesting must have the length that `lengths` gives for that level.
pub(super) fn block(
    column: &dyn Array,
    rows: Range<usize>,
    lengths: &[usize],
) -> std::result::Result<(ArrayRef, Range<usize>), Unfit> {
    let mut found = (make_array(column.to_data()), rows);
    for &wanted in lengths {
        let (lists, rows) = &found;
        if has_nulls(lists.as_ref(), rows) {
            return Err(Unfit::Null);
        }
        let (values, range) = match lists.data_type() {
            DataType::FixedSizeList(_, held) => {
                let held = usize::try_from(*held).unwrap_or(0);
                if held != wanted {
                    return Err(Unfit::Length { held, wanted });
                }
                (lists.as_fixed_size_list().values(), rows.start * wanted..rows.end * wanted)
            }
            _ => {
                let lists = lists.as_list::<i64>();
                let offsets = &lists.value_offsets()[rows.start..=rows.end];
                let mut lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
                if let Some(held) = lengths.find(|held| *held != wanted) {
                    return Err(Unfit::Length { held, wanted });
                }
                (lists.values(), offsets[0] as usize..offsets[rows.len()] as usize)
            }
        };
        found = (values.clone(), range);
    }
    Ok(found)
}

fn has_nulls(array: &dyn Array, rows: &Range<usize>) -> bool {
    array.nulls().is_some_and(|nulls| nulls.slice(rows.start, rows.len()).null_count() > 0)
}

/// Joins the values of rows that have `length` values each; a row that is `None` gets zeros. All ranges must
/// belong to one array.
pub(super) fn rows_of(
    rows: &[Option<(ArrayRef, Range<usize>)>],
    length: usize,
    dtype: &DataType,
) -> Result<ArrayRef> {
    let data = match rows.iter().flatten().next() {
        Some((values, _)) => values.to_data(),
        None => new_empty_array(dtype).to_data(),
    };
    let mut values = MutableArrayData::new(vec![&data], true, rows.len() * length);
    let mut written = NullBufferBuilder::new(rows.len() * length);
    for row in rows {
        match row {
            Some((array, range)) => {
                match array.nulls() {
                    Some(nulls) => written.append_buffer(&nulls.slice(range.start, range.len())),
                    None => written.append_n_non_nulls(range.len()),
                }
                values.try_extend(0, range.start, range.end)
            }
            None => {
                written.append_n_non_nulls(length);
                values.try_extend_nulls(length)
            }
        }
        .or_fail()?;
    }
    Ok(make_array(values.freeze().into_builder().nulls(written.finish()).build().or_fail()?))
}

impl Gather for ListsCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let Tensor { shape, dtype, .. } = &self.tensor;
        Ok(Arc::new(tensor_field(stored.name(), shape, dtype.clone())?))
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let gathered = gather(sources, selection, None)?;
        // The product cannot overflow: `tensor_field` checked it when the column's field was made.
        let length: usize = self.lengths.iter().product();
        let (values, nulls, bad) = match self.values(&gathered, 0..gathered.len()) {
            Ok((values, range)) => (values.slice(range.start, range.len()), None, Vec::new()),
            Err(_) => {
                let mut bad = Vec::new();
                let of_row = |row: usize| match self.fill {
                    Some(_) if gathered.is_null(row) => None,
                    _ => self.values(&gathered, row..row + 1).map_err(|error| bad.push((row, error))).ok(),
                };
                let rows: Vec<_> = (0..gathered.len()).map(of_row).collect();
                (rows_of(&rows, length, &self.tensor.dtype)?, gathered.nulls().cloned(), bad)
            }
        };
        let values = match &self.fill {
            Some(fill) if nulls.is_some() || values.null_count() > 0 => {
                let item = Arc::new(Field::new("item", self.tensor.dtype.clone(), true));
                let lists = FixedSizeListArray::try_new(item, length as i32, values, nulls).or_fail()?;
                let all = Selection::of_one((0..gathered.len() as u32).collect());
                gather(&[&lists], &all, Some(fill))?.as_fixed_size_list().values().clone()
            }
            _ => values,
        };
        let item = Arc::new(Field::new("item", self.tensor.dtype.clone(), false));
        let rows = FixedSizeListArray::try_new(item, length as i32, values, None).or_fail()?;
        Ok((Arc::new(rows), bad))
    }
}

/// The levels of lists in a type, each with its length if that is fixed, and the type of the innermost
/// values.
pub(super) fn levels(mut data_type: &DataType) -> (Vec<Option<usize>>, &DataType) {
    let mut levels = Vec::new();
    loop {
        let (item, length) = match data_type {
            DataType::List(item) | DataType::LargeList(item) => (item, None),
            DataType::FixedSizeList(item, length) => (item, usize::try_from(*length).ok()),
            values => return (levels, values),
        };
        levels.push(length);
        data_type = item.data_type();
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Float32Array, LargeListArray, ListArray};
    use forebay_arrow::buffer::{NullBuffer, OffsetBuffer};
    use forebay_arrow::datatypes::{Float32Type, Int32Type};

    use super::*;
    use crate::column::Column;

    fn delivered(tensor: &Tensor, column: &ArrayRef) -> (Vec<f32>, Vec<(usize, String)>) {
        let field = Field::new("x", column.data_type().clone(), true);
        let codec = tensor.codec(&field, NullOptions::default()).unwrap();
        let rows = Selection::of_one((0..column.len() as u32).collect());
        let (rows, bad) = codec.as_gather().unwrap().gather(&[column], &rows).unwrap();
        assert_eq!(rows.data_type(), Column::with_codec(codec, &field).unwrap().field.data_type());
        assert_eq!((rows.len(), rows.logical_null_count()), (column.len(), 0));
        let values = rows.as_fixed_size_list().values().as_primitive::<Float32Type>().values().to_vec();
        (values, bad.into_iter().map(|(row, error)| (row, error.to_string())).collect())
    }

    fn list(values: ArrayRef, lengths: &[usize], nulls: Option<NullBuffer>) -> ArrayRef {
        let item = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths.iter().copied()), values, nulls))
    }

    #[test]
    fn lists_become_rows_of_the_shape_and_others_are_bad_rows() {
        let numbers: ArrayRef = Arc::new(Float32Array::from_iter_values((0..24).map(|at| at as f32)));
        let tensor = Tensor::new(DataType::Float32, [2, 3]);
        let all: Vec<f32> = (0..24).map(|at| at as f32).collect();
        assert_eq!(delivered(&tensor, &list(numbers.clone(), &[6; 4], None)), (all.clone(), vec![]));
        let nested = list(list(numbers.clone(), &[3; 8], None), &[2; 4], None);
        assert_eq!(delivered(&tensor, &nested), (all.clone(), vec![]));
        assert_eq!(delivered(&tensor, &nested.slice(1, 2)), (all[6..18].to_vec(), vec![]));

        let short = list(numbers.clone(), &[6, 5, 6, 0, 7], None);
        let (values, bad) = delivered(&tensor, &short);
        assert_eq!((&values[..6], &values[12..18]), (&all[..6], &all[11..17]));
        let said = ["5 values where float32[2, 3] takes 6", "0 values where", "7 values where"];
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 3, 4]);
        assert!(bad.iter().zip(said).all(|((_, error), said)| error.contains(said)), "{bad:?}");

        // All rows have six values, but in two of them the inner lists do not have the shape [2, 3].
        let turned = list(list(numbers, &[3, 3, 2, 2, 2, 3, 3, 4, 2], None), &[2, 3, 2, 2], None);
        let (values, bad) = delivered(&tensor, &turned);
        assert_eq!((&values[..6], &values[12..18]), (&all[..6], &all[12..18]));
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_null_at_any_level_is_a_bad_row() {
        let tensor = Tensor::new(DataType::Float32, [2]);
        let lists =
            [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), None]), Some([Some(4.0), Some(5.0)])];
        let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists, 2);
        let ragged = LargeListArray::from_iter_primitive::<Float32Type, _, _>(lists);
        for column in [Arc::new(fixed) as ArrayRef, Arc::new(ragged)] {
            let (values, bad) = delivered(&tensor, &column);
            assert_eq!((&values[..2], &values[6..]), (&[1.0, 2.0][..], &[4.0, 5.0][..]));
            assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 2]);
            assert!(bad.iter().all(|(_, error)| error.contains("null where float32[2]")), "{bad:?}");
        }
        let numbers: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 4]));
        let nulls = NullBuffer::from(vec![true, true, false, true]);
        let nested = list(list(numbers, &[1; 4], Some(nulls)), &[2, 2], None);
        let (_, bad) = delivered(&Tensor::new(DataType::Float32, [2, 1]), &nested);
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1]);
        let none = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![None::<Vec<Option<i32>>>; 3]);
        let field = Field::new("x", none.data_type().clone(), true);
        let codec = Tensor::new(DataType::Int32, [2]).codec(&field, NullOptions::default()).unwrap();
        let all = Selection::of_one(vec![0, 1, 2]);
        assert_eq!(codec.as_gather().unwrap().gather(&[&none], &all).unwrap().1.len(), 3);
    }
}
