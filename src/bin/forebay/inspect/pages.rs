//! How large pages are: the catalogue keeps no page index, so that of the first file is read, where it is a local one.

use std::fs::File;

use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

/// The largest page of each leaf column of `file`; empty where its page index is absent or out of reach.
pub(super) fn largest(file: &forebay::catalog::File) -> Vec<Option<u64>> {
    read(&file.location).map_or_else(Vec::new, |metadata| {
        let leaves = metadata.file_metadata().schema_descr().num_columns();
        (0..leaves).map(|leaf| largest_of(&metadata, leaf)).collect()
    })
}

/// Advice that cannot be given is no failure.
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
