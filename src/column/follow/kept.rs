//! The boxes of each row that are delivered, for columns with an item for each box.

use forebay_arrow::datatypes::FieldRef;
use forebay_base::{Error, ErrorKind, Result};

use super::Followed;
use super::boxes::{Boxes, check_stored, stored};
use crate::column::FollowedRows;

/// Determines which boxes of a column are delivered.
#[derive(Clone, Debug)]
pub(crate) struct KeptBoxes {
    boxes: Boxes,
    /// The index of the boxes' column.
    column: usize,
    /// The stored field of the boxes' column.
    stored: FieldRef,
    followed: Followed,
}

impl KeptBoxes {
    pub(crate) fn new(boxes: Boxes, column: usize, stored: FieldRef, followed: Followed) -> Self {
        KeptBoxes { boxes, column, stored, followed }
    }

    /// Refuses a column that does not hold boxes.
    pub(super) fn check(&self) -> Result<()> {
        check_stored(&self.stored)
    }

    /// The index of the image's column.
    pub(super) fn image(&self) -> usize {
        self.followed.column
    }

    /// Whether each box of each row is delivered. `None` for a row without an image, or whose boxes are bad,
    /// which their own column reports.
    pub(super) fn of_rows(&self, rows: &dyn FollowedRows) -> Result<Vec<Option<Vec<bool>>>> {
        let gathered = rows.gather(self.column)?;
        let stored = stored(&gathered)?;
        let mut kept = vec![None; rows.count()];
        // The image's own column reports an image that is bad.
        self.followed.each_row(rows, |row, drawn| {
            let Some((drawn, stored)) = drawn.zip(stored.row(row, "boxes").ok()) else { return Ok(()) };
            let visible = self.boxes.visible(stored, drawn).collect::<Result<Vec<_>>>();
            kept[row] = visible.ok().map(|boxes| boxes.iter().map(Option::is_some).collect());
            Ok(())
        })?;
        Ok(kept)
    }
}

/// Refuses a list that does not have an item for each box.
pub(super) fn check_items(items: usize, boxes: usize) -> Result<()> {
    match items == boxes {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::BadRow, format!("a list of {items} items for {boxes} boxes"))),
    }
}
