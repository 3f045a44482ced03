//! The option [`Image::bit_depth`]: the number of bits per channel in which images are processed.

use forebay_base::{Error, Result};

use super::Image;
use crate::depth::Depth;
use crate::pixel_type::PixelType;

impl Image {
    /// Sets the number of bits per channel, 8 or 16, with which files of more than 8 bits are cropped,
    /// resized and rotated. They become floats only afterwards: `x / 65535` with 16 bits. Default: 16 for
    /// [`PixelType::U16`], 8 for every other type.
    ///
    /// The option has no effect on files of 8 bits. Random changes of pixels, except erasing, need 8 bits.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    /// use forebay::image::PixelType;
    ///
    /// let depths = Image::center_crop(224).grayscale().dtype(PixelType::U16);
    /// let scans = Image::center_crop(224).grayscale().dtype(PixelType::F32).bit_depth(16);
    /// assert_eq!(depths.bytes_per_image(), 224 * 224 * 2);
    /// # scans.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn bit_depth(self, bits: u8) -> Image {
        Image { bit_depth: Some(bits), ..self }
    }

    /// The number of bits per channel in which files of more than 8 bits are processed.
    pub(crate) fn depth(&self) -> Depth {
        match (self.dtype, self.bit_depth) {
            (PixelType::U8, _) => Depth::Eight,
            (PixelType::U16, _) | (_, Some(16)) => Depth::Sixteen,
            _ => Depth::Eight,
        }
    }

    /// Refuses depths other than 8 and 16.
    pub(crate) fn validate_bits(&self) -> Result<()> {
        match self.bit_depth {
            None | Some(8 | 16) => Ok(()),
            Some(bits) => Err(Error::invalid(format!("a bit depth of {bits}")).hint("pass 8 or 16")),
        }
    }

    /// Refuses a depth that does not fit the number type, and options that do not work in 16 bits.
    pub(crate) fn validate_depth(&self) -> Result<()> {
        match (self.dtype, self.bit_depth) {
            (PixelType::U8, Some(16)) => {
                return Err(Error::invalid("bit_depth 16 with dtype uint8")
                    .hint("pass dtype uint16 or a float type, or leave bit_depth out"));
            }
            (PixelType::U16, Some(8)) => {
                return Err(Error::invalid("bit_depth 8 with dtype uint16")
                    .hint("leave bit_depth out: uint16 has 16 bits"));
            }
            _ => {}
        }
        if self.depth() == Depth::Eight {
            return Ok(());
        }
        let steps = self.steps.probabilities().map(|(name, p)| (name, p > 0.0));
        let eight_bits_only = [
            ("color_jitter", self.color_jitter.is_some()),
            ("random_grayscale", self.random_grayscale > 0.0),
            ("gaussian_blur", self.gaussian_blur.is_some()),
            (self.auto_augment.map_or("", |augment| augment.method()), self.auto_augment.is_some()),
        ];
        match eight_bits_only.into_iter().chain(steps).find(|(_, is_on)| *is_on) {
            Some((name, _)) => Err(Error::invalid(format!("{name} with images of 16 bits"))
                .hint("it works on 8 bits: leave it out, or deliver uint8 or floats without bit_depth 16")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
