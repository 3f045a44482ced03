//! Finds the rows at which windows (samples of consecutive rows) begin. Rows are taken one by one, so that a
//! window can continue from one row group into the next.

use forebay_store::row_set::RowSet;

use super::stretches::{Border, Stretches};
use super::window::Window;

/// Finds the windows in consecutive rows. Each window is found when its last row is pushed.
#[derive(Debug)]
struct Starts {
    /// The number of rows in a window.
    length: u64,
    /// The number of rows from the beginning of a window to the beginning of the next.
    step: u64,
    /// Whether the `by` value at which a window begins must be later than the one at which the window before
    /// ends.
    apart: bool,
    /// The number of rows taken so far.
    rows: u64,
    /// The row at which the next window begins, unless the present stretch of rows ends before. `None` before
    /// a stretch.
    next: Option<u64>,
    /// Whether the next window must wait for a row whose `by` value is later than that of the row before.
    waits: bool,
}

impl Starts {
    fn new(window: &Window) -> Self {
        let (length, step) = (window.length().into(), window.step().into());
        Starts { length, step, apart: window.is_apart(), rows: 0, next: None, waits: false }
    }

    /// Takes the next row. If that row ends a window, returns the row with which the window begins.
    fn push(&mut self, row: Border) -> Option<u64> {
        let at = self.rows;
        self.rows += 1;
        if row.is_out {
            (self.next, self.waits) = (None, false);
            return None;
        }
        let next = match self.next.filter(|_| !row.is_cut) {
            None => at,
            Some(next) if self.waits && next == at && row.is_equal => {
                self.next = Some(at + 1);
                return None;
            }
            Some(next) => next,
        };
        let ends = at + 1 == next + self.length;
        self.next = Some(if ends { next + self.step } else { next });
        self.waits = ends && self.apart;
        ends.then_some(next)
    }
}

/// Finds the rows with which windows begin in consecutive row groups.
#[derive(Debug)]
pub(crate) struct SequenceStarts {
    starts: Starts,
    /// For each row group, the number of rows in the row groups before it, and its selected rows.
    groups: Vec<(u64, RowSet)>,
    /// The rows at which windows begin, for each row group in which no further window can be found.
    done: Vec<RowSet>,
    /// The rows at which windows begin in the row group that follows those in `done`, as ordinals among its
    /// selected rows.
    found: Vec<u32>,
}

impl SequenceStarts {
    pub(crate) fn new(window: &Window) -> Self {
        SequenceStarts {
            starts: Starts::new(window),
            groups: Vec::new(),
            done: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Takes the `selected` rows of the next row group. `border` says how the first of these rows follows the
    /// last row of the row group before.
    pub(crate) fn push(&mut self, selected: &RowSet, stretches: &Stretches, border: Option<Border>) {
        self.groups.push((self.starts.rows, selected.clone()));
        for at in 0..selected.count() {
            let row = border.filter(|_| at == 0).unwrap_or_else(|| stretches.row(at as usize));
            if let Some(start) = self.starts.push(row) {
                self.add(start);
            }
        }
    }

    /// Returns, for each row group, the stored rows at which windows begin.
    pub(crate) fn finish(mut self) -> Vec<RowSet> {
        while self.done.len() < self.groups.len() {
            self.close();
        }
        self.done
    }

    /// Adds a row at which a window begins. Windows are found in the order in which they begin, so no more
    /// windows can be found in earlier row groups.
    fn add(&mut self, start: u64) {
        while self.groups.get(self.done.len() + 1).is_some_and(|(first, _)| *first <= start) {
            self.close();
        }
        self.found.push((start - self.groups[self.done.len()].0) as u32);
    }

    fn close(&mut self) {
        let rows = &self.groups[self.done.len()].1;
        let found = self.found.drain(..).map(|start| start..start + 1);
        self.done.push(rows.compose(&RowSet::from_runs(rows.count(), found)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a random relation of a row to the row before: the row may be cut off from it, be in no window,
    /// or have an equal value.
    fn row() -> impl Strategy<Value = Border> {
        prop::sample::select(
            vec![(false, false, false); 6]
                .into_iter()
                .chain([
                    (true, false, false),
                    (false, true, false),
                    (false, false, true),
                    (false, false, true),
                ])
                .collect::<Vec<_>>(),
        )
        .prop_map(|(is_cut, is_out, is_equal)| Border { is_cut, is_out, is_equal })
    }

    /// The first row of each window, found by trying a window at every row.
    fn by_hand(rows: &[Border], length: usize, overlap: Option<u32>) -> Vec<u32> {
        let goes_on = |at: usize| !rows[at].is_out && !rows[at].is_cut;
        let (mut found, mut start): (Vec<u32>, usize) = (Vec::new(), 0);
        // The row after the last row of the stretch that contains `start`.
        let end = |start: usize| (start + 1..rows.len()).find(|at| !goes_on(*at)).unwrap_or(rows.len());
        while start < rows.len() {
            if rows[start].is_out {
                start += 1;
                continue;
            }
            let end = end(start);
            while start + length <= end {
                found.push(start as u32);
                start += length - overlap.map_or(length - 1, |rows| rows as usize);
                while overlap == Some(0) && start < end && rows[start].is_equal {
                    start += 1;
                }
            }
            start = end;
        }
        found
    }

    proptest! {
        #[test]
        fn windows_do_not_depend_on_where_row_groups_end(
            rows in prop::collection::vec(row(), 0..80),
            length in 1u32..7,
            overlap in prop::option::of(0u32..6),
            cuts in prop::collection::vec(1usize..20, 1..12),
        ) {
            let overlap = overlap.filter(|overlap| *overlap < length);
            let window = overlap.map_or(Window::rows(length), |overlap| Window::rows(length).overlap(overlap));
            let mut starts = SequenceStarts::new(&window);
            let (mut at, mut firsts) = (0, Vec::new());
            for rows_of_group in cuts.iter().copied().chain([rows.len()]) {
                let group = &rows[at..(at + rows_of_group).min(rows.len())];
                firsts.push(at as u32);
                at += group.len();
                starts.push(&RowSet::all(group.len() as u32), &Stretches::from_rows(group), None);
            }
            let found = starts.finish().into_iter().zip(firsts);
            let found: Vec<u32> =
                found.flat_map(|(set, first)| (0..set.count()).map(move |at| first + set.select(at))).collect();
            prop_assert_eq!(found, by_hand(&rows, length as usize, overlap));
        }
    }
}
