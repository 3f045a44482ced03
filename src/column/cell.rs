//! Access to the cells that codecs decode, such as the bytes of an image in each row.

use std::ops::Range;

use forebay_arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryArray, RecordBatch, StringViewArray, UInt8Array,
};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, UInt8Type};
use forebay_base::{Error, ErrorKind, Result};

use super::Noun;
use crate::batch::view_bytes;

/// The cells of a column: binary values, text, lists of bytes, or the `struct<bytes, path>` of Hugging Face.
pub(crate) enum Cells<'a> {
    Binary(&'a BinaryViewArray),
    Text(&'a StringViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    Struct { nulls: Option<&'a NullBuffer>, bytes: &'a BinaryViewArray },
    Lists { nulls: Option<&'a NullBuffer>, ends: Ends<'a>, bytes: &'a UInt8Array },
}

/// The places where the list of each row begins and ends among the values of all rows.
pub(crate) enum Ends<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    Fixed(usize),
}

impl Ends<'_> {
    fn range(&self, row: usize) -> Range<usize> {
        match self {
            Ends::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Ends::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Ends::Fixed(length) => row * length..(row + 1) * length,
        }
    }
}

impl<'a> Cells<'a> {
    /// Reads an array as cells.
    pub(crate) fn new(array: &'a dyn Array) -> Result<Self> {
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
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let (ends, bytes) = match array.data_type() {
                    DataType::List(_) => {
                        let lists = array.as_list::<i32>();
                        (Ends::Short(lists.value_offsets()), lists.values())
                    }
                    DataType::LargeList(_) => {
                        let lists = array.as_list::<i64>();
                        (Ends::Long(lists.value_offsets()), lists.values())
                    }
                    _ => {
                        let lists = array.as_fixed_size_list();
                        let length = usize::try_from(lists.value_length()).map_err(|_| unfit())?;
                        (Ends::Fixed(length), lists.values())
                    }
                };
                let bytes = bytes.as_primitive_opt::<UInt8Type>().ok_or_else(unfit)?;
                Ok(Cells::Lists { nulls: array.nulls(), ends, bytes })
            }
            _ => Err(unfit()),
        }
    }

    /// The bytes of one row; `None` for a null.
    ///
    /// # Errors
    /// `BadRow` for a list of bytes with a null in it.
    pub(crate) fn get(&self, row: usize) -> Result<Option<&'a [u8]>> {
        if self.is_null(row) {
            return Ok(None);
        }
        match self {
            Cells::Binary(array) => Ok(Some(view_bytes(array, row))),
            Cells::Text(array) => Ok(Some(view_bytes(array, row))),
            Cells::Fixed(array) => Ok(Some(array.value(row))),
            Cells::Struct { bytes, .. } => Ok(Some(view_bytes(bytes, row))),
            Cells::Lists { ends, bytes, .. } => {
                let range = ends.range(row);
                let are_there = |nulls: &NullBuffer| nulls.slice(range.start, range.len()).null_count() == 0;
                if !bytes.nulls().is_none_or(are_there) {
                    return Err(Error::new(ErrorKind::BadRow, "null in a list of bytes"));
                }
                Ok(Some(&bytes.values()[range]))
            }
        }
    }

    /// Whether the cell of one row is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Cells::Binary(array) => array.is_null(row),
            Cells::Text(array) => array.is_null(row),
            Cells::Fixed(array) => array.is_null(row),
            Cells::Struct { nulls, bytes } => {
                nulls.is_some_and(|nulls| nulls.is_null(row)) || bytes.is_null(row)
            }
            Cells::Lists { nulls, .. } => nulls.is_some_and(|nulls| nulls.is_null(row)),
        }
    }
}

/// The cells of one row of a row group.
#[derive(Clone, Copy)]
pub(crate) struct RowCells<'a> {
    rows: &'a RecordBatch,
    row: usize,
    /// Whether other processes may change the bytes of the cells, because they are mapped from a file of the
    /// cache.
    is_mapped: bool,
}

impl<'a> RowCells<'a> {
    pub(crate) fn new(rows: &'a RecordBatch, row: usize, is_mapped: bool) -> Self {
        RowCells { rows, row, is_mapped }
    }

