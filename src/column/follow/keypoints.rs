//! Delivers keypoints that follow an image.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::Followed;
use super::nested::{Nested, NestedRows, NestedType, RowPart};
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun, NullOptions};

/// A column of points that follow an image: they move as it is cropped, resized and mirrored.
///
/// The column is stored as lists of `[x, y]` or `[x, y, v]`, nested at any depth, or as lists with the
/// numbers of [several points](Keypoints::flat), of int32, int64, float32 or float64. Coordinates are in
/// pixels of the image. The delivered lists have the same structure, with float32 numbers in pixels of the
/// delivered image. A third number, such as a visibility, is passed on unchanged. Points are not clipped: a
/// point outside the crop has coordinates outside the delivered image. A mirrored point is at
/// `width - 1 - x`, as in torchvision, and a rotated point stays on its pixel. Names such as "left eye" are
/// not exchanged when an image is mirrored.
///
/// A row is bad if it is null, if a point has another number of numbers, or if a number is not finite. With
/// [`null_mask`](crate::LoaderBuilder::null_mask), a null is delivered as an empty list of points; so are the
/// points of a null image, if null images are delivered.
///
/// ```
/// use forebay::Image;
/// use forebay::column::Keypoints;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// dataset
///     .loader()
///     .decode("image", Image::random_resized_crop(224).flip())
///     .follow("joints", Keypoints::following("image").numbers(3))
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keypoints {
    pub(super) of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    flat: bool,
}

impl Keypoints {
    /// Points that follow the image in the column `image`.
    pub fn following(image: impl Into<String>) -> Keypoints {
        Keypoints { of: image.into(), numbers: None, flat: false }
    }

    /// The number of numbers in a point: 2, or 3 if the third is passed on unchanged. Default: the length of
    /// the lists that the stored type states, or 2 if it states none.
    #[must_use]
    pub fn numbers(self, numbers: usize) -> Keypoints {
        Keypoints { numbers: Some(numbers), ..self }
    }

    /// Whether each innermost list contains the numbers of several points in a row, as in COCO's keypoints
    /// (`[x, y, v, x, y, v, ...]`, with `numbers(3)`) and in the polygons of its segmentation
    /// (`[x, y, x, y, ...]`). The points are delivered in the same form. Default: false, which means one
    /// point in each list.
    #[must_use]
    pub fn flat(self, flat: bool) -> Keypoints {
        Keypoints { flat, ..self }
    }
}

/// The number of coordinates in a point.
const COORDINATES: usize = 2;

/// The codec that delivers points.
#[derive(Debug)]
pub(crate) struct KeypointsCodec {
    followed: Followed,
    /// The number of numbers in a point.
    width: usize,
    is_flat: bool,
    /// Whether a null is delivered as an empty list, instead of being a bad row.
    is_masked: bool,
}

impl KeypointsCodec {
    /// # Errors
    /// Fails if the stored type cannot contain points, or if its points have another number of numbers.
    pub(crate) fn new(
        keypoints: &Keypoints,
        stored: &Field,
        followed: Followed,
        nulls: NullOptions<'_>,
    ) -> Result<Self> {
        let NestedType { depth, width: stored } = NestedType::from_data_type(stored.data_type())?;
        if depth < 2 && !keypoints.flat {
            return Err(Error::invalid("holds lists of numbers, which are not points")
                .hint("say `flat` if each list has the numbers of several points"));
        }
        let stored = stored.filter(|_| !keypoints.flat);
        let width = keypoints.numbers.or(stored).unwrap_or(COORDINATES);
        if !(COORDINATES..=COORDINATES + 1).contains(&width) {
            return Err(Error::invalid(format!("points of {width} numbers")).hint("a point has 2 or 3"));
        }
        match stored {
            Some(stored) if stored != width => {
                Err(Error::invalid(format!("holds points of {stored} numbers, but {width} were requested")))
            }
            _ => Ok(KeypointsCodec { followed, width, is_flat: keypoints.flat, is_masked: nulls.is_masked }),
        }
    }
}

impl KeypointsCodec {
    /// The length of the innermost delivered lists; `None` if it may vary.
    fn list_width(&self) -> Option<usize> {
        (!self.is_flat).then_some(self.width)
    }

