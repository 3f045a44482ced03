//! Converts the vectors of Spark ML in a column to lists of all their values. The column's other codecs get
//! these lists.
//!
//! In memory and in the row cache, vectors stay as they are stored. They are converted when a batch is
//! gathered, so that until then a sparse vector of a million values takes as little memory as in the file.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float64Array, LargeListArray, MapArray, StructArray,
};
use forebay_arrow::buffer::{OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::vectors::{SparkMl, Vectors, holds_vectors, with_lists};
use forebay_base::{Error, ErrorKind, Result};

use super::codec::after_making;
use super::{BadValue, Codec, Gather, GatheredRows, RowSize};
use crate::batch::{Selection, gather};

/// Converts the vectors of a column to lists, and delivers them with the codec for lists.
#[derive(Debug)]
pub(crate) struct VectorCodec {
    /// The codec that delivers the lists.
    inner: Arc<dyn Gather>,
}

impl VectorCodec {
    /// The codec for a column of vectors. The codec `inner` delivers the lists that the vectors become; it
    /// must be a `Codec::Gather` that was made for the field [with lists](with_lists).
    ///
    /// Fails with `Invalid` if the column is to be changed together with an image, as boxes and keypoints
    /// are.
    pub(crate) fn new(inner: Codec) -> Result<Self> {
        match inner {
            Codec::Gather(inner) => Ok(VectorCodec { inner }),
            _ => Err(Error::invalid("holds vectors of Spark ML, which do not follow images")
                .hint("write them as lists, as vector_to_array of Spark makes them")),
        }
    }

    /// The codec for the mask of padded vectors. The codec `inner` makes the mask from the lists.
    pub(crate) fn of_mask(inner: Arc<dyn Gather>) -> Self {
        VectorCodec { inner }
    }
}

impl Gather for VectorCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.inner.delivered(&with_lists(stored))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (lists, bad) = as_lists(&gather(sources, selection, None)?)?;
        after_making(lists, bad, self.inner.as_ref(), true)
    }

    fn size(&self) -> RowSize {
        RowSize { is_expanded: true, ..self.inner.size() }
    }

    fn unknown_values(&self) -> u64 {
        self.inner.unknown_values()
    }
}

/// Converts gathered vectors to lists. A bad vector becomes an empty list, and its error is returned too. The
/// errors are in the order of the rows.
fn lists_of_vectors(rows: &StructArray) -> Result<(ArrayRef, Vec<BadValue>)> {
    let vectors = Vectors::from_array(rows).ok_or_else(no_vectors)?;
    let mut bad = Vec::new();
    let mut end = 0;
    let mut offsets = vec![0; 1];
    for row in 0..rows.len() {
        match vectors.length(row) {
            Ok(length) => end += length.unwrap_or(0) as i64,
            Err(cause) => bad.push((row, refusal(&cause))),
        }
        offsets.push(end);
    }
    let stored = rows.columns().last().and_then(|values| values.as_list_opt::<i64>());
    let stored = stored.ok_or_else(no_vectors)?;
    let DataType::LargeList(item) = stored.data_type() else { return Err(no_vectors()) };
    let values = match *offsets == **stored.offsets() {
        // All vectors are dense, so their values are already in order.
        true => stored.values().clone(),
        false => Arc::new(Float64Array::from(all_values(&vectors, &offsets)?)),
    };
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let made = LargeListArray::try_new(item.clone(), offsets, values, rows.nulls().cloned()).or_fail()?;
    Ok((Arc::new(made), bad))
}

