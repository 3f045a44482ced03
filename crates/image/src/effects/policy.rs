//! Draws the operations of an automatic augmentation: torchvision's `AutoAugment`, `RandAugment`,
//! `TrivialAugmentWide` and `AugMix`.

use super::super::draws::Draws;
use super::super::spec::{AutoAugment, Policy, Size};
use super::kind::{OperationKind, Ranges, Strength};
use super::learned::{CIFAR10, IMAGENET, Pair, SVHN};
use super::mixture::Mixture;
use super::operation::PixelOperation;

/// The number of magnitudes in the learned policies.
const LEARNED_BINS: u32 = 10;

/// The kinds that `RandAugment` and `TrivialAugmentWide` choose from: all but invert.
const KINDS: [OperationKind; 14] = [
    OperationKind::Identity,
    OperationKind::ShearX,
    OperationKind::ShearY,
    OperationKind::TranslateX,
    OperationKind::TranslateY,
    OperationKind::Rotate,
    OperationKind::Brightness,
    OperationKind::Color,
    OperationKind::Contrast,
    OperationKind::Sharpness,
    OperationKind::Posterize,
    OperationKind::Solarize,
    OperationKind::AutoContrast,
    OperationKind::Equalize,
];

/// The changes that a policy drew for one image.
pub(super) enum DrawnPolicy {
    /// Operations in the order in which they are applied.
    Operations(Vec<PixelOperation>),
    Mixture(Mixture),
}

/// Draws the changes for an image of this size.
pub(super) fn draw(augment: &AutoAugment, size: Size, draws: &mut Draws) -> DrawnPolicy {
    let drawn = |draws: &mut Draws| KINDS[draws.below(KINDS.len() as u32) as usize];
    let make = |kind: OperationKind, ranges: &Ranges, strength: Strength, draws: &mut Draws| {
        kind.draw(ranges, strength, size, augment, draws)
    };
    let pair = |pairs: &[Pair; 25], draws: &mut Draws| {
        let pair = &pairs[draws.below(pairs.len() as u32) as usize];
        let mut operations = Vec::new();
        for (kind, tenths, at) in pair {
            if draws.unit() < f64::from(*tenths) / 10.0 {
                operations.extend(make(
                    *kind,
                    &Ranges::for_size(size),
                    Strength { at: *at, bins: LEARNED_BINS },
                    draws,
                ));
            }
        }
        operations
    };
    DrawnPolicy::Operations(match augment.policy {
        Policy::Imagenet => pair(&IMAGENET, draws),
        Policy::Cifar10 => pair(&CIFAR10, draws),
        Policy::Svhn => pair(&SVHN, draws),
        Policy::Rand { num_ops, magnitude, num_magnitude_bins: bins } => {
            let each = (0..num_ops).map(|_| {
                let kind = drawn(draws);
                make(kind, &Ranges::for_size(size), Strength { at: magnitude, bins }, draws)
            });
            each.flatten().collect()
        }
        Policy::TrivialWide { num_magnitude_bins: bins } => {
            let (kind, at) = (drawn(draws), draws.below(bins));
            Vec::from_iter(make(kind, &Ranges::WIDE, Strength { at, bins }, draws))
        }
        Policy::AugMix(mix) => return DrawnPolicy::Mixture(Mixture::draw(&mix, augment, size, draws)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::draws::RowKey;
    use super::*;

    const SIZE: Size = Size { height: 331, width: 662 };

    fn operations(augment: &AutoAugment, key: u64) -> Vec<PixelOperation> {
        match draw(augment, SIZE, &mut Draws::new(RowKey(key))) {
            DrawnPolicy::Operations(operations) => operations,
            DrawnPolicy::Mixture(_) => unreachable!(),
        }
    }

    #[test]
    fn every_kind_is_drawn_as_often_as_any_other() {
        let augment = AutoAugment::trivial_wide();
        let count = |is: fn(&PixelOperation) -> bool| {
            let drawn = (0..7_000).flat_map(|key| operations(&augment, key));
            drawn.filter(is).count()
        };
        for (found, kinds) in [
            (count(|_| true), 13),
            (count(|made| matches!(made, PixelOperation::Move(_))), 5),
            (count(|made| matches!(made, PixelOperation::Colour(_))), 3),
            (count(|made| matches!(made, PixelOperation::Equalize)), 1),
        ] {
            assert!(found.abs_diff(500 * kinds) < 150, "{found} of {kinds} kinds");
        }
        let several = AutoAugment::rand(5, 30);
        let most = (0..200).map(|key| operations(&several, key).len()).max();
        assert_eq!(most, Some(5));
    }
}
