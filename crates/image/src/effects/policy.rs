//! Draws the operations of an automatic augmentation: torchvision's `AutoAugment`, `RandAugment` and
//! `TrivialAugmentWide`.

use super::super::draws::Draws;
use super::super::spec::{AutoAugment, Policy, Size};
use super::kind::{OperationKind, Ranges};
use super::learned::{CIFAR10, IMAGENET, Pair, SVHN};
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

/// Draws the operations for an image of this size, in the order in which to apply them.
pub(super) fn draw(augment: &AutoAugment, size: Size, draws: &mut Draws) -> Vec<PixelOperation> {
    let drawn = |draws: &mut Draws| KINDS[draws.below(KINDS.len() as u32) as usize];
    let make = |kind: OperationKind, ranges: &Ranges, (at, bins): (u32, u32), draws: &mut Draws| {
        let magnitude = kind.magnitude(ranges, at, bins);
        let is_negative = kind.is_signed() && draws.unit() < 0.5;
        kind.operation(if is_negative { -magnitude } else { magnitude }, size, augment)
    };
    let pair = |pairs: &[Pair; 25], draws: &mut Draws| {
        let pair = &pairs[draws.below(pairs.len() as u32) as usize];
        let mut operations = Vec::new();
        for (kind, tenths, at) in pair {
            if draws.unit() < f64::from(*tenths) / 10.0 {
                operations.extend(make(*kind, &Ranges::for_size(size), (*at, LEARNED_BINS), draws));
            }
        }
        operations
    };
    match augment.policy {
        Policy::Imagenet => pair(&IMAGENET, draws),
        Policy::Cifar10 => pair(&CIFAR10, draws),
        Policy::Svhn => pair(&SVHN, draws),
        Policy::Rand { num_ops, magnitude, num_magnitude_bins: bins } => {
            let each = (0..num_ops).map(|_| {
                let kind = drawn(draws);
                make(kind, &Ranges::for_size(size), (magnitude, bins), draws)
            });
            each.flatten().collect()
        }
        Policy::TrivialWide { num_magnitude_bins: bins } => {
            let (kind, at) = (drawn(draws), draws.below(bins));
            Vec::from_iter(make(kind, &Ranges::WIDE, (at, bins), draws))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draws::RowKey;
    use super::*;

    const SIZE: Size = Size { height: 331, width: 662 };

    #[test]
    fn every_kind_is_drawn_as_often_as_any_other() {
        let augment = AutoAugment::trivial_wide();
        let count = |is: fn(&PixelOperation) -> bool| {
            let drawn = (0..7_000).flat_map(|key| draw(&augment, SIZE, &mut Draws::new(RowKey(key))));
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
        let most = (0..200).map(|key| draw(&several, SIZE, &mut Draws::new(RowKey(key))).len()).max();
        assert_eq!(most, Some(5));
    }
}
