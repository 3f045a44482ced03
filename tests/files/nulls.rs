//! Nulls in decoded columns: the values that are delivered for them, and for columns that follow an image
//! that is null.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::datatypes::{DataType, Float32Type, UInt8Type};
use forebay::column::{Mask, Tensor};
use forebay::{Dataset, Image, LoaderBuilder};
use forebay_image::encode_jpeg;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

const ROWS: usize = 12;
const SIDE: u32 = 16;

fn is_null(row: usize) -> bool {
    row % 3 == 1
}

/// Writes bright images and tensors of two numbers, which are null in the null rows, and masks of classes,
/// which are null in every row.
fn written(dir: &Path) {
    let jpeg = encode_jpeg(&[200; (SIDE * SIDE * 3) as usize], SIDE, SIDE, 90).unwrap();
    let there = |row: &usize| !is_null(*row);
    let images = (0..ROWS).map(|row| there(&row).then(|| jpeg.clone()));
    let tensors = (0..ROWS).map(|row| there(&row).then(|| [row as f32, 0.5].map(f32::to_le_bytes).concat()));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("image", Arc::new(BinaryArray::from_iter(images)), true),
        ("classes", Arc::new(BinaryArray::from_iter((0..ROWS).map(|_| None::<&[u8]>))), true),
        ("x", Arc::new(BinaryArray::from_iter(tensors)), true),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let file = std::fs::File::create(dir.join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

fn loader(dir: &TempDir) -> LoaderBuilder {
    written(dir.path());
    let loader = Dataset::open(dir.path()).unwrap().loader().batch_size(5);
    loader
        .decode("image", Image::random_resized_crop(8).flip().emit_geometry())
        .follow("classes", Mask::following("image"))
        .decode_tensor("x", Tensor::new(DataType::Float32, [2]))
}

#[test]
fn a_null_has_a_mask_and_its_slot_the_fill() {
    let dir = TempDir::new().unwrap();
    let fills = [("image", 7.0), ("classes", 255.0), ("x", -1.0)];
    let builder = fills.into_iter().fold(loader(&dir), |loader, (name, fill)| loader.fill_null(name, fill));
    let loader = builder.null_mask(["image", "x"]).build().unwrap();
    let mut row = 0;
    // In the second epoch, the reused memory of batches still holds the bytes of the first one.
    for batch in (0..2).flat_map(|epoch| loader.epoch(epoch).collect::<Vec<_>>()) {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let bytes = |name: &str, at: usize| {
            column(name).as_fixed_size_list().value(at).as_primitive::<UInt8Type>().values().to_vec()
        };
        let floats = |name: &str, at: usize| {
            column(name).as_fixed_size_list().value(at).as_primitive::<Float32Type>().values().to_vec()
        };
        for at in 0..batch.num_rows() {
            let there = !is_null(row % ROWS);
            for mask in ["image.mask", "x.mask"] {
                assert_eq!(column(mask).as_boolean().value(at), there, "{mask} of row {row}");
            }
            assert_eq!(bytes("image", at).iter().all(|pixel| *pixel == 7), !there, "row {row}");
            assert!(bytes("classes", at).iter().all(|class| *class == 255));
            assert_eq!(floats("image.geometry", at).iter().all(|number| *number == 0.0), !there);
            assert_eq!(floats("x", at), if there { [(row % ROWS) as f32, 0.5] } else { [-1.0; 2] });
            row += 1;
        }
    }
    assert_eq!(row, 2 * ROWS);
}

#[test]
fn a_null_without_an_option_names_both() {
    for name in ["image", "x"] {
        let dir = TempDir::new().unwrap();
        let loader = loader(&dir).fill_null("classes", 0.0).null_mask(match name {
            "image" => ["x"],
            _ => ["image"],
        });
        let error = loader.build().unwrap().epoch(0).find_map(Result::err).unwrap();
        assert_eq!((error.place().column.as_deref(), error.place().row), (Some(name), Some(1)));
        let text = error.to_string();
        assert!(text.contains("fill_null") && text.contains("null_mask"), "{text}");
    }
}
