//! Says whether the images of a window share their random crop, flip and change of colours.

use serde::{Deserialize, Serialize};

/// Whether the images of a [`Window`](crate::samples::Window) share one random crop, flip and change of
/// colours, or each row draws its own.
///
/// ```
/// use forebay::samples::{Frames, Window};
///
/// // Each frame draws its own crop.
/// let window = Window::rows(16).by("time").frames(Frames::Alone);
/// assert_eq!(Frames::default(), Frames::Together);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Frames {
    /// All rows of a window use the random numbers of its first row, so the frames of a clip are cropped
    /// alike. A row that is in several windows is cropped anew in each of them.
    #[default]
    Together,
    /// Each row has random numbers of its own, so a row that is in several windows of an epoch has the same
    /// pixels in each.
    Alone,
}

impl Frames {
    /// The names of the variants in Python and in JSON.
    pub const NAMES: [&str; 2] = ["together", "alone"];

    pub(crate) fn are_together(&self) -> bool {
        *self == Frames::Together
    }
}
