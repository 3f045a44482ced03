//! The weights of the filter along one axis: those of `fast_image_resize`, to the last bit.

/// Weights that are multiplied together.
pub(super) const TAPS: usize = 4;

/// Bits of a weight's sign and value, and the most after the point.
const WEIGHT_BITS: u32 = 15;
const MOST_PRECISION: u32 = 21;

/// The weights of a line.
#[derive(Default)]
pub(super) struct Weights {
    /// The first pixel that each target pixel is made of.
    pub(super) firsts: Vec<u32>,
    /// The weights of each, in fours, and zeros after the last one that it has.
    pub(super) values: Vec<[i16; TAPS]>,
    /// Fours of a target pixel.
    pub(super) fours: usize,
    /// Pairs of a target pixel, without a last one that has zeros alone for all of them.
    pub(super) pairs: usize,
    /// Bits after the point of a weight.
    pub(super) precision: u32,
    /// The weights of each target pixel before they are rounded.
    exact: Vec<f64>,
}

impl Weights {
    /// The weights of `count` pixels that a part of a line of `length` pixels becomes. `None` where there is nothing to weigh.
    #[inline(always)]
    pub(super) fn set(&mut self, length: u32, (from, extent): (f64, f64), count: u32) -> Option<()> {
        let scale = (from + extent - from) / f64::from(count);
        if length == 0 || count == 0 || scale.is_nan() || scale <= 0.0 {
            return None;
        }
        let radius = scale.max(1.0);
        let in_radius = 1.0 / radius;
        let reached = radius.ceil() as usize * 2 + 1;
        self.firsts.clear();
        self.exact.clear();
        self.exact.resize(reached * count as usize, 0.0);
        let (mut most, mut largest) = (0, 0.0f64);
        for (at, weights) in self.exact.chunks_exact_mut(reached).enumerate() {
            let centre = from + (at as f64 + 0.5) * scale;
            let first = (centre - radius).floor().max(0.0) as u32;
            let end = (centre + radius).ceil().min(f64::from(length)) as u32;
            let centre = centre - 0.5;
            let weight = |pixel: u32| {
                let distance = ((f64::from(pixel) - centre) * in_radius).abs();
                if distance < 1.0 { 1.0 - distance } else { 0.0 }
            };
            let first = (first..end).find(|pixel| weight(*pixel) != 0.0)?;
            let (mut sum, mut used) = (0.0, 0);
            for (at, (to, pixel)) in weights.iter_mut().zip(first..end).enumerate() {
                *to = weight(pixel);
                sum += *to;
                used = if *to == 0.0 { used } else { at + 1 };
            }
            for weight in &mut weights[..used] {
                *weight /= sum;
                largest = largest.max(*weight);
            }
            most = most.max(used);
            self.firsts.push(first);
        }
        let fits = |bits: &u32| rounded_up(largest * f64::from(1u32 << (bits + 1))) >= 1 << WEIGHT_BITS;
        self.precision = (0..MOST_PRECISION).find(fits).unwrap_or(MOST_PRECISION);
        self.fours = most.div_ceil(TAPS);
        self.pairs = most.div_ceil(2);
        let scale = f64::from(1u32 << self.precision);
        self.values.clear();
        self.values.resize(self.fours * count as usize, [0; TAPS]);
        let rounded = self.values.chunks_exact_mut(self.fours.max(1)).map(<[_]>::as_flattened_mut);
        for (to, exact) in rounded.zip(self.exact.chunks_exact(reached)) {
            to.iter_mut().zip(exact).for_each(|(to, exact)| *to = rounded_up(exact * scale) as i16);
        }
        Some(())
    }

    /// The weights of one target pixel.
    #[inline(always)]
    pub(super) fn of(&self, at: usize) -> &[[i16; TAPS]] {
        &self.values[at * self.fours..(at + 1) * self.fours]
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let values = self.values.capacity() * size_of::<[i16; TAPS]>();
        (self.firsts.capacity() * size_of::<u32>() + self.exact.capacity() * size_of::<f64>() + values) as u64
    }
}

/// A number that is not negative, rounded; half is rounded up.
#[inline(always)]
fn rounded_up(number: f64) -> i32 {
    let whole = number as i32;
    whole + i32::from(number - f64::from(whole) >= 0.5)
}
