//! Parquet's hybrid of runs: numbers of up to 32 bits, repeated or packed side by side. Levels and the indices into a dictionary
//! are stored so ("RLE" in the format's documents, of which bit-packing is a part).

use std::cmp::min;
use std::marker::PhantomData;

use crate::reader::pages::varint;

/// Numbers in a group of a packed run.
pub(super) const GROUP: usize = 8;

/// Numbers that are unpacked at a time: few enough for the first-level cache.
const STEP: usize = 128;

/// Groups for which the room of a whole step is not cleared: the pages of a small row group have no more.
const FEW_GROUPS: usize = 2;

/// The word that packed numbers are read through, and that each becomes. The narrower one is twice as fast where the numbers
/// fit it.
pub(super) trait Word: Copy + Default + 'static {
    /// The widest numbers that fit the word wherever they begin in its first byte.
    const WIDEST: u32;
    /// Functions by the width of the numbers: where the compiler knows it, it knows all shifts.
    const UNPACK: &'static [Unpack<Self>];
}

/// Unpacks groups of numbers of one width.
type Unpack<T> = fn(&[u8], &mut [[T; GROUP]]);

/// Bytes of the window in which each number of a group has a word.
const fn window_bytes(widest: usize, word: usize) -> usize {
    (GROUP - 1) * widest / 8 + word
}

/// A word of a type, with a function for each width up to the widest.
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

/// Numbers of a width, in words of a type.
struct Packed<T, const WIDTH: usize>(PhantomData<T>);

word!(u32, 25, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25);
word!(
    u64, 56,
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
    29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56
);

/// The runs of a stream, until it ends or makes no sense.
pub(super) struct Runs<'a> {
    rest: &'a [u8],
    width: u32,
}

/// Neighbouring numbers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run<'a> {
    /// One number, as many times.
    Repeated(u32, usize),
    /// As many numbers, packed.
    Packed(&'a [u8], usize),
}

impl<'a> Runs<'a> {
    /// Of numbers of `width` bits; `None` if they are wider than 32.
    pub(super) fn new(bytes: &'a [u8], width: u32) -> Option<Self> {
        (width <= u32::BITS).then_some(Runs { rest: bytes, width })
    }

    /// The next run, of at most `most` numbers.
    pub(super) fn next(&mut self, most: usize) -> Option<Run<'a>> {
        let header = varint(&mut self.rest)?;
        let count = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let (value, rest) = self.rest.split_at_checked(self.width.div_ceil(8) as usize)?;
            self.rest = rest;
            let mut word = [0; 4];
            word[..value.len()].copy_from_slice(value);
            (count > 0).then_some(Run::Repeated(u32::from_le_bytes(word), min(count, most)))
        } else {
            let (packed, rest) = self.rest.split_at_checked(count.checked_mul(self.width as usize)?)?;
            self.rest = rest;
            (count > 0).then_some(Run::Packed(packed, min(count.checked_mul(GROUP)?, most)))
        }
    }

    /// Calls `each` for every run of the first `count` numbers; `None` if there are fewer.
    pub(super) fn each(mut self, count: usize, mut each: impl FnMut(Run<'a>) -> Option<()>) -> Option<()> {
        let mut left = count;
        while left > 0 {
            let run = self.next(left)?;
            each(run)?;
            left -= run.len();
        }
        Some(())
    }
}

impl Run<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Run::Repeated(_, count) | Run::Packed(_, count) => *count,
        }
    }
}

/// Calls `each` for the first `count` numbers of `width` bits, [`STEP`] at a time, until that returns `None`. `None` as well
/// if there are too few bytes, or a word does not hold such a number.
pub(super) fn unpack<T: Word>(
    packed: &[u8],
    width: u32,
    count: usize,
    mut each: impl FnMut(&[T]) -> Option<()>,
) -> Option<()> {
    let unpack = *T::UNPACK.get(width as usize)?;
    // A group takes as many bytes as one of its numbers has bits.
    if count.div_ceil(GROUP).checked_mul(width as usize)? > packed.len() {
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

/// The 57 bits and more from a bit on.
pub(super) fn bits(bytes: &[u8], at: usize) -> u64 {
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
    fn runs_are_repeated_or_packed() {
        // Five times 3, then two groups of two bits.
        let bytes = [10, 3, 5, 0b11_10_01_00, 0, 0, 1];
        let mut runs = Runs::new(&bytes, 2).unwrap();
        assert_eq!(runs.next(100), Some(Run::Repeated(3, 5)));
        assert_eq!(runs.next(9), Some(Run::Packed(&bytes[3..], 9)));
        assert_eq!(runs.next(1), None);
        let mut lengths = Vec::new();
        let each = |count, lengths: &mut Vec<usize>| {
            Runs::new(&bytes, 2).unwrap().each(count, |run| {
                lengths.push(run.len());
                Some(())
            })
        };
        assert_eq!(each(20, &mut lengths), Some(()));
        assert_eq!(lengths, [5, 15]);
        assert_eq!(each(22, &mut lengths), None);
    }

    #[test]
    fn runs_that_are_cut_off_or_empty_end_the_stream() {
        // Without its value, without its bytes, without end, and of no numbers.
        for bytes in [
            &[10][..],
            &[5, 0],
            &[0x80; 11],
            &[0, 1],
            &[1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(Runs::new(bytes, 2).unwrap().next(100), None, "{bytes:?}");
        }
        assert!(Runs::new(&[], 33).is_none());
    }

    #[test]
    fn bits_past_the_end_are_zero() {
        assert_eq!(bits(&[0xff, 0x01], 7), 0b11);
        assert_eq!(bits(&[0xff; 9], 4) & 0xffff_ffff, 0xffff_ffff);
        assert_eq!(bits(&[], 70), 0);
    }
}
