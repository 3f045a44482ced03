//! The draws of one epoch: how many rows each class and each row group gives.

use std::sync::Arc;

use forebay_store::row_set::RowSet;

use super::population::Population;
use super::rows::DrawnRows;
use super::strata::Points;
use crate::samples::{EpochKinds, SampleKind, SampleRows};
use crate::shard::{Draws, Purpose};

/// The bytes that a drawn row takes in the list of its row group's draws: the row, and how often it was drawn
/// before.
const LISTED_BYTES: u64 = 8;

impl EpochKinds for Population {
    fn bounds(&self, group: usize) -> (u32, u32) {
        let (least, most) = self.draws_of(group);
        // Both numbers are below 2^32, because a population with more draws in a row group was refused.
        (least as u32, most as u32)
    }

    fn total(&self) -> u64 {
        self.strata.rows()
    }

    fn of_epoch(self: Arc<Self>, seed: u64, epoch: u64) -> (Arc<dyn SampleKind>, Arc<[u32]>) {
        let draws = EpochDraws::new(self, seed, epoch);
        let counts = draws.counts.clone();
        (Arc::new(draws), counts)
    }

    fn listed_bytes(&self) -> u64 {
        LISTED_BYTES
    }

    fn bytes(&self) -> u64 {
        self.kept_bytes()
    }
}

/// The draws of one epoch, by class and by row group.
#[derive(Debug)]
pub(crate) struct EpochDraws {
    population: Arc<Population>,
    seed: u64,
    epoch: u64,
    /// For each class, the points on its line of rows; a row is drawn as often as points fall on it.
    points: Box<[Points]>,
    /// For each cell (the rows of one class in one row group), the place where it begins on the line of its
    /// class.
    starts: Box<[u64]>,
    /// The number of draws of each row group.
    counts: Arc<[u32]>,
}

impl EpochDraws {
    pub(crate) fn new(population: Arc<Population>, seed: u64, epoch: u64) -> Self {
        let mut random = Draws::keyed(seed, Purpose::Sample, &[epoch, 0]);
        let draws = population.strata.draws(seed, epoch);
        let of_class = population.totals.iter().zip(draws);
        let points: Box<[Points]> =
            of_class.map(|(total, draws)| Points::new(*total, draws, &mut random)).collect();
        let mut order: Vec<usize> = (0..population.groups()).collect();
        random.shuffle(&mut order);
        let mut at = vec![0; points.len()];
        let mut starts = vec![0; population.cells.len()].into_boxed_slice();
        let mut counts = vec![0; population.groups()];
        for group in order {
            let first = population.first_cells[group];
            let draws = population.cells_of(group).iter().zip(&mut starts[first..]).map(|(cell, start)| {
                let class = cell.class as usize;
                *start = at[class];
                at[class] += cell.weight;
                points[class].between(*start, at[class])
            });
            // The sum is below 2^32, because the bounds of the row group were checked.
            counts[group] = draws.sum::<u64>() as u32;
        }
        EpochDraws { population, seed, epoch, points, starts, counts: counts.into() }
    }
}

impl SampleKind for EpochDraws {
    fn count(&self, group: usize) -> u32 {
        self.counts[group]
    }

    fn rows(&self, group: usize, sample: u32, selected: &RowSet, rows: &mut SampleRows) {
        self.of_group(group).into_iter().for_each(|of_group| of_group.rows(group, sample, selected, rows));
    }

    fn of_group(&self, group: usize) -> Option<Arc<dyn SampleKind>> {
        let EpochDraws { population, seed, epoch, points, starts, .. } = self;
        let starts = &starts[population.first_cells[group]..population.first_cells[group + 1]];
        Some(Arc::new(DrawnRows::new(population, group, *seed, *epoch, points, starts)))
    }

    fn bytes(&self) -> u64 {
        // The memory of two epochs is already counted with the population.
        0
    }
}
