//! The options for random changes of pixels: colour jitter, grey, blur and erasing.

use std::fmt;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Image, RGB, Steps};

/// The default range for the share of the image's area that is erased, as in torchvision.
const DEFAULT_ERASED: (f64, f64) = (0.02, 0.33);
/// The default range for the ratio of height to width of the erased box, as in torchvision.
const DEFAULT_ERASED_RATIO: (f64, f64) = (0.3, 3.3);
/// The largest change of a hue: half a turn of the colour circle.
const MAX_HUE: f64 = 0.5;

/// By how much a colour jitter may change each property, and its probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColorJitter {
    pub(crate) brightness: f64,
    pub(crate) contrast: f64,
    pub(crate) saturation: f64,
    pub(crate) hue: f64,
    pub(crate) p: f64,
}

/// The options of a Gaussian blur, and its probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GaussianBlur {
    pub(crate) kernel_size: u32,
    pub(crate) sigma: (f64, f64),
    pub(crate) p: f64,
}

/// The options of random erasing: its probability, the range of the box's area and shape, and the value that
/// the box gets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RandomErasing {
    pub(crate) p: f64,
    pub(crate) scale: (f64, f64),
    pub(crate) ratio: (f64, f64),
    pub(crate) value: [f32; RGB],
}

impl Image {
    /// Changes brightness, contrast, saturation and hue in random order: torchvision's `ColorJitter`. Factors
    /// are drawn from `max(0, 1 - amount)` to `1 + amount`, and the hue is turned by up to `hue` (0 to 0.5)
    /// of a turn; an amount of 0 changes nothing.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// let image = forebay::Image::random_resized_crop(224).color_jitter(0.4, 0.4, 0.4, 0.1);
    /// assert!(image.is_random());
    /// ```
    #[must_use]
    pub fn color_jitter(self, brightness: f64, contrast: f64, saturation: f64, hue: f64) -> Image {
        self.color_jitter_with(1.0, brightness, contrast, saturation, hue)
    }

    /// Applies [`color_jitter`](Image::color_jitter) with probability `p`.
    #[must_use]
    pub fn color_jitter_with(
        self,
        p: f64,
        brightness: f64,
        contrast: f64,
        saturation: f64,
        hue: f64,
    ) -> Image {
        Image { color_jitter: Some(ColorJitter { brightness, contrast, saturation, hue, p }), ..self }
    }

    /// Makes the image grey with probability `p`, with the same number of channels: torchvision's
    /// `RandomGrayscale`. Default: 0.
    #[must_use]
    pub fn random_grayscale(self, p: f64) -> Image {
        Image { random_grayscale: p, ..self }
    }

    /// Blurs the image with a Gaussian kernel of `kernel_size` x `kernel_size` pixels, an odd number. The
    /// standard deviation is drawn from `sigma`. The method is torchvision's `GaussianBlur`, whose default
    /// range is (0.1, 2).
    #[must_use]
    pub fn gaussian_blur(self, kernel_size: u32, sigma: (f64, f64)) -> Image {
        self.gaussian_blur_with(1.0, kernel_size, sigma)
    }

    /// Applies [`gaussian_blur`](Image::gaussian_blur) with probability `p`.
    #[must_use]
    pub fn gaussian_blur_with(self, p: f64, kernel_size: u32, sigma: (f64, f64)) -> Image {
        Image { gaussian_blur: Some(GaussianBlur { kernel_size, sigma, p }), ..self }
    }

    /// Overwrites a random box with 0, with probability `p`: torchvision's `RandomErasing` with its defaults.
    /// This is the last step, after [`normalize`](Image::normalize).
    #[must_use]
    pub fn random_erasing(self, p: f64) -> Image {
        self.random_erasing_with(p, DEFAULT_ERASED, DEFAULT_ERASED_RATIO, [0.0; RGB])
    }

    /// Works like [`random_erasing`](Image::random_erasing), with other options. The box's share of the area
    /// is drawn from `scale`, and its ratio of height to width from `ratio`. `value` is written for each
    /// channel, in the delivered number type; a grey image uses the first of the three.
    #[must_use]
    pub fn random_erasing_with(
        self,
        p: f64,
        scale: (f64, f64),
        ratio: (f64, f64),
        value: [f32; RGB],
    ) -> Image {
        Image { random_erasing: Some(RandomErasing { p, scale, ratio, value }), ..self }
    }

