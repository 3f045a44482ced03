//! Views: the rows of a batch for which a column is delivered. These are all rows, or, if samples are windows
//! of rows, those rows of each window that the column asks for.

use std::sync::{Arc, OnceLock};

use crate::batch::Selection;

/// For each row, the index of its source (a row group or a part of one) and its place in the source's
/// shuffled order; for samples of several rows, the index of the row itself instead of a place.
pub(super) type Picks = Arc<Vec<(u32, u32)>>;

/// The rows of a batch for which some columns are delivered. Columns that are delivered for the same rows
/// share a view.
pub(super) struct View {
    pub(super) picks: Picks,
    /// The rows of each sample that are in this view, counted within the sample.
    rows: Box<[u32]>,
    /// The number of rows in a sample.
    of: usize,
    /// The rows of the view to copy from columns in stored order, and from columns in shuffled order; made on
    /// first use.
    pub(super) stored: OnceLock<Selection>,
    pub(super) dealt: OnceLock<Selection>,
    /// For each row of the view, the row group that it comes from; for columns with a single value in each
    /// file.
    pub(super) of_source: OnceLock<Selection>,
}

impl View {
    /// A view of all rows.
    pub(super) fn all(picks: Picks) -> Self {
        View::new(picks, Box::new([0]), 1)
    }

    /// A view of the same rows of each sample. `rows` counts them within a sample of `of` rows.
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

    /// Converts the index of a row in this view to its index among all rows of the batch.
    pub(super) fn among_all(&self, at: usize) -> usize {
        let each = self.rows.len();
        at / each * self.of + self.rows[at % each] as usize
    }

    /// Converts the indices of bad rows in this view to indices among all rows of the batch.
    pub(super) fn bad_among_all<E>(&self, bad: Vec<(usize, E)>) -> impl Iterator<Item = (usize, E)> {
        bad.into_iter().map(|(at, error)| (self.among_all(at), error))
    }
}
