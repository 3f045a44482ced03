//! Checks that the numbers in a footer are plausible, because all later code relies on them.

use forebay_base::{Error, ErrorKind, Place, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::fetch::ENDING;

/// A row group with at most this many rows is accepted however few bytes it has. With more rows it must have
/// a plausible number of bytes, because planning takes memory for each row long before the pages are read.
const FREE_ROWS: u64 = 1 << 24;
/// The most rows per stored byte in a row group with more than [`FREE_ROWS`] rows. Real row groups have a few
/// rows per byte at most.
const ROWS_A_BYTE: u64 = 1024;

/// Checks a footer of `length` bytes, in a file of `size` bytes.
pub(super) fn check(metadata: &ParquetMetaData, size: u64, length: u64) -> Result<()> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let mut all_rows = 0i64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let corrupt =
            |cause: String| Err(Error::new(ErrorKind::Corrupt, cause).at(Place::default().row_group(index)));
        let rows = group.num_rows();
        if rows < 0 {
            return corrupt(format!("{rows} rows are declared"));
        }
        all_rows = match all_rows.checked_add(rows) {
            Some(all) => all,
            None => return corrupt(format!("{rows} more rows than the {all_rows} before cannot be counted")),
        };
        if group.num_columns() != columns {
            return corrupt(format!("{} column chunks for {columns} columns", group.num_columns()));
        }
        check_chunks(group, size, length).map_err(|error| error.at(Place::default().row_group(index)))?;
    }
    Ok(())
}

fn check_chunks(group: &RowGroupMetaData, size: u64, length: u64) -> Result<()> {
    let mut stored = 0u64;
    for chunk in group.columns() {
        let place = || Place::default().column(chunk.column_path().string());
        check_chunk(chunk, group.num_rows(), size, length).map_err(|error| error.at(place()))?;
        stored = stored.saturating_add(chunk.byte_range().1);
    }
    let rows = group.num_rows().max(0).cast_unsigned();
    if rows > FREE_ROWS.max(stored.saturating_mul(ROWS_A_BYTE)) {
        let cause = format!("a row group of {rows} rows in {stored} bytes");
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("rewrite the file with smaller row groups"));
    }
    // All chunks together must fit into the file. The memory budget counts the bytes of each chunk, and a
    // footer could give the same bytes to many chunks.
    if stored > size {
        let cause = format!("the column chunks are said to be {stored} bytes, in a file of {size}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, rows: i64, size: u64, footer: u64) -> Result<()> {
    let corrupt = |cause: String| Err(Error::new(ErrorKind::Corrupt, cause));
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.checked_add(chunk.compressed_size());
    let is_before = |limit: u64| end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= limit);
    // The path in a chunk may also name this same file. It is taken for another file only if the chunk does
    // not fit before the footer.
    let is_named = chunk.file_path().is_some_and(|path| !path.is_empty());
    if is_named && !is_before(size.saturating_sub(footer.saturating_add(ENDING))) {
        return Err(Error::new(ErrorKind::Unsupported, "the column chunk is kept in another file"));
    }
    let inside = is_before(size);
    if start < 0 || chunk.compressed_size() < 0 || !inside {
        let length = chunk.compressed_size();
        return corrupt(format!(
            "the column chunk is said to be {length} bytes at {start}, in a file of {size}"
        ));
    }
    let values = chunk.num_values();
    if values < 0 {
        return corrupt("the column chunk has a negative number of values".into());
    }
    // Nulls count as values, so a flat column has one value for each row, and a nested column at least one.
    let is_nested = chunk.column_descr().max_rep_level() > 0;
    if values < rows || values > rows && !is_nested {
        return corrupt(format!("the column chunk has {values} values for {rows} rows"));
    }
    Ok(())
}
