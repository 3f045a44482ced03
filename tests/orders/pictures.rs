//! Makes pictures whose pixels tell the number of their row, so that a test notices if a row gets the
//! pictures of another row. They are decoded as clips, or as images whose objects a crop may drop.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::io::Cursor;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{Field, Float32Type, Int64Type, UInt8Type};
use forebay::column::{Boxes, Clip};
use forebay::samples::Samples;
use forebay::{Image, LoaderBuilder};

use super::kit::Draw;

/// The side of a picture, all of whose pixels are the number of its row.
const SIDE: u32 = 4;
/// The number of images in a row's list, from which a clip is made.
const FRAMES: i64 = 2;
/// A box is delivered if at least this share of it is visible.
const MIN_VISIBLE: f64 = 0.9;

/// The form in which pictures are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PictureForm {
    None,
    /// The pictures of the rows of a window, as one value.
    OfWindows,
    /// The list of pictures in each row: the pictures of its own number and of the next number.
    OfLists,
    /// A crop of the picture; objects outside the crop are dropped.
    WithObjects,
}

/// The columns of pictures of a data set.
#[derive(Clone, Debug)]
pub(super) struct Pictures {
    form: PictureForm,
    /// The name of the column of pictures; the name of the column of objects begins with it.
    name: String,
}

impl Pictures {
    /// Draws a form of pictures that samples of this kind can have; packs have none.
    pub(super) fn draw(draw: &mut Draw, name: &str, samples: &Samples) -> Self {
        let form = match (samples, draw.below(4)) {
            (Samples::Packs(_), _) | (_, 0) => PictureForm::None,
            // A window with offsets for some columns delivers only those columns, so it has none with
            // pictures.
            (Samples::Windows(window), _) if !window.columns().is_empty() => PictureForm::None,
            (Samples::Windows(_), _) => PictureForm::OfWindows,
            (_, 1) => PictureForm::OfLists,
            _ => PictureForm::WithObjects,
        };
        Pictures { form, name: name.to_owned() }
    }

    pub(super) fn none() -> Self {
        Pictures { form: PictureForm::None, name: String::new() }
    }

    fn objects(&self) -> String {
        format!("{}_objects", self.name)
    }

    /// The stored columns for rows with these numbers.
    pub(super) fn stored(&self, numbers: &[i64]) -> Vec<(String, ArrayRef)> {
        let pictures = || BinaryArray::from_iter_values(numbers.iter().map(|number| picture(*number)));
        let (name, objects_of_rows) = (self.name.clone(), self.objects());
        match self.form {
            PictureForm::None => Vec::new(),
            PictureForm::OfWindows => vec![(name, Arc::new(pictures()))],
            PictureForm::OfLists => {
                let mut lists = ListBuilder::new(BinaryBuilder::new());
                for number in numbers {
                    let frames = (*number..number + FRAMES).map(picture);
                    frames.for_each(|frame| lists.values().append_value(frame));
                    lists.append(true);
                }
                vec![(name, Arc::new(lists.finish()))]
            }
            PictureForm::WithObjects => {
                vec![(name, Arc::new(pictures())), (objects_of_rows, objects(numbers))]
            }
        }
    }

    /// The names of the columns to read.
    pub(super) fn columns(&self) -> Vec<String> {
        match self.form {
            PictureForm::None => Vec::new(),
            PictureForm::WithObjects => vec![self.name.clone(), format!("{}.*", self.objects())],
            _ => vec![self.name.clone()],
        }
    }

    /// Adds the decoding of the pictures to a loader's options.
    pub(super) fn add(&self, builder: LoaderBuilder) -> LoaderBuilder {
        let whole = || Clip::new(Image::resize(SIDE, SIDE).flip());
        match self.form {
            PictureForm::None => builder,
            PictureForm::OfWindows => builder.clip(&self.name, whole()),
            PictureForm::OfLists => builder.clip(&self.name, whole().frames(FRAMES as u32)),
            PictureForm::WithObjects => {
                let objects = self.objects();
                let along = [format!("{objects}.*")];
                let boxes = Boxes::following(&self.name).min_visible(MIN_VISIBLE).along(along);
                let crop = Image::random_crop(SIDE / 2).flip().emit_geometry();
                let builder = builder.flatten([objects.as_str()]).decode(&self.name, crop);
                builder.follow(format!("{objects}.box"), boxes)
            }
        }
    }

