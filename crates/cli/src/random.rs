//! Reproducible random numbers by SplitMix64, which is small, fast and the same on every machine.

/// A stream of random numbers that a seed and an ordinal determine.
pub(crate) struct Random(u64);

/// The increment of SplitMix64: 2⁶⁴ over the golden ratio, which is odd and has no pattern in its bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Starts stream number `ordinal` of `seed`. Streams with neighbouring ordinals are unrelated.
    pub(crate) fn new(seed: u64, ordinal: u64) -> Self {
        Random(mix(mix(seed.wrapping_add(GOLDEN)) ^ ordinal.wrapping_mul(GOLDEN)))
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A random number in [0, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        const MANTISSA: u32 = f32::MANTISSA_DIGITS;
        (self.bits() >> (u64::BITS - MANTISSA)) as f32 / (1u32 << MANTISSA) as f32
    }

    /// A random number in [low, high).
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// A random number from 0 to n - 1, for n much smaller than 2³².
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f32) -> bool {
        self.unit() < p
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_even_and_reproducible() {
        let mean = |seed| {
            let mut random = Random::new(seed, 7);
            (0..10_000).map(|_| random.unit()).sum::<f32>() / 10_000.0
        };
        assert!((mean(1) - 0.5).abs() < 0.01);
        assert_eq!(mean(1), mean(1));
        assert_ne!(mean(1), mean(2));
    }
}
