//! The weighted sum of two images, as MixUp and AugMix make it.

/// A float to which all whole numbers up to 2^22 can be added exactly, while the sum has no bits for
/// fractions: adding it to a number rounds this number.
const ROUNDING: f32 = (1_u32 << (f32::MANTISSA_DIGITS - 1)) as f32;

/// Writes `weights[0]` times `own` plus `weights[1]` times `other` to `blended`. The sum is computed with
/// 32-bit floats and rounded to the nearest level, half to even. All three have one length; weights are at
/// least 0, and their sum is 1.
pub fn blend(own: &[u8], other: &[u8], weights: [f32; 2], blended: &mut [u8]) {
    for ((blended, own), other) in blended.iter_mut().zip(own).zip(other) {
        let sum = weights[0] * f32::from(*own) + weights[1] * f32::from(*other);
        // The lowest bits of the rounded sum are the level. `round_ties_even` would be a call on processors
        // without SSE 4.1.
        *blended = (sum + ROUNDING).to_bits() as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_of_levels_are_rounded_half_to_even() {
        let other: Vec<u8> = (0..=255).collect();
        let mut blended = [0; 256];
        for lam in [0.0, 0.25, 0.3, 0.5, 1.0 - f32::EPSILON, 1.0] {
            let weights = [lam, 1.0 - lam];
            for own in 0..=255 {
                blend(&[own; 256], &other, weights, &mut blended);
                for (other, found) in other.iter().zip(blended) {
                    let sum = weights[0] * f32::from(own) + weights[1] * f32::from(*other);
                    assert_eq!(f32::from(found), sum.round_ties_even(), "{lam} of {own} and {other}");
                }
            }
        }
    }
}
