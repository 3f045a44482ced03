//! Annotated images: lists of boxes and of their classes beside each image.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use forebay_image::{Drawn, Image, RowKey};
use rayon::prelude::*;

use super::features::{self, Feature};
use super::read::{place, read_found};
use super::source::RowSource;

/// A box as it is written: left, top, width and height in pixels.
type PixelBox = [f32; 4];

/// The form of the boxes in the annotations.
#[derive(Clone, Copy)]
pub(super) enum BoxForm {
    Pixels,
    /// The centre, the width and the height of a box, as shares of the image's width and height.
    Shares,
}

/// An image, and the boxes of the objects in it.
pub(super) struct AnnotatedImage {
    pub(super) path: PathBuf,
    /// The image's path as it is written to the column `path`.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) boxes: Vec<[f32; 4]>,
    /// The class of each box.
    pub(super) labels: Vec<i64>,
}

/// A data set of annotated images, whose rows can be read in any order.
pub(super) struct AnnotatedImages {
    images: Vec<AnnotatedImage>,
    form: BoxForm,
    classes: Vec<String>,
    schema: SchemaRef,
    remarks: Vec<String>,
}

impl AnnotatedImages {
    pub(super) fn new(
        images: Vec<AnnotatedImage>,
        form: BoxForm,
        classes: Vec<String>,
        remarks: Vec<String>,
    ) -> Self {
        let schema = schema(&classes);
        AnnotatedImages { images, form, classes, schema, remarks }
    }
}

impl RowSource for AnnotatedImages {
    fn kind(&self) -> &'static str {
        "images with boxes"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn row_bytes(&self, row: usize) -> u64 {
        self.images[row].bytes
    }

    fn identity(&self, row: usize) -> String {
        let AnnotatedImage { name, bytes, boxes, labels, .. } = &self.images[row];
        format!("{name} {bytes} {boxes:?} {labels:?}")
    }

    fn read(&self, rows: &[usize]) -> Result<RecordBatch> {
        let read = |row: &usize| self.images[*row].read(self.form);
        let rows: Vec<ImageCells<'_>> = rows.par_iter().map(read).collect::<Result<_>>()?;
        batch(&self.schema, &rows)
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

impl AnnotatedImage {
    fn read(&self, form: BoxForm) -> Result<ImageCells<'_>> {
        let image = read_found(&self.path, self.bytes)?;
        let boxes = match form {
            BoxForm::Pixels => self.boxes.clone(),
            BoxForm::Shares => {
                let size = Drawn::of(&Image::resize(1, 1).exif_orientation(true), &image, RowKey(0));
                let size = size.map_err(|error| error.at(place(&self.path)))?.seen();
                self.boxes.iter().map(|shares| pixels(*shares, size.width, size.height)).collect()
            }
        };
        Ok(ImageCells { image, path: &self.name, boxes, labels: &self.labels })
    }
}

/// The values of a row.
struct ImageCells<'a> {
    image: Vec<u8>,
    path: &'a str,
    boxes: Vec<PixelBox>,
    labels: &'a [i64],
}

fn pixels([x, y, w, h]: [f32; 4], width: u32, height: u32) -> PixelBox {
    let (width, height) = (width as f32, height as f32);
    [(x - w / 2.0) * width, (y - h / 2.0) * height, w * width, h * height]
}

/// The columns of annotated images: `image`, `boxes`, `labels` and `path`.
fn schema(classes: &[String]) -> SchemaRef {
    let features = features::notes(&[
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

/// Makes a batch of rows in the schema of annotated images.
fn batch(schema: &SchemaRef, rows: &[ImageCells<'_>]) -> Result<RecordBatch> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_an_image_become_pixels() {
        assert_eq!(pixels([0.5, 0.25, 0.5, 0.5], 200, 100), [50.0, 0.0, 100.0, 50.0]);
    }
}
