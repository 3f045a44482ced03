//! Columns that follow another one: the cell of the same row there is passed along.

use std::sync::Arc;

use super::views::View;
use super::{BatchRows, Collation};
use crate::arrow::array::{Array, ArrayRef};
use crate::arrow::datatypes::DataType;
use crate::batch::gather;
use crate::column::{BadValue, Cell, Cells, FollowedRows};
use crate::decode::RowKey;
use crate::error::Result;
use crate::reader::Rows;

impl Collation {
    /// The gathered values of a column, after they followed another one if they do, and the bad ones with their places.
    pub(super) fn followed(&self, column: usize, gathered: ArrayRef) -> Result<(ArrayRef, Vec<BadValue>)> {
        let collator = &self.request.collator;
        let codec = &collator.codecs[column];
        if codec.follows().is_none() {
            return Ok((gathered, Vec::new()));
        }
        let view = self.view(column);
        let (followed, bad) = codec.follow(gathered, &ViewedRows { collation: self, view })?;
        let placed = bad.into_iter().map(|(row, error)| {
            let (source, place) = view.picks[row];
            (row, error.at(collator.place(&self.request.sources[source as usize], place, column)))
        });
        Ok((followed, placed.collect()))
    }
}

/// The rows of a column that follows another one.
struct ViewedRows<'a> {
    collation: &'a Collation,
    view: &'a View,
}

impl FollowedRows for ViewedRows<'_> {
    fn count(&self) -> usize {
        self.view.picks.len()
    }

    fn cell<'a>(
        &'a self,
        column: usize,
        row: usize,
        copy: &'a mut Vec<u8>,
    ) -> Result<Option<(Cell<'a>, RowKey)>> {
        let request = &self.collation.request;
        let (source, place) = self.view.picks[row];
        let resident = &request.sources[source as usize];
        if resident.lost.is_some() {
            return Ok(None);
        }
        let rows = self.collation.rows.of(source as usize);
        let cells = Cells::of(rows.batch.column(column).as_ref())?;
        let Some(bytes) = cells.get(resident.row_at(place) as usize) else { return Ok(None) };
        let key = request.key(resident, place, row);
        Ok(Some((Cell::new(bytes, rows.is_mapped().then_some(copy)), key)))
    }

    fn gather(&self, column: usize) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> =
            self.collation.rows.rows.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
        let data_type = arrays.first().map_or(&DataType::Null, |array| array.data_type());
        gather(&arrays, self.collation.selection(self.view, data_type), None)
    }
}

impl BatchRows {
    /// Decodes one cell beside the one that it follows. The outer error ends the batch, the inner one is a bad row.
    pub(super) fn decode_following(
        &self,
        rows: &Arc<Rows>,
        (column, followed): (usize, usize),
        row: usize,
        key: RowKey,
        slot: &mut [u8],
    ) -> Result<Result<()>> {
        let collator = &self.collator;
        // A null there is a bad row already.
        let Some(bytes) = Cells::of(rows.batch.column(followed).as_ref())?.get(row) else {
            return Ok(Ok(()));
        };
        let [mut copy, mut copy_of_followed] = [Vec::new(), Vec::new()];
        let beside = Cell::new(bytes, rows.is_mapped().then_some(&mut copy_of_followed));
        let own = match rows.batch.columns().get(column) {
            Some(stored) => Cells::of(stored.as_ref())?.get(row),
            None => None,
        };
        let own = own.map(|bytes| Cell::new(bytes, rows.is_mapped().then_some(&mut copy)));
        Ok(collator.codecs[column].decode_following(own, beside, key, &collator.workspace, slot))
    }
}
