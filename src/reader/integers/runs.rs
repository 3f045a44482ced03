//! Reads Parquet's hybrid encoding of runs: a run is one number of up to 32 bits that is repeated, or several
//! numbers that are packed side by side. Levels and indices into a dictionary are stored in this encoding.
//! (The format's documents call it "RLE", which includes bit-packing.)

use std::cmp::min;

use super::packed::GROUP;
use super::varint;

/// The runs of a stream, up to its end or to the first invalid run.
pub(in crate::reader) struct Runs<'a> {
    rest: &'a [u8],
    width: u32,
}

/// A run: consecutive numbers that are stored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reader) enum NumberRun<'a> {
    /// A number, and how often it is repeated.
    Repeated(u32, usize),
    /// Packed numbers, and how many there are.
    Packed(&'a [u8], usize),
}

impl<'a> Runs<'a> {
    /// The runs of numbers of `width` bits; `None` if they are wider than 32.
    pub(in crate::reader) fn new(bytes: &'a [u8], width: u32) -> Option<Self> {
        (width <= u32::BITS).then_some(Runs { rest: bytes, width })
    }

    /// The next run, of at most `most` numbers.
    pub(in crate::reader) fn next(&mut self, most: usize) -> Option<NumberRun<'a>> {
        // Some writers pad the end with zeros. They read as a run of no numbers, which counts as the end.
        let header = varint(&mut self.rest).filter(|&header| header > 1)?;
        let count = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let (value, rest) = self.rest.split_at_checked(self.width.div_ceil(8) as usize)?;
            self.rest = rest;
            let mut word = [0; 4];
            word[..value.len()].copy_from_slice(value);
            return Some(NumberRun::Repeated(u32::from_le_bytes(word), min(count, most)));
        }
        // A group of eight numbers takes as many bytes as one number has bits.
        let whole = count.checked_mul(self.width as usize)?;
        let length = min(whole, self.rest.len());
        // Some writers cut off the last group after the last number.
        let is_cut = length < whole;
        if is_cut && (count > most.div_ceil(GROUP) || most.checked_mul(self.width as usize)? > length * 8) {
            return None;
        }
        let (packed, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(NumberRun::Packed(packed, min(count.checked_mul(GROUP)?, most)))
    }

    /// Calls `each` for the runs that hold the first `count` numbers; `None` if there are fewer numbers.
    /// Bytes after them are ignored, because some writers fill the end with zeros or with one more run.
    pub(in crate::reader) fn each(
        &mut self,
        count: usize,
        mut each: impl FnMut(NumberRun<'a>) -> Option<()>,
    ) -> Option<()> {
        let mut left = count;
        while left > 0 {
            let run = self.next(left)?;
            each(run)?;
            left -= run.len();
        }
        Some(())
    }

    /// The bytes after the runs that were read so far.
    pub(in crate::reader) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl NumberRun<'_> {
    pub(in crate::reader) fn len(&self) -> usize {
        match self {
            NumberRun::Repeated(_, count) | NumberRun::Packed(_, count) => *count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_repeated_or_packed() {
        // The bytes are the number 3 five times, then two groups with two bits for each number.
        let bytes = [10, 3, 5, 0b11_10_01_00, 0, 0, 1];
        let mut runs = Runs::new(&bytes, 2).unwrap();
        assert_eq!(runs.next(100), Some(NumberRun::Repeated(3, 5)));
        assert_eq!(runs.next(9), Some(NumberRun::Packed(&bytes[3..], 9)));
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
        let all = |bytes: &[u8]| Runs::new(bytes, 2).unwrap().each(21, |_| Some(()));
        let longer = |more: &[u8]| [&bytes[..], more].concat();
        assert_eq!([all(&bytes), all(&longer(&[0, 0])), all(&longer(&[7]))], [Some(()); 3]);
        assert_eq!(all(&bytes[..6]), None, "a byte too few");
        assert_eq!(each(22, &mut lengths), None);
    }

    #[test]
    fn runs_that_are_cut_off_or_empty_end_the_stream() {
        // Each run is invalid: it lacks its value, its packed numbers or the end of its length, or it has no
        // numbers or too many.
        for bytes in [
            &[10][..],
            &[5, 0],
            &[0x80; 11],
            &[0, 1],
            &[1],
            &[1, 10, 3],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(Runs::new(bytes, 2).unwrap().next(100), None, "{bytes:?}");
        }
        assert!(Runs::new(&[], 33).is_none());
    }
}
