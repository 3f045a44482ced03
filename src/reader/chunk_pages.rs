//! Chooses the pages of column chunks that hold the wanted rows, if reading only these pages saves enough.
//!
//! In columns without lists, each page header has the number of rows, so that a wrong page index is noticed.
//! In lists, rows are counted by their levels, so only the first pages can be read by themselves. Other
//! columns are read as a whole.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::page_header::PageKind;
use forebay_store::catalog::pages::PageLocations;
use forebay_store::catalog::{
    Catalog, ColumnChunk, Footer, Group, PageMemory, Projection, StoredGroup, chunks,
};
use forebay_store::row_set::RowSet;
use parquet::arrow::arrow_reader::RowSelection;

use super::cost::Cost;
use super::pages::{self, StoredPage};

/// Single pages are read if that saves at least the chunk's bytes divided by this number.
const LEFT_OUT_DIVISOR: u64 = 4;

/// The pages to read in each column chunk of a row group, in the order of the file's leaf columns; `None` for
/// all pages. A row group of the catalogue may consist of several stored ones, whose chunks then follow each
/// other here.
#[derive(Clone, Debug)]
pub(crate) struct GroupPages(Arc<[Option<ChunkPages>]>);

/// The part of [`GroupPages`] for one row group as the file stores it.
#[derive(Clone, Copy)]
pub(super) struct StoredPages<'a>(&'a [Option<ChunkPages>]);

/// The pages to read in a column chunk, which may be none.
#[derive(Debug, Default)]
pub(crate) struct ChunkPages {
    /// The byte ranges to fetch: the dictionary, if one is needed, and runs of pages.
    pieces: Box<[Range<u64>]>,
    /// The range of rows in each page, as indices into the row group.
    rows: Box<[Range<u32>]>,
    /// Whether the column has lists, so that a page has other numbers of values and rows.
    are_lists: bool,
}