    /// The cell of a column; `None` for a null, or for a column that is not stored. If other processes may
    /// change its bytes, `copy` is the memory for a copy of them.
    ///
    /// # Errors
    /// The errors of [`Cells::get`].
    pub(crate) fn get(self, column: usize, copy: &'a mut Vec<u8>) -> Result<Option<Cell<'a>>> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(None) };
        let bytes = Cells::new(stored.as_ref())?.get(self.row)?;
        Ok(bytes.map(|bytes| Cell::new(bytes, self.is_mapped.then_some(copy))))
    }

    /// A stored column, and the number of the row in it; `None` for a column that is not stored.
    pub(crate) fn stored(self, column: usize) -> Option<(&'a ArrayRef, u32)> {
        Some((self.rows.columns().get(column)?, self.row as u32))
    }

    /// The bytes of a cell without a copy; `None` for a null. They must not be decoded, since other processes
    /// may change them.
    pub(crate) fn peek(self, column: usize) -> Result<Option<&'a [u8]>> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(None) };
        Cells::new(stored.as_ref())?.get(self.row)
    }

    /// Whether the cell of a stored column is null.
    pub(crate) fn is_null(self, column: usize) -> Result<bool> {
        let Some(stored) = self.rows.columns().get(column) else { return Ok(false) };
        Ok(Cells::new(stored.as_ref())?.is_null(self.row))
    }

    /// The path that a cell has in place of bytes. Writers of `struct<bytes, path>` may store only the path
    /// of a file, and null as its bytes.
    pub(crate) fn path(self, column: usize) -> Option<&'a str> {
        path(self.rows.columns().get(column)?.as_ref(), self.row)
    }

    /// The cells of the list in a column; `None` for a null list.
    ///
    /// # Errors
    /// The column does not hold lists of cells.
    pub(crate) fn list(self, column: usize) -> Result<Option<ListCells<'a>>> {
        let unfit = || Error::new(ErrorKind::Internal, "a column that holds no lists of cells");
        let stored = self.rows.columns().get(column).ok_or_else(unfit)?.as_ref();
        if stored.is_null(self.row) {
            return Ok(None);
        }
        let (ends, items) = match stored.data_type() {
            DataType::List(_) => {
                let lists = stored.as_list::<i32>();
                (Ends::Short(lists.value_offsets()), lists.values())
            }
            DataType::LargeList(_) => {
                let lists = stored.as_list::<i64>();
                (Ends::Long(lists.value_offsets()), lists.values())
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).map_err(|_| unfit())?;
                (Ends::Fixed(length), stored.as_fixed_size_list().values())
            }
            _ => return Err(unfit()),
        };
        let (range, is_mapped) = (ends.range(self.row), self.is_mapped);
        Ok(Some(ListCells { cells: Cells::new(items.as_ref())?, items: items.as_ref(), range, is_mapped }))
    }

    /// The error of a null cell in a column that is decoded.
    pub(crate) fn null(self, column: usize, noun: Noun) -> Error {
        null(self.path(column), noun)
    }
}

/// The cells of the list in one row.
pub(crate) struct ListCells<'a> {
    cells: Cells<'a>,
    /// The values of the lists of all rows.
    items: &'a dyn Array,
    range: Range<usize>,
    /// Whether other processes may change the bytes of the cells, because they are mapped from a file of the
    /// cache.
    is_mapped: bool,
}

impl ListCells<'_> {
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// A cell of the list; `None` for a null. If other processes may change its bytes, `copy` is the memory
    /// for a copy of them.
    ///
    /// # Errors
    /// The errors of [`Cells::get`].
    pub(crate) fn get<'b>(&'b self, at: usize, copy: &'b mut Vec<u8>) -> Result<Option<Cell<'b>>> {
        let bytes = self.cells.get(self.range.start + at)?;
        Ok(bytes.map(|bytes| Cell::new(bytes, self.is_mapped.then_some(copy))))
    }

    /// The path that a cell of the list has in place of bytes.
    pub(crate) fn path(&self, at: usize) -> Option<&str> {
        path(self.items, self.range.start + at)
    }

    /// The error of a null cell.
    pub(crate) fn null(&self, at: usize, noun: Noun) -> Error {
        null(self.path(at), noun)
    }
}

