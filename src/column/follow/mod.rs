//! Columns that follow the crop, size and flips of an image: boxes, points and masks.
//!
//! ```text
//! header of the image ─┐
//! key of the row ──────┼─► Drawn ─┬─► boxes, clipped to what is visible ─► labels of those that are left
//! Image ───────────────┘          ├─► points
//!                                 ├─► mask, by the nearest pixel
//!                                 └─► numbers, for all else
//! ```
//!
//! These columns draw no random numbers themselves: the crop and flips are drawn once, by the options of the
//! image, and apply to the image and to everything that follows it.

mod along;
mod around;
mod boxes;
mod geometry;
mod kept;
mod keypoints;
mod mask;
mod masks;
mod nested;
mod padded;
mod size;
mod tuples;

use serde::{Deserialize, Serialize};

pub(crate) use along::AlongCodec;
pub(crate) use around::Around;
pub(crate) use boxes::BoxesCodec;
pub use boxes::{BoxFormat, Boxes};
pub(crate) use geometry::GeometryCodec;
pub(crate) use kept::KeptBoxes;
pub use keypoints::Keypoints;
pub(crate) use keypoints::KeypointsCodec;
pub use mask::Mask;
pub(crate) use mask::MaskCodec;
pub use masks::Masks;
pub(crate) use masks::MasksCodec;
pub(crate) use padded::PaddedCodec;
pub(crate) use size::SizeCodec;

use forebay_arrow::datatypes::Field;
use forebay_base::{Error, Place, Result};
use forebay_image::{Drawing, Drawn, Image, RowKey, Size, needs_stable};

use super::{BadValue, ColumnOption, FollowedRows, RowCells, ViewTag};
use crate::batch::Fill;

/// A column that follows an image: it is cropped, resized and mirrored with it.
///
/// Pass it to a loader with [`LoaderBuilder::follow`](crate::LoaderBuilder::follow).
///
/// ```
/// use forebay::column::{Boxes, Follow, Keypoints, Mask};
///
/// let follow: Vec<Follow> =
///     vec![Boxes::following("image").into(), Keypoints::following("image").into(), Mask::following("image").into()];
/// assert!(follow.iter().all(|column| column.image() == "image"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Follow {
    /// Bounding boxes.
    Boxes(Boxes),
    /// Keypoints.
    Keypoints(Keypoints),
    /// A segmentation mask: the class of each pixel.
    Mask(Mask),
    /// Instance masks: a mask for each object.
    Masks(Masks),
}

impl Follow {
    /// The name of the column with the image that is followed.
    pub fn image(&self) -> &str {
        match self {
            Follow::Boxes(boxes) => &boxes.of,
            Follow::Keypoints(keypoints) => &keypoints.of,
            Follow::Mask(mask) => &mask.of,
            Follow::Masks(masks) => &masks.of,
        }
    }

    /// Whether `column` has one item for each box of this column.
    pub(crate) fn takes_along(&self, column: &str) -> bool {
        match self {
            Follow::Boxes(boxes) => boxes.takes_along(column),
            Follow::Keypoints(_) | Follow::Mask(_) | Follow::Masks(_) => false,
        }
    }
}

/// The loader creates the column, because the column depends on the image that it follows.
impl ColumnOption for Follow {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn takes_fill(&self, _: &Field, fill: &Fill) -> bool {
        // The number is checked against the pixel type later, when the codec is created.
        matches!(self, Follow::Mask(_)) && fill.number().is_some()
    }
}

impl From<Boxes> for Follow {
    fn from(boxes: Boxes) -> Self {
        Follow::Boxes(boxes)
    }
}

impl From<Keypoints> for Follow {
    fn from(keypoints: Keypoints) -> Self {
        Follow::Keypoints(keypoints)
    }
}

impl From<Masks> for Follow {
    fn from(masks: Masks) -> Self {
        Follow::Masks(masks)
    }
}

impl From<Mask> for Follow {
    fn from(mask: Mask) -> Self {
        Follow::Mask(mask)
    }
}

