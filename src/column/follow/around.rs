//! Reads the boxes of a row for an image that is cropped around them (`random_iou_crop`).

use forebay_image::Drawing;

use super::boxes::{Boxes, stored};
use crate::batch::{Selection, gather};
use crate::column::RowCells;

/// The column of boxes around which images are cropped.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    boxes: Boxes,
    /// The index of the column with the boxes.
    column: usize,
}

impl Around {
    pub(crate) fn new(boxes: Boxes, column: usize) -> Self {
        Around { boxes, column }
    }

    /// The sides of the boxes of a row. If the boxes are null or bad, the result is empty; the column of the
    /// boxes reports the error.
    pub(crate) fn corners(&self, row: RowCells<'_>) -> Vec<[f64; 4]> {
        let corners = || {
            let (cells, row) = row.stored(self.column)?;
            let lists = gather(&[cells.as_ref()], &Selection::of_one(vec![row]), None).ok()?;
            let lists = stored(&lists).ok()?;
            self.boxes.stored_corners(lists.row(0, "boxes").ok()?)
        };
        corners().unwrap_or_default()
    }

    /// Adds the sides of boxes to the drawing (the random choices) of an image that is cropped around them.
    pub(crate) fn drawing<'a>(&self, drawing: Drawing<'a>, corners: &'a [[f64; 4]]) -> Drawing<'a> {
        drawing.around(corners, self.boxes.is_normalized())
    }
}
