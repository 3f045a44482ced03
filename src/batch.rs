//! Rows of several row groups, gathered into the buffers of one batch.
//!
//! A batch owns its memory alone: nothing in it points back into a row group, so that a row group's memory ends when
//! its last row left the window, however long the user keeps the batch. Variable-length columns get 64-bit offsets,
//! which no batch can overflow.

mod bytes;
mod fixed;
mod lists;
mod selection;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};

pub(crate) use bytes::value as view_bytes;
pub(crate) use fixed::{fill, pattern as fill_pattern};
pub use selection::{Run, Selection};

use crate::error::{Error, ErrorKind, Result};

/// The field as a batch delivers it, for a field as row groups hold it.
pub(crate) fn delivered(field: &Field) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View | DataType::Utf8 => DataType::LargeUtf8,
        DataType::BinaryView | DataType::Binary => DataType::LargeBinary,
        DataType::List(item) => DataType::LargeList(item.clone()),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// Gathers one column. `fill` replaces nulls of numeric columns, and the bytes of binary nulls of fixed length.
///
/// # Errors
/// The type is not one that is delivered, or `fill` is not a value of it.
pub fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<f64>) -> Result<ArrayRef> {
    let Some(first) = sources.first() else {
        return Err(Error::new(ErrorKind::Internal, "a batch of no sources"));
    };
    match first.data_type() {
        DataType::Boolean => booleans(sources, selection),
        DataType::Utf8View | DataType::BinaryView => bytes::gather(sources, selection),
        DataType::List(_) | DataType::LargeList(_) => lists::gather(sources, selection),
        DataType::FixedSizeList(_, _) => lists::gather_fixed(sources, selection),
        _ => fixed::gather(sources, selection, fill),
    }
}

fn booleans(sources: &[&dyn Array], selection: &Selection) -> Result<ArrayRef> {
    let arrays: Vec<&BooleanArray> = downcast(sources)?;
    let values: Vec<Option<&BooleanBuffer>> = arrays.iter().map(|array| Some(array.values())).collect();
    let values = selection.bits(&values);
    Ok(Arc::new(BooleanArray::new(values, selection.nulls(sources))))
}

