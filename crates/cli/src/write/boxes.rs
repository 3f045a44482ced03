//! Annotated images: lists of boxes and of their classes beside each image.

use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;

use super::layout::{self, Feature};

/// A box: left, top, width and height in pixels.
pub(super) type PixelBox = [f32; 4];

/// An image and what is in it.
pub(super) struct Annotated<'a> {
    pub(super) image: Vec<u8>,
    pub(super) path: &'a str,
    pub(super) boxes: Vec<PixelBox>,
    /// The class of each box.
    pub(super) labels: Vec<i64>,
}

/// The columns of annotated images: `image`, `boxes`, `labels` and `path`.
pub(super) fn schema(classes: &[String]) -> SchemaRef {
    let features = layout::features(&[
        ("image", Feature::Image),
        ("boxes", Feature::Boxes),
        ("labels", Feature::Classes(classes)),
        ("path", Feature::Value("string")),
    ]);
    let fields = vec![
        Field::new("image", DataType::Binary, false),
        Field::new("boxes", DataType::List(box_item()), false),
        Field::new("labels", DataType::List(label_item()), false),
        Field::new("path", DataType::Utf8, false),
    ];
    Arc::new(Schema::new(fields).with_metadata(features))
}

/// Rows of that schema.
pub(super) fn batch(schema: &SchemaRef, rows: &[Annotated<'_>]) -> Result<RecordBatch> {
    let offsets = || OffsetBuffer::from_lengths(rows.iter().map(|row| row.boxes.len()));
    let sides: Float32Array = rows.iter().flat_map(|row| row.boxes.iter().flatten().copied()).collect();
    let boxes = FixedSizeListArray::try_new(side(), 4, Arc::new(sides), None).or_fail()?;
    let boxes = ListArray::try_new(box_item(), offsets(), Arc::new(boxes), None).or_fail()?;
    let labels: Int64Array = rows.iter().flat_map(|row| row.labels.iter().copied()).collect();
    let labels = ListArray::try_new(label_item(), offsets(), Arc::new(labels), None).or_fail()?;
    let columns: [ArrayRef; 4] = [
        Arc::new(BinaryArray::from_iter_values(rows.iter().map(|row| &row.image))),
        Arc::new(boxes),
        Arc::new(labels),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.path))),
    ];
    RecordBatch::try_new(schema.clone(), columns.into()).or_fail()
}

fn side() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Float32, false))
}

fn box_item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::FixedSizeList(side(), 4), false))
}

fn label_item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Int64, false))
}
