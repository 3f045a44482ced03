//! The option for cells that hold raw pixels instead of encoded images.

use std::fmt;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Image, Size};
use crate::pixel_type::Layout;

/// The largest number of levels (channel values) of a pixel: three colours and alpha.
const MAX_CHANNELS: u32 = 4;

/// The layout of a cell that holds raw pixels: 8 bits per channel, without a header and without padding.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::{Layout, Raw};
///
/// assert_eq!(Raw::new(299, 3).bytes(), 299 * 299 * 3);
/// // CIFAR's: all of red first, then green and blue.
/// let planes = Raw::new((32, 32), 3).layout(Layout::Nchw);
/// assert_eq!(planes.bytes(), 3072);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    size: Size,
    channels: u32,
    #[serde(default)]
    layout: Layout,
}

impl Raw {
    /// The layout of raw pixels of this size, with a number of channels: 1 is grey, 2 grey and alpha, 3 RGB
    /// and 4 RGB and alpha.
    pub fn new(size: impl Into<Size>, channels: u32) -> Raw {
        Raw { size: size.into(), channels, layout: Layout::default() }
    }

    /// Sets the order of the channels in a cell. Default: [`Layout::Nhwc`], where the channels of a pixel are
    /// side by side.
    #[must_use]
    pub fn layout(self, layout: Layout) -> Raw {
        Raw { layout, ..self }
    }

    /// Height and width in pixels.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The number of channels of a pixel.
    pub fn channels(&self) -> usize {
        self.channels as usize
    }

    /// The order of the channels in a cell.
    pub fn pixel_layout(&self) -> Layout {
        self.layout
    }

    /// The number of bytes of a cell.
    pub fn bytes(&self) -> usize {
        self.pixels().saturating_mul(u64::from(self.channels)).try_into().unwrap_or(usize::MAX)
    }

    fn pixels(&self) -> u64 {
        u64::from(self.size.height) * u64::from(self.size.width)
    }

    /// Refuses settings that cannot work.
    fn validate(&self) -> Result<()> {
        let Size { height, width } = self.size;
        if height == 0 || width == 0 || height.max(width) > Image::MAX_SIDE {
            return Err(Error::invalid(format!("raw pixels of {height}x{width}"))
                .hint(format!("each side is 1 to {} pixels", Image::MAX_SIDE)));
        }
        if self.channels == 0 || self.channels > MAX_CHANNELS {
            return Err(Error::invalid(format!("raw pixels of {} channels", self.channels))
                .hint("give 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha)"));
        }
        Ok(())
    }
}

impl fmt::Display for Raw {
    /// Writes the shape: `299x299x3`, or `3x32x32` if each channel has a plane of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Size { height, width }, channels) = (self.size, self.channels);
        match self.layout {
            Layout::Nhwc => write!(f, "{height}x{width}x{channels}"),
            Layout::Nchw => write!(f, "{channels}x{height}x{width}"),
        }
    }
}

impl Image {
    /// Reads cells as raw pixels instead of encoded images. Whatever other options are set, random ones
    /// included, the result is the same as for losslessly encoded images of these pixels. Default: encoded
    /// images.
    ///
    /// Grey is repeated in each channel, and alpha is dropped.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    /// use forebay::image::{Layout, PixelType, Raw};
    ///
    /// let image = Image::resize(299, 299)
    ///     .raw(Raw::new(299, 3))
    ///     .flip()
    ///     .normalize([0.5; 3], [0.5; 3])
    ///     .dtype(PixelType::F32)
    ///     .layout(Layout::Nchw);
    /// # image.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn raw(self, raw: Raw) -> Image {
        Image { raw: Some(raw), ..self }
    }

    /// The layout of raw pixels in a cell; `None` if cells are encoded images.
    pub fn raw_pixels(&self) -> Option<Raw> {
        self.raw
    }

    /// Refuses a layout of raw pixels that cannot work, whatever methods are called later.
    pub(crate) fn validate_raw(&self) -> Result<()> {
        self.raw.map_or(Ok(()), |raw| raw.validate())
    }

    /// Refuses raw pixels together with options that do not work with them.
    pub(crate) fn validate_raw_together(&self) -> Result<()> {
        let Some(raw) = self.raw else { return Ok(()) };
        if raw.pixels() > self.max_pixels {
            let (Size { height, width }, most) = (raw.size, self.max_pixels);
            let cause = format!("raw pixels of {height}x{width}, more than max_pixels of {most}");
            return Err(Error::invalid(cause).hint("raise max_pixels"));
        }
        if self.exif_orientation {
            return Err(Error::invalid("exif_orientation with raw pixels")
                .hint("raw pixels have no EXIF data: leave it out"));
        }
        Ok(())
    }
}