/// Copies the values of all vectors into one list. The values of vector `i` begin at `offsets[i]`.
fn all_values(vectors: &Vectors<'_>, offsets: &[i64]) -> Result<Vec<f64>> {
    let count = offsets.last().map_or(0, |end| *end as usize);
    let mut all = Vec::new();
    let too_large = || {
        let bytes = count.saturating_mul(size_of::<f64>());
        Error::new(ErrorKind::TooLarge, format!("vectors of {bytes} bytes do not fit the memory"))
            .hint("use a smaller `batch_size`")
    };
    all.try_reserve_exact(count).map_err(|_| too_large())?;
    all.resize(count, 0.0);
    for (row, place) in offsets.windows(2).enumerate() {
        let to = &mut all[place[0] as usize..place[1] as usize];
        // The range of a bad vector is empty, so nothing is copied for it.
        if !to.is_empty() {
            vectors.copy_to(row, to);
        }
    }
    Ok(all)
}

/// Converts the vectors at any depth of a gathered column to lists, and returns the rows that hold bad
/// vectors, in order.
fn as_lists(array: &ArrayRef) -> Result<(ArrayRef, Vec<BadValue>)> {
    if !holds_vectors(array.data_type()) {
        return Ok((array.clone(), Vec::new()));
    }
    let nulls = array.nulls().cloned();
    match array.data_type() {
        vectors if SparkMl::from_type(vectors) == Some(SparkMl::Vector) => {
            lists_of_vectors(array.as_struct())
        }
        DataType::Struct(fields) => {
            let (mut columns, mut bad) = (Vec::with_capacity(fields.len()), Vec::new());
            for column in array.as_struct().columns() {
                let (column, of_field) = as_lists(column)?;
                columns.push(column);
                bad.extend(of_field);
            }
            let fields = fields.iter().map(|field| Arc::new(with_lists(field))).collect();
            let made = StructArray::try_new_with_length(fields, columns, nulls, array.len()).or_fail()?;
            Ok((Arc::new(made), in_rows(array, bad, Some)))
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            let (values, bad) = as_lists(lists.values())?;
            let item = Arc::new(with_lists(item));
            let made = LargeListArray::try_new(item, lists.offsets().clone(), values, nulls).or_fail()?;
            let row = |at: usize| row_of(lists.value_offsets(), |offset| *offset as usize <= at);
            Ok((Arc::new(made), in_rows(array, bad, row)))
        }
        DataType::FixedSizeList(item, length) => {
            let (values, bad) = as_lists(array.as_fixed_size_list().values())?;
            let item = Arc::new(with_lists(item));
            let made = FixedSizeListArray::try_new(item, *length, values, nulls).or_fail()?;
            let each = usize::try_from(*length).unwrap_or(1).max(1);
            Ok((Arc::new(made), in_rows(array, bad, |at| Some(at / each))))
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let stored: ArrayRef = Arc::new(map.entries().clone());
            let (values, bad) = as_lists(&stored)?;
            let (entries, offsets) = (Arc::new(with_lists(entries)), map.offsets().clone());
            let values = values.as_struct().clone();
            let made = MapArray::try_new(entries, offsets, values, nulls, *sorted).or_fail()?;
            let row = |at: usize| row_of(map.value_offsets(), |offset| *offset as usize <= at);
            Ok((Arc::new(made), in_rows(array, bad, row)))
        }
        _ => Err(no_vectors()),
    }
}

/// Finds the rows of `array` that contain the bad `values`, in order and each row once. Null rows are left
/// out. `row` maps the index of a value to its row.
fn in_rows(array: &dyn Array, values: Vec<BadValue>, row: impl Fn(usize) -> Option<usize>) -> Vec<BadValue> {
    let rows = values.into_iter().filter_map(|(value, error)| Some((row(value)?, error)));
    let mut rows: Vec<BadValue> =
        rows.filter(|(row, _)| *row < array.len() && array.is_valid(*row)).collect();
    rows.sort_by_key(|(row, _)| *row);
    rows.dedup_by_key(|(row, _)| *row);
    rows
}

fn row_of<O>(offsets: &[O], is_before: impl FnMut(&O) -> bool) -> Option<usize> {
    offsets.partition_point(is_before).checked_sub(1)
}

fn refusal(cause: &str) -> Error {
    Error::new(ErrorKind::BadRow, format!("no vector of Spark ML: {cause}"))
}