    /// Returns an error if an innermost list does not have the numbers of one point or, if it is flat, of
    /// whole points.
    fn check(&self, at: usize, numbers: usize) -> Result<()> {
        let width = self.width;
        if if self.is_flat { numbers.is_multiple_of(width) } else { numbers == width } {
            return Ok(());
        }
        let needed = if self.is_flat { format!("a multiple of {width}") } else { width.to_string() };
        let is_one = if self.is_flat { "is" } else { "are" };
        let cause = format!("{numbers} numbers where {needed} {is_one} needed, in number {at} of the points");
        Err(Error::new(ErrorKind::BadRow, cause))
    }
}

impl FollowImage for KeypointsCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let NestedType { depth, .. } = NestedType::from_data_type(stored.data_type())?;
        Ok(NestedRows::field(stored.name(), depth, self.list_width()))
    }

    fn image(&self) -> usize {
        self.followed.column
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let NestedType { depth, .. } = NestedType::from_data_type(gathered.data_type())?;
        let stored = Nested::new(gathered.as_ref())?;
        let mut made = NestedRows::new(depth, self.list_width());
        let bad = self.followed.each_row(rows, |row, drawn| {
            let drawn = drawn.filter(|_| !self.is_masked || !stored.is_null(row));
            made.row(|made| {
                let Some(drawn) = drawn else { return Ok(()) };
                stored.row(row, "points", &mut |part| {
                    let (at, points) = match part {
                        RowPart::Numbers { at, numbers } => (at, numbers),
                        RowPart::End { depth } => {
                            made.end(depth);
                            return Ok(());
                        }
                    };
                    self.check(at, points.len())?;
                    for point in points.chunks_exact(self.width) {
                        let (x, y) = drawn.point(point[0], point[1]);
                        made.push([x, y].into_iter().chain(point[COORDINATES..].iter().copied()));
                    }
                    Ok(())
                })
            })
        })?;
        Ok((made.finish()?, bad))
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of points", several: "points" }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::datatypes::DataType;
    use forebay_image::Image;

    use super::*;

    fn list(inside: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", inside, true)))
    }

    fn fixed(numbers: i32) -> DataType {
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), numbers)
    }

    fn codec(points: &Keypoints, stored: DataType) -> Result<KeypointsCodec> {
        let image = Image::resize(8, 8);
        let followed =
            Followed { column: 0, name: "image".into(), image, of: None, view: None, around: None };
        KeypointsCodec::new(points, &Field::new("x", stored, true), followed, NullOptions::default())
    }

    #[test]
    fn a_point_has_the_numbers_of_its_type_or_those_that_are_given_or_two() {
        let points = || Keypoints::following("image");
        let number = DataType::Float32;
        for (points, stored, width, delivered) in [
            (points(), list(fixed(2)), 2, Some(2)),
            (points(), list(fixed(3)), 3, Some(3)),
            (points().numbers(3), list(fixed(3)), 3, Some(3)),
            (points(), list(list(number.clone())), 2, Some(2)),
            (points().numbers(3), list(list(number.clone())), 3, Some(3)),
            (points().flat(true), list(number.clone()), 2, None),
            (points().flat(true).numbers(3), list(fixed(6)), 3, None),
            (points().flat(true), list(fixed(6)), 2, None),
        ] {
            let codec = codec(&points, stored).unwrap();
            assert_eq!((codec.width, codec.list_width()), (width, delivered), "{points:?}");
        }
        for (points, stored, said) in [
            (points(), list(fixed(4)), "points of 4 numbers"),
            (points().numbers(3), list(fixed(2)), "holds points of 2 numbers, but 3 were requested"),
            (points().numbers(2), list(fixed(3)), "holds points of 3 numbers, but 2 were requested"),
            (points(), list(number), "holds lists of numbers, which are not points"),
        ] {
            assert_eq!(codec(&points, stored).unwrap_err().cause(), said);
        }
    }

    #[test]
    fn a_list_has_one_point_or_if_it_is_flat_whole_points() {
        let points = || Keypoints::following("image").numbers(3);
        let one = codec(&points(), list(list(DataType::Float32))).unwrap();
        let several = codec(&points().flat(true), list(DataType::Float32)).unwrap();
        let fit = |codec: &KeypointsCodec| -> Vec<usize> {
            (0..8).filter(|numbers| codec.check(1, *numbers).is_ok()).collect()
        };
        assert_eq!((fit(&one), fit(&several)), (vec![3], vec![0, 3, 6]));
        let said = |codec: &KeypointsCodec| codec.check(1, 4).unwrap_err().cause().to_owned();
        assert_eq!(said(&one), "4 numbers where 3 are needed, in number 1 of the points");
        assert_eq!(said(&several), "4 numbers where a multiple of 3 is needed, in number 1 of the points");
    }
}
