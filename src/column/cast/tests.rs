use DataType::{
    Boolean, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt64, Utf8View,
};
use forebay_arrow::array::{
    BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StringViewArray,
    TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt64Array, new_empty_array,
};
use forebay_arrow::datatypes::{Float32Type, Float64Type, Int8Type, Int16Type, TimeUnit, i256};
use half::f16;

use super::*;
use crate::batch::Fill;
use crate::column::pad::PadCodec;
use crate::column::{Codec, ColumnOption, Encoding, NullOptions, Pad, PlainCodec, Vocabulary};

/// The column as it is delivered, and its bad rows with the reasons.
fn delivered(column: &dyn Array, to: &DataType) -> (ArrayRef, Vec<(usize, String)>) {
    let field = Field::new("x", column.data_type().clone(), true);
    let codec = CastCodec::new(Codec::Gather(Arc::new(PlainCodec::default())), &field, to).unwrap();
    let all = Selection::of_one((0..column.len() as u32).collect());
    let (rows, refused) = codec.gather(&[column], &all).unwrap();
    assert_eq!(rows.data_type(), codec.delivered(&field).unwrap().data_type());
    (rows, refused.into_iter().map(|(row, error)| (row, error.to_string())).collect())
}

/// Checks that all values of a column fit, and that the result is as expected.
fn whole(column: &dyn Array, expected: &dyn Array) {
    let (rows, refused) = delivered(column, expected.data_type());
    assert_eq!((rows.as_ref(), &refused[..]), (expected, &[][..]));
}

/// The rows of a column that do not fit.
fn unfit(column: &dyn Array, to: &DataType) -> Vec<usize> {
    delivered(column, to).1.into_iter().map(|(row, _)| row).collect()
}

#[test]
fn integers_are_the_same_or_bad_rows() {
    whole(
        &Int64Array::from(vec![Some(-128), None, Some(127)]),
        &Int8Array::from(vec![Some(-128), None, Some(127)]),
    );
    whole(&UInt8Array::from(vec![0, 255]), &Int16Array::from(vec![0, 255]));
    whole(&Int64Array::from(vec![i64::MAX]), &UInt64Array::from(vec![i64::MAX as u64]));
    assert_eq!(unfit(&Int64Array::from(vec![128, 127, -129, -128]), &Int8), [0, 2]);
    assert_eq!(unfit(&Int8Array::from(vec![-1, 0]), &UInt64), [0]);
    assert_eq!(unfit(&UInt64Array::from(vec![u64::MAX, 1]), &Int64), [0]);
    let (_, refused) = delivered(&Int32Array::from(vec![1, 70_000]), &UInt16);
    assert_eq!(refused[0].0, 1);
    assert!(refused[0].1.contains("70000 has no place in uint16"), "{}", refused[0].1);
}

#[test]
fn integers_are_rounded_to_floats_and_never_infinite() {
    let large = (1i64 << 53) + 1;
    whole(&Int64Array::from(vec![large]), &Float64Array::from(vec![large as f64]));
    whole(&Int64Array::from(vec![16_777_217]), &Float32Array::from(vec![16_777_216.0]));
    whole(&UInt64Array::from(vec![u64::MAX]), &Float32Array::from(vec![u64::MAX as f32]));
    whole(
        &UInt16Array::from(vec![65_519, 2_049]),
        &Float16Array::from_iter_values([65_504.0, 2_048.0].map(f16::from_f32)),
    );
    assert_eq!(unfit(&UInt16Array::from(vec![65_519, 65_520]), &Float16), [1]);
}

#[test]
fn floats_are_rounded_to_floats_and_stay_infinite_or_not() {
    let numbers = Float64Array::from(vec![Some(0.1), None, Some(f64::NEG_INFINITY), Some(-0.0)]);
    whole(&numbers, &Float32Array::from(vec![Some(0.1), None, Some(f32::NEG_INFINITY), Some(-0.0)]));
    let (rows, refused) = delivered(&Float64Array::from(vec![f64::NAN]), &Float16);
    assert!(
        refused.is_empty() && rows.as_primitive::<forebay_arrow::datatypes::Float16Type>().value(0).is_nan()
    );
    assert_eq!(unfit(&Float64Array::from(vec![1e38, 1e39, f64::INFINITY, -1e308]), &Float32), [1, 3]);
    assert_eq!(unfit(&Float32Array::from(vec![65_504.0, 65_519.99, 65_520.0, -1e9]), &Float16), [2, 3]);
    whole(&Float32Array::from(vec![0.5]), &Float64Array::from(vec![0.5]));
}

