//! The constants for converting a group of 8-bit levels with vector instructions.
//!
//! A group has as many levels as three registers have results. Each register holds the results of one plane,
//! or the three hold consecutive results. A quotient `x / y` is computed as `x * h + x * r` with one
//! rounding, where `h` is `1 / y` as a float, and `r` is the error of `h`. This nearly always gives the
//! rounded quotient; if it does not for one of the 256 levels, the [table](super::table) is used instead.

use super::super::pixel_type::{Layout, PixelType};
use super::super::spec::{LUMA, Normalize, RGB};
use super::values::{FinishKey, WHITE};

/// The number of registers that the results of a group fill.
pub(super) const VECTORS: usize = RGB;

/// The inverse of `y` as two floats: the one nearest to `1 / y`, and the one nearest to its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inverse {
    pub(super) nearest: f32,
    pub(super) rest: f32,
}

impl Inverse {
    pub(super) fn new(divisor: f32) -> Inverse {
        let exact = f64::from(divisor).recip();
        let nearest = exact as f32;
        Inverse { nearest, rest: (exact - f64::from(nearest)) as f32 }
    }
}

/// The constants for converting a group of levels with registers of `LANES` floats.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct LevelGroup<const LANES: usize> {
    /// For each result, the index of its level in the group.
    pub(super) places: [[u32; LANES]; VECTORS],
    pub(super) mean: [[f32; LANES]; VECTORS],
    /// The inverse of the standard deviation, as two floats: `inverse`, and its error `rest`.
    pub(super) inverse: [[f32; LANES]; VECTORS],
    pub(super) rest: [[f32; LANES]; VECTORS],
    /// The inverse of [`WHITE`].
    pub(super) white: Inverse,
    pub(super) pixel_type: PixelType,
    /// Whether each register holds the results of one plane.
    in_planes: bool,
    channels: usize,
}

impl<const LANES: usize> LevelGroup<LANES> {
    /// The number of levels of a group.
    pub(super) const LEVELS: usize = VECTORS * LANES;

    pub(super) fn new(key: &FinishKey) -> LevelGroup<LANES> {
        let in_planes = key.channels != LUMA && key.layout == Layout::Nchw;
        let place = |vector: usize, lane: usize| match in_planes {
            true => lane * VECTORS + vector,
            false => vector * LANES + lane,
        };
        let Normalize { mean, std } =
            key.normalize.unwrap_or(Normalize { mean: [0.0; RGB], std: [1.0; RGB] });
        let inverses = std.map(Inverse::new);
        let filled = |value: &dyn Fn(usize) -> f32| {
            std::array::from_fn(|vector| {
                std::array::from_fn(|lane| value(place(vector, lane) % key.channels))
            })
        };
        LevelGroup {
            places: std::array::from_fn(|vector| std::array::from_fn(|lane| place(vector, lane) as u32)),
            mean: filled(&|channel| mean[channel]),
            inverse: filled(&|channel| inverses[channel].nearest),
            rest: filled(&|channel| inverses[channel].rest),
            white: Inverse::new(WHITE),
            pixel_type: key.pixel_type,
            in_planes,
            channels: key.channels,
        }
    }

    /// Where to write the results, for pixels from number `first` of an image with `count` pixels.
    pub(super) fn placed(&self, first: usize, count: usize) -> GroupTarget {
        let bytes = self.pixel_type.bytes();
        let start = |vector: usize| match self.in_planes {
            true => (vector * count + first) * bytes,
            false => (first * self.channels + vector * LANES) * bytes,
        };
        let step = if self.in_planes { LANES } else { Self::LEVELS } * bytes;
        GroupTarget { starts: std::array::from_fn(start), step }
    }
}

/// Where to write the results of consecutive groups in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupTarget {
    /// For each register, the offset in the slot of its results for the first group, in bytes.
    pub(super) starts: [usize; VECTORS],
    /// The distance in the slot between the results of a register for one group and for the next group, in
    /// bytes.
    pub(super) step: usize,
}

impl GroupTarget {
    /// Whether a slot has room for the results of `groups` groups, with `bytes` bytes for each register.
    pub(super) fn fits(&self, groups: usize, bytes: usize, slot: &[u8]) -> bool {
        let last = groups.saturating_sub(1) * self.step;
        self.starts.iter().all(|start| start + last + bytes <= slot.len())
    }
}
