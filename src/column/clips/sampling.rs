//! The ways to choose some images of many.

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
    /// The middle image of each of as many equal parts as there are images; with a stride, those in the
    /// middle.
    #[default]
    Even,
    /// A random image of each part; with a stride, a random beginning. The draws depend on the seed, the
    /// epoch and the row.
    Random,
}

impl FrameSampling {
    /// The names of the variants in Python and in JSON.
    pub const NAMES: [&str; 2] = ["even", "random"];
}
