//! Computes the weights of the bilinear filter along one axis, equal to those of `fast_image_resize` to the
//! last bit.

/// The number of weights that one AVX-512 instruction multiplies with levels and adds up.
pub(super) const TAPS: usize = 4;

/// The number of target pixels whose weights are computed together.
pub(super) const GROUP: usize = 8;

/// The most source pixels that may contribute to a target pixel, for shrinking by a factor of up to 8. If a
/// scale needs more, no weights are computed.
const MAX_REACHED: usize = 17;

/// The number of bits of a rounded weight, without its sign.
const WEIGHT_BITS: u32 = 15;
const MAX_PRECISION: u32 = 21;

/// The weights along one axis.
#[derive(Default)]
pub(super) struct LineWeights {
    /// The first pixel that contributes to each target pixel.
    pub(super) firsts: Vec<u32>,
    /// The rounded weights of each target pixel, in groups of four. The last group is filled up with zeros.
    pub(super) values: Vec<[i16; TAPS]>,
    /// The number of groups of four weights that a target pixel has.
    pub(super) fours: usize,
    /// The number of pairs of weights of each target pixel, without pairs at the end that are zero for all
    /// pixels.
    pub(super) pairs: usize,
    /// The number of fractional bits of a weight.
    pub(super) precision: u32,
    /// The largest rounded weight of all target pixels.
    pub(super) largest: i16,
    /// The weights before rounding, for groups of eight target pixels: the first weights of all pixels of a
    /// group, then their second weights, and so on.
    exact: Vec<[f64; GROUP]>,
}

impl LineWeights {
    /// Computes the weights for resizing a part of a line to `count` pixels. The line has `length` pixels,
    /// and the part begins at `from` and is `extent` long. Returns `None` for an empty line and for scales
    /// above the limit.
    #[inline(always)]
    pub(super) fn set(&mut self, length: u32, from: f64, extent: f64, count: u32) -> Option<()> {
        let scale = (from + extent - from) / f64::from(count);
        if length == 0 || count == 0 || scale.is_nan() || scale <= 0.0 {
            return None;
        }
        let radius = scale.max(1.0);
        let reached = radius.ceil() as usize * 2 + 1;
        if reached > MAX_REACHED {
            return None;
        }
        let filter = Filter { radius, in_radius: 1.0 / radius, end: f64::from(length) };
        self.firsts.clear();
        self.exact.clear();
        self.exact.resize(reached * (count as usize).div_ceil(GROUP), [0.0; GROUP]);
        let (mut most, mut largest) = (0, [0.0; GROUP]);
        for (group, weights) in self.exact.chunks_exact_mut(reached).enumerate() {
            let mut centres = [0.0; GROUP];
            for (at, centre) in centres.iter_mut().enumerate() {
                // The last group of eight is filled up by repeating the last pixel.
                let pixel = (group * GROUP + at).min(count as usize - 1) as f64;
                *centre = from + (pixel + 0.5) * scale;
            }
            let (firsts, used) = filter.weigh(&centres, weights)?;
            most = most.max(used);
            for weights in weights {
                for (largest, weight) in largest.iter_mut().zip(weights) {
                    *largest = if *weight > *largest { *weight } else { *largest };
                }
            }
            self.firsts.extend(firsts);
        }
        self.firsts.truncate(count as usize);
        let largest = largest.into_iter().fold(0.0, f64::max);
        let fits = |bits: &u32| rounded_up(largest * f64::from(1u32 << (bits + 1))) >= 1 << WEIGHT_BITS;
        self.precision = (0..MAX_PRECISION).find(fits).unwrap_or(MAX_PRECISION);
        self.fours = most.div_ceil(TAPS);
        self.pairs = most.div_ceil(2);
        self.largest = rounded_up(largest * f64::from(1u32 << self.precision)) as i16;
        self.round(reached, count as usize);
        Some(())
    }