/// The sources as arrays of one concrete type.
fn downcast<'a, A: Array + 'static>(sources: &[&'a dyn Array]) -> Result<Vec<&'a A>> {
    let typed = sources.iter().map(|source| source.as_any().downcast_ref::<A>());
    typed
        .collect::<Option<_>>()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "row groups disagree on a column's type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use arrow::datatypes::{Float32Type, Int32Type};

    /// Every type, gathered scattered and in runs, equals arrow's own `interleave` of the same rows.
    #[test]
    fn rows_are_those_that_arrow_interleaves() {
        let sources: Vec<Vec<ArrayRef>> = vec![
            vec![
                Arc::new(Int32Array::from((0..40).map(|i| (i % 3 != 0).then_some(i)).collect::<Vec<_>>())),
                Arc::new(Int32Array::from((100..140).collect::<Vec<_>>())),
            ],
            vec![
                Arc::new(BooleanArray::from((0..40).map(|i| Some(i % 3 == 0)).collect::<Vec<_>>())),
                Arc::new(BooleanArray::from(
                    (0..40).map(|i| (i % 5 != 0).then_some(i % 2 == 0)).collect::<Vec<_>>(),
                )),
            ],
            vec![
                Arc::new(StringViewArray::from(
                    (0..40).map(|i| (i % 7 != 0).then(|| "x".repeat(i))).collect::<Vec<_>>(),
                )),
                Arc::new(StringViewArray::from(
                    (0..40).map(|i| Some(format!("row {i}"))).collect::<Vec<_>>(),
                )),
            ],
            vec![
                Arc::new(FixedSizeBinaryArray::try_from_iter((0..40u8).map(|i| [i; 3])).unwrap()),
                Arc::new(FixedSizeBinaryArray::try_from_iter((40..80u8).map(|i| [i; 3])).unwrap()),
            ],
            vec![
                Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(
                    (0..40)
                        .map(|i| {
                            (i % 4 != 0)
                                .then(|| (0..i).map(|j| Some(j as f32)))
                                .into_iter()
                                .flatten()
                                .collect::<Vec<_>>()
                        })
                        .map(Some),
                )),
                Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>((0..40).map(|i| {
                    (i % 9 != 0).then(|| (0..i % 5).map(|j| (j != 2).then_some(j as f32)).collect::<Vec<_>>())
                }))),
            ],
            vec![
                Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                    (0..40).map(|i| Some([Some(i), None, Some(-i)])),
                    3,
                )),
                Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                    (0..40).map(|i| (i % 2 == 0).then_some([Some(i); 3])),
                    3,
                )),
            ],
        ];
        let scattered: Vec<(u32, u32)> = (0..60).map(|i| (i % 2, (i * 17) % 40)).collect();
        let runs: Vec<(u32, u32)> = (5..30).map(|row| (0, row)).chain((0..40).map(|row| (1, row))).collect();
        let single: Vec<(u32, u32)> = (0..30).map(|i| (0, (i * 7) % 40)).collect();
        let straddling: Vec<(u32, u32)> = (0..200).map(|i| (i / 100, (i * 7) % 40)).collect();
        for column in &sources {
            // Slices have offsets, which a gather by hand can get wrong.
            for offset in [0, 3] {
                let arrays: Vec<ArrayRef> =
                    column.iter().map(|array| array.slice(offset, 40 - offset)).collect();
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                for picks in [&scattered, &runs, &single, &straddling] {
                    let picks: Vec<(u32, u32)> =
                        picks.iter().filter(|pick| (pick.1 as usize) < 40 - offset).copied().collect();
                    let indices: Vec<(usize, usize)> =
                        picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
                    let got = gather(&arrays, &Selection::new(picks), None).unwrap();
                    let expected = arrow::compute::interleave(&arrays, &indices).unwrap();
                    let expected = arrow::compute::cast(&expected, got.data_type()).unwrap();
                    assert_eq!(&got, &expected);
                }
            }
        }
    }

    /// So does what is picked from all over large row groups, which is read in the order in which it lies.
    #[test]
    fn rows_from_all_over_are_those_that_arrow_interleaves() {
        const ROWS: u32 = 90_000;
        let numbers = |from: u32| (from..from + ROWS).map(|i| (i % 7 != 0).then_some(i as i32));
        let columns: Vec<Vec<ArrayRef>> = vec![
            (0..3).map(|i| Arc::new(Int32Array::from_iter(numbers(i * ROWS))) as ArrayRef).collect(),
            (0..3)
                .map(|i| {
                    let values =
                        (i * ROWS..(i + 1) * ROWS).map(|i| [i as u8, (i >> 8) as u8, (i >> 16) as u8]);
                    Arc::new(FixedSizeBinaryArray::try_from_iter(values).unwrap()) as ArrayRef
                })
                .collect(),
            (0..3)
                .map(|i| {
                    Arc::new(StringViewArray::from_iter(numbers(i * ROWS).map(|n| n.map(|n| n.to_string()))))
                        as ArrayRef
                })
                .collect(),
        ];
        // Of the second source none; the others in no order.
        let picks: Vec<(u32, u32)> =
            (0..20_000u32).map(|i| (2 * (i % 2), i.wrapping_mul(2_654_435_761) % ROWS)).collect();
        let indices: Vec<(usize, usize)> = picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
        let selection = Selection::new(picks);
        assert!(matches!(selection, Selection::Spread { .. }));
        for column in columns {
            let arrays: Vec<&dyn Array> = column.iter().map(AsRef::as_ref).collect();
            let got = gather(&arrays, &selection, None).unwrap();
            let expected = arrow::compute::interleave(&arrays, &indices).unwrap();
            assert_eq!(&got, &arrow::compute::cast(&expected, got.data_type()).unwrap());
        }
    }

    #[test]
    fn a_fill_replaces_nulls_and_must_be_a_value_of_the_type() {
        let array = Int32Array::from(vec![Some(1), None, Some(3)]);
        let selection = || Selection::new(vec![(0, 1), (0, 2)]);
        let filled = gather(&[&array], &selection(), Some(-1.0)).unwrap();
        assert_eq!(filled.as_primitive::<Int32Type>(), &Int32Array::from(vec![-1, 3]));
        assert_eq!(gather(&[&array], &selection(), Some(0.5)).unwrap_err().kind(), ErrorKind::Invalid);
        let cells = [Some([1, 2]), None, Some([5, 6])];
        let cells = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells.into_iter(), 2).unwrap();
        let filled = gather(&[&cells], &selection(), Some(255.0)).unwrap();
        assert_eq!(filled.as_fixed_size_binary().value_data(), [255, 255, 5, 6]);
        assert_eq!(filled.null_count(), 0);
    }

    /// What is filled beforehand, in place, is what gathering would have filled; memory that is shared stays as it is.
    #[test]
    fn a_fill_in_place_leaves_what_others_read() {
        let numbers = || (0..100).map(|i| (i % 3 != 0).then_some(i as f32));
        let cells = (0..100u8).map(|i| (i % 7 != 0).then_some([i, i + 1, i + 2]));
        let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 3).unwrap();
        let columns: [ArrayRef; 2] = [Arc::new(Float32Array::from_iter(numbers())), Arc::new(bytes)];
        for (column, value) in columns.into_iter().zip([f64::NAN, 9.0]) {
            for column in [column.slice(5, 60), column] {
                let picks = (0..column.len() as u32).map(|row| (0, row)).collect();
                let expected = gather(&[&column], &Selection::new(picks), Some(value)).unwrap();
                let shared = fill(column.clone(), value).unwrap();
                assert_eq!(&shared, &column);
                let rows = UInt32Array::from_iter_values(0..column.len() as u32);
                let own = arrow::compute::take(&column, &rows, None).unwrap();
                drop((shared, column));
                let filled = fill(own, value).unwrap();
                assert_eq!(filled.null_count(), 0);
                assert_eq!(
                    filled.to_data().buffers()[0].as_slice(),
                    expected.to_data().buffers()[0].as_slice()
                );
            }
        }
    }
}
