//! Points in an image.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Followed;
use super::tuples::{TupleRows, Tuples, field, stored_width};
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun, NullOptions};

/// A column of points that follow an image: they move as it is cropped, resized and mirrored.
///
/// The column is stored as lists of `[x, y]` or `[x, y, v]`, as int32, int64, float32 or float64, in pixels
/// of the image. It is delivered as lists of as many float32 numbers, in pixels of the delivered image. A
/// third number, such as a visibility, is passed on. Points are not clipped: a point outside of the crop has
/// coordinates outside of the result. A mirrored point is at `width - 1 - x`, as in torchvision, and a point
/// in a rotated image stays on its pixel. Names such as "left eye" are not exchanged when an image is
/// mirrored.
///
/// A null, a point with another number of numbers, or a number that is not finite makes a bad row. With
/// [`null_mask`](crate::LoaderBuilder::null_mask) a null is an empty list of points, and so are the points of
/// a null image that is delivered.
///
/// ```
/// use forebay::Image;
/// use forebay::column::Keypoints;
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// dataset
///     .loader()
///     .decode("image", Image::random_resized_crop(224).flip())
///     .follow("joints", Keypoints::of("image").numbers(3))
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keypoints {
    pub(super) of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<usize>,
}

impl Keypoints {
    /// Points that follow the images in this column.
    pub fn of(image: impl Into<String>) -> Keypoints {
        Keypoints { of: image.into(), numbers: None }
    }

    /// The number of numbers in a point: 2, or 3 with one that is passed on. Default: the number that the
    /// stored type says, or 2 if it says nothing.
    #[must_use]
    pub fn numbers(self, numbers: usize) -> Keypoints {
        Keypoints { numbers: Some(numbers), ..self }
    }
}

/// The number of coordinates in a point.
const COORDINATES: usize = 2;

/// Delivers points.
#[derive(Debug)]
pub(crate) struct KeypointsCodec {
    followed: Followed,
    width: usize,
    /// Whether a null is delivered as an empty list, and is not a bad row.
    is_masked: bool,
}

impl KeypointsCodec {
    /// # Errors
    /// The stored type does not hold points, or points of another number of numbers.
    pub(crate) fn new(
        keypoints: &Keypoints,
        stored: &Field,
        followed: Followed,
        nulls: NullOptions<'_>,
    ) -> Result<Self> {
        let stored = stored_width(stored.data_type())?;
        let width = keypoints.numbers.or(stored).unwrap_or(COORDINATES);
        if !(COORDINATES..=COORDINATES + 1).contains(&width) {
            return Err(Error::invalid(format!("points of {width} numbers")).hint("a point has 2 or 3"));
        }
        match stored {
            Some(stored) if stored != width => {
                Err(Error::invalid(format!("holds points of {stored} numbers, but {width} were requested")))
            }
            _ => Ok(KeypointsCodec { followed, width, is_masked: nulls.is_masked }),
        }
    }
}

impl FollowImage for KeypointsCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        Ok(field(stored.name(), self.width))
    }

    fn image(&self) -> usize {
        self.followed.column
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let stored = Tuples::new(gathered.as_ref(), self.width)?;
        let mut made = TupleRows::new(self.width);
        let bad = self.followed.each_row(rows, |row, drawn| {
            let drawn = drawn.filter(|_| !self.is_masked || !stored.is_null(row));
            let filled = drawn.map(|drawn| stored.row(row, "points").map(|points| (points, drawn)));
            let filled = filled.transpose().map(|filled| {
                let Some((points, drawn)) = filled else { return };
                for point in points.chunks_exact(self.width) {
                    let (x, y) = drawn.point(point[0], point[1]);
                    made.push([x, y].into_iter().chain(point[COORDINATES..].iter().copied()));
                }
            });
            made.end_row();
            filled
        })?;
        Ok((made.finish()?, bad))
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of points", several: "points" }
    }
}
