//! Finds the pages that hold the selected rows of row groups, if these rows are few.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use forebay_base::Result;
use forebay_store::catalog::pages::{self, PageLocations};
use forebay_store::catalog::{ColumnChunk, StoredGroup, chunks};
use forebay_store::row_set::RowSet;
use forebay_store::source::{FOOTERS_AT_ONCE, Footers};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parquet::file::metadata::ParquetMetaData;

use super::super::chunk_pages::GroupPages;
use super::super::reads::Reads;
use super::walk::walked;

/// Column chunks of fewer bytes than this are always read as a whole.
const MIN_CHUNK_BYTES: u64 = 64 << 10;

/// The offset index of a column chunk is read only if the chunk is at least this many times as large as the
/// index.
const MIN_INDEX_RATIO: u64 = 16;

/// If a column chunk in a local file has no index and at least this many bytes, its first page headers are
/// read one by one. This takes two or three small reads.
const MIN_WALKED_BYTES: u64 = 1 << 20;

/// The number of rows in a block. Rows are sparse if they touch few blocks. Writers usually put far more rows
/// than this into a page.
const BLOCK_ROWS: u32 = 1024;

/// Finds the pages to read, for row groups of which few rows are selected. Reads their offset indexes, and
/// the footers that say where these are.
pub(crate) async fn pages(reads: &Reads, selected: &[RowSet]) -> Result<HashMap<usize, GroupPages>> {
    of_few(reads, selected, is_sparse, false).await
}

/// Finds pages like [`pages`], for rows that are the first ones of each row group, also in columns of lists.
/// If a large column chunk without lists in a local file has no index, its page headers are read instead.
pub(crate) async fn head_pages(reads: &Reads, heads: &[RowSet]) -> Result<HashMap<usize, GroupPages>> {
    let are_few = |rows: &RowSet| rows.count() > 0 && !rows.is_all();
    of_few(reads, heads, are_few, true).await
}