fn no_vectors() -> Error {
    Error::new(ErrorKind::Internal, "a column of vectors has other fields")
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Int8Array, Int32Array, ListArray, StringViewArray};
    use forebay_arrow::datatypes::{Float64Type, Int32Type};
    use forebay_arrow::vectors::{DENSE, SPARSE, lists_of};
    use forebay_arrow::vectors::{Stored, stored as vectors};

    use super::*;
    use crate::column::pad::PadCodec;
    use crate::column::{Pad, PlainCodec};

    fn dense(values: &[f64]) -> Option<Stored> {
        Some((DENSE, None, None, Some(values.to_vec())))
    }

    fn sparse(size: i32, indices: &[i32], values: &[f64]) -> Option<Stored> {
        Some((SPARSE, Some(size), Some(indices.to_vec()), Some(values.to_vec())))
    }

    /// The column as it is delivered, and its bad rows with the reasons.
    fn delivered(column: &dyn Array) -> (ArrayRef, Vec<(usize, String)>) {
        let field = Field::new("x", column.data_type().clone(), true);
        let codec = VectorCodec::new(Codec::Gather(Arc::new(PlainCodec::default()))).unwrap();
        let all = Selection::of_one((0..column.len() as u32).collect());
        let (rows, refused) = codec.gather(&[column], &all).unwrap();
        assert_eq!(rows.data_type(), codec.delivered(&field).unwrap().data_type());
        (rows, refused.into_iter().map(|(row, error)| (row, error.cause().to_owned())).collect())
    }

    fn values(lists: &dyn Array) -> Vec<Option<Vec<f64>>> {
        let lists = lists.as_list::<i64>();
        lists.iter().map(|list| Some(list?.as_primitive::<Float64Type>().values().to_vec())).collect()
    }

    #[test]
    fn dense_and_sparse_vectors_are_lists_of_all_values() {
        let mixed = vectors(&[
            dense(&[1.0, 2.0]),
            None,
            sparse(4, &[0, 3], &[5.0, -0.0]),
            sparse(2, &[], &[]),
            dense(&[]),
            sparse(0, &[], &[]),
        ]);
        let (rows, bad) = delivered(&mixed);
        assert!(bad.is_empty(), "{bad:?}");
        let all = |values: &[f64]| Some(values.to_vec());
        let expected =
            [all(&[1.0, 2.0]), None, all(&[5.0, 0.0, 0.0, -0.0]), all(&[0.0; 2]), all(&[]), all(&[])];
        assert_eq!(values(&rows), expected);
        let (rows, _) = delivered(&mixed.slice(2, 3));
        assert_eq!(values(&rows), expected[2..5]);
        let (rows, _) = delivered(&vectors(&[dense(&[1.0]), None, dense(&[2.0, 3.0])]));
        assert_eq!(values(&rows), [all(&[1.0]), None, all(&[2.0, 3.0])]);
        let (rows, _) = delivered(&vectors(&[]));
        assert!(rows.is_empty());
    }

    #[test]
    fn a_bad_vector_is_a_bad_row_and_never_other_numbers() {
        let good = dense(&[7.0]);
        for (bad, cause) in [
            (sparse(3, &[3], &[1.0]), "index 3 where its size is 3"),
            (sparse(3, &[-1], &[1.0]), "index -1 where its size is 3"),
            (sparse(3, &[1, 1], &[1.0, 2.0]), "index 1 after 1, and they ascend"),
            (sparse(3, &[2, 0], &[1.0, 2.0]), "index 0 after 2, and they ascend"),
            (sparse(3, &[0], &[1.0, 2.0]), "1 indices, and 2 values"),
            (sparse(-1, &[], &[]), "sparse, of size -1"),
            (sparse(i32::MAX, &[i32::MAX], &[1.0]), "index 2147483647 where its size is 2147483647"),
            (Some((SPARSE, None, Some(vec![0]), Some(vec![1.0]))), "sparse, without a size"),
            (Some((SPARSE, Some(1), None, Some(vec![1.0]))), "sparse, without indices"),
            (Some((SPARSE, Some(1), Some(vec![0]), None)), "it has no values"),
            (Some((DENSE, None, None, None)), "it has no values"),
            (Some((DENSE, Some(2), None, Some(vec![1.0]))), "dense, of size 2, with 1 values"),
            (Some((DENSE, None, Some(vec![0]), Some(vec![1.0]))), "dense, with 1 indices"),
            (Some((2, None, None, Some(vec![1.0]))), "its type is 2, neither 0 (sparse) nor 1 (dense)"),
        ] {
            let (rows, refused) = delivered(&vectors(&[good.clone(), bad, good.clone()]));
            assert_eq!(refused, [(1, format!("no vector of Spark ML: {cause}"))]);
            let all = values(&rows);
            assert_eq!((&all[0], &all[2]), (&Some(vec![7.0]), &Some(vec![7.0])));
        }
    }

    #[test]
    fn a_null_inside_a_vector_is_a_bad_row() {
        let whole = vectors(&[sparse(2, &[0], &[1.0]), dense(&[1.0])]);
        let lists = |nulls: usize| -> Vec<ArrayRef> {
            let indices = [Some(vec![(nulls != 2).then_some(0)]), None];
            let values = [Some(vec![Some(1.0)]), Some(vec![(nulls != 3).then_some(1.0)])];
            vec![
                Arc::new(Int8Array::from(vec![Some(SPARSE), (nulls != 0).then_some(DENSE)])),
                whole.column(1).clone(),
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(indices)),
                Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values)),
            ]
        };
        for (nulls, bad) in [
            (0, vec![(1, "its type is null")]),
            (2, vec![(0, "null among its indices")]),
            (3, vec![(1, "null among its values")]),
            (4, vec![]),
        ] {
            let column = StructArray::new(whole.fields().clone(), lists(nulls), None);
            let bad: Vec<_> = bad
                .into_iter()
                .map(|(row, cause)| (row, format!("no vector of Spark ML: {cause}")))
                .collect();
            assert_eq!(delivered(&column).1, bad);
        }
    }

    #[test]
    fn vectors_in_structures_and_lists_are_lists_there() {
        let stored = vectors(&[dense(&[1.0]), sparse(2, &[1], &[2.0]), sparse(1, &[1], &[2.0])]);
        let names: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c"]));
        let field = |name: &str, array: &dyn Array| Field::new(name, array.data_type().clone(), true);
        let fields = vec![field("name", &names), field("v", &stored)].into();
        let structure = StructArray::new(fields, vec![names, Arc::new(stored.clone())], None);
        let (rows, bad) = delivered(&structure);
        assert_eq!(values(rows.as_struct().column(1))[..2], [Some(vec![1.0]), Some(vec![0.0, 2.0])]);
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2]);

        let item = Arc::new(field("item", &structure));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 1]), Arc::new(structure), None);
        let (rows, bad) = delivered(&lists);
        assert_eq!(rows.as_list::<i64>().value_offsets(), [0, 2, 2, 3]);
        assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2]);

        let item = Arc::new(field("item", &stored));
        let two = stored.slice(0, 2);
        let pairs = FixedSizeListArray::new(item, 2, Arc::new(two), None);
        let (rows, bad) = delivered(&pairs);
        assert_eq!(values(rows.as_fixed_size_list().values()), [Some(vec![1.0]), Some(vec![0.0, 2.0])]);
        assert!(bad.is_empty());
    }

    #[test]
    fn what_comes_after_sees_lists() {
        let stored = vectors(&[sparse(2, &[1], &[2.0]), sparse(1, &[1], &[2.0]), dense(&[1.0, 2.0, 3.0])]);
        let listed = Field::new("x", lists_of(stored.data_type()), true);
        let pad = PadCodec::new(&Pad::new(2), &listed, None).unwrap();
        let codec = VectorCodec::new(Codec::Gather(Arc::new(pad))).unwrap();
        assert_eq!((codec.size().bytes, codec.size().is_expanded), (Some(16), true));
        let rows = Selection::new(vec![(0, 2), (0, 1), (0, 0)]);
        let (padded, refused) = codec.gather(&[&stored], &rows).unwrap();
        let values = padded.as_fixed_size_list().values().as_primitive::<Float64Type>().clone();
        assert_eq!(&values.values()[4..], &[0.0, 2.0]);
        let refused: Vec<_> = refused.iter().map(|(row, error)| (*row, error.cause())).collect();
        let expected = [
            (0, "a list of 3 values, which is padded to 2"),
            (1, "no vector of Spark ML: index 1 where its size is 1"),
        ];
        assert_eq!(refused, expected);
    }
    #[test]
    fn a_bad_vector_at_any_depth_is_the_row_that_contains_it() {
        let each = |number: usize| match number {
            4 => sparse(1, &[1], &[1.0]),
            number => dense(&[number as f64]),
        };
        let inside: ArrayRef = Arc::new(vectors(&(0..6).map(each).collect::<Vec<_>>()));
        let item = Arc::new(Field::new("item", inside.data_type().clone(), true));
        let offsets = |lengths: [usize; 5]| OffsetBuffer::<i64>::from_lengths(lengths);
        let structures = |nulls| StructArray::new(vec![item.clone()].into(), vec![inside.clone()], nulls);
        let lists = |lengths| LargeListArray::new(item.clone(), offsets(lengths), inside.clone(), None);
        let pairs = FixedSizeListArray::new(item.clone(), 2, inside.clone(), None);
        let entries: Vec<FieldRef> = vec![Arc::new(Field::new("key", DataType::Int32, false)), item.clone()];
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(0..6));
        let entries = StructArray::new(entries.into(), vec![keys, inside.clone()], None);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map = |lengths: [usize; 5]| {
            MapArray::new(entry.clone(), OffsetBuffer::from_lengths(lengths), entries.clone(), None, false)
        };
        let of_lists: ArrayRef = Arc::new(lists([2, 0, 2, 1, 1]));
        let around = Arc::new(Field::new("item", of_lists.data_type().clone(), true));
        let twice = LargeListArray::new(around, OffsetBuffer::from_lengths([1, 2, 2]), of_lists, None);
        let columns: [(ArrayRef, &[usize]); 8] = [
            (Arc::new(structures(None)), &[4]),
            (Arc::new(structures(Some((0..6).map(|row| row != 4).collect()))), &[]),
            (Arc::new(lists([2, 0, 2, 1, 1])), &[3]),
            (Arc::new(lists([0, 5, 0, 1, 0])), &[1]),
            (Arc::new(pairs), &[2]),
            (Arc::new(map([2, 0, 2, 1, 1])), &[3]),
            (Arc::new(map([0, 5, 0, 1, 0])), &[1]),
            (Arc::new(twice), &[2]),
        ];
        for (column, expected) in columns {
            let (made, bad) = delivered(&column);
            let bad: Vec<usize> = bad.into_iter().map(|(row, _)| row).collect();
            assert_eq!(bad, expected, "{}", column.data_type());
            assert_eq!((made.len(), made.nulls()), (column.len(), column.nulls()));
        }
    }

    #[test]
    fn a_row_with_several_bad_vectors_is_bad_once() {
        let bad = || sparse(1, &[1], &[1.0]);
        let inside: ArrayRef = Arc::new(vectors(&[bad(), dense(&[1.0]), bad(), bad()]));
        let item = Arc::new(Field::new("item", inside.data_type().clone(), true));
        let nulls = Some([true, true, false].into_iter().collect());
        let lists = LargeListArray::new(item, OffsetBuffer::from_lengths([3, 0, 1]), inside, nulls);
        let (_, bad) = delivered(&lists);
        assert_eq!(bad.into_iter().map(|(row, _)| row).collect::<Vec<_>>(), [0], "and a null is none");
    }
}
