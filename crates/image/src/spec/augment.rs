//! The options for automatic augmentation, and for single operations that are not drawn by a policy.

use std::fmt;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::aug_mix::AugMix;
use super::rotation::Interpolation;
use super::{Image, RGB, is_never};

/// The number of magnitudes of an operation unless the user sets it, as in torchvision.
const DEFAULT_BINS: u32 = 31;
/// The largest numbers of operations per image and of magnitudes that are accepted: far more than anybody
/// uses.
const MAX_OPS: u32 = 100;
const MAX_BINS: u32 = 1_000;
/// The number of bits of a level (the value of a channel), which is the most that posterize can keep.
const BITS: u8 = 8;
/// The largest level (value of a channel).
const WHITE: f64 = 255.0;

/// Automatic augmentation: random operations that a policy draws for each image.
///
/// The operations are torchvision's: shear, translation and rotation, brightness, colour, contrast,
/// sharpness, posterize, solarize, autocontrast, equalize and, in policies that were learned, invert.
/// Operations that move pixels take the nearest pixel, and leave black where the image has none;
/// [`interpolation`](Self::interpolation) and [`fill`](Self::fill) change this.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::Image;
/// use forebay::image::AutoAugment;
///
/// let train = Image::random_resized_crop(224).flip().auto_augment(AutoAugment::rand(2, 9));
/// # train.validate()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoAugment {
    pub(crate) policy: Policy,
    pub(crate) interpolation: Interpolation,
    pub(crate) fill: [u8; RGB],
}

/// How the operations for an image are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// One of the 25 pairs of operations that were learned on ImageNet, for each image.
    Imagenet,
    /// One of the 25 pairs of operations that were learned on CIFAR-10, for each image.
    Cifar10,
    /// One of the 25 pairs of operations that were learned on SVHN, for each image.
    Svhn,
    /// RandAugment: `num_ops` random operations for each image, all with the same magnitude.
    Rand { num_ops: u32, magnitude: u32, num_magnitude_bins: u32 },
    /// TrivialAugment: one random operation for each image, with a random magnitude from a wide range.
    TrivialWide { num_magnitude_bins: u32 },
    /// AugMix: the sum of the image and of chains of operations on it.
    AugMix(AugMix),
}

impl AutoAugment {
    fn new(policy: Policy) -> AutoAugment {
        AutoAugment { policy, interpolation: Interpolation::default(), fill: [0; RGB] }
    }

    /// One of the 25 pairs of operations that were learned on ImageNet (Cubuk et al.: "AutoAugment", CVPR
    /// 2019).
    pub fn imagenet() -> AutoAugment {
        AutoAugment::new(Policy::Imagenet)
    }

    /// Works like [`imagenet`](Self::imagenet), with the pairs for CIFAR-10.
    pub fn cifar10() -> AutoAugment {
        AutoAugment::new(Policy::Cifar10)
    }

    /// Works like [`imagenet`](Self::imagenet), with the pairs for SVHN.
    pub fn svhn() -> AutoAugment {
        AutoAugment::new(Policy::Svhn)
    }

    /// `num_ops` random operations for each image, all with the same `magnitude` (Cubuk et al.:
    /// "RandAugment", 2020). Magnitudes are steps from 0, which changes an image least, to 30. torchvision's
    /// defaults are 2 and 9.
    pub fn rand(num_ops: u32, magnitude: u32) -> AutoAugment {
        AutoAugment::new(Policy::Rand { num_ops, magnitude, num_magnitude_bins: DEFAULT_BINS })
    }

    /// One random operation for each image, with a random magnitude (Müller, Hutter: "TrivialAugment", ICCV
    /// 2021).
    pub fn trivial_wide() -> AutoAugment {
        AutoAugment::new(Policy::TrivialWide { num_magnitude_bins: DEFAULT_BINS })
    }

    /// The sum of the image and of `mixture_width` chains of one to three random operations on it, with
    /// random weights (Hendrycks et al.: "AugMix", ICLR 2020). `severity` is from 1 to 10: magnitudes are
    /// drawn from the weakest `severity` of ten. torchvision's defaults are 3 and 3, and bilinear
    /// [`interpolation`](Self::interpolation).
    pub fn aug_mix(severity: u32, mixture_width: u32) -> AutoAugment {
        let options = AugMix { severity, mixture_width, chain_depth: None, alpha: 1.0, all_ops: true };
        AutoAugment::new(Policy::AugMix(options))
    }

