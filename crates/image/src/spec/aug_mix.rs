//! The options of AugMix, the policy that mixes chains of operations.

use std::fmt;
use std::ops::RangeInclusive;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The accepted shapes of the distributions of the weights. Below the first one, all weights might be 0.
const ALPHAS: RangeInclusive<f64> = 0.05..=1e3;

/// The largest accepted numbers of chains and of their operations: far more than anybody uses.
const MOST: u32 = 100;

/// The options of AugMix, with torchvision's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AugMix {
    pub(crate) severity: u32,
    pub(crate) mixture_width: u32,
    /// The number of operations in each chain; `None` if one to three are drawn.
    pub(crate) chain_depth: Option<u32>,
    pub(crate) alpha: f64,
    pub(crate) all_ops: bool,
}

impl AugMix {
    /// The number of magnitudes of an operation, of which `severity` are used.
    pub(crate) const BINS: u32 = 10;

    pub(super) fn validate(&self) -> Result<()> {
        let AugMix { severity, mixture_width, chain_depth, alpha, .. } = *self;
        if !(1..=AugMix::BINS).contains(&severity) {
            return Err(Error::invalid(format!("aug_mix of severity {severity}"))
                .hint(format!("give 1 to {}", AugMix::BINS)));
        }
        for (name, number) in [("mixture_width", mixture_width), ("chain_depth", chain_depth.unwrap_or(1))] {
            if !(1..=MOST).contains(&number) {
                return Err(Error::invalid(format!("aug_mix with {name} of {number}"))
                    .hint(format!("give 1 to {MOST}")));
            }
        }
        if !ALPHAS.contains(&alpha) {
            return Err(Error::invalid(format!("aug_mix with alpha of {alpha}")).hint(format!(
                "give {} to {}",
                ALPHAS.start(),
                ALPHAS.end()
            )));
        }
        Ok(())
    }
}

impl fmt::Display for AugMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AugMix { severity, mixture_width, chain_depth, alpha, all_ops } = self;
        let depth = chain_depth.map_or(-1, i64::from);
        write!(f, ".aug_mix({severity}, {mixture_width}, {depth}, {alpha}, all_ops={all_ops}")
    }
}

#[cfg(test)]
mod tests {
    use crate::{AutoAugment, Image, Interpolation};

    #[test]
    fn mixtures_that_can_never_work_are_refused() {
        let mix = || AutoAugment::aug_mix(3, 3);
        for (augment, said) in [
            (AutoAugment::aug_mix(0, 3), "severity 0"),
            (AutoAugment::aug_mix(11, 3), "severity 11"),
            (AutoAugment::aug_mix(3, 0), "mixture_width of 0"),
            (mix().chain_depth(0), "chain_depth of 0"),
            (mix().chain_depth(101), "chain_depth of 101"),
            (mix().alpha(0.0), "alpha of 0"),
            (mix().alpha(f64::NAN), "alpha of NaN"),
        ] {
            let error = Image::resize(8, 8).auto_augment(augment).validate().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_mixture_is_read_as_it_was_written() {
        let mix = AutoAugment::aug_mix(2, 4).chain_depth(1).alpha(0.5).all_ops(false);
        let image = Image::resize(8, 8).auto_augment(mix.interpolation(Interpolation::Bilinear));
        image.validate().unwrap();
        assert_eq!(serde_json::from_str::<Image>(&image.canonical()).unwrap(), image);
        assert!(
            image.to_string().contains(".aug_mix(2, 4, 1, 0.5, all_ops=false, bilinear, fill=[0, 0, 0])")
        );
        assert_eq!(AutoAugment::svhn().alpha(0.5).chain_depth(2).all_ops(false), AutoAugment::svhn());
    }
}
