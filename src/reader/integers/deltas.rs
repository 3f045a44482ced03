//! Decodes numbers that are stored as differences, packed in blocks (Parquet's `DELTA_BINARY_PACKED`).

use std::cmp::min;

use super::packed::{GROUP, Word, unpack};
use super::{varint, zigzag};

/// The number of values that are unpacked at a time by the iterator [`Numbers`].
const STEP: usize = 32;

/// A sequence of numbers, which is decoded one miniblock at a time. All arithmetic wraps around.
pub(in crate::reader) struct Deltas<'a> {
    /// The bytes after the current miniblock.
    rest: &'a [u8],
    /// The number of miniblocks in a block.
    miniblocks: usize,
    /// The number of values in each miniblock.
    values: usize,
    /// The number of values according to the header. The first value is stored in the header, without a
    /// difference.
    pub(in crate::reader) count: usize,
    first: u64,
    /// The number of differences that have not been read.
    left: usize,
    /// The least difference in the current block, and the bit widths of its remaining miniblocks.
    least: u64,
    widths: &'a [u8],
}

/// A miniblock: consecutive differences that are packed with one bit width.
#[derive(Default)]
struct Miniblock<'a> {
    /// The number to add to each packed value, which gives the difference.
    least: u64,
    width: u32,
    packed: &'a [u8],
    count: usize,
}

impl<'a> Deltas<'a> {
    /// Parses the header; `None` if it is invalid.
    pub(in crate::reader) fn parse(mut rest: &'a [u8]) -> Option<Self> {
        let block = usize::try_from(varint(&mut rest)?).ok()?;
        let miniblocks = usize::try_from(varint(&mut rest)?).ok()?;
        let count = usize::try_from(varint(&mut rest)?).ok()?;
        let first = zigzag(&mut rest)?;
        let is_whole = |values: &usize| *values > 0 && values.is_multiple_of(GROUP);
        let values = block.checked_div(miniblocks).filter(is_whole)?;
        let left = count.saturating_sub(1);
        Some(Deltas { rest, miniblocks, values, count, first, left, least: 0, widths: &[] })
    }

    /// The next miniblock; `None` after the last one, or if bytes are missing.
    fn miniblock(&mut self) -> Option<Miniblock<'a>> {
        if self.left == 0 {
            return None;
        }
        if self.widths.is_empty() {
            self.least = zigzag(&mut self.rest)?;
            (self.widths, self.rest) = self.rest.split_at_checked(self.miniblocks)?;
        }
        let (&width, widths) = self.widths.split_first()?;
        let (packed, rest) = self.rest.split_at_checked(self.values.checked_mul(width.into())? / 8)?;
        (self.widths, self.rest) = (widths, rest);
        let count = min(self.left, self.values);
        self.left -= count;
        Some(Miniblock { least: self.least, width: width.into(), packed, count })
    }

    /// The bytes after the last number; `None` if bytes are missing.
    pub(in crate::reader) fn end(mut self) -> Option<&'a [u8]> {
        while self.left > 0 {
            self.miniblock()?;
        }
        Some(self.rest)
    }

    /// Calls `each` for all numbers; `None` if bytes are missing, or if a bit width is larger than any writer
    /// makes it.
    pub(in crate::reader) fn each(mut self, mut each: impl FnMut(u64)) -> Option<()> {
        if self.count > 0 {
            each(self.first);
        }
        let mut number = self.first;
        while self.left > 0 {
            self.miniblock()?.differences(|difference| {
                number = number.wrapping_add(difference);
                each(number);
            })?;
        }
        Some(())
    }

    /// An iterator over the numbers. It ends early if bytes are missing.
    pub(in crate::reader) fn numbers(self) -> Numbers<'a> {
        let ready = [self.first; STEP];
        let end = min(self.count, 1);
        Numbers { deltas: self, block: Miniblock::default(), ready, at: 0, end }
    }
}

impl Miniblock<'_> {
    /// Calls `each` for all differences in the miniblock; `None` if their bit width is larger than any writer
    /// makes it.
    fn differences(&self, mut each: impl FnMut(u64)) -> Option<()> {
        let least = self.least;
        match self.width <= u32::WIDEST {
            true => unpack(self.packed, self.width, self.count, |differences: &[u32]| {
                differences.iter().for_each(|&difference| each(least.wrapping_add(difference.into())));
                Some(())
            }),
            false => unpack(self.packed, self.width, self.count, |differences: &[u64]| {
                differences.iter().for_each(|&difference| each(least.wrapping_add(difference)));
                Some(())
            }),
        }
    }

    /// Splits off the first differences of the miniblock, at most [`STEP`] of them.
    fn step(&mut self) -> Self {
        let count = min(self.count, STEP);
        let length = min(STEP / GROUP * self.width as usize, self.packed.len());
        let (packed, rest) = self.packed.split_at(length);
        (self.packed, self.count) = (rest, self.count - count);
        Miniblock { packed, count, ..*self }
    }
}

