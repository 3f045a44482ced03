//! A list that is read from its front, stored in blocks of equal size.
//!
//! The lists that hold the shuffled order of a window's rows can take more memory than the rows themselves,
//! if these are narrow. So a block is freed as soon as it has been read, and the next list reuses its memory.
//! If each list were one allocation, freeing it would leave a hole of odd size, which an allocator seldom
//! reuses.

use std::collections::VecDeque;

use forebay_base::processor;

use super::draw::{Draws, Exchange};

/// The number of items in a block: 1 MiB of rows that are packed into 4 bytes each.
const BLOCK: usize = 1 << 18;

/// A list that is read from its front.
#[derive(Debug)]
pub(super) struct Blocks<T> {
    /// The blocks, all of which are full except the last one.
    blocks: VecDeque<Vec<T>>,
    /// The number of items of the first block that have been taken.
    taken: usize,
    /// The number of items that are left.
    len: usize,
    /// The number of items for which the list was made.
    capacity: usize,
}

impl<T: Copy> Blocks<T> {
    /// An empty list with room for this many items.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Blocks { blocks: VecDeque::new(), taken: 0, len: 0, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends `item(0)` to `item(count - 1)`. No item may have been taken yet.
    pub(super) fn extend(&mut self, count: usize, mut item: impl FnMut(usize) -> T) {
        let mut from = 0;
        while from < count {
            if self.len.is_multiple_of(BLOCK) {
                let rest = self.capacity.saturating_sub(self.len).clamp(1, BLOCK);
                self.blocks.push_back(Vec::with_capacity(rest));
            }
            let Some(last) = self.blocks.back_mut() else { return };
            let until = count.min(from + BLOCK - last.len());
            last.extend((from..until).map(&mut item));
            self.len += until - from;
            from = until;
        }
    }

    /// Shuffles all items. No item may have been taken yet.
    pub(super) fn shuffle(&mut self, mut draws: Draws) {
        match self.blocks.make_contiguous() {
            [only] => draws.shuffle(only),
            blocks => draws.shuffle_within(&mut Together { blocks, items: self.len }),
        }
    }

    /// Takes the next `count` items, and passes them to `run` as slices.
    pub(super) fn take(&mut self, mut count: usize, mut run: impl FnMut(&[T])) {
        while count > 0 {
            let Some(first) = self.blocks.front() else { return };
            let items = &first[self.taken..];
            let items = &items[..count.min(items.len())];
            run(items);
            (self.taken, self.len, count) =
                (self.taken + items.len(), self.len - items.len(), count - items.len());
            if self.taken == first.len() {
                self.blocks.pop_front();
                self.taken = 0;
            }
        }
    }
}

/// The items of several blocks as one list.
struct Together<'a, T> {
    blocks: &'a mut [Vec<T>],
    items: usize,
}

impl<T: Copy> Exchange for Together<'_, T> {
    fn count(&self) -> usize {
        self.items
    }

    fn exchange(&mut self, i: usize, j: usize) {
        let blocks = &mut *self.blocks;
        let (a, b) = (blocks[i / BLOCK][i % BLOCK], blocks[j / BLOCK][j % BLOCK]);
        (blocks[i / BLOCK][i % BLOCK], blocks[j / BLOCK][j % BLOCK]) = (b, a);
    }

    fn soon(&self, i: usize) {
        processor::fetch(&self.blocks[i / BLOCK][i % BLOCK]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Purpose;
    use super::*;

    fn draws() -> Draws {
        Draws::keyed(3, Purpose::Rows, &[1])
    }

    fn permutation(n: u32, draws: Draws) -> Blocks<u32> {
        let mut numbers = Blocks::with_capacity(n as usize);
        numbers.extend(n as usize, |at| at as u32);
        numbers.shuffle(draws);
        numbers
    }

    #[test]
    fn blocks_are_mixed_as_one_list_is_and_given_back_as_they_are_taken() {
        for n in [0, 1, 1_000, BLOCK as u32, BLOCK as u32 + 1, 3 * BLOCK as u32 + 7] {
            let mut expected: Vec<u32> = (0..n).collect();
            draws().shuffle(&mut expected);
            let mut numbers = permutation(n, draws());
            assert_eq!(numbers.blocks.len(), (n as usize).div_ceil(BLOCK));
            let mut taken = Vec::new();
            for count in [1, BLOCK - 1, 5, BLOCK, usize::MAX] {
                let count = count.min(numbers.len());
                numbers.take(count, |run| taken.extend_from_slice(run));
                assert_eq!(numbers.len() + taken.len(), n as usize);
                assert!(numbers.blocks.len() <= numbers.len().div_ceil(BLOCK) + 1);
            }
            assert!(taken == expected && numbers.blocks.is_empty(), "{n}");
        }
    }
}