/// A number slightly above the middle between 1 and the next float16 is rounded up. If it were rounded to a
/// float32 first, it would be in the middle, and be rounded down.
#[test]
fn floats_are_rounded_once() {
    let half = 1.0 + f64::powi(2.0, -11);
    let numbers = Float64Array::from(vec![
        half,
        half + f64::powi(2.0, -40),
        half - f64::powi(2.0, -40),
        -half - f64::powi(2.0, -50),
    ]);
    let next = f16::from_bits(f16::ONE.to_bits() + 1);
    whole(&numbers, &Float16Array::from(vec![f16::ONE, next, f16::ONE, -next]));
    whole(&Float64Array::from(vec![1e-300, -1e-300]), &Float16Array::from(vec![f16::ZERO, f16::NEG_ZERO]));
}

#[test]
fn floats_are_integers_only_where_they_are_whole() {
    whole(&Float64Array::from(vec![-0.0, 3.0, -4.0]), &Int64Array::from(vec![0, 3, -4]));
    let edges = vec![f64::powi(2.0, 63), -f64::powi(2.0, 63), 0.5, f64::NAN, f64::INFINITY, 1e300];
    assert_eq!(unfit(&Float64Array::from(edges), &Int64), [0, 2, 3, 4, 5]);
    assert_eq!(unfit(&Float64Array::from(vec![f64::powi(2.0, 64), -1.0, 255.0]), &UInt64), [0, 1]);
    assert_eq!(unfit(&Float32Array::from(vec![255.0, 256.0]), &UInt8), [1]);
    let (_, refused) = delivered(&Float64Array::from(vec![0.25]), &Int32);
    assert!(refused[0].1.contains("0.25 has no place in int32"), "{}", refused[0].1);
}

#[test]
fn booleans_are_0_and_1() {
    let truths = BooleanArray::from(vec![Some(true), None, Some(false)]);
    whole(&truths, &Float32Array::from(vec![Some(1.0), None, Some(0.0)]));
    whole(&Int64Array::from(vec![Some(1), None, Some(0)]), &truths);
    assert_eq!(unfit(&Float64Array::from(vec![1.0, 2.0, 0.5, 1e9, 0.0]), &Boolean), [1, 2, 3]);
}

#[test]
fn decimals_are_the_nearest_float_and_integers_where_they_are_whole() {
    let cents = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap();
    let large = 12_345_678_901_234_567_890_123_456_789_012_345_678;
    let numbers = cents(vec![1_999, -5, large]);
    whole(
        &numbers,
        &Float64Array::from(vec![19.99, -0.05, 123_456_789_012_345_678_901_234_567_890_123_456.78]),
    );
    whole(
        &numbers,
        &Float32Array::from(vec![
            19.99,
            -0.05,
            123_456_789_012_345_678_901_234_567_890_123_456.78_f64 as f32,
        ]),
    );
    whole(&cents(vec![1_900, -100]), &Int32Array::from(vec![19, -1]));
    assert_eq!(unfit(&cents(vec![1_900, 1_901, 999_999_999_900]), &Int32), [1, 2]);
    let (_, refused) = delivered(&cents(vec![1_901]), &Int8);
    assert!(refused[0].1.contains("19.01 has no place"), "{}", refused[0].1);
    let wide =
        i256::from_string("1000000000000000000000000000000000000000000000000000000000000000000000000000")
            .unwrap();
    let wide =
        Decimal256Array::from(vec![wide, i256::from_i128(70)]).with_precision_and_scale(76, 75).unwrap();
    whole(&wide.slice(0, 1), &Int64Array::from(vec![1]));
    whole(&wide, &Float64Array::from(vec![1.0, 7e-74]));
    let thousands = Decimal128Array::from(vec![7]).with_precision_and_scale(5, -3).unwrap();
    whole(&thousands, &Int16Array::from(vec![7_000]));
    whole(&thousands, &Float64Array::from(vec![7_000.0]));
}

