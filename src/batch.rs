//! Gathers rows of several row groups into the buffers of one batch.
//!
//! A batch owns all of its memory and contains no pointers into row groups. So the memory of a row group is
//! freed when its last row leaves the shuffle window, however long the user keeps the batch. Variable-length
//! columns get 64-bit offsets, which no batch can overflow.

mod booleans;
mod bytes;
mod delivered;
mod fill;
mod fixed;
mod known_views;
mod layout;
mod lists;
mod nested;
mod nulls;
mod number;
mod selection;
mod sources;
mod value_numbers;
mod views;
mod weight;

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, BooleanArray, StructArray, new_null_array};
use forebay_arrow::buffer::BooleanBuffer;
use forebay_arrow::datatypes::DataType;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

pub(crate) use bytes::value as view_bytes;
pub(crate) use delivered::delivered;
pub use fill::Fill;
pub(crate) use fixed::fill;
pub(crate) use known_views::KnownViews;
pub(crate) use lists::{StoredList, stored_lists};
pub use nulls::{needs_values, null_field, null_rows};
pub(crate) use number::{Number, value_bytes};
pub(crate) use selection::copy_rows;
pub use selection::{Run, Selection};
pub(crate) use value_numbers::{
    NUMBER_BYTES, ValueNumbers, cut_numbers, may_be_numbered, rows_of_numbers, value_numbers,
};
pub(crate) use views::{compact, exchange_views};
pub(crate) use weight::{heaviest, is_variable, longest, weigh, weigh_each};

use delivered::delivered_type;
use lists::{FixedLists, Lists};
use nested::structure;
use sources::{disagreement, downcast};

/// Whether the values of a column are put into delivery order once, before batches are made from them. This
/// is worthwhile for small values in contiguous memory, because reading them in random order costs a cache
/// line for each row.
pub(crate) fn is_narrow(data_type: &DataType) -> bool {
    narrow_bits(data_type).is_some()
}

/// The number of bits that a row takes in a narrow column (one of small fixed-width values), including its
/// validity; `None` for other columns.
pub(crate) fn narrow_bits(data_type: &DataType) -> Option<u64> {
    const VALIDITY: u64 = 1;
    let value = match data_type {
        DataType::Boolean => 1,
        _ => data_type.primitive_width()? as u64 * u64::from(u8::BITS),
    };
    Some(value + VALIDITY)
}

/// Gathers the selected rows of one column. `fill` replaces null rows and null values in lists. A null list
/// becomes an empty list if lists differ in length, and otherwise a list in which every value is `fill`.
///
/// # Errors
/// Fails if the type is not supported, or `fill` is not a value of it.
pub fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<&Fill>) -> Result<ArrayRef> {
    let Some(first) = sources.first() else {
        return Err(Error::new(ErrorKind::Internal, "a batch of no sources"));
    };
    match first.data_type() {
        DataType::Boolean => booleans::gather(sources, selection, fill),
        DataType::Utf8View | DataType::BinaryView => bytes::gather(sources, selection, fill),
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => {
            let (lists, items) = Lists::select(sources, selection, fill)?;
            lists.with_values(gather(&items.values, &items.selection, fill)?)
        }
        DataType::FixedSizeList(_, _) => {
            let (lists, items) = FixedLists::select(sources, selection)?;
            lists.with_values(gather(&items.values, &items.selection, None)?, fill)
        }
        DataType::Struct(_) => structs(sources, selection),
        DataType::Null => Ok(new_null_array(&DataType::Null, selection.len())),
        _ => fixed::gather(sources, selection, fill),
    }
}

/// Returns a mask of the selected rows, which is true where the column is not null.
pub(crate) fn presence(sources: &[&dyn Array], selection: &Selection) -> BooleanArray {
    // All rows of an array of type `Null` are null, but it has no validity bitmap.
    let is_null = sources.iter().any(|source| *source.data_type() == DataType::Null);
    let there = match selection.nulls(sources) {
        Some(nulls) => nulls.into_inner(),
        None if is_null => BooleanBuffer::new_unset(selection.len()),
        None => BooleanBuffer::new_set(selection.len()),
    };
    BooleanArray::new(there, None)
}