impl GroupPages {
    /// Finds the pages that hold `rows`; `None` if all pages are to be read. `locations` gets the ordinal of
    /// a stored row group in the file and a leaf column, and returns the pages of the leaf if they are known.
    /// A stored row group without any of the rows is not read at all. With `in_any_case`, only these pages
    /// are read even if that saves little. This is needed for rows that `locations` chose, because the
    /// headers of the pages then prove that the locations are right.
    pub(crate) fn holding<'a>(
        catalog: &Catalog,
        projection: &Projection,
        group: &Group,
        rows: &RowSet,
        locations: impl Fn(usize, usize) -> Option<&'a PageLocations>,
        in_any_case: bool,
    ) -> Result<Option<Self>> {
        let footer = catalog.files[group.file].footer()?;
        let columns = &footer.columns;
        let root = |leaf| columns.parquet.get_column_root_idx(leaf);
        let leaves = columns.leaves(projection);
        let mut pages: Vec<Option<ChunkPages>> = Vec::new();
        for stored in catalog.stored(group) {
            let rows = rows.within(stored.start as u32..(stored.start + stored.rows) as u32);
            if rows.count() == 0 {
                pages.extend(leaves.iter().map(|_| Some(ChunkPages::default())));
                continue;
            }
            let of = |(leaf, chunk): (usize, ColumnChunk<'_>)| {
                let locations = locations(stored.index, leaf)?;
                match columns.is_read_by_pages(root(leaf)) {
                    true => ChunkPages::holding(locations, &chunk, &rows, in_any_case),
                    false => ChunkPages::first_lists(locations, &chunk, &rows),
                }
            };
            let first = pages.len();
            pages.extend(chunks(footer, stored.index, projection).map(of));
            // If one leaf of a structure needs all pages, all its leaves are read as a whole.
            let mut rest = &mut pages[first..];
            for leaves in leaves.chunk_by(|one, other| root(*one) == root(*other)) {
                let (of_root, others) = rest.split_at_mut(leaves.len());
                if of_root.iter().any(Option::is_none) {
                    of_root.fill_with(|| None);
                }
                rest = others;
            }
        }
        Ok(pages.iter().any(Option::is_some).then_some(GroupPages(pages.into())))
    }

    /// The memory that it takes to read these pages, and to read the other chunks as a whole.
    pub(crate) fn cost(
        &self,
        catalog: &Catalog,
        projection: &Projection,
        group: &Group,
        rows: u64,
    ) -> Result<Cost> {
        let footer = catalog.files[group.file].footer()?;
        let mut cost = Cost { held: catalog.constant_bytes_of(group, projection, rows), ..Cost::default() };
        let leaves = footer.columns.leaves(projection).len();
        let mut joined = 0;
        for (at, stored) in catalog.stored(group).enumerate() {
            let of_stored = self.of_stored(at, leaves);
            if of_stored.is_empty() {
                continue;
            }
            let mut memory = PageMemory::default();
            for ((_, chunk), pages) in chunks(footer, stored.index, projection).zip(of_stored.0) {
                // In these pages, only the wanted rows are decoded.
                let (chunk, held) = match pages {
                    // The pages of lists may have any share of the values.
                    Some(pages) if pages.are_lists => {
                        let share = chunk.share(pages.bytes(), chunk.values);
                        (share, share.held(stored.rows))
                    }
                    Some(pages) => {
                        let share = |rows: u64| chunk.share(pages.bytes(), rows);
                        let held = share(rows.min(pages.row_count())).held(rows.min(stored.rows));
                        (share(pages.row_count()), held)
                    }
                    None => (chunk, chunk.held(stored.rows)),
                };
                cost.stored = cost.stored.saturating_add(chunk.length);
                cost.held = cost.held.saturating_add(held);
                memory = memory.with(&chunk, false);
            }
            cost.decoding = cost.decoding.max(memory.bytes());
            joined += 1;
        }
        // The rows of several stored row groups are joined, which copies them.
        let copy = if joined > 1 { cost.held } else { 0 };
        Ok(Cost { decoding: cost.decoding.saturating_add(copy), ..cost })
    }

    /// The least memory that it takes to read any rows of a stored row group: the memory for the columns that
    /// can only be read as a whole. `None` if no column can be read by pages.
    pub(crate) fn least_cost(footer: &Footer, projection: &Projection, stored: StoredGroup) -> Option<Cost> {
        let (mut cost, mut memory, mut any) = (Cost::default(), PageMemory::default(), false);
        let columns = &footer.columns;
        for (leaf, chunk) in chunks(footer, stored.index, projection) {
            if columns.is_read_by_pages(columns.parquet.get_column_root_idx(leaf)) {
                any = true;
                continue;
            }
            cost.stored = cost.stored.saturating_add(chunk.length);
            cost.held = cost.held.saturating_add(chunk.held(stored.rows));
            memory = memory.with(&chunk, false);
        }
        any.then(|| Cost { decoding: memory.bytes(), ..cost })
    }

    /// The byte ranges to fetch for a row group, in order. `whole` has the ranges of its chunks, which are
    /// replaced by the ranges of their pages.
    pub(crate) fn ranges(&self, whole: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let of = |(whole, pages): (Range<u64>, &Option<ChunkPages>)| match pages {
            Some(pages) => pages.pieces.to_vec(),
            None => vec![whole],
        };
        whole.into_iter().zip(self.0.iter()).flat_map(of).collect()
    }

    /// The pages of the stored row group with index `at` among those of this row group. `leaves` is the
    /// number of chunks that are read in a stored row group.
    pub(super) fn of_stored(&self, at: usize, leaves: usize) -> StoredPages<'_> {
        StoredPages(self.0.get(at * leaves..(at + 1) * leaves).unwrap_or_default())
    }
}

impl<'a> StoredPages<'a> {
    /// Whether no page is read.
    fn is_empty(self) -> bool {
        self.0.iter().all(|pages| pages.as_ref().is_some_and(|pages| pages.pieces.is_empty()))
    }

    /// Whether all pages of all chunks are read.
    pub(super) fn is_whole(self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// All ranges except the first one of each chunk. They are appended to the first range of their chunk
    /// after they were fetched.
    pub(super) fn joined(self) -> impl Iterator<Item = &'a Range<u64>> {
        self.0.iter().flatten().flat_map(|pages| pages.pieces.iter().skip(1))
    }

    /// The pages to read in the column chunk with index `chunk`; `None` for all pages.
    pub(super) fn chunk(self, chunk: usize) -> Option<&'a ChunkPages> {
        self.0.get(chunk)?.as_ref()
    }
}

impl ChunkPages {
    /// Finds the pages that hold `rows`; `None` if reading only these saves little and `in_any_case` is
    /// false.
    fn holding(
        locations: &PageLocations,
        chunk: &ColumnChunk<'_>,
        rows: &RowSet,
        in_any_case: bool,
    ) -> Option<Self> {
        let mut kept: Vec<usize> = Vec::new();
        for run in rows.runs(0..rows.count()) {
            let first = locations.page_of(run.start).max(kept.last().map_or(0, |last| last + 1));
            kept.extend(first..locations.page_of(run.end - 1) + 1);
        }
        let found = ChunkPages::of_pages(locations, chunk, kept);
        (found.is_worth_it(chunk) || in_any_case).then_some(found)
    }

