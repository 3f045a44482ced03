//! Advice of `inspect` and `doctor` on the size of row groups: a shuffle mixes well only if its default
//! window (the row groups that it holds in memory) holds enough of them.

use forebay_store::catalog::{Catalog, Projection, WINDOW_BYTES};

use crate::units::{bytes, counted};

/// The fewest row groups with which a window mixes well.
const MIN_ROW_GROUPS: u64 = 16;
/// The decoded size of row groups that suit a shuffle, in bytes: the default window holds 32 of them.
const GOOD_ROW_GROUP_BYTES: u64 = 32 << 20;

/// The sizes of a data set that decide how well the default window mixes.
#[derive(Default)]
pub(crate) struct WindowSizes {
    /// The mean size of a decoded row, in bytes.
    row_bytes: u64,
    /// The mean number of rows in a row group.
    group_rows: u64,
    groups: u64,
}

impl WindowSizes {
    /// Measures the sizes for a loader that reads the projected columns.
    pub(crate) fn measure(catalog: &Catalog, projection: &Projection) -> Self {
        let groups = catalog.groups.len() as u64;
        let row_bytes = catalog.window_row_bytes(projection);
        WindowSizes { row_bytes, group_rows: catalog.rows() / groups.max(1), groups }
    }

    /// Advice to change the row groups, if the window holds so few of them that it mixes poorly.
    pub(crate) fn advice(&self) -> Option<String> {
        let group_bytes = self.row_bytes.saturating_mul(self.group_rows).max(1);
        let held = WINDOW_BYTES / group_bytes;
        let good = (GOOD_ROW_GROUP_BYTES / self.row_bytes.max(1)).max(1);
        // The advised row groups must be smaller than the present ones, which is impossible for row groups of
        // one row.
        (held < MIN_ROW_GROUPS && self.groups > held && good < self.group_rows).then(|| {
            format!(
                "Row groups of {} once decoded are too large to shuffle well: a window of {} holds {}. \
                 Write row groups of {}.",
                bytes(group_bytes),
                bytes(WINDOW_BYTES),
                if held == 0 { "not even one".to_owned() } else { format!("only {held}") },
                counted(good, "row"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_of_which_the_window_holds_few_are_to_be_rewritten() {
        let few = WindowSizes { row_bytes: 31_000, group_rows: 10_000, groups: 100 }.advice().unwrap();
        assert!(few.contains("of 310.0 MB once decoded") && few.contains("holds only 3"), "{few}");
        assert!(few.ends_with("Write row groups of 1,082 rows."), "{few}");
        let none = WindowSizes { row_bytes: 2 << 30, group_rows: 2, groups: 100 }.advice().unwrap();
        assert!(none.contains("holds not even one") && none.ends_with("of 1 row."), "{none}");
    }

    #[test]
    fn row_groups_of_which_the_window_holds_many_or_all_are_left() {
        assert_eq!(WindowSizes { row_bytes: 6_000, group_rows: 10_000, groups: 100 }.advice(), None);
        assert_eq!(WindowSizes { row_bytes: 31_000, group_rows: 10_000, groups: 3 }.advice(), None);
        assert_eq!(
            WindowSizes { row_bytes: 1 << 30, group_rows: 1, groups: 100 }.advice(),
            None,
            "of one row"
        );
    }
}
