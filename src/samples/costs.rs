//! Computes the costs of samples from the costs of their rows. The option `balance` gives all ranks about
//! equal costs in each step.

use std::iter::repeat;

use super::{EpochSamples, Pack, SampleIndex, SampleRows};

impl SampleIndex {
    /// Returns the cost of each sample of each row group. `of_rows` has the cost of each selected row. A
    /// sample costs as much as all of its rows together. If `squares` is set, samples are packs, and a pack
    /// costs the sum of the squares of its lists' lengths: the work of attention within documents.
    pub(crate) fn costs(&self, of_rows: Vec<Vec<f32>>, squares: Option<&Pack>) -> Vec<Vec<f32>> {
        let samples = self.of_epoch(0);
        if samples.are_rows() {
            return of_rows;
        }
        (0..of_rows.len()).map(|group| samples.costs_of_group(group, &of_rows, squares)).collect()
    }
}

impl EpochSamples {
    fn costs_of_group(&self, group: usize, of_rows: &[Vec<f32>], squares: Option<&Pack>) -> Vec<f32> {
        let Some(samples) = self.all_of_group(group) else { return Vec::new() };
        let mut rows = SampleRows::default();
        let cost = |sample: u32| {
            rows.clear();
            samples.rows(sample, &mut rows);
            match squares {
                Some(pack) => squares_of(pack, &rows),
                None => rows.rows.iter().map(|row| at(&of_rows[group..], *row)).sum(),
            }
        };
        (0..self.counts[group]).map(cost).collect()
    }
}

/// Returns the cost of a row. Rows are numbered from the first row group of `of_rows` through all of them.
fn at(of_rows: &[Vec<f32>], mut row: u32) -> f32 {
    for costs in of_rows {
        match costs.get(row as usize) {
            Some(cost) => return *cost,
            None => row -= costs.len() as u32,
        }
    }
    0.0
}

/// Returns the sum of the squared lengths of all lists, or pieces of lists, in a pack.
fn squares_of(pack: &Pack, rows: &SampleRows) -> f32 {
    let mut left = pack.length();
    let skipped = rows.skipped.iter().copied().chain(repeat(0));
    let pieces = rows.lengths.iter().zip(skipped).map(|(length, skipped)| {
        let piece = length.saturating_sub(skipped).min(left);
        left -= piece;
        piece as f32
    });
    pieces.map(|piece| piece * piece).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_store::row_set::RowSet;

    use super::super::{Bucket, Buckets, Packs};
    use super::*;

    fn all_rows(of_rows: &[Vec<u32>]) -> Vec<RowSet> {
        of_rows.iter().map(|rows| RowSet::all(rows.len() as u32)).collect()
    }

    #[test]
    fn rows_cost_what_they_are_given_and_buckets_the_sum() {
        let costs = vec![vec![5.0, 0.0, 2.0], vec![7.0]];
        let rows = SampleIndex::of_rows(vec![RowSet::all(3), RowSet::all(1)]);
        assert_eq!(rows.costs(costs.clone(), None), costs);
        let bucket = Bucket::rows("x", 2);
        let buckets = Buckets(vec![bucket.of_group(&[1, 9, 2], &[]), bucket.of_group(&[4], &[])]);
        let index = SampleIndex::of_kind(Arc::new(buckets), vec![RowSet::all(3), RowSet::all(1)]);
        assert_eq!(index.costs(vec![vec![10.0, 20.0, 30.0], vec![7.0]], None), [vec![40.0, 20.0], vec![7.0]]);
    }

    #[test]
    fn packs_cost_the_squares_of_their_pieces() {
        let lengths = vec![vec![3, 6, 1], vec![5]];
        let pack = Pack::split(["x"], 8);
        let packs = Packs(lengths.iter().flat_map(|of| pack.of_sequence(vec![of.clone()])).collect());
        let index = SampleIndex::of_kind(Arc::new(packs), all_rows(&lengths));
        let wanted = [vec![9.0 + 25.0, 1.0 + 1.0], vec![25.0]];
        assert_eq!(
            index.costs(vec![vec![0.0; 3], vec![0.0]], Some(&pack)),
            wanted,
            "a list of 6 is split into 5 and 1"
        );
    }

    #[test]
    fn rows_of_later_row_groups_are_found() {
        let of_rows = [vec![1.0, 2.0], vec![], vec![3.0]];
        assert_eq!([0, 1, 2, 3].map(|row| at(&of_rows, row)), [1.0, 2.0, 3.0, 0.0]);
    }
}
