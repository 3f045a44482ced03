//! Orders in which all batches of a step cost about the same.
//!
//! All lanes (the sequences of rows that are interleaved into an epoch's order) follow the same sequence of
//! targets between 0 and 1. Each position in a lane has a target, and takes the row whose cost has this
//! target as its quantile among the rows of the [slot](super::slots), which are the rows that are mixed
//! together. So at each position all lanes deliver rows that cost about the same, and so do all ranks,
//! however many there are. Rows are moved only within their slot, so no rank reads more row groups than
//! without balancing.
//!
//! The targets are a van der Corput sequence (van der Corput, "Verteilungsfunktionen", 1935), scrambled anew
//! in each epoch (Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences", 1995) by a hash (Laine and
//! Karras, "Stratified sampling for stochastic transparency", 2011, with the constants of Burley, "Practical
//! hash-based Owen scrambling", 2020). A run of 2^k positions that begins at a multiple of 2^k has one target
//! in each 2^k-th part of the range, so batches of one lane cost about the same too. If rows have several
//! costs, they are ranked along a Hilbert curve through their quantiles (Skilling, "Programming the Hilbert
//! curve", 2004), on which neighbours are alike in every cost.

use std::sync::Arc;

use super::draw::{Draws, Purpose};

/// The number of different ranks that the costs of rows can have.
const RANKS: usize = 1 << 16;

/// The rank of each row of a data set by its cost: rows with neighbouring ranks cost about the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CostRanks {
    /// The ranks of the planned rows of each row group.
    of_groups: Vec<Box<[u16]>>,
}

impl CostRanks {
    /// The largest number of costs by which rows are ranked together.
    pub(crate) const MAX_COSTS: usize = 4;

    /// Ranks rows by one or more costs. For each cost and row group, `costs` has the costs of the rows, which
    /// are 0 or more.
    pub(crate) fn new(costs: &[Vec<Vec<f32>>]) -> Self {
        let coarse = |cost: &Vec<Vec<f32>>| -> Vec<Box<[u16]>> {
            cost.iter().map(|rows| rows.iter().map(|cost| coarse(*cost)).collect()).collect()
        };
        let mut each: Vec<Vec<Box<[u16]>>> = costs.iter().map(coarse).collect();
        if each.len() == 1 {
            return CostRanks { of_groups: each.remove(0) };
        }
        let bits = u16::BITS / each.len().max(1) as u32;
        let quantiles: Vec<Vec<u16>> = each.iter().map(|ranks| quantiles(ranks, bits)).collect();
        let groups = each.first().map_or(0, Vec::len);
        let of_group = |group: usize| {
            let rows = each[0][group].len();
            let rank = |row: usize| {
                let mut point: Vec<u16> =
                    each.iter().zip(&quantiles).map(|(ranks, of)| of[ranks[group][row] as usize]).collect();
                along_hilbert_curve(&mut point, bits)
            };
            (0..rows).map(rank).collect()
        };
        CostRanks { of_groups: (0..groups).map(of_group).collect() }
    }

    /// The memory that the ranks take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.of_groups.iter().map(|ranks| size_of_val(&**ranks) as u64).sum()
    }

    /// The rank of a row of a row group.
    pub(super) fn of_row(&self, group: u32, row: u32) -> u16 {
        self.of_groups[group as usize][row as usize]
    }
}

/// A whole number that grows with a cost. Costs that differ by less than a 256th may have the same number.
fn coarse(cost: f32) -> u16 {
    // Read as whole numbers, the bits of floats without sign grow with the floats; the last 15 bits are
    // dropped.
    (cost.max(0.0).to_bits() >> 15) as u16
}

/// For each rank, the fraction of all rows that rank lower, as a whole number of parts of `2^bits`. Rows of
/// the same rank count half.
fn quantiles(ranks: &[Box<[u16]>], bits: u32) -> Vec<u16> {
    let mut counts = vec![0_u64; RANKS];
    ranks.iter().flatten().for_each(|rank| counts[*rank as usize] += 1);
    let rows: u64 = counts.iter().sum();
    let mut before = 0;
    let quantile = |count: u64| {
        // Twice the position of the middle row of this rank, which is always a whole number.
        let middle = 2 * before + count;
        before += count;
        let scaled = (u128::from(middle) << bits) / u128::from(2 * rows.max(1));
        (scaled as u16).min(((1_u32 << bits) - 1) as u16)
    };
    counts.into_iter().map(quantile).collect()
}

/// The distance of a point from the beginning of the Hilbert curve through a cube with sides of `2^bits`.
fn along_hilbert_curve(point: &mut [u16], bits: u32) -> u16 {
    let top = 1_u16 << (bits - 1);
    let mut bit = top;
    while bit > 1 {
        let below = bit - 1;
        for axis in 0..point.len() {
            if point[axis] & bit != 0 {
                point[0] ^= below;
            } else {
                let swapped = (point[0] ^ point[axis]) & below;
                point[0] ^= swapped;
                point[axis] ^= swapped;
            }
        }
        bit >>= 1;
    }
    for axis in 1..point.len() {
        point[axis] ^= point[axis - 1];
    }
    let last = point.last().copied().unwrap_or(0);
    let mut flips = 0;
    let mut bit = top;
    while bit > 1 {
        if last & bit != 0 {
            flips ^= bit - 1;
        }
        bit >>= 1;
    }
    let interleaved = |distance: u16, level: u32| {
        point.iter().fold(distance, |distance, axis| distance << 1 | ((axis ^ flips) >> level & 1))
    };
    (0..bits).rev().fold(0, interleaved)
}

