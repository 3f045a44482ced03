//! Cuts row groups into pieces (runs of consecutive rows) whose pages are read separately. In this way, a row
//! group that is larger than the memory budget can be read, if its rows are delivered in stored order.

use std::collections::HashMap;
use std::fmt;

use super::chunk_pages::GroupPages;
use super::cost::Cost;
use crate::shard::Part;

/// The pieces of each row group that is read in pieces, by the index of the row group.
#[derive(Default)]
pub(crate) struct Pieces(HashMap<usize, Box<[Piece]>>);

/// A piece of a row group: a run of its selected rows.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The ordinal of the piece's first row among the selected rows of the row group.
    pub(crate) start: u32,
    /// The number of selected rows in the piece.
    pub(crate) rows: u32,
    pub(crate) cost: Cost,
    /// The pages that hold the rows of the piece.
    pub(crate) pages: GroupPages,
}

impl Pieces {
    /// Takes the pieces of each row group, in order. They must cover all selected rows of the row group.
    pub(crate) fn new(pieces: HashMap<usize, Box<[Piece]>>) -> Self {
        Pieces(pieces)
    }

    /// Whether all row groups are read as a whole.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The piece that contains the rows of a part (a run of rows of one row group), which must not cross
    /// pieces; `None` if the row group is read as a whole.
    pub(crate) fn piece_of(&self, part: &Part) -> Option<&Piece> {
        let pieces = self.of_group(part.group as usize)?;
        let after = pieces.partition_point(|piece| piece.start <= part.start);
        pieces.get(after.checked_sub(1)?)
    }

    /// The pieces of a row group; `None` if it is read as a whole.
    pub(crate) fn of_group(&self, group: usize) -> Option<&[Piece]> {
        self.0.get(&group).map(|pieces| &**pieces)
    }

    /// For each row group that is read in pieces, the first rows of all its pieces except the first piece.
    pub(crate) fn cuts(&self) -> HashMap<u32, Vec<u32>> {
        let starts = |pieces: &[Piece]| pieces.iter().skip(1).map(|piece| piece.start).collect();
        self.0.iter().map(|(&group, pieces)| (group as u32, starts(pieces))).collect()
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} row groups in pieces", self.0.len())
    }
}
