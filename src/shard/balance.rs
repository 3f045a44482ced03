//! Orders in which all batches of a step cost about the same.
//!
//! All lanes (the sequences of rows that are interleaved into an epoch's order) follow the same sequence of
//! targets between 0 and 1. Each place in a lane has a target, and takes a row that lies at about this
//! fraction of the [scale](super::row_costs) on which rows are sorted by cost. Then neighbours on the scale
//! are [exchanged](super::exchange), until each run of a few rows costs as much as its targets let expect. So
//! at each place all lanes deliver rows that cost about the same, and so do all ranks, however many there
//! are. Rows are moved only within their slot, the rows that are mixed together, so no rank reads more row
//! groups than without balancing. The rows that a part gives to each of its slots are chosen along the
//! targets too, so that slots cost about the same.
//!
//! The targets are a van der Corput sequence (van der Corput, "Verteilungsfunktionen", 1935), scrambled anew
//! in each epoch (Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences", 1995) by a hash (Laine and
//! Karras, "Stratified sampling for stochastic transparency", 2011, with the constants of Burley, "Practical
//! hash-based Owen scrambling", 2020). A run of 2^k places that begins at a multiple of 2^k has one target
//! in each 2^k-th part of the range, so batches of one lane cost about the same too.

use std::sync::Arc;

use super::draw::{Draws, Purpose};
use super::exchange::{Assigned, RUN, RUNS_OF_LONG};
use super::row_costs::{CoarseCosts, RowCosts};

/// Arranges the rows of one epoch so that the batches of a step cost about the same.
#[derive(Debug)]
pub(super) struct Balance {
    costs: Arc<RowCosts>,
    /// The number that scrambles the targets.
    scramble: u32,
}

impl Balance {
    pub(super) fn new(costs: Arc<RowCosts>, seed: u64, epoch: u64) -> Self {
        let scramble = Draws::keyed(seed, Purpose::Balance, &[epoch]).next() as u32;
        Balance { costs, scramble }
    }

    pub(super) fn costs(&self) -> &RowCosts {
        &self.costs
    }

    /// Reorders the shuffled rows of a part along the targets, so that each run of them costs about the same.
    pub(super) fn spread<T: Copy>(&self, rows: &mut [T], costs: impl Fn(&T) -> CoarseCosts) {
        let places = self.places(rows.len(), 0);
        let order = self.along_scale(&places, rows.iter().map(costs));
        arrange(rows, &places, &order);
    }

    /// Reorders the shuffled rows of a slot so that short runs of them cost as much as the targets of their
    /// places let expect. The slot begins at place `begin` of its lane.
    pub(super) fn even_out<T: Copy>(&self, rows: &mut [T], begin: u64, costs: impl Fn(&T) -> CoarseCosts) {
        match self.costs.kinds() {
            0 => {}
            1 => self.even_out_by::<1, T>(rows, begin, costs),
            2 => self.even_out_by::<2, T>(rows, begin, costs),
            3 => self.even_out_by::<3, T>(rows, begin, costs),
            _ => self.even_out_by::<{ RowCosts::MAX_COSTS }, T>(rows, begin, costs),
        }
    }

    fn even_out_by<const K: usize, T: Copy>(
        &self,
        rows: &mut [T],
        begin: u64,
        costs: impl Fn(&T) -> CoarseCosts,
    ) {
        let places = self.places(rows.len(), begin);
        let order = self.along_scale(&places, rows.iter().map(&costs));
        let first = begin / (RUN * RUNS_OF_LONG) * RUNS_OF_LONG;
        let run = |(_, place): &(u32, u32)| ((begin + u64::from(*place)) / RUN - first) as u32;
        let mut assigned = Assigned::<K> {
            costs: order.iter().map(|row| self.costs.scaled(&costs(&rows[*row as usize]))).collect(),
            runs: places.iter().map(run).collect(),
            rows: order,
        };
        assigned.even_out(places.iter().map(|(target, _)| self.costs.expected(*target)));
        arrange(rows, &places, &assigned.rows);
    }

    /// The targets and numbers of `count` places from place `begin` of a lane on, in the order of the scale.
    fn places(&self, count: usize, begin: u64) -> Vec<(u32, u32)> {
        let place = |at: u32| (self.target(begin + u64::from(at)), at);
        let mut places: Vec<(u32, u32)> = (0..count as u32).map(place).collect();
        places.sort_unstable();
        places
    }

