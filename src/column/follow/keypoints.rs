//! Points of an image.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Followed;
use super::tuples::{Rows, Tuples, field, stored_width};
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun, NullOptions};

/// A column of points that follow an image: moved as it is cropped, resized and mirrored.
///
/// Stored are lists of `[x, y]` or `[x, y, v]`, of int32, int64, float32 or float64, in pixels of the image. Delivered are
/// lists of as many float32 numbers, in pixels of the image that is delivered. A third number, such as a visibility, is
/// passed on. Points are not clipped: those outside of the crop get coordinates outside of the result. A mirrored point is
/// at `width - 1 - x`, as in torchvision, and one that is rotated stays on its pixel. Names such as "left eye" are not exchanged when an image is mirrored.
///
/// A null, or a point without as many finite numbers, is a bad row. With
/// [`null_mask`](crate::LoaderBuilder::null_mask) a null is a list of no points, and an image that is delivered though it is
/// null has none.
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
    /// The points of the images in this column.
    pub fn of(image: impl Into<String>) -> Keypoints {
        Keypoints { of: image.into(), numbers: None }
    }

    /// Numbers of a point: 2, or 3 with one that is passed on. Default: as many as the stored type says, or 2 where it does
    /// not.
    #[must_use]
    pub fn numbers(self, numbers: usize) -> Keypoints {
        Keypoints { numbers: Some(numbers), ..self }
    }
}

/// Coordinates of a point.
const COORDINATES: usize = 2;

/// Delivers points.
#[derive(Debug)]
pub(crate) struct KeypointsCodec {
    followed: Followed,
    width: usize,
    /// Whether a null is a list of none, and no bad row.
    is_masked: bool,
}

impl KeypointsCodec {
    /// # Errors
    /// The stored type does not hold points, or holds others.
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
                Err(Error::invalid(format!("holds points of {stored} numbers, and {width} were asked for")))
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
        let stored = Tuples::of(gathered.as_ref(), self.width)?;
        let mut made = Rows::new(self.width);
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
