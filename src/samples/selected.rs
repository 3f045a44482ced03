//! The selected rows of each row group of a data set.

use std::sync::Arc;

use forebay_store::row_set::RowSet;

/// A set of rows for each row group. Usually all rows are selected, and a row group then takes four bytes.
#[derive(Clone, Debug)]
pub(super) enum SelectedRows {
    /// All rows of each row group, given by the number of its rows.
    Whole(Arc<[u32]>),
    /// At least one row group has only some of its rows selected.
    Some(Arc<[RowSet]>),
}

impl SelectedRows {
    /// The number of row groups.
    pub(super) fn len(&self) -> usize {
        match self {
            SelectedRows::Whole(rows) => rows.len(),
            SelectedRows::Some(sets) => sets.len(),
        }
    }

    /// The selected rows of a row group.
    pub(super) fn row_set(&self, group: usize) -> RowSet {
        match self {
            SelectedRows::Whole(rows) => RowSet::all(rows[group]),
            SelectedRows::Some(sets) => sets[group].clone(),
        }
    }

    /// The number of selected rows in a row group.
    pub(super) fn count(&self, group: usize) -> u32 {
        match self {
            SelectedRows::Whole(rows) => rows[group],
            SelectedRows::Some(sets) => sets[group].count(),
        }
    }

    /// The number of selected rows in each row group.
    pub(super) fn counts(&self) -> Arc<[u32]> {
        match self {
            SelectedRows::Whole(rows) => rows.clone(),
            SelectedRows::Some(sets) => sets.iter().map(RowSet::count).collect(),
        }
    }

    /// The memory that the sets of rows allocate, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            SelectedRows::Whole(_) => 0,
            SelectedRows::Some(sets) => sets.iter().map(RowSet::bytes).sum(),
        }
    }
}

impl From<Vec<RowSet>> for SelectedRows {
    fn from(sets: Vec<RowSet>) -> Self {
        match sets.iter().all(RowSet::is_all) {
            true => SelectedRows::Whole(sets.iter().map(RowSet::rows).collect()),
            false => SelectedRows::Some(sets.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_row_groups_take_no_sets_and_answer_as_sets_do() {
        let whole = vec![RowSet::all(7), RowSet::none(0), RowSet::all(3)];
        let some = vec![RowSet::all(7), RowSet::none(4), RowSet::from_runs(9, [1..3, 8..9])];
        for (sets, are_whole) in [(whole, true), (some, false)] {
            let selected = SelectedRows::from(sets.clone());
            assert_eq!(matches!(selected, SelectedRows::Whole(_)), are_whole);
            assert_eq!(selected.len(), sets.len());
            assert_eq!(*selected.counts(), *sets.iter().map(RowSet::count).collect::<Vec<_>>());
            for (group, set) in sets.iter().enumerate() {
                assert_eq!(
                    (selected.row_set(group), selected.count(group)),
                    (set.clone(), set.count()),
                    "{group}"
                );
            }
        }
    }
}
