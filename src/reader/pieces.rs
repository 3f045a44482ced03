//! Row groups in pieces of consecutive rows, whose pages are read separately. In this way a row group that is
//! larger than memory can be read, if rows are delivered as they are stored.

use std::collections::HashMap;
use std::fmt;

use super::chunk_pages::GroupPages;
use super::cost::Cost;
use crate::shard::Part;

/// The row groups that are read in pieces.
#[derive(Default)]
pub(crate) struct Pieces(HashMap<usize, Box<[Piece]>>);

/// A piece of a row group.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The first row of the piece among the selected rows of the row group.
    pub(crate) start: u32,
    /// The number of selected rows in the piece.
    pub(crate) rows: u32,
    pub(crate) cost: Cost,
    /// The pages that hold the rows of the piece.
    pub(crate) pages: GroupPages,
}

impl Pieces {
    /// Pieces that cover all selected rows of each of their row groups, in order.
    pub(crate) fn new(pieces: HashMap<usize, Box<[Piece]>>) -> Self {
        Pieces(pieces)
    }

    /// Whether all row groups are read as a whole.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The piece that contains the rows of a part, which must be within one piece; `None` if the row group is
    /// read as a whole.
    pub(crate) fn piece_of(&self, part: &Part) -> Option<&Piece> {
        let pieces = self.of_group(part.group as usize)?;
        let after = pieces.partition_point(|piece| piece.start <= part.start);
        pieces.get(after.checked_sub(1)?)
    }

    /// The pieces of a row group; `None` if it is read as a whole.
    pub(crate) fn of_group(&self, group: usize) -> Option<&[Piece]> {
        self.0.get(&group).map(|pieces| &**pieces)
    }

    /// For each row group, the beginnings of its pieces except the first.
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