    /// Sets the number of steps in which [`rand`](Self::rand) and [`trivial_wide`](Self::trivial_wide) count
    /// magnitudes. Default: 31. The other policies always have 10.
    #[must_use]
    pub fn num_magnitude_bins(self, bins: u32) -> AutoAugment {
        let policy = match self.policy {
            Policy::Rand { num_ops, magnitude, .. } => {
                Policy::Rand { num_ops, magnitude, num_magnitude_bins: bins }
            }
            Policy::TrivialWide { .. } => Policy::TrivialWide { num_magnitude_bins: bins },
            other => other,
        };
        AutoAugment { policy, ..self }
    }

    /// Sets the number of operations in each chain of [`aug_mix`](Self::aug_mix). Default: one to three are
    /// drawn for each chain. Other policies have no chains.
    #[must_use]
    pub fn chain_depth(self, operations: u32) -> AutoAugment {
        self.with_mix(|mix| AugMix { chain_depth: Some(operations), ..mix })
    }

    /// Sets the shape of the distributions of the weights of [`aug_mix`](Self::aug_mix), 0.05 to 1000: the
    /// chains' shares follow `Dirichlet(alpha, ...)`, and the share of all of them `Beta(alpha, alpha)`.
    /// Default: 1. Other policies have no weights.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> AutoAugment {
        self.with_mix(|mix| AugMix { alpha, ..mix })
    }

    /// Sets whether [`aug_mix`](Self::aug_mix) also draws brightness, colour, contrast and sharpness.
    /// Default: yes. Other policies are not changed.
    #[must_use]
    pub fn all_ops(self, all_ops: bool) -> AutoAugment {
        self.with_mix(|mix| AugMix { all_ops, ..mix })
    }

    /// Sets how operations that move pixels compute them. Default: the nearest pixel.
    #[must_use]
    pub fn interpolation(self, interpolation: Interpolation) -> AutoAugment {
        AutoAugment { interpolation, ..self }
    }

    /// Sets the colour that is used where an operation moves the image away: a value from 0 to 255 for each
    /// channel. A grey image uses the first of the three. Default: 0.
    #[must_use]
    pub fn fill(self, fill: [u8; RGB]) -> AutoAugment {
        AutoAugment { fill, ..self }
    }

    fn with_mix(self, changed: impl Fn(AugMix) -> AugMix) -> AutoAugment {
        match self.policy {
            Policy::AugMix(mix) => AutoAugment { policy: Policy::AugMix(changed(mix)), ..self },
            _ => self,
        }
    }

    /// The method of torchvision's and Python's interface that makes this augmentation, as errors name it.
    pub(super) fn method(&self) -> &'static str {
        match self.policy {
            Policy::Imagenet | Policy::Cifar10 | Policy::Svhn => "auto_augment",
            Policy::Rand { .. } => "rand_augment",
            Policy::TrivialWide { .. } => "trivial_augment_wide",
            Policy::AugMix(_) => "aug_mix",
        }
    }

    fn validate(&self) -> Result<()> {
        let method = self.method();
        let (num_ops, magnitude, bins) = match self.policy {
            Policy::Rand { num_ops, magnitude, num_magnitude_bins } => {
                (num_ops, magnitude, num_magnitude_bins)
            }
            Policy::TrivialWide { num_magnitude_bins } => (1, 0, num_magnitude_bins),
            Policy::Imagenet | Policy::Cifar10 | Policy::Svhn => return Ok(()),
            Policy::AugMix(mix) => return mix.validate(),
        };
        if num_ops > MAX_OPS {
            return Err(Error::invalid(format!("{method} with {num_ops} operations"))
                .hint(format!("give at most {MAX_OPS}")));
        }
        if !(2..=MAX_BINS).contains(&bins) {
            return Err(Error::invalid(format!("{method} with {bins} magnitudes"))
                .hint(format!("give 2 to {MAX_BINS}")));
        }
        if magnitude >= bins {
            return Err(Error::invalid(format!("{method} of magnitude {magnitude} of {bins}"))
                .hint("magnitudes are counted from 0: give one below num_magnitude_bins"));
        }
        Ok(())
    }
}

impl fmt::Display for AutoAugment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Imagenet => f.write_str(".auto_augment(imagenet")?,
            Policy::Cifar10 => f.write_str(".auto_augment(cifar10")?,
            Policy::Svhn => f.write_str(".auto_augment(svhn")?,
            Policy::Rand { num_ops, magnitude, num_magnitude_bins } => {
                write!(f, ".rand_augment({num_ops}, {magnitude}, {num_magnitude_bins}")?;
            }
            Policy::TrivialWide { num_magnitude_bins } => {
                write!(f, ".trivial_augment_wide({num_magnitude_bins}")?;
            }
            Policy::AugMix(mix) => write!(f, "{mix}")?,
        }
        write!(f, ", {}, fill={:?})", self.interpolation, self.fill)
    }
}

