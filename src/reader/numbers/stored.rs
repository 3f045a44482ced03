//! Decodes columns of binary values (cells) of a fixed length. Large cells that a page stores exactly as the
//! array needs them stay in the fetched bytes; all others are written once.
//!
//! A page is decompressed to the end of the space that its rows take in the array, and its cells then move
//! forward to their rows. So even a large page takes hardly any memory besides the array's.

use bytes::Bytes;
use forebay_arrow::array::{ArrayData, ArrayRef, make_array};
use forebay_arrow::buffer::{Buffer, NullBuffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_store::catalog::page_header::PageKind;
use parquet::basic::Encoding;
use parquet::schema::types::ColumnDescriptor;

use super::flat::Flat;
use super::kept::KeptLevels;
use super::page::{CheckedChunk, DataPage, is};
use super::scratch::{Inflater, with_scratch};
use crate::reader::pages::StoredPage;

/// The smallest size of cells that are not copied. A cell that is not copied keeps in memory all bytes that
/// were fetched together with it, even those of other columns. For smaller cells this would cost more than a
/// copy.
const LARGE_CELL: usize = 4 << 10;

/// The most bytes of a page's levels, in addition to one byte for each of its values.
const LEVELS: usize = 64;

/// The decoder of a column of cells.
pub(super) struct Stored<'a> {
    field: &'a Field,
    column: &'a ColumnDescriptor,
    cell: usize,
    /// The number of rows in all column chunks.
    rows: usize,
    flat: Flat,
    /// The fetched bytes of all cells, if they are used without a copy: the column is then a single page.
    fetched: Option<Bytes>,
    out: Vec<u8>,
    pub(super) damaged: bool,
}

impl<'a> Stored<'a> {
    pub(super) fn for_field(field: &'a Field, column: &'a ColumnDescriptor, rows: usize) -> Option<Self> {
        let DataType::FixedSizeBinary(cell) = field.data_type() else { return None };
        let cell = usize::try_from(*cell).ok().filter(|cell| *cell > 0)?;
        let flat = Flat::for_column(column)?;
        Some(Stored { field, column, cell, rows, flat, fetched: None, out: Vec::new(), damaged: false })
    }

    /// Appends a chunk; `None` leaves the column to the Parquet crate, as for numbers. Nulls have no bytes in
    /// the page.
    pub(super) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        if self.cell >= LARGE_CELL && self.take_fetched(chunk).is_some() {
            return Some(());
        }
        if self.out.capacity() == 0 {
            self.out.reserve_exact(self.needed(chunk)?);
        }
        self.flat.end += chunk.rows;
        with_scratch(|scratch| {
            chunk.pages.iter().try_for_each(|stored| self.page(chunk, stored, &mut scratch.inflater))
        })?;
        (self.flat.validity.len() == self.flat.end).then_some(())
    }

    /// Uses the fetched bytes as the array's memory; `None` unless all cells are in one uncompressed page and
    /// none is null.
    fn take_fetched(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        let [stored] = chunk.pages else { return None };
        if chunk.rows != self.rows || stored.is_compressed || stored.page.kind == PageKind::Dictionary {
            return None;
        }
        let (levels, values) = chunk.body(stored)?;
        let page = DataPage::parse(stored, self.column, levels, values)?;
        let bytes = self.cell.checked_mul(self.rows)?;
        // Nulls are not stored. So no cell is null if the values take `bytes`, the size of one cell for each
        // row.
        let are_cells = is(page.encoding, Encoding::PLAIN) && page.values.len() == bytes;
        if page.count != self.rows || !are_cells {
            return None;
        }
        let mut flat = Flat::for_column(self.column)?;
        flat.end = self.rows;
        (flat.page(&page)? == self.rows).then_some(())?;
        self.flat = flat;
        self.fetched = Some(chunk.fetched.slice_ref(page.values));
        Some(())
    }

    /// The bytes to reserve: those of all rows, and of the levels of the largest page.
    fn needed(&self, chunk: &CheckedChunk<'_>) -> Option<usize> {
        let values = chunk.pages.iter().map(|stored| stored.page.values as usize).max()?;
        self.rows.checked_mul(self.cell)?.checked_add(LEVELS + values)
    }

    /// Appends the rows of a page.
    fn page(&mut self, chunk: &CheckedChunk<'_>, stored: &StoredPage, inflater: &mut Inflater) -> Option<()> {
        if stored.page.kind == PageKind::Dictionary {
            return None;
        }
        let (levels, values) = chunk.body(stored)?;
        let begin = self.out.len();
        let rows = (stored.page.values as usize).checked_mul(self.cell)?;
        let length = match stored.is_compressed {
            true => (stored.page.uncompressed - stored.page.levels) as usize,
            false => values.len(),
        };
        if length > rows.checked_add(LEVELS + stored.page.values as usize)? {
            return None;
        }
        let end = begin + rows.max(length);
        self.out.resize(end, 0);
        let content = &mut self.out[end - length..];
        match stored.is_compressed {
            true => inflater.inflate_into(chunk.about.compression(), values, content)?,
            false => content.copy_from_slice(values),
        }
        let page = DataPage::parse(stored, self.column, levels, &self.out[end - length..])?;
        let bytes = page.values.len();
        let is_plain = is(page.encoding, Encoding::PLAIN);
        let first = self.flat.validity.len();
        let there = self.flat.page(&page);
        self.damaged |= there.is_none();
        let there = there?;
        let needed = there.checked_mul(self.cell)?;
        self.damaged |= is_plain && needed > bytes;
        if needed != bytes || there > 0 && !is_plain {
            return None;
        }
        self.place(begin, first, end - bytes);
        self.out.truncate(begin + rows);
        Some(())
    }

    /// Moves the cells of a page to their rows. The cells begin at byte `from` of `out`; row `first` begins
    /// at byte `begin`, before them. No cell is overwritten before it has moved, because after each row there
    /// are at least as many rows left as cells.
    fn place(&mut self, begin: usize, first: usize, from: usize) {
        let (cell, mut next, mut to) = (self.cell, from, begin);
        for is_valid in self.flat.validity.from(first) {
            match is_valid {
                true => {
                    self.out.copy_within(next..next + cell, to);
                    next += cell;
                }
                false => self.out[to..to + cell].fill(0),
            }
            to += cell;
        }
    }

    /// Leaves of nested columns do not use this decoder, so it has no levels.
    pub(super) fn levels(&self) -> Option<&KeptLevels> {
        None
    }

    pub(super) fn finish_leaf(self, _len: usize, _nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        None
    }

    pub(super) fn finish(self) -> Option<ArrayRef> {
        let cells = match self.fetched {
            Some(fetched) => Buffer::from(fetched),
            None => Buffer::from_vec(self.out),
        };
        let array = ArrayData::builder(self.field.data_type().clone()).len(self.rows);
        let array = array.nulls(self.flat.validity.finish());
        Some(make_array(array.add_buffer(cells).build().ok()?))
    }
}