/// An iterator over the numbers of [`Deltas`].
pub(in crate::reader) struct Numbers<'a> {
    deltas: Deltas<'a>,
    block: Miniblock<'a>,
    /// The unpacked numbers; those from `at` to `end` come next.
    ready: [u64; STEP],
    at: usize,
    end: usize,
}

impl Numbers<'_> {
    /// Unpacks the next numbers, at most [`STEP`] of them.
    fn advance(&mut self) -> Option<()> {
        if self.block.count == 0 {
            self.block = self.deltas.miniblock()?;
        }
        let step = self.block.step();
        let mut number = self.ready[self.end.checked_sub(1)?];
        let mut ready = self.ready.iter_mut();
        step.differences(|difference| {
            number = number.wrapping_add(difference);
            if let Some(ready) = ready.next() {
                *ready = number;
            }
        })?;
        (self.at, self.end) = (0, step.count);
        Some(())
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.at == self.end {
            self.advance()?;
        }
        let number = self.ready.get(self.at).copied();
        self.at += 1;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes numbers in blocks of 128 with 4 miniblocks. `count` is the number of values, the first value
    /// is 0, and `blocks` has the bytes of the blocks.
    fn packed(count: u64, blocks: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        let mut rest = count;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.extend([rest as u8, 0]);
        bytes.extend(blocks);
        bytes
    }

    /// The number of bytes that the numbers take.
    fn end(bytes: &[u8]) -> Option<usize> {
        Some(bytes.len() - Deltas::parse(bytes)?.end()?.len())
    }

    /// The numbers, read all at once with `each`, and one by one with the iterator.
    fn numbers(bytes: &[u8]) -> (Option<Vec<u64>>, Vec<u64>) {
        let (all, mut found) = (Deltas::parse(bytes), Vec::new());
        let found = all.and_then(|all| all.each(|number| found.push(number))).map(|()| found);
        (found, Deltas::parse(bytes).into_iter().flat_map(Deltas::numbers).collect())
    }

    #[test]
    fn numbers_end_where_their_last_miniblock_does() {
        assert_eq!(end(&packed(0, &[9, 9])), Some(5));
        assert_eq!(end(&packed(1, &[9, 9])), Some(5));
        // 33 more numbers follow the first one: a miniblock with 2 bits for each difference, one with 0 bits,
        // and two miniblocks that are not needed.
        let blocks = [&[0, 2, 0, 7, 7][..], &[1; 8], &[9; 9]].concat();
        assert_eq!(end(&packed(34, &blocks)), Some(5 + 5 + 8));
        assert_eq!(end(&packed(34, &blocks[..12])), None);
    }

    #[test]
    fn numbers_are_the_sums_of_differences() {
        assert_eq!(numbers(&packed(0, &[])), (Some(vec![]), vec![]));
        assert_eq!(numbers(&packed(1, &[])), (Some(vec![0]), vec![0]));
        // In the first block, the least difference is -1, to which 0 and 3 are added in turn. The next two
        // blocks have differences of 40 bits and of 0 bits.
        let wide = [&[1, 40, 0, 0, 0][..], &[0xff; 160], &[2, 0, 0, 0, 0]].concat();
        let blocks = [&[1, 2, 2, 0, 0][..], &[0b1100_1100; 16], &wide[..]].concat();
        let mut expected = vec![0u64];
        let mut last = 0u64;
        let differences = (0..64).map(|at| if at % 2 == 0 { 0 } else { 3 }).chain([0; 64]);
        let wide = [(1 << 40) - 1; 32].into_iter().chain([0; 96]);
        for difference in differences.chain(wide) {
            last = last.wrapping_add(difference).wrapping_sub(1);
            expected.push(last);
        }
        expected.extend((1..=5).map(|more| last.wrapping_add(more)));
        let bytes = packed(expected.len() as u64, &blocks);
        assert_eq!(numbers(&bytes), (Some(expected.clone()), expected.clone()));
        // The last block is missing. Then the differences have a bit width of 64, which is more than can be
        // unpacked.
        let (all, some) = numbers(&bytes[..bytes.len() - 5]);
        assert_eq!((all, &some[..]), (None, &expected[..257]));
        let blocks = [&[0, 64, 0, 0, 0][..], &[0; 256]].concat();
        assert_eq!(numbers(&packed(3, &blocks)), (None, vec![0]));
    }

    #[test]
    fn numbers_without_end_are_refused() {
        for count in [1 << 32, u64::MAX >> 1, u64::MAX] {
            assert_eq!(end(&packed(count, &[0; 50])), None);
        }
        // The number of miniblocks is 0; then the number of values in a block is too small.
        assert_eq!(end(&[0x80, 1, 0, 5, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(end(&[0, 4, 5, 0, 0, 0, 0, 0, 0]), None);
    }
}
