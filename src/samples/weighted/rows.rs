//! The rows that an epoch draws from one row group.

use forebay_store::row_set::RowSet;

use super::population::Population;
use super::strata::Points;
use crate::samples::{SampleKind, SampleRows};
use crate::shard::{Draws, Purpose};

/// The drawn rows of a row group, with repeats. Rows that are drawn once are in stored order; the repeats of
/// a row are spread among them at equal distances. So repeats are far apart, and if two lanes (sequences that
/// are interleaved into the order) share the row group, each gets some of them.
#[derive(Debug)]
pub(super) struct DrawnRows {
    rows: Box<[u32]>,
    /// For each drawn row, how many times it came earlier in the epoch.
    repeats: Box<[u32]>,
}

impl DrawnRows {
    /// Draws the rows of a row group. `points` has the points on the line of each class, and `starts` the
    /// place where each cell of the row group begins on the line of its class.
    pub(super) fn new(
        population: &Population,
        group: usize,
        seed: u64,
        epoch: u64,
        points: &[Points],
        starts: &[u64],
    ) -> Self {
        let count = population.rows_of(group);
        let mut order: Vec<u32> = (0..count).collect();
        Draws::keyed(seed, Purpose::Sample, &[epoch, group as u64 + 1]).shuffle(&mut order);
        let (mut at, cells) = (starts.to_vec(), population.cells_of(group));
        let mut times = vec![0u32; count as usize];
        for row in order {
            let (cell, weight) = population.row(group, row);
            let points = &points[cells[cell].class as usize];
            // The draws of the row group were counted before and are fewer than 2^32.
            times[row as usize] = points.between(at[cell], at[cell] + weight) as u32;
            at[cell] += weight;
        }
        let mut drawn: Vec<(u64, u32, u32)> = Vec::new();
        for (row, &times) in (0..).zip(&times) {
            drawn.extend((0..times).map(|repeat| (place(row, count, repeat, times), row, repeat)));
        }
        drawn.sort_unstable();
        let (rows, repeats): (Vec<u32>, Vec<u32>) =
            drawn.into_iter().map(|(_, row, repeat)| (row, repeat)).unzip();
        DrawnRows { rows: rows.into(), repeats: repeats.into() }
    }
}

/// Returns the place of a repeat of a row among the draws of its row group: from 0 for the first place to
/// 2^32 for the end.
fn place(row: u32, rows: u32, repeat: u32, times: u32) -> u64 {
    let (at, all) =
        (u64::from(repeat) * u64::from(rows) + u64::from(row), u64::from(times) * u64::from(rows));
    ((u128::from(at) << 32) / u128::from(all)) as u64
}

impl SampleKind for DrawnRows {
    fn count(&self, _: usize) -> u32 {
        self.rows.len() as u32
    }

    fn rows(&self, _: usize, sample: u32, _: &RowSet, rows: &mut SampleRows) {
        rows.rows.push(self.rows[sample as usize]);
        rows.repeats.push(self.repeats[sample as usize]);
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.rows) + size_of_val(&*self.repeats)) as u64
    }
}
