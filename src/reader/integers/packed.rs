//! Unpacks numbers that are stored side by side with the same number of bits each, from the lowest bit on.

use std::cmp::min;
use std::marker::PhantomData;

/// Packed numbers are stored in groups of this many, so that a group takes whole bytes.
pub(in crate::reader) const GROUP: usize = 8;

/// The number of values that are unpacked at a time: few enough for the first-level cache.
const STEP: usize = 128;

/// At most this many groups are unpacked into a small buffer, since clearing a buffer of [`STEP`] numbers
/// would take longer. The pages of a small row group have no more groups.
const FEW_GROUPS: usize = 2;

/// An integer type into which packed numbers are unpacked, and through which their bytes are read. The
/// narrower type is twice as fast, if the numbers fit into it.
pub(in crate::reader) trait Word: Copy + Default + 'static {
    /// A number of up to this many bits fits into a word even if it begins at the last bit of its first byte.
    const WIDEST: u32;
    /// The unpacking function for each number of bits. If the compiler knows the number, it can precompute
    /// all shifts.
    const UNPACK: &'static [Unpack<Self>];
}

/// Unpacks groups of numbers of one width.
type Unpack<T> = fn(&[u8], &mut [[T; GROUP]]);

/// The number of bytes that must follow the beginning of a group, so that a whole word can be read at each of
/// its numbers.
const fn window_bytes(widest: usize, word: usize) -> usize {
    (GROUP - 1) * widest / 8 + word
}

/// Implements `Word` for an integer type, with an unpacking function for each of these numbers of bits.
macro_rules! word {
    ($word:ident, $widest:literal, $($width:literal)*) => {
        impl Word for $word {
            const WIDEST: u32 = $widest;
            const UNPACK: &'static [Unpack<Self>] = &[$(Packed::<$word, $width>::groups),*];
        }

        impl<const WIDTH: usize> Packed<$word, WIDTH> {
            fn groups(packed: &[u8], groups: &mut [[$word; GROUP]]) {
                for (at, numbers) in groups.iter_mut().enumerate() {
                    let packed = &packed[at * WIDTH..];
                    match packed.first_chunk() {
                        Some(window) => Self::group(window, numbers),
                        None => {
                            let mut window = [0; window_bytes($widest, size_of::<$word>())];
                            window[..packed.len()].copy_from_slice(packed);
                            Self::group(&window, numbers);
                        }
                    }
                }
            }

            fn group(window: &[u8; window_bytes($widest, size_of::<$word>())], numbers: &mut [$word; GROUP]) {
                for (at, number) in numbers.iter_mut().enumerate() {
                    let bit = at * WIDTH;
                    let word = window[bit / 8..].first_chunk().map_or(0, |word| $word::from_le_bytes(*word));
                    *number = (word >> (bit % 8)) & ((1 << WIDTH) - 1);
                }
            }
        }
    };
}

/// Unpacks numbers of one width into words of a type.
struct Packed<T, const WIDTH: usize>(PhantomData<T>);

word!(u32, 25, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25);
word!(
    u64, 56,
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
    29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56
);

/// Unpacks the first `count` numbers of `width` bits and passes them to `each`, [`STEP`] at a time. Stops and
/// returns `None` if `each` does. Also returns `None` if bytes are missing, or if a word cannot hold such a
/// number.
pub(in crate::reader) fn unpack<T: Word>(
    packed: &[u8],
    width: u32,
    count: usize,
    mut each: impl FnMut(&[T]) -> Option<()>,
) -> Option<()> {
    let unpack = *T::UNPACK.get(width as usize)?;
    // The last group may lack the bytes of its unused numbers.
    if count.checked_mul(width as usize)?.div_ceil(8) > packed.len() {
        return None;
    }
    if count <= GROUP * FEW_GROUPS {
        let mut numbers = [[T::default(); GROUP]; FEW_GROUPS];
        unpack(packed, &mut numbers[..count.div_ceil(GROUP)]);
        return each(&numbers.as_flattened()[..count]);
    }
    let mut numbers = [[T::default(); GROUP]; STEP / GROUP];
    for done in (0..count).step_by(STEP) {
        let wanted = min(STEP, count - done);
        unpack(&packed[done / GROUP * width as usize..], &mut numbers[..wanted.div_ceil(GROUP)]);
        each(&numbers.as_flattened()[..wanted])?;
    }
    Some(())
}

/// The bits from bit `at` on, at least 57 of them. After the end of `bytes`, all bits are zero.
pub(in crate::reader) fn bits(bytes: &[u8], at: usize) -> u64 {
    let tail = bytes.get(at >> 3..).unwrap_or_default();
    let word = match tail.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut padded = [0; size_of::<u64>()];
            padded[..tail.len()].copy_from_slice(tail);
            u64::from_le_bytes(padded)
        }
    };
    word >> (at & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(numbers: &[u64], width: u32) -> Vec<u8> {
        let mut bytes = vec![0u8; (numbers.len() * width as usize).div_ceil(8)];
        for (at, number) in numbers.iter().enumerate() {
            for bit in (0..width as usize).filter(|bit| number >> bit & 1 == 1) {
                let place = at * width as usize + bit;
                bytes[place / 8] |= 1 << (place % 8);
            }
        }
        bytes
    }

    /// Unpacks numbers of every width that a word holds.
    fn check<T: Word>()
    where
        u64: From<T>,
    {
        for width in 0..=T::WIDEST {
            let mask = (1u64 << width) - 1;
            let numbers: Vec<u64> =
                (1..=400u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let bytes = packed(&numbers, width);
            for count in [1, 7, 8, 9, 41, 128, 136, 399, 400] {
                let mut found = Vec::new();
                let whole = unpack(&bytes, width, count, |numbers: &[T]| {
                    found.extend(numbers.iter().map(|number| u64::from(*number)));
                    Some(())
                });
                assert_eq!((whole, &found[..]), (Some(()), &numbers[..count]), "{width} bits");
            }
            assert_eq!(unpack(&bytes, width, 401, |_: &[T]| Some(())).is_none(), width > 0);
        }
        assert!(unpack(&[0; 1_000], T::WIDEST + 1, 8, |_: &[T]| Some(())).is_none());
    }

    #[test]
    fn numbers_of_every_width_come_out_as_they_went_in() {
        check::<u32>();
        check::<u64>();
    }

    #[test]
    fn bits_past_the_end_are_zero() {
        assert_eq!(bits(&[0xff, 0x01], 7), 0b11);
        assert_eq!(bits(&[0xff; 9], 4) & 0xffff_ffff, 0xffff_ffff);
        assert_eq!(bits(&[], 70), 0);
    }
}
