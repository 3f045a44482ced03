//! Random numbers that are functions of a seed and a count, by SplitMix64's finaliser. Nothing is kept
//! between draws.

/// The increment of SplitMix64: 2⁶⁴ divided by the golden ratio. It is odd, and its bits have no pattern.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `count`-th number of a stream, in (0, 1).
pub(crate) fn unit(seed: u64, stream: u64, count: u64) -> f64 {
    let bits = mix(mix(mix(seed.wrapping_add(GOLDEN)) ^ stream.wrapping_mul(GOLDEN)) ^ count);
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// The `count`-th number of a stream, from the standard normal distribution (Box-Muller).
pub(crate) fn normal(seed: u64, stream: u64, count: u64) -> f64 {
    let (radius, angle) = (unit(seed, stream, 2 * count), unit(seed, stream, 2 * count + 1));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(GOLDEN);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_streams_differ() {
        let mean = |stream| (0..10_000).map(|count| unit(7, stream, count)).sum::<f64>() / 10_000.0;
        assert!((mean(0) - 0.5).abs() < 0.02 && (mean(1) - 0.5).abs() < 0.02);
        assert_ne!(unit(7, 0, 3), unit(7, 1, 3));
        assert_ne!(unit(7, 0, 3), unit(8, 0, 3));
        assert_eq!(unit(7, 0, 3), unit(7, 0, 3));
    }
}
