//! Random changes of an image's pixels after it was resized: automatic augmentation, colours, blur, single
//! operations and erasing.
//!
//! Names, formulas and ranges are those of torchvision on 8-bit pixels. The order is fixed: the operations of
//! an automatic augmentation, colour jitter, grey, blur, single operations, and, after the pixels have their
//! number type, erasing. Each operation draws from its own random stream, so that adding one does not change
//! the draws of the others, the crop or the flips.

mod blur;
mod color;
mod erase;
mod kind;
mod learned;
mod levels;
mod mixture;
mod operation;
mod policy;
mod sharpen;

use super::draws::{Draws, Operation, RowKey};
use super::refuse::bad_row;
use super::spec::{AutoAugment, ColorJitter, Image, Policy, Size};
use blur::BlurScratch;
use color::ColourChange;
pub(super) use erase::Erased;
use forebay_base::Result;
use mixture::MixtureScratch;
use operation::{PixelOperation, STEPS};
use policy::DrawnPolicy;

/// The number of operations in torchvision's `ColorJitter`.
const JITTERS: usize = 4;

/// The random changes that were drawn for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Effects {
    /// The automatic augmentation, and the key of its random draws. Its operations are drawn only when they
    /// are applied.
    augment: Option<(AutoAugment, RowKey)>,
    jitter: Option<Jitter>,
    is_grey: bool,
    blur: Option<Blur>,
    steps: [Option<PixelOperation>; STEPS],
    /// The box of the result that is overwritten.
    pub(super) erased: Option<Erased>,
}

/// Buffers for the changes of an image, which a thread reuses for each image.
#[derive(Default)]
pub(super) struct EffectScratch {
    blur: BlurScratch,
    /// A copy of the pixels, for operations that move or sharpen them.
    still: Vec<u8>,
    mixture: MixtureScratch,
}

impl EffectScratch {
    /// The number of bytes that the buffers take.
    pub(super) fn bytes(&self) -> u64 {
        self.blur.bytes() + self.still.capacity() as u64 + self.mixture.bytes()
    }
}

/// The changes of colours, in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jitter([Option<ColourChange>; JITTERS]);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Blur {
    kernel_size: u32,
    sigma: f64,
}

impl Effects {
    /// Draws the changes for the image with this key. `size` is its size after resizing.
    pub(super) fn draw(image: &Image, size: Size, key: RowKey) -> Effects {
        let jitter = image.color_jitter.as_ref().and_then(|jitter| {
            let mut draws = Draws::for_operation(key, Operation::ColorJitter);
            (draws.unit() < jitter.p).then(|| Jitter::draw(jitter, &mut draws))
        });
        let is_grey = Draws::for_operation(key, Operation::RandomGrayscale).unit() < image.random_grayscale;
        let blur = image.gaussian_blur.as_ref().and_then(|blur| {
            let mut draws = Draws::for_operation(key, Operation::GaussianBlur);
            let is_drawn = draws.unit() < blur.p;
            is_drawn.then(|| Blur { kernel_size: blur.kernel_size, sigma: draws.uniform(blur.sigma) })
        });
        let erased = image.random_erasing.as_ref().and_then(|erasing| {
            let mut draws = Draws::for_operation(key, Operation::RandomErasing);
            (draws.unit() < erasing.p).then(|| Erased::draw(erasing, size, &mut draws)).flatten()
        });
        let steps = PixelOperation::draw_steps(&image.steps, key);
        Effects {
            augment: image.auto_augment.map(|augment| (augment, key)),
            jitter,
            is_grey,
            blur,
            steps,
            erased,
        }
    }

    /// Returns an error if the image is too small for its blur.
    pub(super) fn check(&self, Size { height, width }: Size) -> Result<()> {
        match self.blur {
            Some(Blur { kernel_size, .. }) if kernel_size / 2 >= height.min(width) => Err(bad_row(format!(
                "a blur with a kernel of {kernel_size} pixels for an image of {width}x{height}"
            ))
            .hint("half of the kernel must be shorter than either side")),
            _ => Ok(()),
        }
    }

    /// Whether [`apply`](Self::apply) would leave the pixels unchanged.
    pub(super) fn keep_pixels(&self) -> bool {
        let is_still = self.augment.is_none() && self.steps.iter().all(Option::is_none);
        is_still && self.jitter.is_none() && !self.is_grey && self.blur.is_none()
    }

