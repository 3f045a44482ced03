//! Measures how well rows are mixed, on a data set of ImageNet's shape that is sorted by label. It compares
//! the windows of forebay with an exact shuffle, with whole blocks, and with the small buffers in which other
//! loaders shuffle.
//!
//!     cargo bench --bench mixing
//!
//! The data set has 1,281,000 rows of 1,000 classes, in row groups of 1,000. For batches of 256 rows in the
//! second epoch it prints
//!
//! * the number of distinct classes, on average and at least,
//! * the share of pairs of rows that come from one row group, divided by that of a uniform permutation,
//! * χ² per degree of freedom: stored and delivered order are each cut into 64 stretches, and the rows are
//!   counted for each pair of stretches. A uniform permutation gives 1.
//!
//! The bench reads no files, because the order follows from row counts alone. The buffer works as in tf.data,
//! torchdata and WebDataset: it is filled in the order of shuffled row groups, and each row that is drawn
//! from it is replaced by the next one.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::collections::{HashMap, HashSet};

use forebay::plan::{EpochOrder, OrderSpec, Split, Walk, expected_distinct};
use forebay::{Shard, Shuffle};

const CLASSES: u64 = 1_000;
const CLASS: u64 = 1_281;
const ROWS: u64 = CLASSES * CLASS;
const GROUP: u64 = 1_000;
const BATCH: u64 = 256;
const STRETCHES: u64 = 64;

/// The SplitMix64 generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * u128::from(n)) >> 64) as u64
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Returns the rows of forebay's second epoch, in the order of delivery.
fn planned(shuffle: Shuffle) -> Vec<u64> {
    let groups: Vec<u32> = (0..ROWS.div_ceil(GROUP)).map(|g| GROUP.min(ROWS - g * GROUP) as u32).collect();
    let order = EpochOrder::new(groups.as_slice(), &OrderSpec::new(&shuffle, &groups, 1, 64), 1);
    let split =
        Split { rows: ROWS, lanes: 1, shard: Shard::default(), global_batch: BATCH, drop_last: false };
    let rows = |step: forebay::plan::PlannedStep| {
        let row = |&(part, row): &(u32, u32)| {
            let part = step.parts[part as usize];
            u64::from(part.group) * GROUP + u64::from(part.start + row)
        };
        step.picks.iter().map(row).collect::<Vec<_>>()
    };
    Walk::new(&order, split, 0).flat_map(rows).collect()
}

/// Returns the rows of shuffled row groups, each in stored order.
fn shuffled_groups() -> Vec<u64> {
    let mut groups: Vec<u64> = (0..ROWS.div_ceil(GROUP)).collect();
    Random(1).shuffle(&mut groups);
    groups.into_iter().flat_map(|group| group * GROUP..((group + 1) * GROUP).min(ROWS)).collect()
}

/// Shuffles the row groups, cuts their rows into blocks of `rows` rows, and permutes the rows of each block.
fn blocks(rows: usize) -> Vec<u64> {
    let mut all = shuffled_groups();
    all.chunks_mut(rows).for_each(|block| Random(block[0]).shuffle(block));
    all
}

/// Passes the rows through a shuffle buffer of `rows` rows.
fn buffered(rows: usize) -> Vec<u64> {
    let (mut random, mut from) = (Random(2), shuffled_groups().into_iter());
    let mut buffer: Vec<u64> = from.by_ref().take(rows).collect();
    let mut all = Vec::new();
    while !buffer.is_empty() {
        let at = random.below(buffer.len() as u64) as usize;
        all.push(match from.next() {
            Some(next) => std::mem::replace(&mut buffer[at], next),
            None => buffer.swap_remove(at),
        });
    }
    all
}

fn chi_squared(order: &[u64]) -> f64 {
    let mut cells = vec![0u64; (STRETCHES * STRETCHES) as usize];
    for (at, row) in order.iter().enumerate() {
        cells[(row * STRETCHES / ROWS * STRETCHES + at as u64 * STRETCHES / ROWS) as usize] += 1;
    }
    let expected = ROWS as f64 / (STRETCHES * STRETCHES) as f64;
    let sum: f64 = cells.iter().map(|&found| (found as f64 - expected).powi(2) / expected).sum();
    sum / ((STRETCHES - 1) * (STRETCHES - 1)) as f64
}

fn print(name: &str, order: &[u64]) {
    assert_eq!(order.iter().collect::<HashSet<_>>().len() as u64, ROWS, "{name}: each row once");
    let (mut classes, mut least, mut pairs, mut batches) = (0, u64::MAX, 0, 0);
    for batch in order.chunks_exact(BATCH as usize) {
        let distinct = batch.iter().map(|row| row / CLASS).collect::<HashSet<_>>().len() as u64;
        let mut groups = HashMap::new();
        batch.iter().for_each(|row| *groups.entry(row / GROUP).or_insert(0u64) += 1);
        classes += distinct;
        least = least.min(distinct);
        pairs += groups.values().map(|rows| rows * (rows - 1) / 2).sum::<u64>();
        batches += 1;
    }
    let uniform = (BATCH * (BATCH - 1) / 2) as f64 * (GROUP - 1) as f64 / (ROWS - 1) as f64;
    println!(
        "{name:44} {:>9.1} {least:>9} {:>12.1} {:>9.1}",
        classes as f64 / batches as f64,
        pairs as f64 / batches as f64 / uniform,
        chi_squared(order),
    );
}

fn main() {
    let window = |rows| planned(Shuffle::seeded(1).window_rows(rows));
    let pieces = |rows, piece| planned(Shuffle::seeded(1).window_rows(rows).piece_rows(piece));
    println!("{:44} {:>9} {:>9} {:>12} {:>9}", "", "classes", "at least", "same group", "χ² / df");
    print("as stored", &planned(Shuffle::stored()));
    print("row groups shuffled", &shuffled_groups());
    print("a buffer of 1,000 rows", &buffered(1_000));
    print("a buffer of 10,000 rows", &buffered(10_000));
    print("blocks of 65,536 rows", &blocks(65_536));
    print("a buffer of 65,536 rows", &buffered(65_536));
    print("forebay, window_rows=65,536", &window(65_536));
    print("forebay, 65,536, piece_rows=500", &pieces(65_536, 500));
    print("forebay, 65,536, piece_rows=250", &pieces(65_536, 250));
    print("blocks of 262,144 rows", &blocks(262_144));
    print("a buffer of 262,144 rows", &buffered(262_144));
    print("forebay, window_rows=262,144", &window(262_144));
    print("forebay, 262,144, piece_rows=500", &pieces(262_144, 500));
    print("forebay, 262,144, piece_rows=250", &pieces(262_144, 250));
    print("forebay, an exact shuffle", &planned(Shuffle::exact(1)));
    let uniform = expected_distinct((0..CLASSES).map(|_| CLASS), ROWS, BATCH);
    println!("{:44} {uniform:>9.1}", "drawn uniformly");
}
