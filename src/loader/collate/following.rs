//! Columns that change together with an image, such as boxes that are cropped with it. Their codecs also get
//! the image's cell of the same row.

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::DataType;
use forebay_base::Result;
use forebay_image::{RowKey, Workspace};

use super::Collation;
use super::views::View;
use crate::batch::gather;
use crate::column::{Codec, FollowedRows, GatheredRows, RowCells};

impl Collation {
    /// The gathered values, changed with their images if the column follows one, and the bad rows by their
    /// indices.
    pub(super) fn followed(&self, column: usize, gathered: ArrayRef) -> Result<GatheredRows> {
        let collator = &self.request.collator;
        let (Codec::Follow(codec) | Codec::FollowOf(_, codec)) = &collator.codecs[column] else {
            return Ok((gathered, Vec::new()));
        };
        let view = self.view(column);
        let (followed, bad) = codec.follow(gathered, &ViewedRows { collation: self, column, view })?;
        let placed = bad.into_iter().map(|(row, error)| {
            let (source, place) = view.picks[row];
            (row, error.at(collator.place(&self.request.sources[source as usize], place, column)))
        });
        Ok((followed, placed.collect()))
    }
}

/// The rows of a column whose codec follows an image, as the codec sees them.
struct ViewedRows<'a> {
    collation: &'a Collation,
    column: usize,
    view: &'a View,
}

impl FollowedRows for ViewedRows<'_> {
    fn count(&self) -> usize {
        self.view.picks.len()
    }

    fn cells(&self, row: usize) -> Option<(RowCells<'_>, RowKey)> {
        let request = &self.collation.request;
        let (source, place) = self.view.picks[row];
        let resident = &request.sources[source as usize];
        if resident.lost.is_some() {
            return None;
        }
        let rows = self.collation.rows.rows_of(source as usize);
        let cells = RowCells::new(&rows.batch, resident.row_at(place) as usize, rows.is_mapped());
        Some((cells, request.key(self.column, self.view, row)))
    }

    fn gather(&self, column: usize) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> =
            self.collation.rows.rows.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
        let data_type = arrays.first().map_or(&DataType::Null, |array| array.data_type());
        gather(&arrays, self.collation.selection(self.view, data_type), None)
    }

    fn workspace(&self) -> &Workspace {
        &self.collation.request.collator.workspace
    }
}
