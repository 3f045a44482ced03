use std::collections::HashMap;

use forebay_arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Int16Array, LargeBinaryArray, LargeListArray, LargeStringArray,
};
use forebay_arrow::datatypes::{DataType, Int16Type};
use forebay_image::encode_jpeg;

use super::layout::{ARRAYS, SHAPE};
use super::*;
use crate::batch::Fill;
use crate::column::exact::Pixels;
use crate::column::ragged::{IMAGES, KIND};
use crate::column::{PlainCodec, TensorFormat};

fn file(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), values].concat()
}

fn numbers(shape: &str, values: impl IntoIterator<Item = i16>) -> Vec<u8> {
    file("<i2", shape, &values.into_iter().flat_map(i16::to_le_bytes).collect::<Vec<_>>())
}

fn texts(texts: &[&str], longest: usize) -> Vec<u8> {
    let characters = texts.iter().flat_map(|text| {
        let mut characters: Vec<u32> = text.chars().map(u32::from).collect();
        characters.resize(longest, 0);
        characters
    });
    let values: Vec<u8> = characters.flat_map(u32::to_le_bytes).collect();
    file(&format!("<U{longest}"), &format!("({},)", texts.len()), &values)
}

fn arrays(item: Item, shape: &[Option<usize>]) -> Arrays {
    Arrays::new(item, shape.to_vec(), CellFormat::Numpy(TensorFormat::Npy))
}

/// The column that is delivered for these cells, its metadata, and its bad rows.
fn delivered_of(
    arrays: &Arrays,
    cells: Vec<Option<&[u8]>>,
    fill: Option<Fill>,
) -> (ArrayRef, HashMap<String, String>, Vec<(usize, String)>) {
    let cells = BinaryViewArray::from(cells);
    let stored = Field::new("x", DataType::BinaryView, true);
    let inner = Codec::Gather(Arc::new(PlainCodec { fill }));
    let codec = ArraysCodec::new(arrays.clone(), inner).unwrap();
    let all = Selection::of_one((0..cells.len() as u32).collect());
    let (rows, bad) = codec.gather(&[&cells], &all).unwrap();
    let field = codec.delivered(&stored).unwrap();
    assert_eq!((rows.data_type(), rows.len()), (field.data_type(), cells.len()));
    let bad = bad.into_iter().map(|(row, error)| (row, error.to_string())).collect();
    (rows, field.metadata().clone().into(), bad)
}

fn int16() -> Item {
    Item::Number(DataType::Int16)
}

#[test]
fn arrays_of_one_open_side_are_lists_and_nulls_stay() {
    let pairs = arrays(int16(), &[None, Some(2)]);
    let (first, second) = (numbers("(2, 2)", 1..5), numbers("(0, 2)", []));
    let (rows, metadata, bad) = delivered_of(&pairs, vec![Some(&first), None, Some(&second)], None);
    assert_eq!((bad, metadata), (vec![], HashMap::new()));
    let rows = rows.as_list::<i64>();
    assert_eq!((rows.value_offsets(), rows.is_null(1)), (&[0, 2, 2, 2][..], true));
    let values = rows.values().as_fixed_size_list();
    assert_eq!(
        (values.value_length(), values.values().as_primitive::<Int16Type>().values().to_vec()),
        (2, vec![1, 2, 3, 4])
    );

    let (filled, _, _) = delivered_of(&pairs, vec![None, Some(&first)], Some(7.0.into()));
    assert_eq!((filled.null_count(), filled.as_list::<i64>().value_offsets()), (0, &[0, 0, 2][..]));
}

#[test]
fn arrays_of_several_open_sides_are_lists_of_lists() {
    let open = arrays(int16(), &[None, None]);
    let (one, other) = (numbers("(2, 3)", 0..6), numbers("(1, 1)", [9]));
    let (rows, metadata, _) = delivered_of(&open, vec![Some(&one), Some(&other)], None);
    assert_eq!(metadata[KIND], ARRAYS);
    assert_eq!(metadata[SHAPE], "[null,null]");
    let rows = rows.as_list::<i64>();
    let inner: &LargeListArray = rows.values().as_list();
    assert_eq!((rows.value_offsets(), inner.value_offsets()), (&[0, 2, 3][..], &[0, 3, 6, 7][..]));

    let deep = arrays(int16(), &[None, Some(2), Some(3)]);
    let (_, metadata, _) = delivered_of(&deep, vec![Some(&numbers("(1, 2, 3)", 0..6))], None);
    assert_eq!(metadata[SHAPE], "[null,2,3]");
}

#[test]
fn arrays_without_sides_are_scalars() {
    let scalar = arrays(int16(), &[]);
    let (rows, _, bad) = delivered_of(&scalar, vec![Some(&numbers("()", [5])), None, Some(b"none")], None);
    assert_eq!(rows.as_ref(), &Int16Array::from(vec![Some(5), None, Some(0)]) as &dyn Array);
    assert!(bad.len() == 1 && bad[0].0 == 2 && bad[0].1.contains("not a .npy file"), "{bad:?}");
    let flag = arrays(Item::Number(DataType::Boolean), &[]);
    let (rows, _, _) = delivered_of(&flag, vec![Some(&file("|b1", "()", &[1]))], None);
    assert_eq!(rows.as_ref(), &BooleanArray::from(vec![true]) as &dyn Array);
}