/// Arranges the rows of one epoch so that the batches of a step cost about the same.
#[derive(Debug)]
pub(super) struct Balance {
    ranks: Arc<CostRanks>,
    /// The number that scrambles the targets.
    scramble: u32,
}

impl Balance {
    pub(super) fn new(ranks: Arc<CostRanks>, seed: u64, epoch: u64) -> Self {
        let scramble = Draws::keyed(seed, Purpose::Balance, &[epoch]).next() as u32;
        Balance { ranks, scramble }
    }

    pub(super) fn ranks(&self) -> &CostRanks {
        &self.ranks
    }

    /// Reorders the shuffled rows of a slot so that the ranks of their costs follow the targets of their
    /// positions. The slot begins at position `begin` of its lane.
    pub(super) fn arrange<T: Copy>(&self, rows: &mut [T], begin: u64, rank: impl Fn(&T) -> u16) {
        let mut places: Vec<(u32, u32)> =
            (0..rows.len() as u32).map(|at| (self.target(begin + u64::from(at)), at)).collect();
        places.sort_unstable();
        // Rows of equal rank stay shuffled.
        let mut by_rank: Vec<(u16, T)> = rows.iter().map(|row| (rank(row), *row)).collect();
        by_rank.sort_by_key(|(rank, _)| *rank);
        for ((_, place), (_, row)) in places.iter().zip(by_rank) {
            rows[*place as usize] = row;
        }
    }

    /// The target quantile of a position in a lane, as a share of 2^32. Targets repeat after 2^32 positions.
    fn target(&self, place: u64) -> u32 {
        let mut bits = (place as u32).wrapping_add(self.scramble);
        for factor in [0x6c50_b47c, 0xb82f_1e52, 0xc7af_e638, 0x8d22_f6e6] {
            bits ^= bits.wrapping_mul(factor);
        }
        bits.reverse_bits()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_run_of_places_has_a_target_in_each_part_of_the_range() {
        let mut orders = HashSet::new();
        for epoch in 0..4 {
            let balance = Balance::new(Arc::new(CostRanks::new(&[vec![]])), 3, epoch);
            for k in [1, 3, 6, 10] {
                for run in [0_u64, 1, 7, 1 << 20] {
                    let strata: Vec<u32> = (0..1_u64 << k)
                        .map(|at| (u64::from(balance.target((run << k) + at)) >> (32 - k)) as u32)
                        .collect();
                    assert_eq!(strata.iter().collect::<HashSet<_>>().len(), 1 << k, "{k} {run}");
                    if k == 10 {
                        orders.insert(strata);
                    }
                }
            }
        }
        assert_eq!(orders.len(), 4, "an epoch has an order of its own");
    }

    #[test]
    fn the_hilbert_curve_visits_neighbours() {
        for (axes, bits) in [(2, 4), (2, 8), (3, 3), (4, 4)] {
            let side = 1_usize << bits;
            let points = side.pow(axes as u32);
            let mut path: Vec<Option<Vec<u16>>> = vec![None; points];
            for number in 0..points {
                let point: Vec<u16> =
                    (0..axes).map(|axis| (number / side.pow(axis as u32) % side) as u16).collect();
                let distance = along_hilbert_curve(&mut point.clone(), bits) as usize;
                assert!(path[distance].replace(point).is_none());
            }
            let path: Vec<Vec<u16>> = path.into_iter().flatten().collect();
            assert_eq!(path.len(), points);
            let steps = path.windows(2).map(|pair| {
                pair[0].iter().zip(&pair[1]).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>()
            });
            assert!(steps.eq(std::iter::repeat_n(1, points - 1)), "{axes} axes of {side}");
        }
    }

    #[test]
    fn rows_come_where_their_ranks_are_wanted() {
        let costs: Vec<f32> = (0..64).map(|row| (row * 7 % 64) as f32).collect();
        let ranks = Arc::new(CostRanks::new(&[vec![costs.clone()]]));
        let balance = Balance::new(ranks.clone(), 5, 0);
        let mut rows: Vec<u32> = (0..64).collect();
        balance.arrange(&mut rows, 0, |row| ranks.of_row(0, *row));
        assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 64);
        for batch in rows.chunks(8) {
            let strata: HashSet<u32> = batch.iter().map(|row| costs[*row as usize] as u32 / 8).collect();
            assert_eq!(strata.len(), 8, "a batch has a row of each eighth: {batch:?}");
        }
    }

    #[test]
    fn ranks_grow_with_costs() {
        let costs = [0.0, 0.5, 1.0, 2.0, 300.0, 302.0, 70_000.0, 4e9];
        assert!(costs.windows(2).all(|pair| coarse(pair[0]) < coarse(pair[1])));
    }
}
