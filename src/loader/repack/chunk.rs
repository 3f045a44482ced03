//! Reads the cells of a stored column chunk, a limited number of rows at a time.

use std::sync::Arc;

use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::stored::{StoredFile, ours};
use crate::reader::Held;

/// A column chunk of byte arrays that are not in lists (no repetition levels). Its stored bytes are in
/// memory.
pub(super) struct Chunk {
    reader: ColumnReaderImpl<ByteArrayType>,
    max_level: i16,
}

/// Cells of consecutive rows of a column chunk.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) rows: usize,
    /// The cells that are not null.
    pub(super) values: Vec<ByteArray>,
    /// The definition level of each row; empty if no cell can be null.
    pub(super) levels: Vec<i16>,
    /// The definition level of a cell that is not null.
    pub(super) max_level: i16,
}

impl Chunk {
    pub(super) fn open(stored: &StoredFile, about: &ColumnChunkMetaData, rows: i64) -> Result<Chunk> {
        let (start, length) = about.byte_range();
        let held = Arc::new(Held { start, bytes: stored.read(start, length)? });
        let open = || {
            let pages: Box<dyn PageReader> =
                Box::new(SerializedPageReader::new(held, about, rows.max(0) as usize, None).map_err(ours)?);
            let descriptor = about.column_descr_ptr();
            let max_level = descriptor.max_def_level();
            let reader = get_typed_column_reader(get_column_reader(descriptor, pages));
            Ok(Chunk { reader, max_level })
        };
        caught(open).unwrap_or_else(|_| Err(malformed()))
    }

    /// Reads the cells of up to `most` further rows. The result is empty at the end of the chunk.
    pub(super) fn next(&mut self, most: usize) -> Result<Cells> {
        let Chunk { reader, max_level } = self;
        let read = || {
            let mut cells = Cells { max_level: *max_level, ..Cells::default() };
            let levels = (*max_level > 0).then_some(&mut cells.levels);
            (cells.rows, ..) = reader.read_records(most, levels, None, &mut cells.values).map_err(ours)?;
            Ok(cells)
        };
        caught(read).unwrap_or_else(|_| Err(malformed()))
    }
}

impl Cells {
    /// Returns the row of each cell in `values`, as an index among `rows` rows.
    pub(super) fn places(&self) -> Vec<usize> {
        match self.levels.is_empty() {
            true => (0..self.rows).collect(),
            false => (0..self.rows).filter(|row| self.levels[*row] == self.max_level).collect(),
        }
    }
}

fn malformed() -> Error {
    Error::new(ErrorKind::Corrupt, "the pages are malformed")
}
