//! The number type of delivered pixels, and the order of their axes.

use std::fmt;
use std::str::FromStr;

use forebay_base::error::nearest;
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The number type of a channel.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::PixelType;
///
/// assert_eq!("float16".parse::<PixelType>()?, PixelType::F16);
/// assert_eq!(PixelType::F16.bytes(), 2);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PixelType {
    /// `uint8`: 0 to 255, as decoded. The default.
    #[default]
    #[serde(rename = "uint8")]
    U8,
    /// `uint16`: 0 to 65535. Files of 8 bits are widened: each level times 257.
    #[serde(rename = "uint16")]
    U16,
    /// `float16`: IEEE 754 binary16.
    #[serde(rename = "float16")]
    F16,
    /// `bfloat16`: the upper half of a `float32`.
    #[serde(rename = "bfloat16")]
    BF16,
    /// `float32`.
    #[serde(rename = "float32")]
    F32,
}

impl PixelType {
    /// Every pixel type.
    pub const ALL: [PixelType; 5] =
        [PixelType::U8, PixelType::U16, PixelType::F16, PixelType::BF16, PixelType::F32];

    /// The number of bytes of one channel of one pixel.
    pub const fn bytes(self) -> usize {
        match self {
            PixelType::U8 => size_of::<u8>(),
            PixelType::U16 | PixelType::F16 | PixelType::BF16 => size_of::<u16>(),
            PixelType::F32 => size_of::<f32>(),
        }
    }

    /// The name of the type in numpy and torch.
    pub const fn name(self) -> &'static str {
        match self {
            PixelType::U8 => "uint8",
            PixelType::U16 => "uint16",
            PixelType::F16 => "float16",
            PixelType::BF16 => "bfloat16",
            PixelType::F32 => "float32",
        }
    }

    /// The largest value of an integer type; `None` for floats.
    pub(super) const fn largest_whole(self) -> Option<u16> {
        match self {
            PixelType::U8 => Some(u8::MAX as u16),
            PixelType::U16 => Some(u16::MAX),
            PixelType::F16 | PixelType::BF16 | PixelType::F32 => None,
        }
    }

    /// Whether the type can hold these values. An integer type holds the whole numbers in its range, and a
    /// float type any number.
    pub(super) fn holds(self, values: &[f32]) -> bool {
        let fits = |largest: u16| {
            values.iter().all(|value| (0.0..=f32::from(largest)).contains(value) && value.fract() == 0.0)
        };
        self.largest_whole().is_none_or(fits)
    }
}

impl fmt::Display for PixelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PixelType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, "dtype", PixelType::ALL, PixelType::name)
    }
}

/// The order of the axes of a batch of images.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::Image;
/// use forebay::image::Layout;
///
/// let image = Image::resize(224, 192);
/// assert_eq!(image.shape(), [224, 192, 3]);
/// assert_eq!(image.layout(Layout::Nchw).shape(), [3, 224, 192]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Layout {
    /// Rows, columns, channels: the order in which images are stored, and which TensorFlow and JAX expect.
    /// The default.
    #[default]
    #[serde(rename = "NHWC")]
    Nhwc,
    /// Channels, rows, columns: the order that torchvision's models expect.
    #[serde(rename = "NCHW")]
    Nchw,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Layout; 2] = [Layout::Nhwc, Layout::Nchw];

    /// The name of the layout, `NHWC` or `NCHW`.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Nhwc => "NHWC",
            Layout::Nchw => "NCHW",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, "layout", Layout::ALL, Layout::name)
    }
}

pub(super) fn by_name<T: Copy, const N: usize>(
    name: &str,
    what: &str,
    all: [T; N],
    named: impl Fn(T) -> &'static str,
) -> Result<T> {
    if let Some(found) = all.into_iter().find(|candidate| named(*candidate).eq_ignore_ascii_case(name)) {
        return Ok(found);
    }
    let error = Error::invalid(format!("unknown {what} {name:?}"));
    Err(match nearest(name, all.map(&named)) {
        Some(meant) => error.hint(format!("did you mean {meant:?}?")),
        None => error.hint(format!("one of {}", all.map(&named).join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for pixel_type in PixelType::ALL {
            assert_eq!(pixel_type.name().parse::<PixelType>().unwrap(), pixel_type);
        }
        for layout in Layout::ALL {
            assert_eq!(layout.name().to_lowercase().parse::<Layout>().unwrap(), layout);
        }
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_right_one() {
        let error = "flaot32".parse::<PixelType>().unwrap_err();
        assert_eq!(error.to_string(), "unknown dtype \"flaot32\" (did you mean \"float32\"?)");
        assert!("CHWN?".parse::<Layout>().is_err());
    }
}
