//! The rows of a batch that a column is delivered for: all of them, or of each window of rows those that it is listed for.

use std::sync::{Arc, OnceLock};

use crate::batch::Selection;

/// Source and place in its deal.
pub(super) type Picks = Arc<Vec<(u32, u32)>>;

/// The rows of some columns.
pub(super) struct View {
    pub(super) picks: Picks,
    /// Of each sample the rows that are among them.
    rows: Box<[u32]>,
    /// Rows of a sample.
    of: usize,
    /// Where the picks are in columns as they are stored, and in those that are in the order of the deals.
    pub(super) stored: OnceLock<Selection>,
    pub(super) dealt: OnceLock<Selection>,
    /// Of each pick its source.
    pub(super) of_source: OnceLock<Selection>,
}

impl View {
    /// All rows.
    pub(super) fn all(picks: Picks) -> Self {
        View::new(picks, Box::new([0]), 1)
    }

    /// Of samples of `of` rows each the rows with these ordinals.
    pub(super) fn some(all: &Picks, rows: &[u32], of: usize) -> Self {
        if rows.len() == of {
            return View::new(all.clone(), rows.into(), of);
        }
        let picks = all.chunks_exact(of).flat_map(|sample| rows.iter().map(|row| sample[*row as usize]));
        View::new(Arc::new(picks.collect()), rows.into(), of)
    }

    fn new(picks: Picks, rows: Box<[u32]>, of: usize) -> Self {
        let (stored, dealt, of_source) = Default::default();
        View { picks, rows, of, stored, dealt, of_source }
    }

    /// Of each sample how many rows there are.
    pub(super) fn of_a_sample(&self) -> usize {
        self.rows.len()
    }

    /// The place among all rows of the batch of one of these.
    pub(super) fn among_all(&self, at: usize) -> usize {
        let each = self.rows.len();
        at / each * self.of + self.rows[at % each] as usize
    }

    /// The same of bad rows.
    pub(super) fn bad_among_all<E>(&self, bad: Vec<(usize, E)>) -> impl Iterator<Item = (usize, E)> {
        bad.into_iter().map(|(at, error)| (self.among_all(at), error))
    }
}