#[test]
fn texts_and_bytes_are_lists_without_the_zeros_behind_them() {
    let words = arrays(Item::Text, &[None]);
    let (rows, _, bad) = delivered_of(&words, vec![Some(&texts(&["ä", "", "long"], 4)), None], None);
    assert!(bad.is_empty());
    let rows = rows.as_list::<i64>();
    assert_eq!(rows.values().as_ref(), &LargeStringArray::from(vec!["ä", "", "long"]) as &dyn Array);
    let strings = arrays(Item::Bytes, &[Some(2)]);
    let (rows, _, _) = delivered_of(&strings, vec![Some(&file("|S3", "(2,)", b"a\0bc\0\0"))], None);
    let values = rows.as_list::<i64>().values().clone();
    assert_eq!(values.as_ref(), &LargeBinaryArray::from(vec![&b"a\0b"[..], b"c"]) as &dyn Array);
    let surrogate = file("<U1", "(1,)", &0xD800u32.to_le_bytes());
    let (_, _, bad) = delivered_of(&words, vec![Some(&surrogate)], None);
    assert!(bad[0].1.contains("no character"), "{bad:?}");
}

#[test]
fn an_array_of_another_type_or_shape_is_a_bad_row() {
    let pairs = arrays(int16(), &[None, Some(2)]);
    for (cell, said) in [
        (numbers("(2, 3)", 0..6), "int16[2, 3] where int16[?, 2] is wanted"),
        (numbers("(2,)", 0..2), "int16[2] where"),
        (file("<i4", "(0, 2)", &[]), "int32[0, 2] where"),
        (file("<U4", "(0, 2)", &[]), "str[0, 2] where"),
        (numbers("(2, 2)", 0..3), "6 bytes of values where int16[2, 2] takes 8"),
        (numbers("(999999999999, 2)", 0..3), "more than"),
        (numbers("(0, 2)", 0..1), "more than the 0 bytes"),
    ] {
        let (rows, _, bad) = delivered_of(&pairs, vec![Some(&cell)], None);
        assert!(bad.len() == 1 && bad[0].1.contains(said), "{bad:?}");
        assert_eq!(rows.as_list::<i64>().value_offsets(), [0, 0]);
    }
    let open = arrays(int16(), &[None, None, None]);
    let (_, _, bad) = delivered_of(&open, vec![Some(&numbers("(9999999, 9999999, 0)", []))], None);
    assert!(bad[0].1.contains("too many sides"), "{bad:?}");
}

#[test]
fn images_of_their_own_sizes_have_the_type_and_channels_of_the_schema() {
    let colour = Pixels { is_grey: false, is_16_bit: false };
    let shape = vec![None, None, Some(3)];
    let images = Arrays::new(Item::Number(DataType::UInt8), shape, CellFormat::Image(colour));
    let jpeg = encode_jpeg(&[200; 4 * 2 * 3], 4, 2, 90).unwrap();
    let (rows, metadata, bad) = delivered_of(&images, vec![Some(&jpeg), None, Some(b"none")], None);
    assert_eq!((bad.len(), metadata[KIND].as_str()), (1, IMAGES));
    let rows = rows.as_list::<i64>();
    assert_eq!((rows.value_offsets(), rows.is_null(1), rows.is_null(2)), (&[0, 2, 2, 2][..], true, false));
    assert_eq!(rows.values().as_list::<i64>().value_offsets(), [0, 4, 8]);
    for (pixels, said) in [
        (Pixels { is_grey: true, ..colour }, "3 channels where the schema says one channel"),
        (Pixels { is_16_bit: true, ..colour }, "8 bits where the schema says 16 bits"),
    ] {
        let (_, _, bad) = {
            let shape = vec![None, None, Some(3)][..if pixels.is_grey { 2 } else { 3 }].to_vec();
            let images = Arrays::new(Item::Number(pixels.data_type()), shape, CellFormat::Image(pixels));
            delivered_of(&images, vec![Some(&jpeg)], None)
        };
        assert!(bad[0].1.contains(said), "{bad:?}");
    }
}

#[test]
fn the_bytes_of_a_row_are_known_by_the_header_of_its_cell() {
    let bytes = |arrays: &Arrays, cell: &[u8]| {
        let codec = ArraysCodec::new(arrays.clone(), Codec::Gather(Arc::new(PlainCodec::default()))).unwrap();
        assert!(codec.size().is_by_cell);
        codec.cell_bytes(cell)
    };
    let colour = Pixels { is_grey: false, is_16_bit: false };
    let shape = vec![None, None, Some(3)];
    let images = Arrays::new(Item::Number(DataType::UInt8), shape, CellFormat::Image(colour));
    let jpeg = encode_jpeg(&vec![200; 200 * 100 * 3], 200, 100, 90).unwrap();
    assert_eq!(bytes(&images, &jpeg), 2 * 200 * 100 * 3, "with the offsets of rows of pixels");
    assert_eq!(bytes(&arrays(int16(), &[None]), &[7; 90]), 90);
    assert_eq!(bytes(&images, b"none"), 8, "a bad one counts as it is stored");
}