    /// Rounds the weights of `count` target pixels. `reached` is the number of unrounded weights of each
    /// pixel.
    #[inline(always)]
    fn round(&mut self, reached: usize, count: usize) {
        let LineWeights { values, exact, fours, precision, .. } = self;
        let scale = f64::from(1u32 << *precision);
        values.clear();
        values.resize(*fours * count, [0; TAPS]);
        let groups = values.chunks_mut(*fours * GROUP).zip(exact.chunks_exact(reached));
        for (values, weights) in groups {
            for (tap, weights) in weights.iter().enumerate().take(*fours * TAPS) {
                let rounded = weights.map(|weight| rounded_up(weight * scale) as i16);
                for (values, weight) in values.chunks_exact_mut(*fours).zip(rounded) {
                    values[tap / TAPS][tap % TAPS] = weight;
                }
            }
        }
    }

    /// The rounded weights of the target pixel `at`.
    #[inline(always)]
    pub(super) fn for_pixel(&self, at: usize) -> &[[i16; TAPS]] {
        &self.values[at * self.fours..(at + 1) * self.fours]
    }

    /// The number of bytes that the weights take.
    pub(super) fn bytes(&self) -> u64 {
        let values = self.values.capacity() * size_of::<[i16; TAPS]>();
        (self.firsts.capacity() * size_of::<u32>()
            + self.exact.capacity() * size_of::<[f64; GROUP]>()
            + values) as u64
    }
}

/// The filter along one axis.
struct Filter {
    /// The distance from its centre that the filter covers, in source pixels.
    radius: f64,
    in_radius: f64,
    /// The number of source pixels of the line.
    end: f64,
}

impl Filter {
    /// Computes the weights of a group of target pixels with these centres; they add up to 1 for each pixel.
    /// Returns the first source pixel that contributes to each target pixel, and the number of weights of a
    /// pixel, without those at the end that are zero for all pixels of the group.
    #[inline(always)]
    fn weigh(&self, centres: &[f64; GROUP], weights: &mut [[f64; GROUP]]) -> Option<([u32; GROUP], usize)> {
        let Filter { radius, in_radius, end } = *self;
        let weight = |centre: f64, pixel: f64| {
            let distance = ((pixel - (centre - 0.5)) * in_radius).abs();
            let is_reached = distance < 1.0 && pixel < (centre + radius).ceil().min(end);
            if is_reached { 1.0 - distance } else { 0.0 }
        };
        let mut starts = [0.0; GROUP];
        for (start, centre) in starts.iter_mut().zip(centres) {
            let reached = (centre - radius).floor().max(0.0);
            *start = if weight(*centre, reached) == 0.0 { reached + 1.0 } else { reached };
        }
        let firsts = starts.map(|start| whole_bits(start) as u32);
        let (mut sums, mut used) = ([0.0; GROUP], 0);
        for (tap, weights) in weights.iter_mut().enumerate() {
            let mut any = 0.0;
            for (at, to) in weights.iter_mut().enumerate() {
                *to = weight(centres[at], starts[at] + tap as f64);
                sums[at] += *to;
                any += *to;
            }
            used = if any == 0.0 { used } else { tap + 1 };
        }
        for weights in weights.iter_mut() {
            for (weight, sum) in weights.iter_mut().zip(sums) {
                *weight /= sum;
            }
        }
        sums.iter().all(|sum| *sum > 0.0).then_some((firsts, used))
    }
}

/// Returns bits whose lower part is the given whole number, which must not be negative. Adding 2^52 moves the
/// number's bits to the end of the float's mantissa.
#[inline(always)]
fn whole_bits(number: f64) -> u64 {
    (number + (1u64 << (f64::MANTISSA_DIGITS - 1)) as f64).to_bits()
}

/// Rounds a number that is not negative; a half is rounded up.
#[inline(always)]
fn rounded_up(number: f64) -> i32 {
    let whole = number.trunc();
    let up = (2.0 * (number - whole)).trunc();
    whole_bits(whole + up) as i32
}