/// Single operations, each applied with a probability of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Steps {
    #[serde(skip_serializing_if = "is_never")]
    pub(crate) invert: f64,
    /// The number of bits of a level that are kept, and the probability of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) posterize: Option<(u8, f64)>,
    /// The threshold (levels of at least this value are inverted), and the probability of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) solarize: Option<(f64, f64)>,
    /// The factor of the sharpness (0 blurs, 1 changes nothing), and the probability of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sharpness: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "is_never")]
    pub(crate) autocontrast: f64,
    #[serde(skip_serializing_if = "is_never")]
    pub(crate) equalize: f64,
}

impl Steps {
    pub(crate) fn is_off(&self) -> bool {
        *self == Steps::default()
    }

    /// The name of the method that sets each operation, with the operation's probability. Operations are in
    /// the order in which they are applied.
    pub(crate) fn probabilities(&self) -> [(&'static str, f64); 6] {
        let p = |step: Option<f64>| step.unwrap_or_default();
        [
            ("random_invert", self.invert),
            ("random_posterize", p(self.posterize.map(|(_, p)| p))),
            ("random_solarize", p(self.solarize.map(|(_, p)| p))),
            ("random_adjust_sharpness", p(self.sharpness.map(|(_, p)| p))),
            ("random_autocontrast", self.autocontrast),
            ("random_equalize", self.equalize),
        ]
    }

    fn validate(&self) -> Result<()> {
        for (name, p) in self.probabilities() {
            if !(0.0..=1.0).contains(&p) {
                return Err(Error::invalid(format!("{name} with probability {p}"))
                    .hint("give a probability from 0 to 1"));
            }
        }
        if let Some((bits @ (9..), _)) = self.posterize {
            return Err(
                Error::invalid(format!("random_posterize to {bits} bits")).hint(format!("give 0 to {BITS}"))
            );
        }
        if let Some((threshold, _)) = self.solarize.filter(|(level, _)| !(0.0..=WHITE).contains(level)) {
            return Err(Error::invalid(format!("random_solarize with threshold {threshold}"))
                .hint("give a level from 0 to 255"));
        }
        if let Some((factor, _)) = self.sharpness.filter(|(by, _)| !(*by >= 0.0 && by.is_finite())) {
            return Err(Error::invalid(format!("random_adjust_sharpness by {factor}"))
                .hint("give a finite number of at least 0"));
        }
        Ok(())
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |name: &str| match name {
            "random_posterize" => self.posterize.map(|(bits, _)| f64::from(bits)),
            "random_solarize" => self.solarize.map(|(threshold, _)| threshold),
            "random_adjust_sharpness" => self.sharpness.map(|(factor, _)| factor),
            _ => None,
        };
        for (name, p) in self.probabilities().into_iter().filter(|(_, p)| *p > 0.0) {
            match value(name) {
                Some(value) => write!(f, ".{name}({value}, p={p})")?,
                None => write!(f, ".{name}({p})")?,
            }
        }
        Ok(())
    }
}

impl Image {
    /// Changes the image by operations that a policy draws: torchvision's `AutoAugment`, `RandAugment`,
    /// `TrivialAugmentWide` and `AugMix`. They are applied after the flips and the rotation, and before a
    /// colour jitter. Default: off.
    ///
    /// Some operations move pixels, so columns of boxes, points and masks cannot follow the image. An image
    /// has one automatic augmentation; a second one is refused by [`Image::validate`].
    #[must_use]
    pub fn auto_augment(self, augment: AutoAugment) -> Image {
        let is_augmented_twice = self.auto_augment.is_some();
        Image { auto_augment: Some(augment), is_augmented_twice, ..self }
    }

    /// Inverts all levels with probability `p`: torchvision's `RandomInvert`. Default: 0.
    ///
    /// The order of the operations is: blur, this one, posterize, solarize, sharpness, autocontrast,
    /// equalize.
    #[must_use]
    pub fn random_invert(self, p: f64) -> Image {
        Image { steps: Steps { invert: p, ..self.steps }, ..self }
    }

    /// Keeps the `bits` highest bits of each level, 0 to 8, with probability `p`: torchvision's
    /// `RandomPosterize`. Default: off.
    #[must_use]
    pub fn random_posterize(self, bits: u8, p: f64) -> Image {
        Image { steps: Steps { posterize: Some((bits, p)), ..self.steps }, ..self }
    }

    /// Inverts all levels of at least `threshold`, which is from 0 to 255, with probability `p`:
    /// torchvision's `RandomSolarize`. Default: off.
    #[must_use]
    pub fn random_solarize(self, threshold: f64, p: f64) -> Image {
        Image { steps: Steps { solarize: Some((threshold, p)), ..self.steps }, ..self }
    }

