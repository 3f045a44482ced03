//! Annotated images: lists of boxes and classes beside each image, and of masks and key points.

use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use forebay_image::{Drawn, Image, RowKey, Size};
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::features::{self, Feature};
use super::masks::{MaskForm, ObjectMask};
use super::read::{place, read_found};
use super::source::RowSource;

/// A box as it is written: left, top, width and height in pixels.
type PixelBox = [f32; 4];

/// How coordinates are given.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Coordinates {
    /// Pixels of the image as it is stored. A box is left, top, width and height.
    Pixels,
    /// Shares of the image as it is seen. A box is given by the x and y of its middle, its
    /// width and its height.
    Shares,
}

/// The columns that annotations give.
pub(super) struct ObjectForm {
    pub(super) coordinates: Coordinates,
    /// The form of the column of masks, if there is one.
    pub(super) masks: Option<MaskForm>,
    /// How many numbers each key point has; `None` if there is no column of key points.
    pub(super) point_numbers: Option<usize>,
    /// The names of the classes.
    pub(super) classes: Vec<String>,
}

/// An image, and the objects in it.
pub(super) struct AnnotatedImage {
    pub(super) path: PathBuf,
    /// The image's path as it is written to the column `path`.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) objects: Vec<AnnotatedObject>,
}

/// An object in an image.
#[derive(Clone)]
pub(super) struct AnnotatedObject {
    pub(super) bounds: [f32; 4],
    pub(super) label: i64,
    pub(super) mask: ObjectMask,
    /// The numbers of all key points, one point after the other.
    pub(super) points: Vec<f32>,
}

/// A data set of annotated images, whose rows can be read in any order.
pub(super) struct AnnotatedImages {
    images: Vec<AnnotatedImage>,
    form: ObjectForm,
    schema: SchemaRef,
    remarks: Vec<String>,
}

impl AnnotatedImages {
    pub(super) fn new(images: Vec<AnnotatedImage>, form: ObjectForm, remarks: Vec<String>) -> Self {
        let schema = form.schema();
        AnnotatedImages { images, form, schema, remarks }
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
        let AnnotatedImage { name, bytes, objects, .. } = &self.images[row];
        let mut hash = Xxh3::new();
        for AnnotatedObject { bounds, label, mask, points } in objects {
            (bounds.map(f32::to_bits), label, points.len()).hash(&mut hash);
            points.iter().for_each(|number| number.to_bits().hash(&mut hash));
            mask.add_to(&mut hash);
        }
        format!("{name} {bytes} {:016x}", hash.digest())
    }

    fn read(&self, rows: &[usize]) -> Result<RecordBatch> {
        let read = |row: &usize| self.images[*row].read(&self.form);
        let rows: Vec<ImageCells<'_>> = rows.par_iter().map(read).collect::<Result<_>>()?;
        self.form.batch(&self.schema, &rows)
    }

    fn classes(&self) -> &[String] {
        &self.form.classes
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

impl AnnotatedImage {
    fn read(&self, form: &ObjectForm) -> Result<ImageCells<'_>> {
        let image = read_found(&self.path, self.bytes)?;
        let size = match form.needs_size() && !self.objects.is_empty() {
            true => form.seen_size(&image).map_err(|error| error.at(place(&self.path)))?,
            false => Size { height: 0, width: 0 },
        };
        let written = |(at, object): (usize, &AnnotatedObject)| {
            let written = form.written(object.clone(), size);
            written.map_err(|error| error.about(&format!("object {at}")).at(place(&self.path)))
        };
        let objects = self.objects.iter().enumerate().map(written).collect::<Result<_>>()?;
        Ok(ImageCells { image, path: &self.name, objects })
    }
}

/// The values of a row.
struct ImageCells<'a> {
    image: Vec<u8>,
    path: &'a str,
    /// The objects, with coordinates in pixels.
    objects: Vec<AnnotatedObject>,
}

fn pixels([x, y, w, h]: [f32; 4], width: f32, height: f32) -> PixelBox {
    [(x - w / 2.0) * width, (y - h / 2.0) * height, w * width, h * height]
}

impl ObjectForm {
    /// Whether the size of an image decides how its objects are written.
    fn needs_size(&self) -> bool {
        self.coordinates == Coordinates::Shares || self.masks == Some(MaskForm::Runs)
    }

    /// Reads from an image's header the size to which its coordinates refer. For shares, this is the size of
    /// the image after it is turned by its EXIF orientation.
    fn seen_size(&self, image: &[u8]) -> Result<Size> {
        let is_turned = self.coordinates == Coordinates::Shares;
        let shown = Image::resize(1, 1).exif_orientation(is_turned);
        Ok(Drawn::probe(&shown, image, RowKey(0))?.seen())
    }

    /// An object as it is written.
    fn written(&self, mut object: AnnotatedObject, size: Size) -> Result<AnnotatedObject> {
        if self.coordinates == Coordinates::Shares {
            let sides = [size.width as f32, size.height as f32];
            object.bounds = pixels(object.bounds, sides[0], sides[1]);
            for point in object.points.chunks_mut(self.point_numbers.unwrap_or(sides.len())) {
                point.iter_mut().zip(sides).for_each(|(share, side)| *share *= side);
            }
            if let ObjectMask::Outlines(outlines) = &mut object.mask {
                let shares = outlines.iter_mut().flat_map(|outline| outline.chunks_mut(sides.len()));
                shares.for_each(|point| {
                    point.iter_mut().zip(sides).for_each(|(share, side)| *share *= f64::from(side));
                });
            }
        }
        match self.masks {
            Some(form) => Ok(AnnotatedObject { mask: object.mask.in_form(form, size)?, ..object }),
            None => Ok(object),
        }
    }

