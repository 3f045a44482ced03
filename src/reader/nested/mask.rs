//! Masks: words with a bit for each of the levels that are examined together.

/// The number of levels that are examined together.
pub(super) const STEP: usize = u64::BITS as usize;

/// A one in the lowest bit of each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Multiplying eight bytes that are 0 or 1 by this number gathers them in the highest byte, a bit each.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// The greatest level that fits into a byte with a bit to spare, which comparisons need.
pub(super) const HIGHEST: u8 = 0x7f;

/// A bit for each level that is at most `most`, with the bit of the first level lowest. Eight levels are
/// compared at once, by the highest bits of `0x80 + most - level`. No level may be above [`HIGHEST`].
pub(super) fn at_most(levels: &[u8; STEP], most: u8) -> u64 {
    let limit = ONES * u64::from(most.min(HIGHEST) | !HIGHEST);
    let (eights, _) = levels.as_chunks::<8>();
    eights.iter().enumerate().fold(0, |mask, (at, eight)| {
        let passed = (limit - u64::from_le_bytes(*eight)) >> 7 & ONES;
        mask | (passed.wrapping_mul(GATHER) >> 56) << (8 * at)
    })
}

/// The most bits of a number that [`spread_eight`] takes.
pub(super) const WIDEST: u32 = 4;

/// Unpacks eight numbers of `width` bits, the first in the lowest bits, to a byte each.
pub(super) fn spread_eight(packed: u64, width: u32) -> u64 {
    let low = |bits: u32, each: u64| ((1u64 << bits) - 1) * each;
    let packed = packed & low(8 * width, 1);
    let halves = (packed | packed << (32 - 4 * width)) & low(4 * width, 0x0000_0001_0000_0001);
    let pairs = (halves | halves << (16 - 2 * width)) & low(2 * width, 0x0001_0001_0001_0001);
    (pairs | pairs << (8 - width)) & low(width, ONES)
}

/// A word in which the lowest `count` bits are ones.
pub(super) fn lowest(count: usize) -> u64 {
    match count {
        0..STEP => (1 << count) - 1,
        _ => u64::MAX,
    }
}

/// Collects the bits of `bits` where `of` has ones, and puts them side by side from the lowest bit on.
pub(super) fn gathered(bits: u64, of: u64) -> u64 {
    let (mut rest, mut gathered, mut at) = (of, 0, 0);
    while rest > 0 {
        gathered |= (bits >> rest.trailing_zeros() & 1) << at;
        at += 1;
        rest &= rest - 1;
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_a_bit_for_each_level() {
        let levels = std::array::from_fn(|at| (at * 7 % 5) as u8);
        for most in [0, 1, 2, 3, 4, 5, 127, 255] {
            let expected = (0..STEP).filter(|at| levels[*at] <= most).map(|at| 1 << at).sum::<u64>();
            assert_eq!(at_most(&levels, most), expected);
        }
        assert_eq!([at_most(&[HIGHEST; STEP], 126), at_most(&[HIGHEST; STEP], 127)], [0, u64::MAX]);
        assert_eq!([lowest(0), lowest(3), lowest(63), lowest(64)], [0, 7, u64::MAX >> 1, u64::MAX]);
        assert_eq!(gathered(0b1011_0110, 0b1101_0011), 0b10110);
        assert_eq!(gathered(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn packed_numbers_become_bytes() {
        for width in 1..=WIDEST {
            let numbers: [u8; 8] = std::array::from_fn(|at| (at * 5 + 3) as u8 & ((1 << width) - 1));
            let packed = numbers.iter().rev().fold(0, |packed, number| packed << width | u64::from(*number));
            // The bits after the eight numbers do not matter.
            let more = packed | (u64::MAX << (8 * width - 1) << 1);
            assert_eq!(spread_eight(more, width).to_le_bytes(), numbers, "{width} bits");
        }
    }
}