    /// Compares the pictures of a batch with the numbers of each row, or of the rows of each window.
    pub(super) fn check(&self, batch: &RecordBatch, numbers: &[Vec<i64>], place: &str) {
        if self.form == PictureForm::None {
            return;
        }
        let frames = if self.form == PictureForm::OfLists { FRAMES } else { 1 };
        let side = if self.form == PictureForm::WithObjects { SIDE / 2 } else { SIDE };
        let pixels = batch[&*self.name].as_fixed_size_list();
        assert_eq!(pixels.len(), numbers.len(), "{place}");
        for (row, numbers) in numbers.iter().enumerate() {
            let expected = numbers.iter().flat_map(|number| *number..number + frames);
            let expected: Vec<u8> = expected.flat_map(|number| pixels_of(number, side)).collect();
            assert_eq!(pixels.value(row).as_primitive::<UInt8Type>().values()[..], expected, "{place}");
            if self.form == PictureForm::WithObjects {
                self.check_objects(batch, row, numbers[0], place);
            }
        }
    }

    /// Compares the objects of a row with the part of its picture that is shown.
    fn check_objects(&self, batch: &RecordBatch, row: usize, number: i64, place: &str) {
        let geometry = batch[&*format!("{}.geometry", self.name)].as_fixed_size_list().value(row);
        let geometry = geometry.as_primitive::<Float32Type>().values().to_vec();
        let is_shown = |object: &i64| {
            let [left, top, right, bottom] = corners(*object).map(|side| side as f32);
            let [first_row, first_column, height, width] = geometry[..4] else { return false };
            left >= first_column
                && top >= first_row
                && right <= first_column + width
                && bottom <= first_row + height
        };
        let of_row = |field: &str| batch[&*format!("{}.{field}", self.objects())].as_list::<i64>().value(row);
        let expected: Vec<i64> =
            (0..objects_of(number)).filter(is_shown).map(|object| number + object).collect();
        assert_eq!(of_row("label").as_primitive::<Int64Type>().values()[..], expected, "{place}");
        assert_eq!(of_row("box").len(), expected.len(), "{place}");
    }
}

/// The number of objects in a picture. Their labels count up from the picture's number.
fn objects_of(number: i64) -> i64 {
    number % 3
}

/// The box of an object: it is one pixel large.
fn corners(object: i64) -> [i64; 4] {
    let (x, y) = (object * 2, object);
    [x, y, x + 1, y + 1]
}

fn objects(numbers: &[i64]) -> ArrayRef {
    let all =
        || numbers.iter().flat_map(|number| (0..objects_of(*number)).map(move |object| (number, object)));
    let boxes = all().map(|(_, object)| Some(corners(object).map(|side| Some(side as f32))));
    let fields: [(&str, ArrayRef); 2] = [
        ("box", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(boxes, 4))),
        ("label", Arc::new(Int64Array::from_iter_values(all().map(|(number, object)| number + object)))),
    ];
    let objects = StructArray::from(RecordBatch::try_from_iter(fields).unwrap());
    let item = Arc::new(Field::new("item", objects.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(numbers.iter().map(|number| objects_of(*number) as usize));
    Arc::new(ListArray::new(item, offsets, Arc::new(objects), None))
}

/// The pixels of a square, each of which has this number as its colour.
fn pixels_of(number: i64, side: u32) -> Vec<u8> {
    let [.., red, green, blue] = number.to_be_bytes();
    [red, green, blue].repeat((side * side) as usize)
}

/// A PNG whose pixels all have this number as their colour.
fn picture(number: i64) -> Vec<u8> {
    let mut encoded = Cursor::new(Vec::new());
    let image = image::RgbImage::from_raw(SIDE, SIDE, pixels_of(number, SIDE)).unwrap();
    image.write_to(&mut encoded, image::ImageFormat::Png).unwrap();
    encoded.into_inner()
}
