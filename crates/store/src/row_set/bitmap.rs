//! Stores a set of rows as one bit for each row, with a directory of the number of set bits before each
//! block.

use std::ops::Range;

/// The number of words in a block. For each block of 64 bytes, the directory has a number of 4 bytes.
const BLOCK_WORDS: usize = 8;

const WORD: u32 = u64::BITS;

/// A bit for each row, and a directory with the number of set bits before each block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bitmap {
    words: Box<[u64]>,
    /// The directory: for each block, the number of set bits before it.
    ranks: Box<[u32]>,
    count: u32,
}

/// The number of bytes of a bitmap over `rows` rows, with its directory.
pub(super) fn bytes(rows: u32) -> u64 {
    let words = u64::from(rows.div_ceil(WORD));
    words * size_of::<u64>() as u64 + words.div_ceil(BLOCK_WORDS as u64) * size_of::<u32>() as u64
}

/// The words of a bitmap for `rows` rows, with all bits cleared.
pub(super) fn empty(rows: u32) -> Vec<u64> {
    vec![0; rows.div_ceil(WORD) as usize]
}

/// Sets the bits of a range that is not empty.
pub(super) fn set(words: &mut [u64], range: Range<u32>) {
    let (first, last) = ((range.start / WORD) as usize, ((range.end - 1) / WORD) as usize);
    let head = u64::MAX << (range.start % WORD);
    let tail = u64::MAX >> (WORD - 1 - (range.end - 1) % WORD);
    if first == last {
        words[first] |= head & tail;
        return;
    }
    words[first] |= head;
    words[first + 1..last].fill(u64::MAX);
    words[last] |= tail;
}

/// The words of the opposite set: the rows, out of `rows`, whose bits are not set in `words`.
pub(super) fn complement(words: &[u64], rows: u32) -> Vec<u64> {
    let mut others: Vec<u64> = words.iter().map(|word| !word).collect();
    cut(&mut others, rows);
    others
}

/// The words of the rows in a range; the first bit is the start of the range. Rows after the last word are
/// not in the set.
pub(super) fn within(words: &[u64], range: Range<u32>) -> Vec<u64> {
    let rows = range.end - range.start;
    let (first, shift) = ((range.start / WORD) as usize, range.start % WORD);
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let moved = |at: usize| match shift {
        0 => word(at),
        _ => word(at) >> shift | word(at + 1) << (WORD - shift),
    };
    let mut words: Vec<u64> = (first..first + rows.div_ceil(WORD) as usize).map(moved).collect();
    cut(&mut words, rows);
    words
}

/// Clears the bits after the last of `rows` rows.
fn cut(words: &mut [u64], rows: u32) {
    if let Some(last) = words.last_mut().filter(|_| !rows.is_multiple_of(WORD)) {
        *last &= !(u64::MAX << (rows % WORD));
    }
}

/// The number of runs of consecutive set bits.
pub(super) fn run_count(words: &[u64]) -> usize {
    let mut before = 0;
    let begun = words.iter().map(|word| {
        let begun = word & !(word << 1 | before);
        before = word >> (WORD - 1);
        begun.count_ones() as usize
    });
    begun.sum()
}

impl Bitmap {
    pub(super) fn new(words: Vec<u64>) -> Self {
        let mut count = 0;
        let ranks = words.chunks(BLOCK_WORDS).map(|block| {
            let before = count;
            count += block.iter().map(|word| word.count_ones()).sum::<u32>();
            before
        });
        Bitmap { ranks: ranks.collect(), words: words.into(), count }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(&*self.words) + size_of_val(&*self.ranks)) as u64
    }

    pub(super) fn select(&self, ordinal: u32) -> u32 {
        let block = self.ranks.partition_point(|rank| *rank <= ordinal) - 1;
        let mut left = ordinal - self.ranks[block];
        let mut at = block * BLOCK_WORDS;
        loop {
            let ones = self.words[at].count_ones();
            if left < ones {
                return at as u32 * WORD + nth_one(self.words[at], left);
            }
            left -= ones;
            at += 1;
        }
    }

    pub(super) fn rank(&self, row: u32) -> u32 {
        let at = (row / WORD) as usize;
        if at == self.words.len() {
            return self.count;
        }
        let block = at / BLOCK_WORDS;
        let whole = self.words[block * BLOCK_WORDS..at].iter().map(|word| word.count_ones()).sum::<u32>();
        let below = self.words[at] & !(u64::MAX << (row % WORD));
        self.ranks[block] + whole + below.count_ones()
    }

    /// Returns the next run of rows at or after row `cursor`, but at most `most` rows, and moves `cursor` to
    /// its end. There must be such a run.
    pub(super) fn run(&self, cursor: &mut u32, most: u32) -> Range<u32> {
        let start = self.next(*cursor, |word| word);
        let end = self.next(start, |word| !word).min(start + most);
        *cursor = end;
        start..end
    }

    /// The first row, at or after `row`, whose bit is set in the words that `of` returns (the words
    /// themselves or their inverse). If there is none, the end of the last word.
    fn next(&self, row: u32, of: impl Fn(u64) -> u64) -> u32 {
        let mut at = (row / WORD) as usize;
        let Some(&word) = self.words.get(at) else { return row };
        let mut word = of(word) & (u64::MAX << (row % WORD));
        while word == 0 {
            at += 1;
            match self.words.get(at) {
                Some(&next) => word = of(next),
                None => return (self.words.len() as u64 * u64::from(WORD)).min(u64::from(u32::MAX)) as u32,
            }
        }
        at as u32 * WORD + word.trailing_zeros()
    }
}

/// The position in `word` of the set bit with `n` other set bits below it.
fn nth_one(word: u64, mut n: u32) -> u32 {
    let (mut at, mut width) = (0, WORD / 2);
    while width > 0 {
        let ones = (word >> at & ((1 << width) - 1)).count_ones();
        if ones <= n {
            n -= ones;
            at += width;
        }
        width /= 2;
    }
    at
}