    /// Assigns a row to each of the `places`, which are in the order of the scale. Returns the indices of the
    /// rows. Each class has the places of its part of the scale, and gives its most expensive rows to the
    /// first of them. If a class has more rows than places, the cheapest of these rows take the places that
    /// other classes leave.
    fn along_scale(&self, places: &[(u32, u32)], costs: impl Iterator<Item = CoarseCosts>) -> Vec<u32> {
        let on_scale = |(row, costs): (u32, CoarseCosts)| {
            let (class, place) = self.costs.place_on_scale(&costs);
            (place, row, class)
        };
        let mut rows: Vec<(u32, u32, usize)> = (0..).zip(costs).map(on_scale).collect();
        // Rows of equal costs stay shuffled, because their indices decide.
        rows.sort_unstable();
        let mut assigned = vec![None; places.len()];
        let (mut left, mut first_place, mut first_row) = (Vec::new(), 0, 0);
        for class in 0..self.costs.kinds() {
            let end = self.costs.end(class);
            let end_place = places.partition_point(|(target, _)| u64::from(*target) < end);
            let end_row = rows.partition_point(|row| row.2 <= class);
            let of_class = &rows[first_row..end_row];
            let (held, beyond) = of_class.split_at(of_class.len().min(end_place - first_place));
            for (place, row) in assigned[first_place..end_place].iter_mut().zip(held) {
                *place = Some(row.1);
            }
            left.extend(beyond.iter().map(|row| row.1));
            (first_place, first_row) = (end_place, end_row);
        }
        let mut left = left.into_iter();
        // As many rows are left as places are free.
        assigned.into_iter().filter_map(|row| row.or_else(|| left.next())).collect()
    }

    /// The target of a place in a lane, as a share of 2^32. Targets repeat after 2^32 places.
    fn target(&self, place: u64) -> u32 {
        let mut bits = (place as u32).wrapping_add(self.scramble);
        for factor in [0x6c50_b47c, 0xb82f_1e52, 0xc7af_e638, 0x8d22_f6e6] {
            bits ^= bits.wrapping_mul(factor);
        }
        bits.reverse_bits()
    }
}

/// Puts the row with each index of `order` at the place beside it.
fn arrange<T: Copy>(rows: &mut [T], places: &[(u32, u32)], order: &[u32]) {
    let taken: Vec<T> = order.iter().map(|row| rows[*row as usize]).collect();
    for ((_, place), row) in places.iter().zip(taken) {
        rows[*place as usize] = row;
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
            let balance = Balance::new(Arc::new(RowCosts::new(vec![vec![]])), 3, epoch);
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
    fn rows_come_where_their_costs_are_wanted() {
        let costs: Vec<f32> = (0..64).map(|row| (row * 7 % 64) as f32).collect();
        let of_rows = Arc::new(RowCosts::new(vec![vec![costs.clone()]]));
        let balance = Balance::new(of_rows.clone(), 5, 0);
        let mut rows: Vec<u32> = (0..64).collect();
        balance.spread(&mut rows, |row| of_rows.of_row(0, *row));
        assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 64);
        for batch in rows.chunks(8) {
            let strata: HashSet<u32> = batch.iter().map(|row| costs[*row as usize] as u32 / 8).collect();
            assert_eq!(strata.len(), 8, "a batch has a row of each eighth: {batch:?}");
        }
    }

    /// The places of one lane beside those of another: each pair of runs has about the same costs.
    #[test]
    fn runs_of_two_lanes_have_the_same_costs() {
        let mut draws = Draws::keyed(3, Purpose::Rows, &[]);
        for kinds in 1..=4 {
            for (rows, begin) in [(2_048, 0), (2_048, 24), (2_051, 40)] {
                let mut cost = || (0..rows).map(|_| 1.0 + draws.below(100) as f32).collect::<Vec<f32>>();
                let costs: Vec<Vec<Vec<f32>>> = (0..kinds).map(|_| vec![cost(), cost()]).collect();
                let of_rows = Arc::new(RowCosts::new(costs.clone()));
                let balance = Balance::new(of_rows.clone(), 5, 0);
                let lane = |group: u32| {
                    let mut lane: Vec<u32> = (0..rows).collect();
                    balance.even_out(&mut lane, begin, |row| of_rows.of_row(group, *row));
                    assert_eq!(lane.iter().collect::<HashSet<_>>().len(), rows as usize);
                    let mut again: Vec<u32> = (0..rows).collect();
                    balance.even_out(&mut again, begin, |row| of_rows.of_row(group, *row));
                    assert_eq!(lane, again);
                    lane
                };
                let lanes = [lane(0), lane(1)];
                for costs in &costs {
                    let of_run = |group: usize, run: &[u32]| -> f32 {
                        run.iter().map(|row| costs[group][*row as usize]).sum()
                    };
                    let runs = lanes[0].chunks_exact(8).zip(lanes[1].chunks_exact(8));
                    let apart = runs.map(|(a, b)| (of_run(0, a) - of_run(1, b)).abs() / (8.0 * 50.5));
                    let mean = apart.sum::<f32>() / (rows / 8) as f32;
                    assert!(mean < 0.04, "{kinds} costs, {rows} rows from {begin}: {mean}");
                }
            }
        }
    }

    #[test]
    fn a_slot_of_few_or_equal_rows_keeps_them_all() {
        for costs in [vec![], vec![3.0], vec![0.0; 5], vec![7.0; 40]] {
            let of_rows = Arc::new(RowCosts::new(vec![vec![costs.clone()], vec![costs.clone()]]));
            let balance = Balance::new(of_rows.clone(), 5, 0);
            let mut rows: Vec<u32> = (0..costs.len() as u32).collect();
            balance.even_out(&mut rows, 11, |row| of_rows.of_row(0, *row));
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..costs.len() as u32));
        }
    }
}