/// Finds the pages to read in the row groups for whose `selected` rows `are_few` returns true. `are_heads`
/// says that the rows are the first ones of each row group.
async fn of_few(
    reads: &Reads,
    selected: &[RowSet],
    are_few: impl Fn(&RowSet) -> bool,
    are_heads: bool,
) -> Result<HashMap<usize, GroupPages>> {
    let Reads { catalog, store, .. } = reads;
    let mut files: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let sparse = selected.iter().enumerate().filter(|(_, rows)| are_few(rows));
    for (group, _) in sparse.filter(|(group, _)| reads.stored(*group) >= MIN_CHUNK_BYTES) {
        files.entry(catalog.groups[group].file).or_default().push(group);
    }
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let footers = &Footers::open(store, catalog).await?;
    let reads = files.into_iter().map(|(file, groups)| {
        async move {
            let footer = footers.read(file).await?;
            of_file(reads, &footer, file, &groups, selected, are_heads).await
        }
        .boxed()
    });
    let found: Vec<Vec<(usize, GroupPages)>> =
        stream::iter(reads).buffered(FOOTERS_AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Whether the rows are so sparse that some pages may contain none of them: at least half of the blocks of
/// [`BLOCK_ROWS`] rows contain none.
fn is_sparse(rows: &RowSet) -> bool {
    if rows.is_all() || rows.count() == 0 {
        return false;
    }
    let (mut touched, mut next) = (0, 0);
    for run in rows.runs(0..rows.count()) {
        let first = (run.start / BLOCK_ROWS).max(next);
        next = ((run.end - 1) / BLOCK_ROWS + 1).max(next);
        touched += next - first.min(next);
    }
    touched * 2 <= rows.rows().div_ceil(BLOCK_ROWS)
}

async fn of_file(
    reads: &Reads,
    footer: &ParquetMetaData,
    file: usize,
    groups: &[usize],
    selected: &[RowSet],
    are_heads: bool,
) -> Result<Vec<(usize, GroupPages)>> {
    let Reads { catalog, store, projection, .. } = reads;
    let about = &catalog.files[file];
    let of_footer = about.footer()?;
    let columns = &of_footer.columns;
    let of_groups = groups
        .iter()
        .flat_map(|&group| catalog.stored(&catalog.groups[group]).map(move |stored| (group, stored)));
    let of_groups: Vec<(usize, StoredGroup)> = of_groups.collect();
    let mut wanted: Vec<(StoredGroup, usize, Range<u64>)> = Vec::new();
    for &(_, stored) in &of_groups {
        let about_stored = footer.row_group(stored.index);
        let is_worth_it = |(leaf, chunk): &(usize, ColumnChunk<'_>)| {
            let root = columns.parquet.get_column_root_idx(*leaf);
            let is_read = match are_heads {
                true => columns.is_read_from_its_front(root),
                false => columns.is_read_by_pages(root),
            };
            chunk.length >= MIN_CHUNK_BYTES && is_read
        };
        let worth = chunks(of_footer, stored.index, projection).filter(is_worth_it);
        wanted.extend(worth.filter_map(|(leaf, chunk)| {
            let range = pages::offset_index(about_stored.column(leaf), about.size)?;
            ((range.end - range.start) * MIN_INDEX_RATIO <= chunk.length).then_some((stored, leaf, range))
        }));
    }
    let ranges: Vec<Range<u64>> = wanted.iter().map(|(.., range)| range.clone()).collect();
    let bytes = store.read_ranges(about, &ranges).await?;
    let mut locations: HashMap<(usize, usize), PageLocations> = HashMap::new();
    for ((stored, leaf, _), bytes) in wanted.into_iter().zip(bytes) {
        let column = footer.row_group(stored.index).column(leaf);
        let descriptor = column.column_descr_ptr();
        let chunk = ColumnChunk::from_metadata(&descriptor, column);
        let pages = PageLocations::read(&bytes, &chunk, stored.rows);
        locations.extend(pages.map(|pages| ((stored.index, leaf), pages)));
    }
    if are_heads && store.is_local() {
        for &(group, stored) in &of_groups {
            let rows = stored.start as u32..(stored.start + stored.rows) as u32;
            let selected = selected[group].within(rows);
            let Some(last) = selected.count().checked_sub(1).map(|last| selected.select(last)) else {
                continue;
            };
            let large = |(_, chunk): &(usize, ColumnChunk<'_>)| chunk.length >= MIN_WALKED_BYTES;
            for (leaf, chunk) in chunks(of_footer, stored.index, projection).filter(large) {
                let root = columns.parquet.get_column_root_idx(leaf);
                if columns.is_read_by_pages(root) && !locations.contains_key(&(stored.index, leaf)) {
                    let pages = walked(store, about, &chunk, selected.rows(), last + 1).await?;
                    locations.extend(pages.map(|pages| ((stored.index, leaf), pages)));
                }
            }
        }
    }
    let of = |&group: &usize| {
        let of_leaf = |stored: usize, leaf: usize| locations.get(&(stored, leaf));
        let at = &catalog.groups[group];
        let pages =
            GroupPages::holding(catalog, projection, at, &selected[group], of_leaf, false).transpose()?;
        Some(pages.map(|pages| (group, pages)))
    };
    groups.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_spread_over_all_blocks_are_not_sparse() {
        let first = |rows: u32| RowSet::from_runs(10 * BLOCK_ROWS, std::iter::once(0..rows));
        assert!(is_sparse(&first(1)));
        assert!(is_sparse(&first(5 * BLOCK_ROWS)));
        assert!(!is_sparse(&first(5 * BLOCK_ROWS + 1)));
        let of = |runs: &[Range<u32>]| RowSet::from_runs(10 * BLOCK_ROWS, runs.iter().cloned());
        assert!(is_sparse(&of(&[5..6, 7..8, BLOCK_ROWS..BLOCK_ROWS + 1, 3 * BLOCK_ROWS..4 * BLOCK_ROWS])));
        let spread: Vec<Range<u32>> =
            (0..10).map(|block| block * BLOCK_ROWS + 9..block * BLOCK_ROWS + 10).collect();
        assert!(!is_sparse(&of(&spread)));
        assert!(!is_sparse(&RowSet::all(3)) && !is_sparse(&RowSet::none(3)));
    }
}
