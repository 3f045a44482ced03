//! The ways to choose the images of a clip out of a list or a window.

use serde::{Deserialize, Serialize};

/// How the images of a [`Clip`](super::Clip) are chosen.
///
/// ```
/// use forebay::column::FrameSampling;
///
/// assert_eq!(FrameSampling::default(), FrameSampling::Even);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FrameSampling {
    /// The list or window is cut into as many equal parts as the clip has images, and every part gives its
    /// middle image; with a stride, the clip lies in the middle of the list or window.
    #[default]
    Even,
    /// Every part, cut as for [`Even`](FrameSampling::Even), gives a random image; with a stride, the clip
    /// begins at a random image. The random choice depends on the seed, the epoch and the row.
    Random,
}

impl FrameSampling {
    /// The names of the variants in Python and in JSON.
    pub const NAMES: [&str; 2] = ["even", "random"];
}
