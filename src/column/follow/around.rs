//! The boxes around which an image is cropped.

use forebay_image::Drawing;

use super::boxes::{Boxes, stored};
use crate::batch::{Selection, gather};
use crate::column::RowCells;

/// The column of boxes that a crop of images looks at.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    boxes: Boxes,
    /// The index of the boxes' column.
    column: usize,
}

impl Around {
    pub(crate) fn new(boxes: Boxes, column: usize) -> Self {
        Around { boxes, column }
    }

    /// The sides of the boxes of a row. There are none if they are null or bad, which their own column
    /// reports.
    pub(crate) fn corners(&self, row: RowCells<'_>) -> Vec<[f64; 4]> {
        let corners = || {
            let (cells, row) = row.stored(self.column)?;
            let lists = gather(&[cells.as_ref()], &Selection::of_one(vec![row]), None).ok()?;
            let lists = stored(&lists).ok()?;
            self.boxes.stored_corners(lists.row(0, "boxes").ok()?)
        };
        corners().unwrap_or_default()
    }

    /// Adds boxes with these sides to the drawing of an image, which is cropped around them.
    pub(crate) fn drawing<'a>(&self, drawing: Drawing<'a>, corners: &'a [[f64; 4]]) -> Drawing<'a> {
        drawing.around(corners, self.boxes.is_normalized())
    }
}