/// The path in the cell of a row, if it has one.
fn path(stored: &dyn Array, row: usize) -> Option<&str> {
    let stored = stored.as_struct_opt()?;
    let paths = stored.column_by_name("path")?.as_string_view_opt()?;
    let is_there = stored.is_valid(row) && paths.is_valid(row);
    is_there.then(|| paths.value(row)).filter(|path| !path.is_empty())
}

/// The error for a null cell. If the cell has a path, the error says that only the path is stored.
fn null(path: Option<&str>, noun: Noun) -> Error {
    match path {
        Some(path) => Error::new(
            ErrorKind::BadRow,
            format!("only the path of {} is stored, {path:?}, and not its bytes", noun.one),
        )
        .hint(
            "store the bytes of the files: with `datasets`, map `datasets.table.embed_table_storage` over the data \
             set in its arrow format before it is written",
        ),
        None => noun.null(),
    }
}

/// Whether cells of this type hold bytes: binary values of variable or of fixed length, or `struct<bytes,
/// path>`.
pub(super) fn holds_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => {
            fields.find("bytes").is_some_and(|(_, f)| f.data_type() == &DataType::BinaryView)
        }
        _ => false,
    }
}

/// The length of lists of bytes, or `Some(None)` if their lengths differ. `None` for types that are not such
/// lists.
pub(super) fn lists_of_bytes(data_type: &DataType) -> Option<Option<usize>> {
    let (item, length) = match data_type {
        DataType::List(item) | DataType::LargeList(item) => (item, None),
        DataType::FixedSizeList(item, length) => (item, usize::try_from(*length).ok()),
        _ => return None,
    };
    (item.data_type() == &DataType::UInt8).then_some(length)
}

/// The bytes of one cell.
///
/// Other processes may change the bytes at any time if they are mapped from a file of the cache. If they did,
/// the loader makes the batch again. A decoder that must get the same value when it reads a byte twice reads
/// a copy.
pub(crate) struct Cell<'a> {
    bytes: &'a [u8],
    /// The memory for a copy, if other processes may change the bytes.
    copy: Option<&'a mut Vec<u8>>,
}

impl<'a> Cell<'a> {
    /// Creates a cell. `copy` is the memory for a copy, and is given only if other processes may change the
    /// bytes.
    pub(crate) fn new(bytes: &'a [u8], copy: Option<&'a mut Vec<u8>>) -> Self {
        Cell { bytes, copy }
    }

    /// The bytes, copied if they could change.
    pub(crate) fn stable(self) -> &'a [u8] {
        self.stable_if(|_| true)
    }

    /// The bytes, copied if they could change and decoding `needs` them to be stable.
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
    use std::sync::Arc;

    use forebay_arrow::array::{FixedSizeListArray, LargeListArray, ListArray};

    use super::*;

    #[test]
    fn lists_of_bytes_are_cells_unless_a_byte_is_null() {
        let rows = [Some([Some(1), Some(2)]), None, Some([Some(3), None]), Some([Some(4), Some(5)])];
        let short: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt8Type, _, _>(rows));
        let long: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<UInt8Type, _, _>(rows));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<UInt8Type, _, _>(rows, 2));
        for (lists, length) in [(short, None), (long, None), (fixed, Some(2))] {
            assert_eq!(lists_of_bytes(lists.data_type()), Some(length));
            for (lists, first) in [(lists.clone(), 0), (lists.slice(1, 3), 1)] {
                let cells = Cells::new(lists.as_ref()).unwrap();
                let found: Vec<_> = (0..lists.len()).map(|row| cells.get(row)).collect();
                let wanted: [Option<Option<&[u8]>>; 4] =
                    [Some(Some(&[1, 2])), Some(None), None, Some(Some(&[4, 5]))];
                for (found, wanted) in found.iter().zip(&wanted[first..]) {
                    match wanted {
                        Some(bytes) => assert_eq!(found.as_ref().unwrap(), bytes),
                        None => {
                            assert_eq!(found.as_ref().unwrap_err().to_string(), "null in a list of bytes")
                        }
                    }
                }
                assert!(!cells.is_null(2 - first) && cells.is_null(1 - first));
            }
        }
        let wide =
            ListArray::from_iter_primitive::<forebay_arrow::datatypes::Int32Type, _, _>([Some([Some(1)])]);
        assert!(Cells::new(&wide).is_err() && lists_of_bytes(wide.data_type()).is_none());
    }

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
