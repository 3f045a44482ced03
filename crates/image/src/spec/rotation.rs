//! The options for random rotations.

use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Image, RGB};
use crate::pixel_type::by_name;

/// How the pixels of a rotated image are computed.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::Interpolation;
///
/// assert_eq!("bilinear".parse::<Interpolation>()?, Interpolation::Bilinear);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interpolation {
    /// The nearest pixel. The default, as in torchvision.
    #[default]
    Nearest,
    /// The mean of the four nearest pixels, weighted by their distances.
    Bilinear,
}

impl Interpolation {
    /// Every interpolation.
    pub const ALL: [Interpolation; 2] = [Interpolation::Nearest, Interpolation::Bilinear];

    /// The name of the interpolation in Python.
    pub const fn name(self) -> &'static str {
        match self {
            Interpolation::Nearest => "nearest",
            Interpolation::Bilinear => "bilinear",
        }
    }
}

impl fmt::Display for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Interpolation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, "interpolation", Interpolation::ALL, Interpolation::name)
    }
}

/// The options for random rotations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    pub(crate) degrees: (f64, f64),
    pub(crate) interpolation: Interpolation,
    pub(crate) fill: [u8; RGB],
}

impl Image {
    /// Rotates the image about its centre by a random angle from `degrees`, counter-clockwise: torchvision's
    /// `RandomRotation`. Each pixel is a copy of the nearest pixel, and corners outside the image are 0. The
    /// rotation comes after the flips, and does not change other random choices.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// let image = forebay::Image::random_resized_crop(224).flip().random_rotation((-15.0, 15.0));
    /// assert!(image.is_random());
    /// ```
    #[must_use]
    pub fn random_rotation(self, degrees: (f64, f64)) -> Image {
        self.random_rotation_with(degrees, Interpolation::default(), [0; RGB])
    }

    /// Works like [`random_rotation`](Image::random_rotation), with another interpolation, and with a `fill`
    /// value from 0 to 255 for each channel of pixels outside the image. A grey image uses the first of the
    /// three.
    #[must_use]
    pub fn random_rotation_with(
        self,
        degrees: (f64, f64),
        interpolation: Interpolation,
        fill: [u8; RGB],
    ) -> Image {
        Image { rotation: Some(Rotation { degrees, interpolation, fill }), ..self }
    }

    /// Whether images are rotated.
    pub(crate) fn rotates(&self) -> bool {
        self.rotation.is_some()
    }

    /// Whether the angle of the same image may differ between epochs.
    pub(crate) fn draws_rotation(&self) -> bool {
        self.rotation.is_some_and(|Rotation { degrees: (low, high), .. }| low < high)
    }

    /// Whether this image has a rotation with other angles than `other`.
    pub(crate) fn has_other_angles(&self, other: &Image) -> bool {
        let degrees = |image: &Image| image.rotation.map(|rotation| rotation.degrees);
        self.rotation.is_some() && degrees(self) != degrees(other)
    }

    /// This spec with the angles of `other`, if only `other` has a rotation.
    pub(crate) fn rotated_as(self, other: &Image) -> Image {
        match (self.rotation, other.rotation) {
            (None, Some(rotation)) => self.random_rotation(rotation.degrees),
            _ => self,
        }
    }

    /// Refuses angles that cannot work.
    pub(crate) fn validate_rotation(&self) -> Result<()> {
        match self.rotation {
            Some(Rotation { degrees: (low, high), .. })
                if !(low <= high && low.is_finite() && high.is_finite()) =>
            {
                Err(Error::invalid(format!("a rotation by ({low}, {high}) degrees"))
                    .hint("give two finite numbers, the smaller one first"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rotation { degrees, interpolation, fill } = self;
        write!(f, ".random_rotation({degrees:?}, {interpolation}, fill={fill:?})")
    }
}
