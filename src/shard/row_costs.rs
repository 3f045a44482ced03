//! The costs of the rows of a data set, and the scale along which rows are sorted by them.
//!
//! Each cost is divided by its mean over all rows, so costs in different units can be compared. The class of
//! a row is its highest cost, such as tokens or patches. On the scale, rows are sorted by class, and from the
//! most to the least expensive within a class. So rows that lie at the same fraction of the scale have about
//! the same highest cost, whichever lane they come from.

use std::array;
use std::ops::Range;

/// The number of different values that one cost can have.
const VALUES: usize = 1 << 16;

/// The number of equal parts of the scale for each of which the expected costs are known. More parts take
/// more memory; with fewer, the costs of the most expensive rows are less exact.
const PARTS: usize = 1 << PARTS_BITS;
const PARTS_BITS: u32 = 14;

/// The costs of a row, each as a [coarse] number. A row has only as many as its data set has kinds of cost;
/// the others are 0.
pub(super) type CoarseCosts = [u16; RowCosts::MAX_COSTS];

/// How much more than the mean some rows cost together: for each cost, in multiples of its mean.
pub(super) type Excess = [f32; RowCosts::MAX_COSTS];

/// The costs of each row of a data set.
#[derive(Debug, PartialEq)]
pub(crate) struct RowCosts {
    /// The number of costs that a row has.
    kinds: usize,
    /// The coarse costs of the planned rows of each row group: all costs of the first row, then of the next.
    of_groups: Vec<Box<[u16]>>,
    /// The factor for each cost that makes its mean 1.
    units: [f32; RowCosts::MAX_COSTS],
    /// The fraction of the scale at which each class ends, in parts of 2^32.
    ends: [u64; RowCosts::MAX_COSTS],
    /// The costs of the row in the middle of each part of the scale.
    expected: Vec<[f32; RowCosts::MAX_COSTS]>,
    /// How much more than the mean the rows of each row group cost together.
    excess: Vec<Excess>,
}

// Costs are never NaN.
impl Eq for RowCosts {}

impl RowCosts {
    /// The most costs that a row can have.
    pub(crate) const MAX_COSTS: usize = 4;

    /// Takes one to [`MAX_COSTS`](Self::MAX_COSTS) costs. For each of them and each row group, `costs` has
    /// the costs of the rows, which are 0 or more.
    pub(crate) fn new(mut costs: Vec<Vec<Vec<f32>>>) -> Self {
        let kinds = costs.len().min(Self::MAX_COSTS);
        let groups = costs.first().map_or(0, Vec::len);
        // The costs of a row group are dropped once its coarse ones are made: all take gigabytes.
        let mut of_group = |group: usize| -> Box<[u16]> {
            let kinds: Vec<Vec<f32>> =
                costs[..kinds].iter_mut().map(|cost| std::mem::take(&mut cost[group])).collect();
            let rows = 0..kinds[0].len();
            rows.flat_map(|row| kinds.iter().map(move |cost| coarse(cost[row]))).collect()
        };
        let of_groups: Vec<Box<[u16]>> = (0..groups).map(&mut of_group).collect();
        let mut made = RowCosts {
            kinds,
            of_groups,
            units: [0.0; Self::MAX_COSTS],
            ends: [1 << 32; Self::MAX_COSTS],
            expected: Vec::new(),
            excess: Vec::new(),
        };
        made.units = made.units();
        made.survey();
        let excess = |group: usize| made.excess_of(&made.of_groups[group]);
        made.excess = (0..groups).map(excess).collect();
        made
    }

    /// The number of costs that a row has.
    pub(super) fn kinds(&self) -> usize {
        self.kinds
    }

