//! Large cells of a fixed length, which the page has as the array needs them: one after the other.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::schema::types::ColumnDescriptor;

use super::{CheckedChunk, DataPage, Flat, is};
use crate::arrow::array::{ArrayData, ArrayRef, make_array};
use crate::arrow::buffer::Buffer;
use crate::arrow::datatypes::{DataType, Field};
use crate::reader::pages::Kind;

/// Cells from this many bytes on. Columns that are fetched together stay together in memory, and of smaller cells that would
/// be worth more than the copy.
const LARGE_CELL: usize = 4 << 10;

/// A column of one column chunk, which has one page.
pub(super) struct Stored<'a> {
    field: &'a Field,
    column: &'a ColumnDescriptor,
    cell: usize,
    rows: usize,
    flat: Flat,
    cells: Bytes,
}

impl<'a> Stored<'a> {
    pub(super) fn of(field: &'a Field, column: &'a ColumnDescriptor, rows: usize) -> Option<Self> {
        let DataType::FixedSizeBinary(cell) = field.data_type() else { return None };
        let cell = usize::try_from(*cell).ok().filter(|cell| *cell >= LARGE_CELL)?;
        Some(Stored { field, column, cell, rows, flat: Flat::of(column)?, cells: Bytes::new() })
    }

    /// As of numbers. Nulls have no bytes in the page.
    pub(super) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        let [stored] = chunk.pages else { return None };
        if chunk.rows != self.rows || stored.is_compressed || stored.page.kind == Kind::Dictionary {
            return None;
        }
        let (levels, values) = chunk.body(stored)?;
        let page = DataPage::of(stored, self.column, levels, values)?;
        self.flat.end = self.rows;
        let is_whole = page.count == self.rows && self.flat.page(&page)? == self.rows;
        let is_plain = is(page.encoding, Encoding::PLAIN) && page.values.len() == self.cell * self.rows;
        if !is_whole || !is_plain {
            return None;
        }
        self.cells = chunk.bytes.slice_ref(page.values);
        Some(())
    }

    pub(super) fn finish(self) -> Option<ArrayRef> {
        let array = ArrayData::builder(self.field.data_type().clone()).len(self.rows);
        Some(make_array(array.add_buffer(Buffer::from(self.cells)).build().ok()?))
    }
}
