//! The option for the filter with which images are resized.

use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Image;
use crate::pixel_type::by_name;

/// The filter with which images are resized. Each filter equals Pillow's of the same name. Filters are
/// antialiased: if an image is shrunk, the filter covers correspondingly more pixels.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::Resampling;
///
/// assert_eq!("bicubic".parse::<Resampling>()?, Resampling::Bicubic);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resampling {
    /// A triangle filter, 2 pixels wide along each axis. This is the default, as in torchvision, and the
    /// fastest.
    #[default]
    Bilinear,
    /// A cubic polynomial with `a = -0.5`, 4 pixels wide along each axis.
    Bicubic,
    /// A windowed sinc (Lanczos3), 6 pixels wide along each axis.
    Lanczos,
}

impl Resampling {
    /// Every filter.
    pub const ALL: [Resampling; 3] = [Resampling::Bilinear, Resampling::Bicubic, Resampling::Lanczos];

    /// The name of the filter in Python.
    pub const fn name(self) -> &'static str {
        match self {
            Resampling::Bilinear => "bilinear",
            Resampling::Bicubic => "bicubic",
            Resampling::Lanczos => "lanczos",
        }
    }

    /// The number of pixels that the filter covers on each side of its centre. They are pixels of the source
    /// if the image is enlarged, and pixels of the result if it is shrunk.
    pub(crate) const fn reach(self) -> u32 {
        match self {
            Resampling::Bilinear => 1,
            Resampling::Bicubic => 2,
            Resampling::Lanczos => 3,
        }
    }

    /// Whether the filter is the default one, which is not written to JSON.
    pub(super) fn is_default(&self) -> bool {
        *self == Resampling::default()
    }
}

impl fmt::Display for Resampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Resampling {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, "resampling", Resampling::ALL, Resampling::name)
    }
}

impl Image {
    /// Sets the filter with which images are resized, which torchvision and timm call `interpolation`.
    /// Default: [`Resampling::Bilinear`].
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    /// use forebay::image::Resampling;
    ///
    /// // CLIP's `Resize(224, BICUBIC)` and `CenterCrop(224)`.
    /// let clip = Image::center_crop(224).resize_shorter(224).resampling(Resampling::Bicubic);
    /// # clip.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn resampling(self, filter: Resampling) -> Image {
        Image { resampling: filter, ..self }
    }
}
