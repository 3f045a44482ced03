//! The kinds of operations of torchvision's automatic augmentations, and the ranges of their magnitudes.

use super::super::affine::Affine;
use super::super::draws::Draws;
use super::super::spec::{AutoAugment, Size};
use super::color::ColourChange;
use super::operation::PixelOperation;

/// The largest translation, as a share of the image's width or height.
const MOST_MOVED: f64 = 150.0 / 331.0;
/// The largest level of a channel.
const WHITE: f64 = 255.0;
/// The number of bits of a level of a channel.
const BITS: f32 = 8.0;

/// A kind of operation. The order is torchvision's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OperationKind {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

/// The largest magnitude of each kind of operation that has a magnitude.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    shear: f64,
    /// The largest translations along the width and the height, in pixels.
    translate: [f64; 2],
    rotate: f64,
    colour: f64,
    /// The most bits that posterize removes.
    bits: f64,
    /// The bits that the weakest posterize keeps.
    kept: f32,
}

impl Ranges {
    pub(super) fn for_size(size: Size) -> Ranges {
        let translate = [size.width, size.height].map(|side| MOST_MOVED * f64::from(side));
        Ranges { shear: 0.3, translate, rotate: 30.0, colour: 0.9, bits: 4.0, kept: BITS }
    }

    /// The ranges of `AugMix`.
    pub(super) fn of_mixture(size: Size) -> Ranges {
        let translate = [size.width, size.height].map(|side| f64::from(side) / 3.0);
        Ranges { translate, kept: 4.0, ..Ranges::for_size(size) }
    }

    /// The ranges of `TrivialAugmentWide`.
    pub(super) const WIDE: Ranges =
        Ranges { shear: 0.99, translate: [32.0; 2], rotate: 135.0, colour: 0.99, bits: 6.0, kept: BITS };
}

/// A magnitude, as its number among the magnitudes from the weakest to the strongest.
#[derive(Clone, Copy)]
pub(super) struct Strength {
    /// The number, counted from 0.
    pub(super) at: u32,
    pub(super) bins: u32,
}

impl OperationKind {
    /// Whether the magnitude is negated with probability 1/2.
    pub(super) fn is_signed(self) -> bool {
        use OperationKind::*;
        let is_moved = matches!(self, ShearX | ShearY | TranslateX | TranslateY | Rotate);
        is_moved || matches!(self, Brightness | Color | Contrast | Sharpness)
    }

    /// Magnitude number `at`, counted from 0, of `bins` magnitudes from the weakest to the strongest. It is
    /// computed with 32-bit floats as in torchvision, whose `linspace` multiplies and adds with a single
    /// rounding.
    pub(super) fn magnitude(self, ranges: &Ranges, at: u32, bins: u32) -> f64 {
        let last = bins - 1;
        let step = |from: f64, to: f64| {
            let (from, to) = (from as f32, to as f32);
            let step = (to - from) / last as f32;
            // As in `linspace`, the lower half of the magnitudes is computed from the first one, and the
            // upper half from the last one.
            f64::from(match at < bins / 2 {
                true => step.mul_add(at as f32, from),
                false => (-step).mul_add((last - at) as f32, to),
            })
        };
        match self {
            OperationKind::ShearX | OperationKind::ShearY => step(0.0, ranges.shear),
            OperationKind::TranslateX => step(0.0, ranges.translate[0]),
            OperationKind::TranslateY => step(0.0, ranges.translate[1]),
            OperationKind::Rotate => step(0.0, ranges.rotate),
            OperationKind::Brightness
            | OperationKind::Color
            | OperationKind::Contrast
            | OperationKind::Sharpness => step(0.0, ranges.colour),
            OperationKind::Posterize => {
                let removed = at as f32 / (f64::from(last) / ranges.bits) as f32;
                f64::from((ranges.kept - removed).round_ties_even())
            }
            OperationKind::Solarize => step(1.0, 0.0),
            OperationKind::Identity
            | OperationKind::AutoContrast
            | OperationKind::Equalize
            | OperationKind::Invert => 0.0,
        }
    }

    /// Draws the sign, and returns the operation with magnitude number `at` of `bins` for an image of this
    /// size; `None` if it changes nothing.
    pub(super) fn draw(
        self,
        ranges: &Ranges,
        Strength { at, bins }: Strength,
        size: Size,
        augment: &AutoAugment,
        draws: &mut Draws,
    ) -> Option<PixelOperation> {
        let magnitude = self.magnitude(ranges, at, bins);
        let is_negative = self.is_signed() && draws.unit() < 0.5;
        self.operation(if is_negative { -magnitude } else { magnitude }, size, augment)
    }

    /// The operation with this magnitude for an image of this size; `None` if it changes nothing.
    pub(super) fn operation(
        self,
        magnitude: f64,
        size: Size,
        augment: &AutoAugment,
    ) -> Option<PixelOperation> {
        let moved = |rows| {
            let AutoAugment { interpolation, fill, .. } = *augment;
            PixelOperation::Move(Affine { rows, interpolation, fill })
        };
        let [width, height] = [size.width, size.height].map(f64::from);
        Some(match self {
            OperationKind::Identity => return None,
            // The shears are about the upper or left border, not about the centre, so that border stays in
            // place.
            OperationKind::ShearX => moved([[1.0, magnitude, magnitude * height / 2.0], [0.0, 1.0, 0.0]]),
            OperationKind::ShearY => moved([[1.0, 0.0, 0.0], [magnitude, 1.0, magnitude * width / 2.0]]),
            OperationKind::TranslateX => moved([[1.0, 0.0, -magnitude.trunc()], [0.0, 1.0, 0.0]]),
            OperationKind::TranslateY => moved([[1.0, 0.0, 0.0], [0.0, 1.0, -magnitude.trunc()]]),
            OperationKind::Rotate => {
                let (sin, cos) = magnitude.to_radians().sin_cos();
                moved([[cos, -sin, 0.0], [sin, cos, 0.0]])
            }
            OperationKind::Brightness => PixelOperation::Colour(ColourChange::Brightness(1.0 + magnitude)),
            OperationKind::Color => PixelOperation::Colour(ColourChange::Saturation(1.0 + magnitude)),
            OperationKind::Contrast => PixelOperation::Colour(ColourChange::Contrast(1.0 + magnitude)),
            OperationKind::Sharpness => PixelOperation::Sharpness(1.0 + magnitude),
            OperationKind::Posterize => PixelOperation::Posterize(magnitude as u8),
            OperationKind::Solarize => PixelOperation::Solarize(WHITE * magnitude),
            OperationKind::AutoContrast => PixelOperation::AutoContrast,
            OperationKind::Equalize => PixelOperation::Equalize,
            OperationKind::Invert => PixelOperation::Invert,
        })
    }
}

#[cfg(test)]
mod tests;
