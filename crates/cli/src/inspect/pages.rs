//! The sizes of pages, which are read from the page index of the first file if that file is local.

use std::fs::File;
use std::ops::Range;

use forebay_base::panics::caught;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

/// The largest page index that is read, in bytes. A footer can claim any length, and the Parquet crate
/// allocates that much memory.
const MAX_INDEX_BYTES: i64 = 64 << 20;

/// The largest page of each leaf column of `file`, whose footer is given. Returns nothing if the page index
/// is missing or cannot be reached.
pub(super) fn largest(file: &forebay_store::catalog::File, footer: &ParquetMetaData) -> Vec<Option<u64>> {
    if !is_small(footer) {
        return Vec::new();
    }
    // The Parquet crate can panic on a malformed index.
    let metadata = caught(|| read(&file.location)).ok().flatten();
    metadata.map_or_else(Vec::new, |metadata| {
        let leaves = metadata.file_metadata().schema_descr().num_columns();
        (0..leaves).map(|leaf| largest_of(&metadata, leaf)).collect()
    })
}

/// Whether the range of the file from the beginning to the end of the page index is short enough. The Parquet
/// crate reads this whole range at once.
fn is_small(metadata: &ParquetMetaData) -> bool {
    let chunks = || metadata.row_groups().iter().flat_map(|group| group.columns());
    let ranges = || chunks().flat_map(index_ranges);
    let start = ranges().map(|range| range.start).min().unwrap_or(0);
    let end = ranges().map(|range| range.end).max().unwrap_or(0);
    end.saturating_sub(start) <= MAX_INDEX_BYTES
}

fn index_ranges(chunk: &ColumnChunkMetaData) -> impl Iterator<Item = Range<i64>> {
    let range = |offset: Option<i64>, length: Option<i32>| {
        let (offset, length) = (offset?, i64::from(length?));
        Some(offset..offset.saturating_add(length))
    };
    let columns = range(chunk.column_index_offset(), chunk.column_index_length());
    columns.into_iter().chain(range(chunk.offset_index_offset(), chunk.offset_index_length()))
}

/// Reads the page index of a local file; `None` if there is none or it cannot be read.
fn read(location: &str) -> Option<ParquetMetaData> {
    let file = File::open(location).ok()?;
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Optional)
        .parse_and_finish(&file)
        .ok()
}

fn largest_of(metadata: &ParquetMetaData, leaf: usize) -> Option<u64> {
    let groups = 0..metadata.num_row_groups();
    let in_group = |group| {
        let index = metadata.page_index_for_row_group(group);
        let pages = index.offset_index(leaf)?.page_locations();
        pages.iter().map(|page| page.compressed_page_size.max(0) as u64).max()
    };
    groups.filter_map(in_group).max()
}