/// The image that a column follows.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// The index of the column with the image.
    pub(crate) column: usize,
    pub(crate) name: String,
    pub(crate) image: Image,
    /// The other image that this image follows, if it follows one.
    pub(crate) of: Option<Box<Followed>>,
    /// The view (one of several crops of the stored image) that this image belongs to, if there are views.
    pub(crate) view: Option<ViewTag>,
    /// The boxes around which this image is cropped, if it is cropped around boxes.
    pub(crate) around: Option<Around>,
}

impl Followed {
    /// Whether the image of a row is null.
    fn is_null(&self, row: RowCells<'_>) -> Result<bool> {
        row.is_null(self.column)
    }

    /// The key that seeds the random draws for a row's image, or for image `number` of a view. It is derived
    /// from `key`, the key of the stored column.
    pub(crate) fn key(&self, key: RowKey, number: u32) -> RowKey {
        match (&self.of, self.view) {
            (Some(of), _) => of.key(key, number),
            (None, Some(view)) => view.key(key, number),
            (None, None) => key,
        }
    }

    /// The size of the array in which an image is delivered: its own size for ragged images, otherwise the
    /// size that all images have.
    fn delivered_size(&self, drawn: &Drawn) -> Size {
        if self.image.is_ragged() { drawn.target() } else { self.image.size() }
    }

    /// The geometry (size, crop and flips) of a row's image; `None` if the image is null.
    fn drawn(&self, row: RowCells<'_>, key: RowKey) -> Result<Option<Drawn>> {
        self.drawn_in_view(row, key, 0)
    }

    /// The geometry of image `number` of a view in a row; `None` if the stored image is null.
    fn drawn_in_view(&self, row: RowCells<'_>, key: RowKey, number: u32) -> Result<Option<Drawn>> {
        let mut copy = Vec::new();
        let at_image = |error: Error| error.at(Place::default().column(self.name.as_str()));
        let Some(cell) = row.get(self.column, &mut copy).map_err(at_image)? else { return Ok(None) };
        let cell = cell.stable_if(|bytes| needs_stable(&self.image, bytes));
        let of = self.of.as_ref().map(|of| of.drawn_for(&self.image, cell, row, key)).transpose()?;
        let key = self.key(key, number);
        let corners = self.around.as_ref().map(|around| around.corners(row)).unwrap_or_default();
        let drawing = of.as_ref().map_or(key.into(), |of| Drawing::following(key, of));
        let drawing = match &self.around {
            Some(around) => around.drawing(drawing, &corners),
            None => drawing,
        };
        // The error names the column of the image (`at_image`), whose codec reports the same error. The row
        // counts as bad only once.
        let drawn = Drawn::probe(&self.image, cell, drawing);
        drawn.map(Some).map_err(at_image)
    }

    /// The geometry for `image`, another image that follows this one and has the cell `encoded`. If this
    /// image is null in the row, the geometry is drawn for an image of the size of `encoded`.
    pub(crate) fn drawn_for(
        &self,
        image: &Image,
        encoded: &[u8],
        row: RowCells<'_>,
        key: RowKey,
    ) -> Result<Drawn> {
        match self.drawn(row, key)? {
            Some(drawn) => Ok(drawn),
            None => Drawn::probe(&self.image.seen_as(image), encoded, self.key(key, 0)),
        }
    }

    /// Calls `each` with every row and the geometry of its image. The geometry is `None` if the image is null
    /// or bad. Returns the bad rows.
    fn each_row(
        &self,
        rows: &dyn FollowedRows,
        mut each: impl FnMut(usize, Option<&Drawn>) -> Result<()>,
    ) -> Result<Vec<BadValue>> {
        let mut bad = Vec::new();
        for row in 0..rows.count() {
            let drawn = rows.cells(row).map_or(Ok(None), |(cells, key)| self.drawn(cells, key));
            let done = match drawn {
                Ok(drawn) => each(row, drawn.as_ref()),
                Err(error) => each(row, None).and(Err(error)),
            };
            if let Err(error) = done {
                bad.push((row, error));
            }
        }
        Ok(bad)
    }
}
