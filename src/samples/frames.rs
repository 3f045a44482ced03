//! Whether the rows of a window draw together.

use serde::{Deserialize, Serialize};

/// What the images of a [`Window`](crate::samples::Window)'s rows draw: one crop, flip and change of colours
/// for all rows of a window, or one for each row.
///
/// ```
/// use forebay::samples::{Frames, Window};
///
/// // Each frame has a crop of its own.
/// let window = Window::rows(16).by("time").frames(Frames::Alone);
/// assert_eq!(Frames::default(), Frames::Together);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Frames {
    /// All rows of a window draw what its first row does: the frames of a clip are cropped alike. A row that
    /// is in several windows is drawn anew in each of them.
    #[default]
    Together,
    /// Each row draws for itself: a row that is in several windows of an epoch has the same pixels in all of
    /// them.
    Alone,
}

impl Frames {
    /// What frames may draw, by name.
    pub const NAMES: [&str; 2] = ["together", "alone"];

    pub(crate) fn are_together(&self) -> bool {
        *self == Frames::Together
    }
}
