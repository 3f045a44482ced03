//! A permutation of any number of rows that looks uniform and is evaluated one row at a time.
//!
//! It is a balanced Feistel network over the smallest even number of bits that holds the domain, applied
//! again until the result is inside the domain (Black and Rogaway, "Ciphers with arbitrary finite domains",
//! CT-RSA 2002). It needs no memory, and the row at any position is found at once, so resuming in the middle
//! of a billion rows costs nothing.

use super::draw::{Draws, Purpose, mix};

/// Luby and Rackoff proved that 4 rounds make a strong pseudorandom permutation; small domains need more.
const ROUNDS: usize = 8;

/// A permutation of `0..rows`.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    rows: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(super) fn new(rows: u64, seed: u64, epoch: u64) -> Self {
        let bits = u64::BITS - rows.saturating_sub(1).leading_zeros();
        let mut draws = Draws::keyed(seed, Purpose::Exact, &[epoch]);
        Permutation { rows, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| draws.next()) }
    }

    /// The row at position `i` of the order. At most 4 candidates are tried on average, because the network's
    /// domain is less than 4 times the rows.
    pub(super) fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.rows);
        let mut candidate = self.network(i);
        while candidate >= self.rows {
            candidate = self.network(candidate);
        }
        candidate
    }

    fn network(&self, x: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_place() {
        for rows in [1, 2, 3, 5, 16, 17, 100, 1023, 1024, 1025, 70_000] {
            let order = Permutation::new(rows, 3, 9);
            let mut seen = vec![false; rows as usize];
            for i in 0..rows {
                assert!(!std::mem::replace(&mut seen[order.at(i) as usize], true));
            }
        }
    }

    #[test]
    fn places_are_uniform() {
        // Counts, over many seeds, how often each of 16 rows comes first.
        let mut counts = [0u32; 16];
        for seed in 0..16_000 {
            counts[Permutation::new(16, seed, 0).at(0) as usize] += 1;
        }
        let chi2: f64 = counts.iter().map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 37.7, "chi² of 15 degrees of freedom, beyond the 0.1 % tail: {chi2}");
    }
}