    /// The columns of annotated images: `image`, `boxes`, `labels`, `masks` and `keypoints` if there are any,
    /// and `path`.
    fn schema(&self) -> SchemaRef {
        let list = |name: &str, item: FieldRef| Field::new(name, DataType::List(item), false);
        let mut columns = vec![
            (Field::new("image", DataType::Binary, false), Feature::Image),
            (list("boxes", box_item()), Feature::Boxes),
            (list("labels", label_item()), Feature::Classes(&self.classes)),
        ];
        if let Some(form) = self.masks {
            columns.push((list("masks", form.item()), Feature::Masks(form)));
        }
        if let Some(numbers) = self.point_numbers {
            columns.push((list("keypoints", points_item(numbers)), Feature::Points(numbers)));
        }
        columns.push((Field::new("path", DataType::Utf8, false), Feature::Value("string")));
        let (fields, features): (Vec<Field>, Vec<Feature<'_>>) = columns.into_iter().unzip();
        let names = fields.iter().map(|field| field.name().as_str());
        let notes = features::notes(&names.zip(features).collect::<Vec<_>>());
        Arc::new(Schema::new(fields).with_metadata(notes))
    }

    /// Makes a batch of rows.
    fn batch(&self, schema: &SchemaRef, rows: &[ImageCells<'_>]) -> Result<RecordBatch> {
        let objects: Vec<&AnnotatedObject> = rows.iter().flat_map(|row| &row.objects).collect();
        let lists = |item: FieldRef, items: ArrayRef| -> Result<ArrayRef> {
            let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.objects.len()));
            Ok(Arc::new(ListArray::try_new(item, offsets, items, None).or_fail()?))
        };
        let sides: Float32Array = objects.iter().flat_map(|object| object.bounds).collect();
        let boxes = FixedSizeListArray::try_new(number(), 4, Arc::new(sides), None).or_fail()?;
        let labels: Int64Array = objects.iter().map(|object| object.label).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(BinaryArray::from_iter_values(rows.iter().map(|row| &row.image))),
            lists(box_item(), Arc::new(boxes))?,
            lists(label_item(), Arc::new(labels))?,
        ];
        if let Some(form) = self.masks {
            let masks: Vec<&ObjectMask> = objects.iter().map(|object| &object.mask).collect();
            columns.push(lists(form.item(), form.array(&masks)?)?);
        }
        if let Some(numbers) = self.point_numbers {
            columns.push(lists(points_item(numbers), points(&objects, numbers)?)?);
        }
        columns.push(Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.path))));
        RecordBatch::try_new(schema.clone(), columns).or_fail()
    }
}

/// The key points of each object, with this many numbers each.
fn points(objects: &[&AnnotatedObject], numbers: usize) -> Result<ArrayRef> {
    let values: Float32Array = objects.iter().flat_map(|object| object.points.iter().copied()).collect();
    let points = FixedSizeListArray::try_new(number(), numbers as i32, Arc::new(values), None).or_fail()?;
    let lengths = OffsetBuffer::from_lengths(objects.iter().map(|object| object.points.len() / numbers));
    Ok(Arc::new(ListArray::try_new(point_item(numbers), lengths, Arc::new(points), None).or_fail()?))
}

fn number() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float32, false))
}

fn box_item() -> FieldRef {
    point_item(4)
}

/// The field of a list of this many numbers.
fn point_item(numbers: usize) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::FixedSizeList(number(), numbers as i32), false))
}

fn points_item(numbers: usize) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::List(point_item(numbers)), false))
}

fn label_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int64, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_an_image_become_pixels() {
        assert_eq!(pixels([0.5, 0.25, 0.5, 0.5], 200.0, 100.0), [50.0, 0.0, 100.0, 50.0]);
        let form = |masks| ObjectForm {
            coordinates: Coordinates::Shares,
            masks: Some(masks),
            point_numbers: Some(3),
            classes: Vec::new(),
        };
        let object = AnnotatedObject {
            bounds: [0.5; 4],
            label: 0,
            mask: ObjectMask::Outlines(vec![vec![0.25, 0.0, 0.75, 0.0, 0.75, 0.5, 0.25, 0.5]]),
            points: vec![0.5, 0.25, 2.0],
        };
        let size = Size { height: 4, width: 4 };
        let written = form(MaskForm::Outlines).written(object.clone(), size).unwrap();
        let outline = vec![1.0, 0.0, 3.0, 0.0, 3.0, 2.0, 1.0, 2.0];
        assert_eq!(
            (written.mask, written.points),
            (ObjectMask::Outlines(vec![outline]), vec![2.0, 1.0, 2.0])
        );
        let written = form(MaskForm::Runs).written(object, size).unwrap();
        assert_eq!(written.mask, ObjectMask::Runs { counts: "42204".to_owned(), size });
    }
}