#[test]
fn texts_are_numbers_as_a_whole() {
    let texts = StringViewArray::from(vec![Some("12"), None, Some("-3")]);
    whole(&texts, &Int16Array::from(vec![Some(12), None, Some(-3)]));
    whole(&texts, &Float32Array::from(vec![Some(12.0), None, Some(-3.0)]));
    let others = StringViewArray::from(vec!["1.5", "1e400", "inf", " 1", "", "one", "999"]);
    assert_eq!(unfit(&others, &Float64), [1, 3, 4, 5]);
    assert_eq!(unfit(&others, &UInt8), [0, 1, 2, 3, 4, 5, 6]);
    let (_, refused) = delivered(&StringViewArray::from(vec!["é".repeat(50)]), &Int8);
    assert!(refused[0].1.contains(&format!("\"{}\"… has no place", "é".repeat(40))), "{}", refused[0].1);
}

#[test]
fn times_are_integers_of_their_unit() {
    let times = TimestampMicrosecondArray::from(vec![Some(-7), None]).with_timezone("UTC");
    whole(&times, &Int64Array::from(vec![Some(-7), None]));
    let field = Field::new("x", DataType::Timestamp(TimeUnit::Second, None), true);
    assert!(cast_field(&field, &Float64).is_err());
}

#[test]
fn lists_of_any_depth_are_cast_by_their_values() {
    let lists = vec![
        Some(vec![Some(1.0), None]),
        None,
        Some(vec![]),
        Some(vec![Some(0.5), Some(0.25)]),
        Some(vec![Some(2.0)]),
    ];
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(lists);
    let (rows, refused) = delivered(&lists, &Float32);
    assert!(refused.is_empty());
    let rows = rows.as_list::<i64>();
    assert_eq!(rows.value_offsets(), [0, 2, 2, 2, 4, 5]);
    let values = rows.values().as_primitive::<Float32Type>();
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(1.0), None, Some(0.5), Some(0.25), Some(2.0)]);
    let (_, refused) = delivered(&lists, &Int8);
    assert_eq!(refused.len(), 1);
    assert!(refused[0].0 == 3 && refused[0].1.contains("0.5 has"), "{refused:?}");

    let pairs = vec![Some([Some(1), Some(2)]), None, Some([Some(300), Some(301)])];
    let pairs = FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(pairs, 2);
    assert_eq!(unfit(&pairs, &UInt8), [2]);
    let (rows, _) = delivered(&pairs.slice(0, 2), &Int8);
    let values = rows.as_fixed_size_list().value(0);
    assert_eq!(values.as_primitive::<Int8Type>().values(), &[1, 2]);

    let item = Arc::new(Field::new("item", lists.data_type().clone(), true));
    let offsets = forebay_arrow::buffer::OffsetBuffer::from_lengths([2, 0, 3]);
    let deep = ListArray::new(item, offsets, Arc::new(lists), None);
    assert_eq!(unfit(&deep, &Int8), [2]);
    assert!(unfit(&deep, &Float32).is_empty());
}

/// Values under a null list belong to no row, so they are not checked.
#[test]
fn what_is_under_a_null_is_not_looked_at() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 1_000, 1_000, 2]));
    let item = Arc::new(Field::new("item", Int64, true));
    let nulls = Some(vec![true, false].into());
    let pairs = FixedSizeListArray::new(item, 2, values, nulls);
    assert_eq!(unfit(&pairs, &Int8), [0]);
    let numbers = Int64Array::new(vec![1, 1_000].into(), Some(vec![true, false].into()));
    whole(&numbers, &Int8Array::from(vec![Some(1), None]));
}

