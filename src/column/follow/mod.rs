//! Columns that belong to an image, and take its crop, size and flips: boxes, points, masks.
//!
//! ```text
//! header of the image ─┐
//! key of the row ──────┼─► Drawn ─┬─► boxes, clipped to what is visible ─► labels of those that are left
//! Image ───────────────┘          ├─► points
//!                                 ├─► mask, by the nearest pixel
//!                                 └─► numbers, for all else
//! ```
//!
//! Nothing here draws: `decode` decides once for the image and all that follows it.

mod along;
mod boxes;
mod geometry;
mod keypoints;
mod mask;
mod size;
mod tuples;

use serde::{Deserialize, Serialize};

pub(crate) use along::AlongCodec;
pub(crate) use boxes::BoxesCodec;
pub use boxes::{BoxFormat, Boxes};
pub(crate) use geometry::GeometryCodec;
pub use keypoints::Keypoints;
pub(crate) use keypoints::KeypointsCodec;
pub use mask::Mask;
pub(crate) use mask::MaskCodec;
pub(crate) use size::SizeCodec;

use super::{BadValue, FollowedRows};
use crate::decode::{Drawn, Image, RowKey, needs_stable};
use crate::error::{Place, Result};

/// A column that follows an image: it is cropped, resized and mirrored with it.
///
/// Pass it to a loader with [`LoaderBuilder::follow`](crate::LoaderBuilder::follow).
///
/// ```
/// use forebay::{Boxes, Follow, Keypoints, Mask};
///
/// let follow: Vec<Follow> =
///     vec![Boxes::of("image").into(), Keypoints::of("image").into(), Mask::of("image").into()];
/// assert!(follow.iter().all(|column| column.image() == "image"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Follow {
    /// Boxes.
    Boxes(Boxes),
    /// Points.
    Keypoints(Keypoints),
    /// The class of each pixel.
    Mask(Mask),
}

impl Follow {
    /// The name of the image's column.
    pub fn image(&self) -> &str {
        match self {
            Follow::Boxes(boxes) => &boxes.of,
            Follow::Keypoints(keypoints) => &keypoints.of,
            Follow::Mask(mask) => &mask.of,
        }
    }

    /// Whether a column goes along with it.
    pub(crate) fn takes_along(&self, column: &str) -> bool {
        match self {
            Follow::Boxes(boxes) => boxes.columns_along().iter().any(|along| along == column),
            Follow::Keypoints(_) | Follow::Mask(_) => false,
        }
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

impl From<Mask> for Follow {
    fn from(mask: Mask) -> Self {
        Follow::Mask(mask)
    }
}

/// The image that a column follows.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// Its place among the columns.
    pub(crate) column: usize,
    pub(crate) name: String,
    pub(crate) image: Image,
}

impl Followed {
    /// The geometry of an image, by its cell.
    fn drawn(&self, cell: super::Cell<'_>, key: RowKey) -> Result<Drawn> {
        // The image's own column reports the same failure, and only one of them counts.
        Drawn::of(&self.image, cell.stable_if(needs_stable), key)
            .map_err(|error| error.at(Place::default().column(self.name.as_str())))
    }

    /// Calls `each` with every row and the geometry of its image; `None` where the image's column makes it a bad row.
    fn each_row(
        &self,
        rows: &dyn FollowedRows,
        mut each: impl FnMut(usize, Option<&Drawn>) -> Result<()>,
    ) -> Result<Vec<BadValue>> {
        let (mut bad, mut copy) = (Vec::new(), Vec::new());
        for row in 0..rows.count() {
            let drawn = match rows.cell(self.column, row, &mut copy)? {
                Some((cell, key)) => self.drawn(cell, key).map(Some),
                None => Ok(None),
            };
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
