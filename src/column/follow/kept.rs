//! Determines which boxes of each row are dropped, for columns that have an item for each box.

use forebay_arrow::datatypes::FieldRef;
use forebay_base::{Error, ErrorKind, Result};

use super::Followed;
use super::boxes::{Boxes, check_stored, stored};
use crate::column::FollowedRows;

/// The column of boxes, and the image that they follow, which decide which boxes are dropped.
#[derive(Clone, Debug)]
pub(crate) struct KeptBoxes {
    boxes: Boxes,
    /// The index of the column with the boxes.
    column: usize,
    /// The stored field of the column with the boxes.
    stored: FieldRef,
    followed: Followed,
}

impl KeptBoxes {
    pub(crate) fn new(boxes: Boxes, column: usize, stored: FieldRef, followed: Followed) -> Self {
        KeptBoxes { boxes, column, stored, followed }
    }

    /// Returns an error if the column cannot contain boxes.
    pub(super) fn check(&self) -> Result<()> {
        check_stored(&self.stored)
    }

    /// The index of the column with the image.
    pub(super) fn image(&self) -> usize {
        self.followed.column
    }

    /// For each row, whether each of its boxes is delivered. A row is `None` if its image is null, or if its
    /// image or its boxes are bad; the columns of the image and of the boxes report these errors.
    pub(super) fn of_rows(&self, rows: &dyn FollowedRows) -> Result<Vec<Option<Vec<bool>>>> {
        let gathered = rows.gather(self.column)?;
        let stored = stored(&gathered)?;
        let mut kept = vec![None; rows.count()];
        // Errors of images are ignored here, because the column of the image reports them.
        self.followed.each_row(rows, |row, drawn| {
            let Some((drawn, stored)) = drawn.zip(stored.row(row, "boxes").ok()) else { return Ok(()) };
            let visible = self.boxes.visible(stored, drawn).collect::<Result<Vec<_>>>();
            kept[row] = visible.ok().map(|boxes| boxes.iter().map(Option::is_some).collect());
            Ok(())
        })?;
        Ok(kept)
    }
}

/// Returns an error if a list does not have one item for each box.
pub(super) fn check_items(items: usize, boxes: usize) -> Result<()> {
    match items == boxes {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::BadRow, format!("a list of {items} items for {boxes} boxes"))),
    }
}
