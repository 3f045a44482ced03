//! AugMix: the weighted sum of an image and of chains of operations on it, by torchvision's formula.

use super::super::draws::Draws;
use super::super::spec::{AugMix, AutoAugment, Size};
use super::kind::{OperationKind, Ranges, Strength};
use super::operation::PixelOperation;

/// The most operations in a chain whose number of operations is drawn.
const MOST_DRAWN: u32 = 3;

/// The kinds that chains choose from. The last four are left out on request.
const KINDS: [OperationKind; 13] = [
    OperationKind::ShearX,
    OperationKind::ShearY,
    OperationKind::TranslateX,
    OperationKind::TranslateY,
    OperationKind::Rotate,
    OperationKind::Posterize,
    OperationKind::Solarize,
    OperationKind::AutoContrast,
    OperationKind::Equalize,
    OperationKind::Brightness,
    OperationKind::Color,
    OperationKind::Contrast,
    OperationKind::Sharpness,
];
/// The number of kinds that do not change colours by a factor.
const PARTIAL: usize = 9;

/// The weights and operations that were drawn for one image. All weights together are 1.
pub(super) struct Mixture {
    /// The weight of the image itself.
    own: f32,
    chains: Vec<Chain>,
}

/// Operations that follow each other, and the weight of their result.
struct Chain {
    weight: f32,
    operations: Vec<PixelOperation>,
}

/// Buffers for a mixture, which a thread reuses for each image.
#[derive(Default)]
pub(super) struct MixtureScratch {
    sum: Vec<f32>,
    chain: Vec<u8>,
}

impl MixtureScratch {
    /// The number of bytes that the buffers take.
    pub(super) fn bytes(&self) -> u64 {
        (self.sum.capacity() * size_of::<f32>() + self.chain.capacity()) as u64
    }

    /// The most bytes that the buffers take for an image of this many levels.
    pub(super) fn most_bytes(levels: u64) -> u64 {
        levels * (size_of::<f32>() + size_of::<u8>()) as u64
    }
}

impl Mixture {
    /// Draws the weights, and then the operations of each chain, for an image of this size.
    pub(super) fn draw(mix: &AugMix, augment: &AutoAugment, size: Size, draws: &mut Draws) -> Mixture {
        let own = draws.shares(mix.alpha, 2)[0];
        let weights = draws.shares(mix.alpha, mix.mixture_width as usize);
        let kinds = if mix.all_ops { &KINDS[..] } else { &KINDS[..PARTIAL] };
        let chains = weights.into_iter().map(|share| {
            let depth = mix.chain_depth.unwrap_or_else(|| 1 + draws.below(MOST_DRAWN));
            let operations = (0..depth).filter_map(|_| {
                let (kind, at) = (kinds[draws.below(kinds.len() as u32) as usize], draws.below(mix.severity));
                let strength = Strength { at, bins: AugMix::BINS };
                kind.draw(&Ranges::of_mixture(size), strength, size, augment, draws)
            });
            Chain { operations: operations.collect(), weight: (share * (1.0 - own)) as f32 }
        });
        Mixture { chains: chains.collect(), own: own as f32 }
    }

    /// Replaces interleaved pixels by the mixture.
    pub(super) fn apply(
        &self,
        pixels: &mut [u8],
        size: Size,
        channels: usize,
        MixtureScratch { sum, chain }: &mut MixtureScratch,
        still: &mut Vec<u8>,
    ) {
        sum.clear();
        sum.extend(pixels.iter().map(|level| self.own * f32::from(*level)));
        for Chain { weight, operations } in &self.chains {
            chain.clear();
            chain.extend_from_slice(pixels);
            for operation in operations {
                operation.apply(chain, size, channels, still);
            }
            sum.iter_mut().zip(chain.iter()).for_each(|(sum, level)| *sum += weight * f32::from(*level));
        }
        // torchvision does not round the sum, but cuts its fraction off.
        pixels.iter_mut().zip(sum).for_each(|(level, sum)| *level = *sum as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draws::RowKey;
    use super::*;

    const SIZE: Size = Size { height: 20, width: 30 };

    fn drawn(augment: &AutoAugment, mix: &AugMix, key: u64) -> Mixture {
        Mixture::draw(mix, augment, SIZE, &mut Draws::new(RowKey(key)))
    }

    #[test]
    fn weights_are_shares_and_chains_have_one_to_three_operations() {
        let mix = AugMix { severity: 3, mixture_width: 4, chain_depth: None, alpha: 1.0, all_ops: true };
        let augment = AutoAugment::aug_mix(3, 4);
        let (mut own, mut depths) = (0.0, [0; 4]);
        for key in 0..2_000 {
            let Mixture { own: share, chains } = drawn(&augment, &mix, key);
            let all: f32 = share + chains.iter().map(|chain| chain.weight).sum::<f32>();
            assert!((all - 1.0).abs() < 1e-5 && share >= 0.0, "{all}");
            own += f64::from(share);
            chains.iter().for_each(|chain| depths[chain.operations.len()] += 1);
        }
        assert!((own / 2_000.0 - 0.5).abs() < 0.03, "the mean of Beta(1, 1) is one half: {own}");
        // Each kind is an operation, so a chain has as many as were drawn.
        assert_eq!(depths[0], 0);
        assert!(depths[1..].iter().all(|count| (2_400..2_950).contains(count)), "{depths:?}");
        let few = AugMix { all_ops: false, chain_depth: Some(2), ..mix };
        for key in 0..200 {
            for Chain { operations, .. } in drawn(&augment, &few, key).chains {
                let is_colour = |made: &PixelOperation| {
                    matches!(made, PixelOperation::Colour(_) | PixelOperation::Sharpness(_))
                };
                assert!(operations.len() == 2 && !operations.iter().any(is_colour));
            }
        }
    }

    #[test]
    fn a_sum_of_unchanged_images_is_the_image() {
        let chain = || Chain { weight: 0.25, operations: vec![PixelOperation::Posterize(8)] };
        let mixture = Mixture { own: 0.5, chains: vec![chain(), chain()] };
        let before: Vec<u8> = (0..=255).cycle().take(1_800).collect();
        let mut pixels = before.clone();
        mixture.apply(&mut pixels, SIZE, 3, &mut MixtureScratch::default(), &mut Vec::new());
        assert_eq!(pixels, before);
        let inverted = Chain { weight: 1.0, operations: vec![PixelOperation::Invert] };
        let mixture = Mixture { own: 0.0, chains: vec![inverted] };
        mixture.apply(&mut pixels, SIZE, 3, &mut MixtureScratch::default(), &mut Vec::new());
        assert!(pixels.iter().zip(before).all(|(after, before)| *after == 255 - before));
    }
}
