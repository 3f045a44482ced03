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
