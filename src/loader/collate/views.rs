//! The rows of a batch for which a column is delivered: all of them, or, in windows of rows, those that are
//! listed for the column.

use std::sync::{Arc, OnceLock};

use crate::batch::Selection;

/// For each row, its source and the place in the source's deal.
pub(super) type Picks = Arc<Vec<(u32, u32)>>;

/// The rows of a batch for which some columns are delivered.
pub(super) struct View {
    pub(super) picks: Picks,
    /// The ordinals, within each sample, of the rows in this view.
    rows: Box<[u32]>,
    /// The number of rows of a sample.
    of: usize,
    /// The selection of the picks from columns as they are stored, and from those in the order of the deals.
    pub(super) stored: OnceLock<Selection>,
    pub(super) dealt: OnceLock<Selection>,
    /// The source of each pick, as a selection of one row for each source.
    pub(super) of_source: OnceLock<Selection>,
}

impl View {
    /// A view of all rows.
    pub(super) fn all(picks: Picks) -> Self {
        View::new(picks, Box::new([0]), 1)
    }

    /// A view of the rows with these ordinals in each sample of `of` rows.
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

    /// The number of rows of a sample that are in this view.
    pub(super) fn of_a_sample(&self) -> usize {
        self.rows.len()
    }

    /// The place among all rows of the batch of a row of this view.
    pub(super) fn among_all(&self, at: usize) -> usize {
        let each = self.rows.len();
        at / each * self.of + self.rows[at % each] as usize
    }

    /// Converts the places of bad rows in this view to places among all rows.
    pub(super) fn bad_among_all<E>(&self, bad: Vec<(usize, E)>) -> impl Iterator<Item = (usize, E)> {
        bad.into_iter().map(|(at, error)| (self.among_all(at), error))
    }
}