    /// Changes interleaved pixels of an image of this size, which must have passed [`check`](Self::check).
    pub(super) fn apply(&self, pixels: &mut [u8], size: Size, channels: usize, scratch: &mut EffectScratch) {
        if let Some((augment, key)) = &self.augment {
            let draws = &mut Draws::for_operation(*key, Operation::AutoAugment);
            let EffectScratch { mixture: sums, still, .. } = scratch;
            match policy::draw(augment, size, draws) {
                DrawnPolicy::Operations(operations) => {
                    operations.into_iter().for_each(|it| it.apply(pixels, size, channels, still));
                }
                DrawnPolicy::Mixture(mixture) => mixture.apply(pixels, size, channels, sums, still),
            }
        }
        let jitter = self.jitter.iter().flat_map(|jitter| jitter.0).flatten();
        color::change(jitter.chain(self.is_grey.then_some(ColourChange::Grey)), pixels, channels);
        if let Some(Blur { kernel_size, sigma }) = self.blur {
            scratch.blur.blur(pixels, size, channels, kernel_size as usize, sigma);
        }
        for operation in self.steps.iter().flatten() {
            operation.apply(pixels, size, channels, &mut scratch.still);
        }
    }
}

impl Jitter {
    /// Draws the order and the factors. Factors that are not used are drawn too, so that turning one change
    /// off does not alter the others.
    fn draw(jitter: &ColorJitter, draws: &mut Draws) -> Jitter {
        let mut order = [0, 1, 2, 3];
        for last in (1..JITTERS).rev() {
            order.swap(last, draws.below(last as u32 + 1) as usize);
        }
        let mut around_one = |amount: f64| draws.uniform(((1.0 - amount).max(0.0), 1.0 + amount));
        let (brightness, contrast) = (around_one(jitter.brightness), around_one(jitter.contrast));
        let saturation = around_one(jitter.saturation);
        let hue = draws.uniform((-jitter.hue, jitter.hue));
        let changes = [
            (jitter.brightness > 0.0).then_some(ColourChange::Brightness(brightness)),
            (jitter.contrast > 0.0).then_some(ColourChange::Contrast(contrast)),
            (jitter.saturation > 0.0).then_some(ColourChange::Saturation(saturation)),
            (jitter.hue > 0.0).then_some(ColourChange::Hue(hue)),
        ];
        Jitter(order.map(|at| changes[at]))
    }
}

/// The most bytes that the buffers take for the changes of an image.
pub(super) fn effect_bytes(image: &Image) -> u64 {
    let Size { height, width } = image.size;
    let blur = image.gaussian_blur;
    let blur = blur.map_or(0, |blur| blur::bytes(image.size, image.channels(), blur.kernel_size));
    let copies = u64::from(image.auto_augment.is_some() || image.steps.sharpness.is_some());
    let levels = u64::from(height) * u64::from(width) * image.channels() as u64;
    let is_mixed = image.auto_augment.is_some_and(|augment| matches!(augment.policy, Policy::AugMix(_)));
    blur + copies * levels + if is_mixed { MixtureScratch::most_bytes(levels) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(image: &Image, key: u64) -> Effects {
        Effects::draw(image, image.size(), RowKey(key))
    }

    #[test]
    fn factors_are_within_their_ranges_and_come_in_every_order() {
        let image = Image::resize(8, 8).color_jitter(0.4, 1.5, 0.2, 0.1);
        let mut orders = std::collections::HashSet::new();
        for key in 0..2_000 {
            let changes = drawn(&image, key).jitter.unwrap().0.map(Option::unwrap);
            orders.insert(changes.map(|change| match change {
                ColourChange::Brightness(factor) => {
                    assert!((0.6..1.4).contains(&factor));
                    'b'
                }
                ColourChange::Contrast(factor) => {
                    assert!((0.0..2.5).contains(&factor));
                    'c'
                }
                ColourChange::Saturation(factor) => {
                    assert!((0.8..1.2).contains(&factor));
                    's'
                }
                ColourChange::Hue(turns) => {
                    assert!((-0.1..0.1).contains(&turns));
                    'h'
                }
                ColourChange::Grey => unreachable!(),
            }));
        }
        assert_eq!(orders.len(), 24);
    }

    #[test]
    fn one_effect_does_not_change_what_another_draws() {
        let erasing = Image::resize(32, 32).random_erasing(0.7);
        let all = erasing.clone().color_jitter_with(0.8, 0.4, 0.4, 0.4, 0.1).random_grayscale(0.2);
        let all = all.gaussian_blur_with(0.5, 5, (0.1, 2.0));
        let mut counts = [0; 4];
        for key in 0..1_000 {
            let effects = drawn(&all, key);
            assert_eq!(effects.erased, drawn(&erasing, key).erased);
            let which =
                [effects.jitter.is_some(), effects.is_grey, effects.blur.is_some(), effects.erased.is_some()];
            for (count, is_drawn) in counts.iter_mut().zip(which) {
                *count += i32::from(is_drawn);
            }
        }
        for (count, expected) in counts.into_iter().zip([800, 200, 500, 700]) {
            assert!((count - expected).abs() < 60, "{count} of {expected}");
        }
    }
}
