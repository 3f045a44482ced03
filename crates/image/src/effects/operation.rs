//! One operation on the pixels of an image. It is drawn by an automatic augmentation, or requested on its own
//! as a single step.

use super::super::affine::Affine;
use super::super::depth::Depth;
use super::super::draws::{Draws, Operation, RowKey};
use super::super::spec::{Size, Steps};
use super::color::{self, ColourChange};
use super::levels;
use super::sharpen::sharpen;

/// The number of operations that can be single steps.
pub(super) const STEPS: usize = 6;

/// An operation on 8-bit pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PixelOperation {
    Move(Affine),
    Colour(ColourChange),
    Sharpness(f64),
    /// The number of high bits that are kept.
    Posterize(u8),
    /// The threshold: levels that are at least this number are inverted.
    Solarize(f64),
    AutoContrast,
    Equalize,
    Invert,
}

impl PixelOperation {
    /// Decides for each single step, with its own random draw, whether it is applied; `None` if it is not.
    pub(super) fn draw_steps(steps: &Steps, key: RowKey) -> [Option<PixelOperation>; STEPS] {
        let with = |p: f64, stream: Operation, operation: PixelOperation| {
            (p > 0.0 && Draws::for_operation(key, stream).unit() < p).then_some(operation)
        };
        let [sharpness, posterize] = [steps.sharpness, steps.posterize.map(|(bits, p)| (f64::from(bits), p))]
            .map(Option::unwrap_or_default);
        let solarize = steps.solarize.unwrap_or_default();
        [
            with(steps.invert, Operation::Invert, PixelOperation::Invert),
            with(posterize.1, Operation::Posterize, PixelOperation::Posterize(posterize.0 as u8)),
            with(solarize.1, Operation::Solarize, PixelOperation::Solarize(solarize.0)),
            with(sharpness.1, Operation::Sharpness, PixelOperation::Sharpness(sharpness.0)),
            with(steps.autocontrast, Operation::AutoContrast, PixelOperation::AutoContrast),
            with(steps.equalize, Operation::Equalize, PixelOperation::Equalize),
        ]
    }

    /// Applies the operation to interleaved pixels. If it needs the old pixels, it copies them to `still`.
    pub(super) fn apply(self, pixels: &mut [u8], size: Size, channels: usize, still: &mut Vec<u8>) {
        match self {
            PixelOperation::Move(affine) => {
                still.clear();
                still.extend_from_slice(pixels);
                affine.pixels(still, size, channels, Depth::Eight, pixels);
            }
            PixelOperation::Colour(change) => color::change([change], pixels, channels),
            PixelOperation::Sharpness(factor) => sharpen(pixels, size, channels, factor, still),
            PixelOperation::Posterize(bits) => levels::posterize(pixels, bits),
            PixelOperation::Solarize(threshold) => levels::solarize(pixels, threshold),
            PixelOperation::AutoContrast => levels::autocontrast(pixels, channels),
            PixelOperation::Equalize => levels::equalize(pixels, channels),
            PixelOperation::Invert => levels::invert(pixels),
        }
    }
}
