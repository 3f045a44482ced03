//! Refuses settings of an image that cannot work, before the first row is decoded.

use forebay_base::{Error, Result};
use half::f16;

use super::{Framing, Image, Normalize, RGB, Size};
use crate::pixel_type::{Layout, PixelType};

impl Image {
    /// The largest height or width of a delivered image in pixels, which is also the limit of JPEG. The
    /// product of two such numbers never overflows.
    pub const MAX_SIDE: u32 = 65_535;

    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Invalid`], with a hint about what to change.
    pub fn validate(&self) -> Result<()> {
        self.validate_so_far()?;
        self.validate_together()
    }

    /// Refuses settings that cannot work, whatever methods are called later. It accepts those that a later
    /// call may correct: [`normalize`](Image::normalize) without a float type, or a size that is too large
    /// for three channels but not for one.
    pub fn validate_so_far(&self) -> Result<()> {
        self.validate_size()?;
        self.validate_framing()?;
        self.validate_detection()?;
        self.validate_raw()?;
        self.validate_rotation()?;
        self.validate_effects()?;
        self.validate_augment()?;
        self.validate_bits()?;
        self.validate_values()
    }

    fn validate_together(&self) -> Result<()> {
        self.validate_raw_together()?;
        self.validate_erased_values()?;
        self.validate_fill()?;
        self.validate_depth()?;
        self.validate_geometry()?;
        let Size { height, width } = self.size;
        if self.shape().iter().product::<usize>() > i32::MAX as usize {
            return Err(Error::invalid(format!(
                "an image of {height}x{width} has more values than a tensor row may"
            ))
            .hint("the limit is 2^31 - 1 values: use a smaller height and width"));
        }
        if self.ragged && self.pixel_layout() == Layout::Nchw {
            return Err(Error::invalid("ragged images with layout NCHW")
                .hint("ragged images are always NHWC: leave layout out"));
        }
        let dtype = self.pixel_type();
        if self.normalize.is_some() && dtype.largest_whole().is_some() {
            return Err(Error::invalid(format!("normalize with dtype {dtype}"))
                .hint("pass dtype float32, float16 or bfloat16, or normalise on the accelerator"));
        }
        Ok(())
    }

    fn validate_size(&self) -> Result<()> {
        let Size { height, width } = self.size;
        if height == 0 || width == 0 || height.max(width) > Image::MAX_SIDE {
            return Err(Error::invalid(format!("an image size of {height}x{width}"))
                .hint(format!("each side is 1 to {} pixels", Image::MAX_SIDE)));
        }
        if self.max_pixels == 0 {
            return Err(Error::invalid("max_pixels of 0 refuses every image"));
        }
        Ok(())
    }

    fn validate_framing(&self) -> Result<()> {
        let has_ratio = matches!(self.framing, Framing::RandomResizedCrop | Framing::RandomIouCrop(_));
        let has_scale = has_ratio || self.framing == Framing::ScaleJitter;
        for (name, range, random) in [("scale", self.scale, has_scale), ("ratio", self.ratio, has_ratio)] {
            let Some((low, high)) = range else { continue };
            if !random {
                return Err(Error::invalid(format!("{name} is given without a random crop"))
                    .hint("leave it out, or use random_resized_crop"));
            }
            if !(low > 0.0 && low <= high && high.is_finite()) {
                return Err(Error::invalid(format!("a {name} of ({low}, {high})"))
                    .hint("give the smaller number first, both above 0"));
            }
        }
        let centre = self.framing == Framing::CenterCrop;
        let fits = self.framing == Framing::Fit;
        if self.shorter.is_some() && !centre && !fits {
            return Err(Error::invalid("resize_shorter is given without a centre crop")
                .hint("leave it out, or use center_crop"));
        }
        if let Some(shorter @ (0 | 65_536..)) = self.shorter.filter(|_| fits) {
            return Err(Error::invalid(format!("a shorter side of {shorter} pixels"))
                .hint(format!("give 1 to {} pixels", Image::MAX_SIDE)));
        }
        let has_canvas = self.framing.has_canvas();
        let is_whole = fits || matches!(self.framing, Framing::RandomShortestSize(_));
        if self.fill.is_some() && !has_canvas {
            return Err(Error::invalid("fill is given without a canvas").hint("leave it out, or use fit"));
        }
        if self.centered && !is_whole {
            return Err(Error::invalid("centered is given without a canvas").hint("leave it out, or use fit"));
        }
        if self.centered && self.ragged {
            return Err(Error::invalid("centered is given with ragged images")
                .hint("ragged images have no canvas: leave centered out"));
        }
        if self.ragged && !is_whole {
            return Err(Error::invalid("ragged is given for images that all get one size")
                .hint("use fit, whose size is then the largest that an image may have"));
        }
        if self.ragged && self.fill.is_some() {
            return Err(Error::invalid("fill is given with ragged images")
                .hint("ragged images have no canvas: leave fill out"));
        }
        if let Some(fill) = self.fill.filter(|fill| !fill.iter().all(|value| value.is_finite())) {
            return Err(
                Error::invalid(format!("a canvas of the values {fill:?}")).hint("give finite numbers")
            );
        }
        if let Some(fill) = self.fill.filter(|fill| self.grayscale && *fill != [fill[0]; RGB]) {
            let cause = format!("a canvas of the values {fill:?} for grey images");
            return Err(Error::invalid(cause).hint("grey images have one channel: give one value"));
        }
        let (shorter, longest) = (self.shorter_side(), self.size.height.max(self.size.width));
        if centre && (longest > shorter || shorter > Image::MAX_SIDE) {
            return Err(Error::invalid(format!(
                "a centre crop of {}x{} from a shorter side of {shorter}",
                self.size.height, self.size.width
            ))
            .hint(format!("resize the shorter side to {longest} pixels or more")));
        }
        Ok(())
    }

    /// Refuses fill values of a canvas that do not fit the number type.
    fn validate_fill(&self) -> Result<()> {
        let (fill, dtype): ([f32; RGB], _) = (self.fill.unwrap_or_default(), self.pixel_type());
        match dtype.largest_whole() {
            Some(largest) if !dtype.holds(&fill) => {
                Err(Error::invalid(format!("a canvas of the values {fill:?} with dtype {dtype}"))
                    .hint(format!("give whole numbers from 0 to {largest}")))
            }
            None if dtype == PixelType::F16
                && !fill.iter().all(|value| f16::from_f32(*value).is_finite()) =>
            {
                Err(Error::invalid(format!("a canvas of the values {fill:?} with dtype {dtype}"))
                    .hint(format!("give numbers from {} to {}", f16::MIN, f16::MAX)))
            }
            _ => Ok(()),
        }
    }

    fn validate_values(&self) -> Result<()> {
        for (name, p) in [("flip", self.flip), ("vertical flip", self.vertical_flip)] {
            if !(0.0..=1.0).contains(&p) {
                return Err(Error::invalid(format!("a {name} with probability {p}"))
                    .hint("give a probability from 0 to 1"));
            }
        }
        let Some(Normalize { mean, std }) = self.normalize else { return Ok(()) };
        if !mean.iter().all(|m| m.is_finite()) || !std.iter().all(|s| s.is_finite() && *s > 0.0) {
            return Err(Error::invalid(format!("normalize with mean {mean:?} and std {std:?}"))
                .hint("give finite means and stds above 0, for values in [0, 1]"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;

    use super::*;
    use crate::{PixelType, Raw};

    #[test]
    fn what_works_is_accepted() {
        for image in [
            Image::resize(1, 65_535),
            Image::random_resized_crop(224).scale((0.5, 0.5)).ratio((1.0, 1.0)).flip_with(1.0),
            Image::center_crop((200, 256)),
            Image::center_crop(288).resize_shorter(320),
            Image::resize(8, 8).normalize([0.5; 3], [0.5; 3]).dtype(PixelType::F16),
            Image::fit((8, 9)).resize_shorter(65_535).fill([114.0; 3]),
            Image::fit(8).fill([-0.5; 3]).dtype(PixelType::F32),
            Image::fit(8).centered().raw(Raw::new((3, 5), 4)),
        ] {
            image.validate().unwrap();
        }
    }

    #[test]
    fn what_can_never_work_is_refused_with_the_next_move() {
        let crop = || Image::random_resized_crop(224);
        for (image, said) in [
            (Image::resize(0, 5), "an image size of 0x5 (each side is 1 to 65535 pixels)"),
            (Image::resize(5, 65_536), "an image size of 5x65536 (each side is 1 to 65535 pixels)"),
            (crop().max_pixels(0), "max_pixels of 0 refuses every image"),
            (crop().scale((1.0, 0.08)), "a scale of (1, 0.08) (give the smaller number first, both above 0)"),
            (crop().ratio((0.0, 1.0)), "a ratio of (0, 1) (give the smaller number first, both above 0)"),
            (
                crop().ratio((1.0, f64::NAN)),
                "a ratio of (1, NaN) (give the smaller number first, both above 0)",
            ),
            (
                Image::resize(8, 8).scale((0.1, 1.0)),
                "scale is given without a random crop (leave it out, or use random_resized_crop)",
            ),
            (
                crop().resize_shorter(256),
                "resize_shorter is given without a centre crop (leave it out, or use center_crop)",
            ),
            (
                Image::center_crop(300),
                "a centre crop of 300x300 from a shorter side of 256 (resize the shorter side to 300 pixels or more)",
            ),
            (Image::fit(8).resize_shorter(0), "a shorter side of 0 pixels (give 1 to 65535 pixels)"),
            (
                Image::center_crop(8).ragged(),
                "ragged is given for images that all get one size (use fit, whose size is then the largest that an image may have)",
            ),
            (
                Image::fit(8).fill([0.0; 3]).ragged(),
                "fill is given with ragged images (ragged images have no canvas: leave fill out)",
            ),
            (
                Image::fit(8).ragged().layout(Layout::Nchw),
                "ragged images with layout NCHW (ragged images are always NHWC: leave layout out)",
            ),
            (
                Image::fit(8).fill([1.0, 2.0, 3.0]).grayscale(),
                "a canvas of the values [1.0, 2.0, 3.0] for grey images (grey images have one channel: give one value)",
            ),
            (Image::resize(8, 8).fill([0.0; 3]), "fill is given without a canvas (leave it out, or use fit)"),
            (Image::resize(8, 8).centered(), "centered is given without a canvas (leave it out, or use fit)"),
            (
                Image::fit(8).centered().ragged(),
                "centered is given with ragged images (ragged images have no canvas: leave centered out)",
            ),
            (crop().raw(Raw::new((0, 8), 3)), "raw pixels of 0x8 (each side is 1 to 65535 pixels)"),
            (
                crop().raw(Raw::new(8, 5)),
                "raw pixels of 5 channels (give 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha))",
            ),
            (
                crop().raw(Raw::new(8, 3)).max_pixels(63),
                "raw pixels of 8x8, more than max_pixels of 63 (raise max_pixels)",
            ),
            (
                crop().raw(Raw::new(8, 3)).exif_orientation(true),
                "exif_orientation with raw pixels (raw pixels have no EXIF data: leave it out)",
            ),
            (
                Image::fit(8).fill([0.5; 3]),
                "a canvas of the values [0.5, 0.5, 0.5] with dtype uint8 (give whole numbers from 0 to 255)",
            ),
            (
                Image::fit(8).fill([1e6; 3]).dtype(PixelType::F16),
                "a canvas of the values [1000000.0, 1000000.0, 1000000.0] with dtype float16 (give numbers from -65504 \
                 to 65504)",
            ),
            (crop().flip_with(1.5), "a flip with probability 1.5 (give a probability from 0 to 1)"),
            (crop().flip_with(f64::NAN), "a flip with probability NaN (give a probability from 0 to 1)"),
            (
                crop().vertical_flip_with(-0.1),
                "a vertical flip with probability -0.1 (give a probability from 0 to 1)",
            ),
            (
                crop().normalize([0.5; 3], [0.5; 3]),
                "normalize with dtype uint8 (pass dtype float32, float16 or bfloat16, or normalise on the accelerator)",
            ),
        ] {
            let error = image.validate().unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, said));
        }
        let large = Image::resize(65_535, 20_000);
        assert!(large.validate().unwrap_err().to_string().contains("more values than a tensor row"));
        let zero = crop().dtype(PixelType::F32).normalize([0.5; 3], [0.5, 0.0, 0.5]);
        assert_eq!(zero.validate().unwrap_err().kind(), ErrorKind::Invalid);
    }
    #[test]
    fn what_another_method_may_still_mend_is_not_refused_so_far() {
        let large = Image::resize(65_535, 20_000);
        large.validate_so_far().unwrap();
        large.grayscale().validate().unwrap();
        let normalized = Image::resize(8, 8).normalize([0.5; 3], [0.5; 3]);
        normalized.validate_so_far().unwrap();
        normalized.dtype(PixelType::F32).validate().unwrap();
        assert!(Image::resize(0, 8).validate_so_far().is_err());
    }
}
