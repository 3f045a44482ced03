//! Computes where a list lies in a padded row, and which of its values are kept if the row is shorter.

use serde::{Deserialize, Serialize};

/// The side of a row on which a list is filled up.
///
/// ```
/// use forebay::column::{Pad, PadSide};
///
/// // Each list ends where its row ends, as the prompts of a model that continues them.
/// let prompts = Pad::longest().side(PadSide::Left);
/// assert_eq!(PadSide::default(), PadSide::Right);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PadSide {
    /// After the list.
    #[default]
    Right,
    /// Before the list.
    Left,
}

impl PadSide {
    /// The names of the variants in Python and in JSON.
    pub const NAMES: [&str; 2] = ["right", "left"];
}

/// Which end of a list, its first or its last numbers, is kept if the list is cut off.
///
/// ```
/// use forebay::column::{KeptEnd, Pad};
///
/// // The last 2,048 numbers of longer lists.
/// let tokens = Pad::new(2_048).truncate(true).keep(KeptEnd::Last);
/// assert_eq!(KeptEnd::default(), KeptEnd::First);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeptEnd {
    /// The first numbers.
    #[default]
    First,
    /// The last numbers.
    Last,
}

impl KeptEnd {
    /// The names of the variants in Python and in JSON.
    pub const NAMES: [&str; 2] = ["first", "last"];
}

/// The contents of a padded row: `before` values of padding, then `count` values of the list, of which the
/// first has the index `from` in the list, then padding up to the end of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListPlace {
    pub(super) before: usize,
    pub(super) from: usize,
    pub(super) count: usize,
}

impl ListPlace {
    /// Computes where a list of `length` values lies in a padded row of `row` values.
    pub(super) fn new(length: usize, row: usize, side: PadSide, keep: KeptEnd) -> Self {
        let count = length.min(row);
        let before = match side {
            PadSide::Right => 0,
            PadSide::Left => row - count,
        };
        let from = match keep {
            KeptEnd::First => 0,
            KeptEnd::Last => length - count,
        };
        ListPlace { before, from, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_filled_up_on_one_side_and_cut_off_at_one_end() {
        let place = |length, side, keep| {
            let ListPlace { before, from, count } = ListPlace::new(length, 4, side, keep);
            (before, from, count)
        };
        for keep in [KeptEnd::First, KeptEnd::Last] {
            assert_eq!(place(3, PadSide::Right, keep), (0, 0, 3));
            assert_eq!(place(3, PadSide::Left, keep), (1, 0, 3));
            assert_eq!(place(0, PadSide::Left, keep), (4, 0, 0));
        }
        for side in [PadSide::Right, PadSide::Left] {
            assert_eq!(place(6, side, KeptEnd::First), (0, 0, 4));
            assert_eq!(place(6, side, KeptEnd::Last), (0, 2, 4));
        }
    }
}