    /// The memory that the costs take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let rows: u64 = self.of_groups.iter().map(|costs| size_of_val(&**costs) as u64).sum();
        rows + (size_of_val(&*self.expected) + size_of_val(&*self.excess)) as u64
    }

    /// How much more than the mean these rows of a row group cost together.
    pub(super) fn excess(&self, group: u32, rows: Range<u32>) -> Excess {
        let of_group = &self.of_groups[group as usize];
        match rows.len() * self.kinds == of_group.len() {
            true => self.excess[group as usize],
            false => {
                self.excess_of(&of_group[rows.start as usize * self.kinds..rows.end as usize * self.kinds])
            }
        }
    }

    fn excess_of(&self, costs: &[u16]) -> Excess {
        let mut excess = [0.0_f64; Self::MAX_COSTS];
        for row in costs.chunks(self.kinds.max(1)) {
            for ((sum, cost), unit) in excess.iter_mut().zip(row).zip(self.units) {
                *sum += f64::from(value(*cost) * unit) - f64::from(u8::from(unit > 0.0));
            }
        }
        excess.map(|sum| sum as f32)
    }

    /// The costs of a row of a row group.
    pub(super) fn of_row(&self, group: u32, row: u32) -> CoarseCosts {
        let costs = &self.of_groups[group as usize][row as usize * self.kinds..][..self.kinds];
        array::from_fn(|kind| costs.get(kind).copied().unwrap_or(0))
    }

    /// The first `K` costs in multiples of their means.
    pub(super) fn scaled<const K: usize>(&self, costs: &CoarseCosts) -> [f32; K] {
        array::from_fn(|kind| value(costs[kind]) * self.units[kind])
    }

    /// The class of a row, and a number by which the rows of all classes are in the order of the scale.
    pub(super) fn place_on_scale(&self, costs: &CoarseCosts) -> (usize, u32) {
        let scaled: [f32; Self::MAX_COSTS] = self.scaled(costs);
        // The first of equal costs is the class.
        let higher = |most: usize, kind: usize| if scaled[kind] > scaled[most] { kind } else { most };
        let class = (1..self.kinds).fold(0, higher);
        (class, (class as u32) << u16::BITS | u32::from(u16::MAX - costs[class]))
    }

    /// The fraction of the scale at which a class ends, in parts of 2^32.
    pub(super) fn end(&self, class: usize) -> u64 {
        self.ends[class]
    }

    /// The costs that are expected at a fraction of the scale (in parts of 2^32), in multiples of their
    /// means.
    pub(super) fn expected<const K: usize>(&self, at: u32) -> [f32; K] {
        let expected = &self.expected[(at >> (u32::BITS - PARTS_BITS)) as usize];
        array::from_fn(|kind| expected[kind])
    }

    fn rows(&self) -> impl Iterator<Item = CoarseCosts> {
        let of_row = |costs: &[u16]| array::from_fn(|kind| costs.get(kind).copied().unwrap_or(0));
        self.of_groups.iter().flat_map(move |costs| costs.chunks(self.kinds.max(1)).map(of_row))
    }

    fn units(&self) -> [f32; Self::MAX_COSTS] {
        let (mut rows, mut sums) = (0_u64, [0.0_f64; Self::MAX_COSTS]);
        for costs in self.rows() {
            rows += 1;
            sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += f64::from(value(cost)));
        }
        sums.map(|sum| if sum > 0.0 { (rows as f64 / sum) as f32 } else { 0.0 })
    }

    /// Finds where classes end on the scale, and the costs at each part of it.
    fn survey(&mut self) {
        // For each place on the scale, the number of its rows and the sums of their costs.
        let mut found = vec![(0_u64, [0.0_f64; Self::MAX_COSTS]); self.kinds * VALUES];
        for costs in self.rows() {
            let (_, place) = self.place_on_scale(&costs);
            let (rows, sums) = &mut found[place as usize];
            *rows += 1;
            sums.iter_mut()
                .zip(self.scaled::<{ Self::MAX_COSTS }>(&costs))
                .for_each(|(sum, cost)| *sum += f64::from(cost));
        }
        let all = found.iter().map(|(rows, _)| *rows).sum::<u64>().max(1);
        let mut before = 0;
        for (class, places) in found.chunks(VALUES).enumerate() {
            before += places.iter().map(|(rows, _)| *rows).sum::<u64>();
            self.ends[class] = ((u128::from(before) << u32::BITS) / u128::from(all)) as u64;
        }
        self.expected.reserve_exact(PARTS);
        let mut end = 0;
        for (rows, sums) in found.into_iter().filter(|(rows, _)| *rows > 0) {
            end += rows;
            let mean = sums.map(|sum| (sum / rows as f64) as f32);
            // A part takes the costs of the row in its middle.
            let is_before =
                |part: usize| (2 * part as u128 + 1) * u128::from(all) <= u128::from(end) * 2 * PARTS as u128;
            while self.expected.len() < PARTS && is_before(self.expected.len()) {
                self.expected.push(mean);
            }
        }
        self.expected.resize(PARTS, [0.0; Self::MAX_COSTS]);
    }
}