/// Gathers a column of structures, field by field.
fn structs(sources: &[&dyn Array], selection: &Selection) -> Result<ArrayRef> {
    let arrays: Vec<&StructArray> = downcast(sources)?;
    let columns = (0..arrays[0].num_columns()).map(|at| {
        let members = arrays.iter().map(|array| array.columns().get(at).map(AsRef::as_ref));
        let members: Option<Vec<&dyn Array>> = members.collect();
        gather(&members.ok_or_else(disagreement)?, selection, None)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let DataType::Struct(fields) = delivered_type(sources[0].data_type()) else { return Err(disagreement()) };
    Ok(Arc::new(structure(fields, columns, selection.nulls(sources), selection.len()).or_fail()?))
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::*;
    use forebay_arrow::buffer::{NullBuffer, OffsetBuffer};
    use forebay_arrow::datatypes::{self as types, Field, Float32Type, Int32Type};

    use super::*;

    /// Converts a stored column to the type that batches deliver.
    fn as_delivered(stored: &ArrayRef) -> ArrayRef {
        match stored.data_type() {
            DataType::Utf8View => Arc::new(LargeStringArray::from_iter(stored.as_string_view())),
            DataType::BinaryView => Arc::new(LargeBinaryArray::from_iter(stored.as_binary_view())),
            DataType::List(item) => {
                let list = stored.as_list::<i32>();
                let offsets = list.offsets().iter().map(|offset| i64::from(*offset)).collect();
                let (values, nulls) = (list.values().clone(), list.nulls().cloned());
                Arc::new(LargeListArray::new(item.clone(), OffsetBuffer::new(offsets), values, nulls))
            }
            _ => stored.clone(),
        }
    }

    /// The test gathers every type, in scattered rows and in runs, and compares with arrow's own
    /// `interleave`.
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
            // The test also uses slices, because hand-written code can neglect the offset of a slice.
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
                    let expected = forebay_arrow::compute::interleave(&arrays, &indices).unwrap();
                    let expected = as_delivered(&expected);
                    assert_eq!(&got, &expected);
                }
            }
        }
    }

    /// The test compares gathered rows of lists, structures and maps with arrow's own `interleave`.
    #[test]
    fn nested_rows_are_those_that_arrow_interleaves() {
        let source = |seed: i32, nulls: bool| {
            let is_there = move |at: i32| !nulls || (at * 7 + seed) % 5 > 0;
            let texts: ArrayRef = Arc::new(StringViewArray::from_iter(
                (0..90).map(|at| is_there(at).then(|| "word ".repeat((at + seed) as usize % 9))),
            ));
            let numbers = (0..90).map(|at| is_there(at + 1).then_some(at * seed));
            let numbers: ArrayRef = Arc::new(Int32Array::from_iter(numbers));
            let fields = [("text", texts), ("number", numbers)]
                .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
            let valid = |rows: i32| NullBuffer::from_iter((0..rows).map(|at| is_there(at + 2)));
            let (fields, columns): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
            let structs = StructArray::new(fields.into(), columns, Some(valid(90)));
            let lengths = (0..40).map(|at| (at + seed) as usize % 4).scan(0, |sum, length| {
                *sum += length;
                (*sum <= 90).then_some(length)
            });
            let offsets = OffsetBuffer::from_lengths(lengths.chain(std::iter::repeat(0)).take(40));
            let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
            let lists: ArrayRef =
                Arc::new(ListArray::new(item, offsets, Arc::new(structs.clone()), Some(valid(40))));
            let entries = StructArray::from(vec![
                (
                    Arc::new(Field::new("key", DataType::Utf8View, false)),
                    Arc::new(StringViewArray::from_iter_values((0..80).map(|at| format!("key {at}"))))
                        as ArrayRef,
                ),
                (
                    Arc::new(Field::new("value", structs.data_type().clone(), true)),
                    Arc::new(structs.slice(5, 80)),
                ),
            ]);
            let of_map = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            let maps =
                MapArray::new(of_map, OffsetBuffer::from_lengths([2; 40]), entries, Some(valid(40)), false);
            let fixed = Arc::new(Field::new("item", DataType::Utf8View, true));
            let texts = structs.column(0).slice(0, 80);
            let pairs = FixedSizeListArray::new(fixed, 2, texts, Some(valid(40)));
            [lists, Arc::new(maps), Arc::new(pairs), Arc::new(structs.slice(3, 40))]
        };
        let (first, second) = (source(3, true), source(4, false));
        let picks: Vec<(u32, u32)> = (0..200).map(|i| (i % 2, (i * 17 + i / 30) % 40)).collect();
        let indices: Vec<(usize, usize)> = picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
        for (first, second) in first.iter().zip(&second) {
            let arrays: [&dyn Array; 2] = [first, second];
            let got = gather(&arrays, &Selection::new(picks.clone()), None).unwrap();
            let field = Field::new("c", first.data_type().clone(), true);
            assert_eq!(got.data_type(), delivered(&field).data_type());
            let together = forebay_arrow::compute::interleave(&arrays, &indices).unwrap();
            let all = Selection::of_one((0..200).collect());
            assert_eq!(&got, &gather(&[&together], &all, None).unwrap());
            // Each gathered row must be equal to the same row sliced by arrow and gathered alone.
            for (row, &(source, at)) in indices.iter().enumerate() {
                let alone = arrays[source].slice(at, 1);
                let alone = gather(&[&alone], &Selection::of_one(vec![0]), None).unwrap();
                assert_eq!(&got.slice(row, 1), &alone);
            }
        }
    }

    /// The test selects rows that are scattered over large row groups, so that `gather` reads them in stored
    /// order.
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
        // The picks have no row of the second source, and rows of the others in random order.
        let picks: Vec<(u32, u32)> =
            (0..20_000u32).map(|i| (2 * (i % 2), i.wrapping_mul(2_654_435_761) % ROWS)).collect();
        let indices: Vec<(usize, usize)> = picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
        let selection = Selection::new(picks);
        assert!(matches!(selection, Selection::Spread { .. }));
        for column in columns {
            let arrays: Vec<&dyn Array> = column.iter().map(AsRef::as_ref).collect();
            let got = gather(&arrays, &selection, None).unwrap();
            let expected = forebay_arrow::compute::interleave(&arrays, &indices).unwrap();
            assert_eq!(&got, &as_delivered(&expected));
        }
    }

    #[test]
    fn a_fill_replaces_nulls_and_must_be_a_value_of_the_type() {
        let array = Int32Array::from(vec![Some(1), None, Some(3)]);
        let selection = || Selection::new(vec![(0, 1), (0, 2)]);
        let filled = gather(&[&array], &selection(), Some(&Fill::Number(-1.0))).unwrap();
        assert_eq!(filled.as_primitive::<Int32Type>(), &Int32Array::from(vec![-1, 3]));
        let unfit = gather(&[&array], &selection(), Some(&Fill::Number(0.5)));
        assert_eq!(unfit.unwrap_err().kind(), ErrorKind::Invalid);
        let cells = [Some([1, 2]), None, Some([5, 6])];
        let cells = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells.into_iter(), 2).unwrap();
        let filled = gather(&[&cells], &selection(), Some(&Fill::Number(255.0))).unwrap();
        assert_eq!(filled.as_fixed_size_binary().value_data(), [255, 255, 5, 6]);
        assert_eq!(filled.null_count(), 0);
    }

    #[test]
    fn integers_that_no_float_holds_fill_exactly() {
        let signed: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let selection = || Selection::new(vec![(0, 1), (0, 2)]);
        let fill = |column: &ArrayRef, value: &Fill| gather(&[column], &selection(), Some(value));
        for value in [(1 << 53) + 1, i64::MAX, -(1 << 53) - 1] {
            let filled = fill(&signed, &value.into()).unwrap();
            assert_eq!(filled.as_primitive::<types::Int64Type>().value(0), value);
        }
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), None, Some(3)]));
        let filled = fill(&unsigned, &(u64::MAX - 1).into()).unwrap();
        assert_eq!(filled.as_primitive::<types::UInt64Type>().value(0), u64::MAX - 1);
        let refused = [
            (unsigned.clone(), Fill::from(-1)),
            (unsigned, Fill::Integer(1 << 64)),
            (signed, Fill::from(1u64 << 63)),
            (
                Arc::new(Float64Array::from(vec![None, Some(0.5), None])) as ArrayRef,
                Fill::from((1i64 << 53) + 1),
            ),
        ];
        for (column, value) in refused {
            let error = value.check(column.data_type()).unwrap_err().to_string();
            assert!(error.contains(&format!("fill_null value {value} is not")), "{error}");
            assert!(fill(&column, &value).is_err());
        }
        // Fills of equal value are equal, whichever Rust type they were made from.
        assert_eq!((Fill::from(7), Fill::from(7u64)), (Fill::from(7.0), Fill::from(7.0)));
        let written = serde_json::to_string(&[Fill::from(u64::MAX), Fill::from(i64::MIN + 1), Fill::from(7)]);
        let written = written.unwrap();
        assert_eq!(written, "[18446744073709551615,-9223372036854775807,7.0]");
        let read: Vec<Fill> = serde_json::from_str(&written).unwrap();
        assert_eq!(read, [Fill::from(u64::MAX), Fill::from(i64::MIN + 1), Fill::from(7)]);
    }

    #[test]
    fn a_fill_stands_for_every_null_of_every_type() {
        let picks = || Selection::new((0..4).map(|row| (0, row)).collect());
        let filled = |column: &dyn Array, fill: Fill| {
            let filled = gather(&[column], &picks(), Some(&fill)).unwrap();
            assert_eq!(filled.logical_null_count(), 0, "{}", column.data_type());
            filled
        };
        let text = StringViewArray::from(vec![Some("a"), None, Some(""), None]);
        let texts = filled(&text, "gone".into());
        assert_eq!(texts.as_string::<i64>(), &LargeStringArray::from(vec!["a", "gone", "", "gone"]));
        let bytes = BinaryViewArray::from(vec![Some(&b"a"[..]), None, Some(b"c"), Some(b"d")]);
        assert_eq!(filled(&bytes, vec![7, 8].into()).as_binary::<i64>().value(1), [7, 8]);
        let cells = [Some([1, 2]), None, Some([0, 0]), None].into_iter();
        let cells = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 2).unwrap();
        for (fill, expected) in [(Fill::from(9.0), [9, 9]), (vec![7, 8].into(), [7, 8])] {
            let filled = filled(&cells, fill);
            assert_eq!(
                (0..4).map(|row| filled.as_fixed_size_binary().value(row)).collect::<Vec<_>>(),
                [[1, 2], expected, [0, 0], expected]
            );
        }
        let flags = BooleanArray::from(vec![Some(true), None, Some(false), None]);
        for (fill, expected) in [(1.0, true), (0.0, false)] {
            let expected = BooleanArray::from(vec![true, expected, false, expected]);
            assert_eq!(filled(&flags, fill.into()).as_boolean(), &expected);
        }
        let times = TimestampMicrosecondArray::from(vec![Some(5), None, Some(7), None]);
        assert_eq!(filled(&times, 3.0.into()).as_primitive::<types::TimestampMicrosecondType>().value(3), 3);
        let lists: Vec<Option<Vec<Option<i32>>>> =
            vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![None])];
        let ragged = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let ragged = filled(&ragged, (-1.0).into());
        let ragged = ragged.as_list::<i64>();
        assert_eq!(ragged.value_offsets(), [0, 2, 2, 2, 3]);
        assert_eq!(ragged.values().as_primitive::<Int32Type>(), &Int32Array::from(vec![1, -1, -1]));
        let lists = vec![Some([Some(1), None]), None, Some([Some(5), Some(6)]), Some([None, None])];
        let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(lists, 2);
        let fixed = filled(&fixed, 9.0.into());
        let values = fixed.as_fixed_size_list().values().clone();
        assert_eq!(values.as_primitive::<Int32Type>(), &Int32Array::from(vec![1, 9, 9, 9, 5, 6, 9, 9]));
        assert_eq!(values.null_count(), 0);
    }

    /// The values array may contain values under a null list, and these are filled too.
    #[test]
    fn what_lies_under_a_null_list_is_filled_as_well() {
        let nulls = NullBuffer::from(vec![true, false]);
        let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let hidden = FixedSizeListArray::new(item.clone(), 2, values.clone(), Some(nulls.clone()));
        let selection = || Selection::new(vec![(0, 1), (0, 0)]);
        let filled = gather(&[&hidden], &selection(), Some(&Fill::Number(0.0))).unwrap();
        let filled = filled.as_fixed_size_list();
        assert_eq!(filled.null_count(), 0);
        assert_eq!(filled.values().as_primitive::<Int32Type>(), &Int32Array::from(vec![0, 0, 1, 2]));
        let offsets = OffsetBuffer::new(vec![0, 2, 4].into());
        let hidden = ListArray::new(item, offsets, values, Some(nulls));
        let filled = gather(&[&hidden], &selection(), Some(&Fill::Number(0.0))).unwrap();
        assert_eq!(filled.as_list::<i64>().value_offsets(), [0, 0, 2]);
    }

    /// A fill in place gives the same values as a fill during gathering, and does not change shared memory.
    #[test]
    fn a_fill_in_place_leaves_what_others_read() {
        let numbers = || (0..100).map(|i| (i % 3 != 0).then_some(i as f32));
        let cells = (0..100u8).map(|i| (i % 7 != 0).then_some([i, i + 1, i + 2]));
        let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 3).unwrap();
        let columns: [ArrayRef; 3] =
            [Arc::new(Float32Array::from_iter(numbers())), Arc::new(bytes.clone()), Arc::new(bytes)];
        let fills = [Fill::Number(f64::NAN), Fill::Number(9.0), vec![4, 5, 6].into()];
        for (column, value) in columns.into_iter().zip(fills) {
            for column in [column.slice(5, 60), column] {
                let picks = (0..column.len() as u32).map(|row| (0, row)).collect();
                let expected = gather(&[&column], &Selection::new(picks), Some(&value)).unwrap();
                let shared = fill(column.clone(), &value).unwrap();
                assert_eq!(&shared, &column);
                let rows = UInt32Array::from_iter_values(0..column.len() as u32);
                let own = forebay_arrow::compute::take(&column, &rows, None).unwrap();
                drop((shared, column));
                let filled = fill(own, &value).unwrap();
                assert_eq!(filled.null_count(), 0);
                assert_eq!(
                    filled.to_data().buffers()[0].as_slice(),
                    expected.to_data().buffers()[0].as_slice()
                );
            }
        }
    }
}
