//! The option for the filter of a resize.

use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Image;
use crate::pixel_type::by_name;

/// The filter of a resize. Each equals Pillow's filter of the same name and is antialiased: when an image is
/// shrunk, the filter covers correspondingly more pixels.
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
    /// A triangle, over 2 pixels along each axis. The default, as in torchvision, and the fastest.
    #[default]
    Bilinear,
    /// A cubic polynomial with `a = -0.5`, over 4 pixels along each axis.
    Bicubic,
    /// A windowed sinc, over 6 pixels along each axis: Lanczos3.
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

    /// The number of pixels that the filter reaches to each side of a centre: pixels of the image, or of the
    /// result if that is smaller.
    pub(crate) const fn reach(self) -> u32 {
        match self {
            Resampling::Bilinear => 1,
            Resampling::Bicubic => 2,
            Resampling::Lanczos => 3,
        }
    }

    /// Whether the filter is the default one, which is left out of the canonical form.
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
    /// Sets the filter of the resize: `interpolation` of torchvision and timm. Default:
    /// [`Resampling::Bilinear`].
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
