//! Random numbers that are the same on every machine and in every version.
//!
//! The order of an epoch is part of the contract, so its generator is spelled out here and pinned by golden
//! tests rather than taken from a crate that may improve its algorithms: SplitMix64 (Steele, Lea and Flood,
//! "Fast splittable pseudorandom number generators", OOPSLA 2014) for the stream, Lemire's multiply-shift
//! ("Fast random integer generation in an interval", 2019) for bounded integers, Fisher-Yates for
//! permutations.

/// The purpose of a stream of numbers, which keeps the streams of one seed independent.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Purpose {
    Groups = 1,
    Rows = 2,
    Phase = 3,
    Slot = 4,
    Exact = 5,
    Augment = 6,
    Sample = 7,
    Shares = 8,
    Column = 9,
    Batch = 10,
    View = 11,
    Balance = 12,
    Regroup = 13,
}

/// The golden-ratio increment of SplitMix64.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finaliser: a bijection of 64 bits in which every input bit flips half of the output bits.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The key of the row `row` (its ordinal in the data set) in `epoch` of `seed`, from which its augmentation
/// is drawn.
pub fn row_key(seed: u64, epoch: u64, row: u64) -> u64 {
    Draws::keyed(seed, Purpose::Augment, &[epoch, row]).next()
}

/// The key of a rank's batch that ends with the row `end` of the order of `epoch`, for random draws that are
/// made once for a batch.
pub(crate) fn batch_key(seed: u64, epoch: u64, end: u64, rank: u32) -> u64 {
    Draws::keyed(seed, Purpose::Batch, &[epoch, end, rank.into()]).next()
}

/// The key for the `repeat`-th repetition of a row in its epoch, made from the key of its first occurrence.
pub(crate) fn repeat_key(key: u64, repeat: u32) -> u64 {
    if repeat == 0 { key } else { row_key(key, u64::MAX, repeat.into()) }
}