    /// The same spec without random changes of pixels (colours, blur, erasing and other operations).
    pub(crate) fn without_effects(self) -> Image {
        Image {
            color_jitter: None,
            random_grayscale: 0.0,
            gaussian_blur: None,
            random_erasing: None,
            auto_augment: None,
            steps: Steps::default(),
            ..self
        }
    }

    /// Whether colours, blur or erasing of the same image may differ between epochs.
    pub(crate) fn draws_effects(&self) -> bool {
        let is_drawn = |p: f64| p > 0.0 && p < 1.0;
        self.color_jitter.is_some_and(|ColorJitter { brightness, contrast, saturation, hue, p }| {
            p > 0.0 && [brightness, contrast, saturation, hue].iter().any(|amount| *amount > 0.0)
        }) || is_drawn(self.random_grayscale)
            || self
                .gaussian_blur
                .is_some_and(|blur| is_drawn(blur.p) || (blur.p > 0.0 && blur.sigma.0 < blur.sigma.1))
            || self.random_erasing.is_some_and(|erasing| erasing.p > 0.0)
    }

    /// Refuses settings that cannot work, whatever methods are called later.
    pub(crate) fn validate_effects(&self) -> Result<()> {
        let probabilities = [
            ("a colour jitter", self.color_jitter.map(|jitter| jitter.p)),
            ("grey", Some(self.random_grayscale)),
            ("a blur", self.gaussian_blur.map(|blur| blur.p)),
            ("erasing", self.random_erasing.map(|erasing| erasing.p)),
        ];
        for (name, p) in probabilities {
            if let Some(p) = p.filter(|p| !(0.0..=1.0).contains(p)) {
                return Err(Error::invalid(format!("{name} with probability {p}"))
                    .hint("give a probability from 0 to 1"));
            }
        }
        if let Some(ColorJitter { brightness, contrast, saturation, hue, .. }) = self.color_jitter {
            for (name, amount) in
                [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)]
            {
                if !(amount >= 0.0 && amount.is_finite()) {
                    return Err(Error::invalid(format!("a colour jitter with {name} {amount}"))
                        .hint("give a finite number of at least 0"));
                }
            }
            if !(0.0..=MAX_HUE).contains(&hue) {
                return Err(Error::invalid(format!("a colour jitter with hue {hue}"))
                    .hint("give a share of a full turn, from 0 to 0.5"));
            }
        }
        if let Some(GaussianBlur { kernel_size, sigma: (low, high), .. }) = self.gaussian_blur {
            let side = self.size.height.min(self.size.width);
            if kernel_size % 2 == 0 || kernel_size / 2 >= side {
                return Err(Error::invalid(format!("a blur with a kernel of {kernel_size} pixels")).hint(
                    format!("give an odd number below {}, twice the shorter side", 2 * u64::from(side)),
                ));
            }
            check_range("a blur with sigma", (low, high))?;
        }
        if let Some(RandomErasing { scale, ratio, value, .. }) = self.random_erasing {
            check_range("erasing with scale", scale)?;
            check_range("erasing with ratio", ratio)?;
            if scale.1 > 1.0 {
                return Err(Error::invalid(format!("erasing with scale ({}, {})", scale.0, scale.1))
                    .hint("give shares of the area, of at most 1"));
            }
            if !value.iter().all(|value| value.is_finite()) {
                return Err(
                    Error::invalid(format!("erasing with the values {value:?}")).hint("give finite numbers")
                );
            }
        }
        Ok(())
    }

    /// Refuses values of the erased box that do not fit the number type.
    pub(crate) fn validate_erased_values(&self) -> Result<()> {
        let Some(RandomErasing { value, .. }) = self.random_erasing else { return Ok(()) };
        let dtype = self.pixel_type();
        match dtype.largest_whole() {
            Some(largest) if !dtype.holds(&value) => {
                Err(Error::invalid(format!("erasing with the values {value:?} with dtype {dtype}"))
                    .hint(format!("give whole numbers from 0 to {largest}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the method calls that set the effects, as in code.
    pub(crate) fn write_effects(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(augment) = self.auto_augment {
            write!(f, "{augment}")?;
        }
        if let Some(ColorJitter { brightness, contrast, saturation, hue, p }) = self.color_jitter {
            write!(f, ".color_jitter({brightness}, {contrast}, {saturation}, {hue}, p={p})")?;
        }
        if self.random_grayscale > 0.0 {
            write!(f, ".random_grayscale({})", self.random_grayscale)?;
        }
        if let Some(GaussianBlur { kernel_size, sigma, p }) = self.gaussian_blur {
            write!(f, ".gaussian_blur({kernel_size}, sigma={sigma:?}, p={p})")?;
        }
        write!(f, "{}", self.steps)?;
        if let Some(RandomErasing { p, scale, ratio, value }) = self.random_erasing {
            write!(f, ".random_erasing({p}, scale={scale:?}, ratio={ratio:?}, value={value:?})")?;
        }
        Ok(())
    }
}

fn check_range(name: &str, (low, high): (f64, f64)) -> Result<()> {
    if low > 0.0 && low <= high && high.is_finite() {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} ({low}, {high})")).hint("give the smaller number first, both above 0"))
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;

    use super::*;
    use crate::PixelType;

    #[test]
    fn what_can_never_work_is_refused() {
        let image = || Image::resize(16, 20);
        for (image, said) in [
            (image().color_jitter(-0.1, 0.0, 0.0, 0.0), "brightness -0.1"),
            (image().color_jitter(0.0, 0.0, f64::INFINITY, 0.0), "saturation inf"),
            (image().color_jitter(0.0, 0.0, 0.0, 0.6), "hue 0.6"),
            (image().color_jitter_with(2.0, 0.0, 0.0, 0.0, 0.0), "probability 2"),
            (image().random_grayscale(f64::NAN), "probability NaN"),
            (image().gaussian_blur(4, (0.1, 2.0)), "a kernel of 4 pixels"),
            (image().gaussian_blur(33, (0.1, 2.0)), "an odd number below 32"),
            (image().gaussian_blur(3, (0.0, 2.0)), "sigma (0, 2)"),
            (image().random_erasing(-1.0), "probability -1"),
            (image().random_erasing_with(0.5, (0.1, 1.5), (1.0, 1.0), [0.0; 3]), "at most 1"),
            (image().random_erasing_with(0.5, (0.1, 0.5), (2.0, 1.0), [0.0; 3]), "ratio (2, 1)"),
            (image().random_erasing_with(0.5, (0.1, 0.5), (1.0, 1.0), [0.5, 0.0, 0.0]), "with dtype uint8"),
        ] {
            let error = image.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(said), "{error}");
        }
        image().gaussian_blur(31, (0.1, 2.0)).color_jitter(0.4, 0.4, 0.4, 0.5).validate().unwrap();
        let floats = image().dtype(PixelType::F32);
        floats.random_erasing_with(0.5, (0.1, 0.5), (1.0, 1.0), [-2.5; 3]).validate().unwrap();
    }

    #[test]
    fn only_a_draw_is_random() {
        let image = || Image::resize(16, 20);
        assert!(image().random_erasing(1.0).is_random());
        assert!(image().gaussian_blur(3, (1.0, 2.0)).is_random());
        assert!(!image().gaussian_blur(3, (1.0, 1.0)).is_random());
        assert!(!image().color_jitter(0.0, 0.0, 0.0, 0.0).random_grayscale(1.0).is_random());
        assert!(image().color_jitter(0.0, 0.0, 0.0, 0.1).is_random());
    }

    #[test]
    fn the_canonical_form_is_read_back() {
        let image = Image::resize(16, 20).color_jitter(0.4, 0.3, 0.2, 0.1).random_grayscale(0.2);
        let image = image.gaussian_blur_with(0.5, 3, (0.1, 2.0)).random_erasing(0.25);
        assert_eq!(serde_json::from_str::<Image>(&image.canonical()).unwrap(), image);
        assert_eq!(image.without_effects(), Image::resize(16, 20));
    }
}
