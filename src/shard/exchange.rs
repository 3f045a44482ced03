//! Exchanges rows between short runs of a lane, until the runs cost as much as expected.
//!
//! A batch is one or more runs. If each run costs as much as its places on the scale of
//! [costs](super::row_costs) let expect, and all lanes have the same places, then all lanes have the same
//! cost in each batch. Only rows that are near each other on the scale are exchanged. So an expensive row
//! stays where the other lanes have an expensive row too, and rows that are alike in one cost make up for the
//! difference in another.

use std::array;

/// The number of consecutive places of a lane that form a run. Shorter runs would have too few rows to choose
/// from, and batches are rarely smaller.
pub(super) const RUN: u64 = 8;

/// The number of runs that form a long run, which is kept near its expected cost too.
pub(super) const RUNS_OF_LONG: u64 = 4;

/// The importance of the cost of a long run, where that of a run is 1.
const LONG_WEIGHT: f32 = 0.3;

/// The number of rows on the scale with which a row may be exchanged. More give more even costs, and take
/// longer.
const NEAR: usize = 32;

/// The number of times that each row is considered.
const PASSES: usize = 2;

/// An exchange that gains less than this (in squares of mean costs) is not made.
const MIN_GAIN: f32 = 1e-6;

/// Rows in the order of the places to which they are assigned on the scale.
pub(super) struct Assigned<const K: usize> {
    /// The costs of each row, in multiples of their means.
    pub(super) costs: Vec<[f32; K]>,
    /// The index of each row.
    pub(super) rows: Vec<u32>,
    /// The number of the run to which each place belongs, from a multiple of [`RUNS_OF_LONG`] on.
    pub(super) runs: Vec<u32>,
}

impl<const K: usize> Assigned<K> {
    /// Exchanges rows, so that runs cost as much as expected. `expected` has the costs that are expected at
    /// each place.
    pub(super) fn even_out(&mut self, expected: impl Iterator<Item = [f32; K]>) {
        let mut excess = Excess::new(self, expected);
        for pass in 0..PASSES {
            match pass % 2 {
                0 => (0..self.rows.len()).for_each(|at| self.exchange(at, at + 1, &mut excess)),
                _ => (0..self.rows.len()).rev().for_each(|at| {
                    self.exchange(at, at.saturating_sub(NEAR), &mut excess);
                }),
            }
        }
    }

    /// Exchanges the row at place `at` with that one of the [`NEAR`] rows from place `first` on with which
    /// most is gained.
    fn exchange(&mut self, at: usize, first: usize, excess: &mut Excess<K>) {
        let end = self.rows.len().min(first + NEAR);
        let (costs, run) = (self.costs[at], self.runs[at]);
        let of_run = excess.weighted[run as usize];
        let (mut least, mut with) = (-MIN_GAIN, at);
        for other in first..end {
            let of_other = &excess.weighted[self.runs[other] as usize];
            let mut change = 0.0;
            for kind in 0..K {
                let more = self.costs[other][kind] - costs[kind];
                change += more * (of_run[kind] - of_other[kind] + (1.0 + LONG_WEIGHT) * more);
            }
            if change < least {
                (least, with) = (change, other);
            }
        }
        if self.runs[with] == run {
            return;
        }
        let more = array::from_fn(|kind| self.costs[with][kind] - costs[kind]);
        excess.add(run, more);
        excess.add(self.runs[with], more.map(|more| -more));
        self.costs.swap(at, with);
        self.rows.swap(at, with);
    }
}

/// How much more each run costs than expected.
struct Excess<const K: usize> {
    /// The excess of each run, plus the excess of its long run times [`LONG_WEIGHT`].
    weighted: Vec<[f32; K]>,
}

impl<const K: usize> Excess<K> {
    fn new(assigned: &Assigned<K>, expected: impl Iterator<Item = [f32; K]>) -> Self {
        let last = assigned.runs.iter().copied().max().unwrap_or(0) as usize;
        let mut excess =
            Excess { weighted: vec![[0.0; K]; (last + 1).next_multiple_of(RUNS_OF_LONG as usize)] };
        for ((costs, run), expected) in assigned.costs.iter().zip(&assigned.runs).zip(expected) {
            excess.add(*run, array::from_fn(|kind| costs[kind] - expected[kind]));
        }
        excess
    }

    /// Adds costs to a run.
    fn add(&mut self, run: u32, costs: [f32; K]) {
        let run = run as usize;
        let long = run - run % RUNS_OF_LONG as usize;
        for kind in 0..K {
            self.weighted[run][kind] += costs[kind];
            let runs = &mut self.weighted[long..long + RUNS_OF_LONG as usize];
            runs.iter_mut().for_each(|run| run[kind] += LONG_WEIGHT * costs[kind]);
        }
    }
}