/// A number for a column, computed from its stored name. The random draws of the column depend on nothing
/// else about it.
pub fn column_tag(name: &str) -> u64 {
    let words = name.as_bytes().chunks(size_of::<u64>()).map(|chunk| {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let parts: Vec<u64> = words.chain([name.len() as u64]).collect();
    Draws::keyed(0, Purpose::Column, &parts).next()
}

/// The key for the random draws of a column in a row, made from the key of the row and the [tag](column_tag)
/// of the column.
pub fn column_key(key: u64, tag: u64) -> u64 {
    Draws::keyed(key, Purpose::Column, &[tag]).next()
}

/// The key for the random draws of image `number` of a view, made from the key of the column in a row and the
/// [tag](column_tag) of the view.
pub fn view_key(key: u64, tag: u64, number: u32) -> u64 {
    Draws::keyed(key, Purpose::View, &[tag, number.into()]).next()
}

/// A stream of random numbers.
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The stream of `seed` for one purpose, narrowed by `parts` (such as an epoch, a lane, a slot).
    pub(crate) fn keyed(seed: u64, purpose: Purpose, parts: &[u64]) -> Self {
        let start = mix(seed.wrapping_add(GAMMA)) ^ mix(purpose as u64);
        let state = parts
            .iter()
            .fold(start, |state, part| mix(state.wrapping_add(GAMMA) ^ mix(part.wrapping_add(GAMMA))));
        Draws { state }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Draws a number uniformly from `0..n`; an `n` below 2^32 keeps the bias under 2^-32.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        self.shuffle_within(items);
    }

    /// Shuffles the items of a collection that is not a slice.
    pub(super) fn shuffle_within<I: Exchange + ?Sized>(&mut self, items: &mut I) {
        let mut end = items.count();
        // The random numbers do not depend on the items, so `DRAWN_AHEAD` of them are drawn first. The
        // processor can then load the items at all of these places from memory at the same time.
        let mut drawn = [0; DRAWN_AHEAD];
        while end > MIN_FAR_ITEMS {
            let begin = end - DRAWN_AHEAD;
            for (i, j) in (begin..end).rev().zip(&mut drawn) {
                *j = self.below(i as u64 + 1) as usize;
                items.soon(*j);
            }
            (begin..end).rev().zip(&drawn).for_each(|(i, j)| items.exchange(i, *j));
            end = begin;
        }
        for i in (1..end).rev() {
            items.exchange(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A list of at least this number of items is too large for the second-level cache.
const MIN_FAR_ITEMS: usize = 1 << 18;
const DRAWN_AHEAD: usize = 64;

/// A collection in which two items can be exchanged.
pub(super) trait Exchange {
    fn count(&self) -> usize;

    fn exchange(&mut self, i: usize, j: usize);

    /// Hints that item `i` will be exchanged soon.
    fn soon(&self, _i: usize) {}
}

impl<T> Exchange for [T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn exchange(&mut self, i: usize, j: usize) {
        self.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permutation(mut draws: Draws, n: u32) -> Vec<u32> {
        let mut items: Vec<u32> = (0..n).collect();
        draws.shuffle(&mut items);
        items
    }

    #[test]
    fn the_stream_never_changes() {
        let mut draws = Draws::keyed(17, Purpose::Rows, &[0, 1]);
        assert_eq!([draws.next(), draws.next()], GOLDEN_STREAM);
        assert_eq!(permutation(Draws::keyed(17, Purpose::Groups, &[3]), 8), GOLDEN_PERMUTATION);
        assert_eq!(row_key(17, 2, 1_000_000), GOLDEN_ROW_KEY);
        assert_eq!(batch_key(17, 2, 1_000_000, 3), GOLDEN_BATCH_KEY);
        assert_eq!(column_key(GOLDEN_ROW_KEY, column_tag("image")), GOLDEN_COLUMN_KEY);
        assert_eq!(view_key(GOLDEN_COLUMN_KEY, column_tag("g"), 1), GOLDEN_VIEW_KEY);
    }

    #[test]
    fn columns_of_other_names_have_other_keys() {
        let names =
            ["image", "images", "imag", "image_2", "Image", "", "a\0", "a", "left.image.of.a.long.path"];
        let keys: std::collections::HashSet<u64> =
            names.iter().flat_map(|name| (0..100).map(|row| column_key(row, column_tag(name)))).collect();
        assert_eq!(keys.len(), 100 * names.len());
    }

    #[test]
    fn long_lists_are_shuffled_as_short_ones() {
        for n in [
            MIN_FAR_ITEMS,
            MIN_FAR_ITEMS + 1,
            MIN_FAR_ITEMS + DRAWN_AHEAD,
            MIN_FAR_ITEMS + 3 * DRAWN_AHEAD + 5,
        ] {
            let mut draws = Draws::keyed(2, Purpose::Rows, &[n as u64]);
            let mut expected: Vec<u32> = (0..n as u32).collect();
            (1..n).rev().for_each(|i| expected.swap(i, draws.below(i as u64 + 1) as usize));
            assert!(permutation(Draws::keyed(2, Purpose::Rows, &[n as u64]), n as u32) == expected, "{n}");
        }
    }

    const GOLDEN_STREAM: [u64; 2] = [4053886232910284069, 18091879080353214798];
    const GOLDEN_PERMUTATION: [u32; 8] = [4, 2, 1, 0, 7, 3, 5, 6];
    const GOLDEN_ROW_KEY: u64 = 3959473810698139902;
    const GOLDEN_BATCH_KEY: u64 = 7122490146005973316;
    const GOLDEN_COLUMN_KEY: u64 = 13778864464734643566;
    const GOLDEN_VIEW_KEY: u64 = 7324052270539541743;

    #[test]
    fn purposes_epochs_and_lanes_are_independent() {
        let first = |purpose, parts: &[u64]| Draws::keyed(1, purpose, parts).next();
        let seen = [
            first(Purpose::Rows, &[0, 0]),
            first(Purpose::Rows, &[0, 1]),
            first(Purpose::Rows, &[1, 0]),
            first(Purpose::Slot, &[0, 0]),
            first(Purpose::Rows, &[0]),
        ];
        for (i, a) in seen.iter().enumerate() {
            assert!(seen[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn permutations_are_uniform() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..24_000 {
            *counts.entry(permutation(Draws::keyed(5, Purpose::Rows, &[epoch]), 4)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let chi2: f64 = counts.values().map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 49.7, "chi² of 23 degrees of freedom, beyond the 0.1 % tail: {chi2}");
    }
}
