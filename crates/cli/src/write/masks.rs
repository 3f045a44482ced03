//! Masks of objects, in the two forms that loaders read: outlines and run lengths.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, FixedSizeListArray, Float64Array, Int64Array, ListArray, StringArray, StructArray,
};
use forebay_arrow::buffer::OffsetBuffer;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Image, Instance, Size, compress_instance};

/// The largest coordinate of an outline that loaders draw.
pub(super) const MAX_OUTLINE_COORDINATE: f64 = 2.0 * Image::MAX_SIDE as f64;

/// The mask of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObjectMask {
    /// Outlines `x, y, x, y, ...` of the parts of the object.
    Outlines(Vec<Vec<f64>>),
    /// Compressed run lengths for an image of this size.
    Runs { counts: String, size: Size },
}

/// The form of all masks of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskForm {
    Outlines,
    Runs,
}

impl ObjectMask {
    /// The mask of an object that has none: it covers no pixel.
    pub(super) const NONE: ObjectMask = ObjectMask::Outlines(Vec::new());

    /// The mask in the form of its column; `size` is that of its image.
    pub(super) fn in_form(self, form: MaskForm, size: Size) -> Result<ObjectMask> {
        match (form, self) {
            (MaskForm::Runs, ObjectMask::Outlines(outlines)) => {
                let outlines: Vec<&[f64]> = outlines.iter().map(Vec::as_slice).collect();
                let counts = compress_instance(Instance::Polygons(&outlines), size)?;
                Ok(ObjectMask::Runs { counts, size })
            }
            (MaskForm::Runs, ObjectMask::Runs { size: own, .. }) if own != size => {
                let (Size { height, width }, Size { height: h, width: w }) = (size, own);
                let cause = format!("a mask of {w}x{h} pixels for an image of {width}x{height}");
                Err(Error::new(ErrorKind::Corrupt, cause).hint("the size of run lengths is [height, width]"))
            }
            (_, mask) => Ok(mask),
        }
    }

    /// Adds the mask to the hash of a row.
    pub(super) fn add_to(&self, hash: &mut impl Hasher) {
        match self {
            ObjectMask::Outlines(outlines) => {
                outlines.len().hash(hash);
                for outline in outlines {
                    outline.len().hash(hash);
                    outline.iter().for_each(|number| number.to_bits().hash(hash));
                }
            }
            ObjectMask::Runs { counts, size } => (counts, size.height, size.width).hash(hash),
        }
    }
}

impl MaskForm {
    /// The form that holds all of these masks.
    pub(super) fn holding<'a>(mut masks: impl Iterator<Item = &'a ObjectMask>) -> MaskForm {
        match masks.any(|mask| matches!(mask, ObjectMask::Runs { .. })) {
            true => MaskForm::Runs,
            false => MaskForm::Outlines,
        }
    }

    /// The field of a mask in the list of an image.
    pub(super) fn item(self) -> FieldRef {
        item(match self {
            MaskForm::Outlines => DataType::List(outline_item()),
            MaskForm::Runs => DataType::Struct(run_fields()),
        })
    }

    /// Makes an array of the masks of all objects, each in this form.
    pub(super) fn array(self, masks: &[&ObjectMask]) -> Result<ArrayRef> {
        Ok(match self {
            MaskForm::Outlines => {
                let of_mask = |mask: &&'_ ObjectMask| match mask {
                    ObjectMask::Outlines(outlines) => outlines.clone(),
                    ObjectMask::Runs { .. } => Vec::new(),
                };
                let masks: Vec<Vec<Vec<f64>>> = masks.iter().map(of_mask).collect();
                let outlines: Vec<&Vec<f64>> = masks.iter().flatten().collect();
                let numbers: Float64Array =
                    outlines.iter().flat_map(|outline| outline.iter().copied()).collect();
                let lengths = OffsetBuffer::from_lengths(outlines.iter().map(|outline| outline.len()));
                let outlines =
                    ListArray::try_new(number_item(), lengths, Arc::new(numbers), None).or_fail()?;
                let lengths = OffsetBuffer::from_lengths(masks.iter().map(Vec::len));
                Arc::new(ListArray::try_new(outline_item(), lengths, Arc::new(outlines), None).or_fail()?)
            }
            MaskForm::Runs => {
                let of_mask = |mask: &&'_ ObjectMask| match mask {
                    ObjectMask::Runs { counts, size } => (counts.clone(), *size),
                    ObjectMask::Outlines(_) => (String::new(), Size { height: 0, width: 0 }),
                };
                let masks: Vec<(String, Size)> = masks.iter().map(of_mask).collect();
                let counts = StringArray::from_iter_values(masks.iter().map(|(counts, _)| counts));
                let sides = masks.iter().flat_map(|(_, size)| [size.height, size.width].map(i64::from));
                let sides: Int64Array = sides.collect();
                let sizes = FixedSizeListArray::try_new(side_item(), 2, Arc::new(sides), None).or_fail()?;
                let columns: Vec<ArrayRef> = vec![Arc::new(counts), Arc::new(sizes)];
                Arc::new(StructArray::try_new(run_fields(), columns, None).or_fail()?)
            }
        })
    }
}

fn item(of: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(of, false))
}

fn number_item() -> FieldRef {
    item(DataType::Float64)
}

fn outline_item() -> FieldRef {
    item(DataType::List(number_item()))
}

fn side_item() -> FieldRef {
    item(DataType::Int64)
}

/// The fields of run lengths, as COCO names them.
fn run_fields() -> Fields {
    vec![
        Field::new("counts", DataType::Utf8, false),
        Field::new("size", DataType::FixedSizeList(side_item(), 2), false),
    ]
    .into()
}