#[test]
fn what_comes_after_sees_the_type_of_the_cast() {
    let lists = vec![Some(vec![Some(1.0)]), Some(vec![Some(2.0), None]), Some(vec![Some(0.5), None])];
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(lists);
    let stored = Field::new("x", lists.data_type().clone(), true);
    let field = cast_field(&stored, &Int16).unwrap();
    let pad = PadCodec::new(&Pad::new(2).value(-1.0), &field, None).unwrap();
    let codec = CastCodec::new(Codec::Gather(Arc::new(pad)), &stored, &Int16).unwrap();
    let (rows, refused) = codec.gather(&[&lists], &Selection::new(vec![(0, 2), (0, 0), (0, 1)])).unwrap();
    let values = rows.as_fixed_size_list().values().as_primitive::<Int16Type>().clone();
    assert_eq!(&values.values()[2..5], &[1, -1, 2]);
    let refused: Vec<(usize, String)> =
        refused.into_iter().map(|(row, error)| (row, error.to_string())).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused[0].0 == 0 && refused[0].1.contains("0.5 has"), "{refused:?}");
    assert!(refused[1].0 == 2 && refused[1].1.contains("null in a list"), "{refused:?}");
    assert_eq!((codec.size().bytes, codec.size().growth), (Some(4), 1));

    let stored = Field::new("x", Int8, true);
    let plain = PlainCodec { fill: Some(Fill::from(0.5)) };
    let codec = CastCodec::new(Codec::Gather(Arc::new(plain)), &stored, &Float64).unwrap();
    assert!(!codec.delivered(&stored).unwrap().is_nullable());
    let (rows, _) =
        codec.gather(&[&Int8Array::from(vec![Some(1), None])], &Selection::of_one(vec![0, 1])).unwrap();
    assert_eq!(rows.as_primitive::<Float64Type>().values(), &[1.0, 0.5]);
    assert_eq!((codec.size().bytes, codec.size().growth), (Some(8), 8));
}

#[test]
fn a_column_of_nothing_but_nulls_is_one_of_any_type() {
    let (rows, refused) = delivered(&forebay_arrow::array::NullArray::new(3), &Float32);
    assert_eq!((rows.null_count(), rows.data_type(), refused.len()), (3, &Float32, 0));
    whole(&new_empty_array(&Int8), &new_empty_array(&Float32));
}

#[test]
fn what_is_not_cast_is_refused() {
    let item = Arc::new(Field::new("item", DataType::BinaryView, true));
    for stored in [
        BinaryViewArray::from(vec![&b"1"[..]]).data_type().clone(),
        DataType::FixedSizeBinary(4),
        DataType::Struct([item.clone()].into_iter().collect()),
        DataType::List(item),
    ] {
        let error = cast_field(&Field::new("x", stored, true), &Float32).unwrap_err();
        assert!(error.to_string().contains("is not cast to float32"), "{error}");
    }
    assert!(cast_field(&Field::new("x", Utf8View, true), &Boolean).is_err());
    let error = cast_field(&Field::new("x", Int8, true), &DataType::Date32).unwrap_err();
    assert!(error.to_string().contains("one of bool, int8"), "{error}");
}

#[test]
fn rows_that_a_value_or_its_cast_makes_bad_are_in_order_and_come_once() {
    let words = Vocabulary::texts((0..300).map(|number| number.to_string()));
    let stored = Field::new("x", Utf8View, true);
    let values: ArrayRef = Arc::new(StringViewArray::from(vec!["299", "none", "7", "256", "no"]));
    let all = Selection::of_one((0..5).collect());
    let encoded = |words: Vocabulary| Encoding::from(words).column(&stored, NullOptions::default());
    let Codec::Gather(codec) = cast_after(encoded(words.clone()).unwrap().unwrap(), &UInt8).unwrap().codec
    else {
        unreachable!()
    };
    let (codes, bad) = codec.gather(&[values.as_ref()], &all).unwrap();
    assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 3, 4]);
    assert_eq!(codes.as_primitive::<forebay_arrow::datatypes::UInt8Type>().value(2), 7);
    let known = cast_after(encoded(words.with_unknown()).unwrap().unwrap(), &UInt16).unwrap();
    let Codec::Gather(codec) = &known.codec else { unreachable!() };
    let (_, bad) = codec.gather(&[values.as_ref()], &all).unwrap();
    assert!(bad.is_empty() && known.codec.unknown_values() == 2, "{bad:?}");
}

#[test]
fn values_that_are_cast_before_they_are_encoded_are_counted_if_they_are_unknown() {
    let stored = Field::new("x", Float64, true);
    let numbers = Encoding::from(Vocabulary::numbers([1, 2]).with_unknown());
    let codec = numbers.column(&Field::new("x", Int32, true), NullOptions::default()).unwrap().unwrap().codec;
    let codec = CastCodec::new(codec, &stored, &Int32).unwrap();
    let values = Float64Array::from(vec![1.0, 5.0, 2.0, -1.0]);
    let (codes, bad) = codec.gather(&[&values], &Selection::of_one((0..4).collect())).unwrap();
    assert!(bad.is_empty() && codec.unknown_values() == 2, "{codes:?}");
}