    /// Finds the first pages of a column of lists, up to those that hold `rows`; `None` if reading only these
    /// saves little. The row after the last one begins in these pages too, which shows that no list in `rows`
    /// continues behind them.
    fn first_lists(locations: &PageLocations, chunk: &ColumnChunk<'_>, rows: &RowSet) -> Option<Self> {
        let after = rows.select(rows.count().checked_sub(1)?) + 1;
        if after >= rows.rows() {
            return None;
        }
        let kept = (0..locations.page_of(after) + 1).collect();
        let found = ChunkPages { are_lists: true, ..ChunkPages::of_pages(locations, chunk, kept) };
        found.is_worth_it(chunk).then_some(found)
    }

    /// The pages `kept` of a chunk, in ascending order, with the dictionary that they need.
    fn of_pages(locations: &PageLocations, chunk: &ColumnChunk<'_>, kept: Vec<usize>) -> Self {
        let whole = chunk.range();
        let needs_dictionary = kept.first().is_some_and(|page| locations.may_need_dictionary(*page));
        let dictionary = whole.start..if needs_dictionary { locations.range(0).start } else { whole.start };
        let mut pieces: Vec<Range<u64>> = Vec::new();
        let ranges = kept.iter().map(|page| locations.range(*page));
        for range in std::iter::once(dictionary).chain(ranges).filter(|range| !range.is_empty()) {
            match pieces.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => pieces.push(range),
            }
        }
        let rows = kept.into_iter().map(|page| locations.rows_of(page)).collect();
        ChunkPages { pieces: pieces.into(), rows, are_lists: false }
    }

    /// Whether reading only these pages of a chunk saves enough.
    fn is_worth_it(&self, chunk: &ColumnChunk<'_>) -> bool {
        chunk.length - self.bytes().min(chunk.length) >= chunk.length / LEFT_OUT_DIVISOR
    }

    /// The byte ranges to fetch from the chunk.
    pub(super) fn pieces(&self) -> &[Range<u64>] {
        &self.pieces
    }

    /// The number of bytes in all ranges, which include the dictionary.
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }

    /// The number of rows in all of these pages.
    pub(super) fn row_count(&self) -> u64 {
        self.rows.iter().map(|rows| rows.len() as u64).sum()
    }

    /// The number of values in all of these pages, whose bytes are `joined`.
    pub(super) fn value_count(&self, joined: &[u8]) -> u64 {
        if self.are_lists { pages::value_count(joined) } else { self.row_count() }
    }

    /// Converts a selection of the row group's rows to a selection among the rows of these pages.
    pub(super) fn selection(&self, rows: &RowSelection) -> RowSelection {
        let mut pages = self.rows.iter().peekable();
        let (mut before, mut at) = (0, 0);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for run in rows.iter() {
            let (from, to) = (at, at + run.row_count);
            at = to;
            if run.skip {
                continue;
            }
            let mut from = from;
            while let Some(page) = pages.peek() {
                let page = page.start as usize..page.end as usize;
                let (start, end) = (from.max(page.start), to.min(page.end));
                if start < end {
                    ranges.push(before + start - page.start..before + end - page.start);
                    from = end;
                }
                if page.end > to {
                    break;
                }
                before += page.len();
                pages.next();
            }
        }
        RowSelection::from_consecutive_ranges(ranges.into_iter(), self.row_count() as usize)
    }

    /// Compares the number of rows in the headers of pages with the page index. The rows of lists are counted
    /// when they are decoded.
    ///
    /// # Errors
    /// `Corrupt` if a page does not have as many rows as the index says.
    pub(super) fn check(&self, pages: &[StoredPage]) -> Result<()> {
        if self.are_lists {
            return Ok(());
        }
        let data = pages.iter().filter(|stored| stored.page.kind != PageKind::Dictionary);
        let values: Vec<u64> = data.map(|stored| u64::from(stored.page.values)).collect();
        match values.iter().copied().eq(self.rows.iter().map(|rows| rows.len() as u64)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Corrupt, "the pages differ from the offset index")
                .hint("write the file again, or read it without a filter")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_among_those_of_the_pages() {
        let rows = Box::new([10..20, 20..25, 40..50]);
        let pages = ChunkPages { pieces: Box::new([]), rows, are_lists: false };
        let select = |ranges: &[Range<usize>]| {
            let rows = RowSelection::from_consecutive_ranges(ranges.iter().cloned(), 60);
            let among = pages.selection(&rows);
            let mut at = 0;
            let mut selected = Vec::new();
            for run in among.iter() {
                if !run.skip {
                    selected.extend(at..at + run.row_count);
                }
                at += run.row_count;
            }
            selected
        };
        assert_eq!(select(&[12..14, 19..21, 44..45]), [2, 3, 9, 10, 19]);
        assert_eq!(select(&[10..25, 40..50]), (0..25).collect::<Vec<_>>());
        assert_eq!(select(&[24..25, 45..46]), [14, 20]);
    }
}