/// A whole number that grows with a cost. Costs that differ by less than a 256th may have the same number.
fn coarse(cost: f32) -> u16 {
    // Read as whole numbers, the bits of floats without sign grow with the floats; the last 15 bits are
    // dropped.
    (cost.max(0.0).to_bits() >> DROPPED_BITS) as u16
}

const DROPPED_BITS: u32 = 15;

/// A cost in the middle of those that a coarse number stands for.
fn value(coarse: u16) -> f32 {
    match coarse {
        0 => 0.0,
        coarse => f32::from_bits(u32::from(coarse) << DROPPED_BITS | 1 << (DROPPED_BITS - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_costs_grow_with_costs_and_differ_little_from_them() {
        let costs = [0.0, 0.5, 1.0, 2.0, 300.0, 302.0, 70_000.0, 4e9];
        assert!(costs.windows(2).all(|pair| coarse(pair[0]) < coarse(pair[1])));
        for cost in costs {
            assert!((value(coarse(cost)) - cost).abs() <= cost / 256.0, "{cost}");
        }
    }

    #[test]
    fn the_scale_has_each_class_from_its_most_expensive_row_on() {
        // The means are 4 and 1.
        let tokens = vec![vec![2.0, 8.0, 4.0], vec![4.0, 2.0]];
        let patches = vec![vec![3.0, 0.0, 0.0], vec![0.0, 2.0]];
        let costs = RowCosts::new(vec![tokens, patches]);
        let rows = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)];
        let mut placed =
            rows.map(|(group, row)| (costs.place_on_scale(&costs.of_row(group, row)), (group, row)));
        placed.sort_unstable();
        assert_eq!(
            placed.map(|((class, _), row)| (class, row)),
            [(0, (0, 1)), (0, (0, 2)), (0, (1, 0)), (1, (0, 0)), (1, (1, 1)),]
        );
        assert_eq!((costs.end(0), costs.end(1)), ((3_u64 << 32) / 5, 1 << 32));
        for (at, wanted) in [(0.1, [2.0, 0.0]), (0.5, [1.0, 0.0]), (0.7, [0.5, 3.0]), (0.95, [0.5, 2.0])] {
            let expected: [f32; 2] = costs.expected((at * 2_f64.powi(32)) as u32);
            let is_near = |(a, b): (&f32, f32)| (a - b).abs() <= 0.01 * b;
            assert!(expected.iter().zip(wanted).all(is_near), "{at}: {expected:?}");
        }
    }

    #[test]
    fn the_excess_of_a_part_is_that_of_its_rows() {
        let (tokens, nothing) = (vec![vec![2.0, 8.0, 2.0], vec![4.0]], vec![vec![0.0; 3], vec![0.0]]);
        let costs = RowCosts::new(vec![tokens, nothing]);
        for (group, rows, tokens) in [(0, 0..3, 0.0), (0, 1..2, 1.0), (0, 0..2, 0.5), (1, 0..1, 0.0)] {
            let excess = costs.excess(group, rows);
            assert!((excess[0] - tokens).abs() < 0.02 && excess[1..] == [0.0; 3], "{excess:?}");
        }
    }

    #[test]
    fn rows_that_cost_nothing_are_kept_apart_from_errors() {
        let costs = RowCosts::new(vec![vec![vec![0.0; 3], vec![]], vec![vec![0.0, 1.0, 2.0], vec![]]]);
        assert_eq!(costs.scaled::<2>(&costs.of_row(0, 0)), [0.0, 0.0]);
        assert!(costs.scaled::<2>(&costs.of_row(0, 2)).iter().all(|cost| cost.is_finite()));
        assert_eq!(RowCosts::new(vec![vec![]]).expected::<1>(7), [0.0]);
    }
}