    /// Sharpens the image by a `factor` above 1, or blurs it by a `factor` below 1, with probability `p`:
    /// torchvision's `RandomAdjustSharpness`. Default: off.
    #[must_use]
    pub fn random_adjust_sharpness(self, factor: f64, p: f64) -> Image {
        Image { steps: Steps { sharpness: Some((factor, p)), ..self.steps }, ..self }
    }

    /// Stretches the levels of each channel to the whole range with probability `p`: torchvision's
    /// `RandomAutocontrast`. Default: 0.
    #[must_use]
    pub fn random_autocontrast(self, p: f64) -> Image {
        Image { steps: Steps { autocontrast: p, ..self.steps }, ..self }
    }

    /// Equalizes the histogram of each channel with probability `p`: torchvision's `RandomEqualize`. Default:
    /// 0.
    #[must_use]
    pub fn random_equalize(self, p: f64) -> Image {
        Image { steps: Steps { equalize: p, ..self.steps }, ..self }
    }

    /// Whether pixels are moved in a way that boxes, points and masks cannot follow.
    pub fn moves_pixels(&self) -> bool {
        self.auto_augment.is_some()
    }

    /// Whether the operations for the same image may differ between epochs.
    pub(crate) fn draws_operations(&self) -> bool {
        let is_drawn = |p: f64| p > 0.0 && p < 1.0;
        self.auto_augment.is_some() || self.steps.probabilities().into_iter().any(|(_, p)| is_drawn(p))
    }

    pub(crate) fn validate_augment(&self) -> Result<()> {
        self.steps.validate()?;
        if self.is_augmented_twice {
            return Err(Error::invalid("a second automatic augmentation")
                .hint("an image has one of rand_augment, trivial_augment_wide, aug_mix and auto_augment"));
        }
        self.auto_augment.map_or(Ok(()), |augment| augment.validate())
    }

    /// Refuses `emit_geometry` together with automatic augmentation, because the geometry cannot describe how
    /// the augmentation moves pixels.
    pub(crate) fn validate_geometry(&self) -> Result<()> {
        match &self.auto_augment {
            Some(augment) if self.emit_geometry => Err(Error::invalid(format!(
                "emit_geometry with {}",
                augment.method()
            ))
            .hint(
                "its operations move pixels, which the column does not describe: leave one of the two out",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;

    use super::*;

    #[test]
    fn what_can_never_work_is_refused() {
        let image = || Image::resize(16, 20);
        for (image, said) in [
            (image().auto_augment(AutoAugment::rand(2, 31)), "rand_augment of magnitude 31 of 31"),
            (image().auto_augment(AutoAugment::rand(101, 0)), "rand_augment with 101 operations"),
            (
                image().auto_augment(AutoAugment::trivial_wide().num_magnitude_bins(1)),
                "trivial_augment_wide with 1 magnitudes",
            ),
            (image().auto_augment(AutoAugment::svhn()).emit_geometry(), "emit_geometry with auto_augment"),
            (
                image().auto_augment(AutoAugment::rand(2, 9)).auto_augment(AutoAugment::trivial_wide()),
                "a second automatic augmentation",
            ),
            (image().random_invert(1.5), "random_invert with probability 1.5"),
            (image().random_posterize(9, 0.5), "to 9 bits"),
            (image().random_solarize(256.0, 0.5), "threshold 256"),
            (image().random_adjust_sharpness(-1.0, 0.5), "by -1"),
            (image().random_equalize(f64::NAN), "probability NaN"),
        ] {
            let error = image.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn values_are_read_back_and_only_a_draw_is_random() {
        let fill = [1, 2, 3];
        let wide = AutoAugment::trivial_wide().interpolation(Interpolation::Bilinear).fill(fill);
        let all = Image::resize(8, 8).random_invert(0.5).random_posterize(4, 0.25).random_autocontrast(1.0);
        let all = all.random_solarize(128.0, 0.5).random_adjust_sharpness(2.0, 0.5).random_equalize(0.1);
        for image in [all, Image::resize(8, 8).auto_augment(wide), Image::resize(8, 8).random_invert(0.1)] {
            image.validate().unwrap();
            assert!(image.is_random());
            assert_eq!(serde_json::from_str::<Image>(&image.canonical()).unwrap(), image);
            assert_eq!(image.without_effects(), Image::resize(8, 8));
        }
        assert!(!Image::resize(8, 8).random_posterize(4, 1.0).is_random());
        assert_eq!(
            Image::resize(8, 8).random_posterize(4, 0.5).auto_augment(wide).to_string(),
            "resize(8x8).trivial_augment_wide(31, bilinear, fill=[1, 2, 3]).random_posterize(4, p=0.5)\
             .dtype(uint8).layout(NHWC)"
        );
    }
}
