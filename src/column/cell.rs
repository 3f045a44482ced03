//! Cells that are decoded, as row groups store them: the bytes of each row.

use forebay_arrow::array::{
    Array, AsArray, BinaryViewArray, FixedSizeBinaryArray, RecordBatch, StringViewArray,
};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

use super::Noun;
use crate::batch::view_bytes;

/// The cells of one source: binary values, text, or the Hugging Face `struct<bytes, path>`.
pub(crate) enum Cells<'a> {
    Binary(&'a BinaryViewArray),
    Text(&'a StringViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    Struct { nulls: Option<&'a NullBuffer>, bytes: &'a BinaryViewArray },
}

impl<'a> Cells<'a> {
    /// The cells of `array`.
    pub(crate) fn of(array: &'a dyn Array) -> Result<Self> {
        let unfit =
            || Error::new(ErrorKind::Internal, format!("{} holds no cells to decode", array.data_type()));
        match array.data_type() {
            DataType::BinaryView => Ok(Cells::Binary(array.as_binary_view())),
            DataType::Utf8View => Ok(Cells::Text(array.as_string_view())),
            DataType::FixedSizeBinary(_) => Ok(Cells::Fixed(array.as_fixed_size_binary())),
            DataType::Struct(_) => {
                let fields = array.as_struct();
                let bytes = fields.column_by_name("bytes").ok_or_else(unfit)?;
                Ok(Cells::Struct {
                    nulls: fields.nulls(),
                    bytes: bytes.as_binary_view_opt().ok_or_else(unfit)?,
                })
            }
            _ => Err(unfit()),
        }
    }

    /// The bytes of one row; `None` for a null.
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Cells::Binary(array) => array.is_valid(row).then(|| view_bytes(array, row)),
            Cells::Text(array) => array.is_valid(row).then(|| view_bytes(array, row)),
            Cells::Fixed(array) => array.is_valid(row).then(|| array.value(row)),
            Cells::Struct { nulls, bytes } => (nulls.is_none_or(|nulls| nulls.is_valid(row))
                && bytes.is_valid(row))
            .then(|| view_bytes(bytes, row)),
        }
    }
}

/// The cells of one row of a row group.
#[derive(Clone, Copy)]
pub(crate) struct RowCells<'a> {
    rows: &'a RecordBatch,
    row: usize,
    /// Whether other processes may change the bytes.
    is_mapped: bool,
}

impl<'a> RowCells<'a> {
    pub(crate) fn new(rows: &'a RecordBatch, row: usize, is_mapped: bool) -> Self {
        RowCells { rows, row, is_mapped }
    }

    /// The cell of a column; `None` for a null, and for a column that is not stored. `copy` may hold its bytes.
    pub(crate) fn get(self, column: usize, copy: &'a mut Vec<u8>) -> Result<Option<Cell<'a>>> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(None) };
        let bytes = Cells::of(stored.as_ref())?.get(self.row);
        Ok(bytes.map(|bytes| Cell::new(bytes, self.is_mapped.then_some(copy))))
    }

    /// The bytes of the cell of a column where nothing is made of them, and other processes may change them;
    /// `None` for a null.
    pub(crate) fn peek(self, column: usize) -> Result<Option<&'a [u8]>> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(None) };
        Ok(Cells::of(stored.as_ref())?.get(self.row))
    }

    /// Whether the cell of a stored column is null.
    pub(crate) fn is_null(self, column: usize) -> Result<bool> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(false) };
        Ok(Cells::of(stored.as_ref())?.get(self.row).is_none())
    }

    /// Where the bytes of a cell are that is null. Writers of `struct<bytes, path>` may leave them where the path says.
    pub(crate) fn path(self, column: usize) -> Option<&'a str> {
        let stored = self.rows.columns().get(column)?.as_struct_opt()?;
        let paths = stored.column_by_name("path")?.as_string_view_opt()?;
        let is_there = stored.is_valid(self.row) && paths.is_valid(self.row);
        is_there.then(|| paths.value(self.row)).filter(|path| !path.is_empty())
    }

    /// Why a cell that is decoded and null is a bad row.
    pub(crate) fn null(self, column: usize, noun: Noun) -> Error {
        match self.path(column) {
            Some(path) => Error::new(
                ErrorKind::BadRow,
                format!("null where {} is needed: only its path is stored, {path:?}", noun.one),
            )
            .hint(
                "store the bytes of the files: with `datasets`, map `datasets.table.embed_table_storage` over the data \
                 set in its arrow format before it is written",
            ),
            None => noun.null(),
        }
    }
}

/// Whether cells of this type hold bytes: binary values of any or of one length, or `struct<bytes, path>`.
pub(super) fn holds_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => {
            fields.find("bytes").is_some_and(|(_, f)| f.data_type() == &DataType::BinaryView)
        }
        _ => false,
    }
}

/// The bytes of one cell.
///
/// Other processes may change those of rows that are mapped from the cache at any time. A batch of changed rows is made
/// again, but a decoder that reads a byte twice must get the same one.
pub(crate) struct Cell<'a> {
    bytes: &'a [u8],
    /// Holds a copy, where the bytes may change.
    copy: Option<&'a mut Vec<u8>>,
}

impl<'a> Cell<'a> {
    /// `copy` is given where other processes may change the bytes.
    pub(crate) fn new(bytes: &'a [u8], copy: Option<&'a mut Vec<u8>>) -> Self {
        Cell { bytes, copy }
    }

    /// Bytes that cannot change.
    pub(crate) fn stable(self) -> &'a [u8] {
        self.stable_if(|_| true)
    }

    /// Bytes that cannot change, if decoding `needs` that.
    pub(crate) fn stable_if(self, needs: impl FnOnce(&[u8]) -> bool) -> &'a [u8] {
        match self.copy {
            Some(copy) if needs(self.bytes) => {
                copy.clear();
                copy.extend_from_slice(self.bytes);
                copy
            }
            _ => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_others_may_change_is_copied_where_that_matters() {
        let (stored, mut copy) = (vec![1, 2, 3], vec![9; 7]);
        let same = |bytes: &[u8]| bytes.as_ptr() == stored.as_ptr();
        assert!(same(Cell::new(&stored, None).stable()));
        assert!(same(Cell::new(&stored, Some(&mut copy)).stable_if(|_| false)));
        let stable = Cell::new(&stored, Some(&mut copy)).stable();
        assert!(stable == stored && !same(stable));
    }
}
