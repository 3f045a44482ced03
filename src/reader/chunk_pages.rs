//! Of column chunks the pages that hold the rows to be read, where these are few.
//!
//! Only of columns without lists, each page of which says in its header how many rows it has: an index that is wrong is then
//! noticed. The others are read whole.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::page_header::Kind;
use forebay_store::catalog::pages::PageLocations;
use forebay_store::catalog::{Catalog, ColumnChunk, Footer, Group, PageMemory, Projection, chunks};
use forebay_store::row_set::RowSet;
use parquet::arrow::arrow_reader::RowSelection;

use super::cost::Cost;
use super::pages::StoredPage;

/// Pages are read by themselves if that leaves out so large a part of their chunk's bytes.
const LEFT_OUT: u64 = 4;

/// For each column chunk of a row group that a projection reads, in the order of the file's leaf columns, the pages to read;
/// `None` for all.
#[derive(Clone, Debug)]
pub(crate) struct GroupPages(Arc<[Option<ChunkPages>]>);

/// Some of the pages of a column chunk.
#[derive(Debug)]
pub(crate) struct ChunkPages {
    /// The bytes to fetch: the dictionary, if there is one that is needed, and runs of pages.
    pieces: Box<[Range<u64>]>,
    /// The rows of each page in the row group.
    rows: Box<[Range<u32>]>,
}

impl GroupPages {
    /// The pages that hold `rows`; `None` where all are to be read. `locations` has those of a leaf column, where they are
    /// known. If `rows` follow from them, they are read by pages in any case, whose headers then prove them.
    pub(crate) fn of<'a>(
        catalog: &Catalog,
        projection: &Projection,
        group: &Group,
        rows: &RowSet,
        locations: impl Fn(usize) -> Option<&'a PageLocations>,
        in_any_case: bool,
    ) -> Result<Option<Self>> {
        let footer = catalog.files[group.file].footer()?;
        let columns = &footer.columns;
        let root = |leaf| columns.parquet.get_column_root_idx(leaf);
        let of = |(leaf, chunk): (usize, ColumnChunk<'_>)| {
            let locations = locations(leaf).filter(|_| columns.is_read_by_pages(root(leaf)))?;
            ChunkPages::of(locations, &chunk, rows, in_any_case)
        };
        let mut pages: Vec<Option<ChunkPages>> = chunks(footer, group, projection).map(of).collect();
        // The leaves of a structure are read alike.
        let leaves = columns.leaves(projection);
        let mut rest = &mut pages[..];
        for leaves in leaves.chunk_by(|one, other| root(*one) == root(*other)) {
            let (of_root, others) = rest.split_at_mut(leaves.len());
            if of_root.iter().any(Option::is_none) {
                of_root.fill_with(|| None);
            }
            rest = others;
        }
        Ok(pages.iter().any(Option::is_some).then_some(GroupPages(pages.into())))
    }

    /// What it takes to read them, and the chunks that are read whole.
    pub(crate) fn cost(
        &self,
        catalog: &Catalog,
        projection: &Projection,
        group: &Group,
        rows: u64,
    ) -> Result<Cost> {
        let footer = catalog.files[group.file].footer()?;
        let mut cost = Cost { held: catalog.constant_bytes_of(group, projection, rows), ..Cost::default() };
        let mut memory = PageMemory::default();
        for ((_, chunk), pages) in chunks(footer, group, projection).zip(self.0.iter()) {
            // Of pages only the wanted rows are decoded.
            let (chunk, held) = match pages {
                Some(pages) => {
                    let share = |rows: u64| chunk.share(pages.bytes(), rows);
                    (share(pages.row_count()), share(rows.min(pages.row_count())).held(rows))
                }
                None => (chunk, chunk.held(group.rows)),
            };
            cost.stored = cost.stored.saturating_add(chunk.length);
            cost.held = cost.held.saturating_add(held);
            memory = memory.with(&chunk, false);
        }
        Ok(Cost { decoding: memory.bytes(), ..cost })
    }

    /// What any rows of a row group take at least: the columns that are read whole, since their pages cannot
    /// be read one by one. `None` if those of no column can.
    pub(crate) fn least_cost(footer: &Footer, projection: &Projection, group: &Group) -> Option<Cost> {
        let (mut cost, mut memory, mut any) = (Cost::default(), PageMemory::default(), false);
        let columns = &footer.columns;
        for (leaf, chunk) in chunks(footer, group, projection) {
            if columns.is_read_by_pages(columns.parquet.get_column_root_idx(leaf)) {
                any = true;
                continue;
            }
            cost.stored = cost.stored.saturating_add(chunk.length);
            cost.held = cost.held.saturating_add(chunk.held(group.rows));
            memory = memory.with(&chunk, false);
        }
        any.then(|| Cost { decoding: memory.bytes(), ..cost })
    }

    /// The bytes to fetch of a row group in place of its chunks, in the same order.
    pub(crate) fn ranges(&self, whole: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let of = |(whole, pages): (Range<u64>, &Option<ChunkPages>)| match pages {
            Some(pages) => pages.pieces.to_vec(),
            None => vec![whole],
        };
        whole.into_iter().zip(self.0.iter()).flat_map(of).collect()
    }

    /// What was fetched beside the first bytes of each chunk.
    pub(super) fn joined(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter().flatten().flat_map(|pages| pages.pieces.iter().skip(1))
    }

    /// The pages of the `chunk`-th column chunk.
    pub(super) fn chunk(&self, chunk: usize) -> Option<&ChunkPages> {
        self.0.get(chunk)?.as_ref()
    }
}

impl ChunkPages {
    /// Those that hold `rows`; `None` if there is little to leave out, unless it is to be in any case.
    fn of(
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
        let read: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let is_worth_it = chunk.length - read.min(chunk.length) >= chunk.length / LEFT_OUT;
        let rows = kept.into_iter().map(|page| locations.rows_of(page)).collect();
        (is_worth_it || in_any_case).then_some(ChunkPages { pieces: pieces.into(), rows })
    }

    /// The bytes that were fetched of it.
    pub(super) fn pieces(&self) -> &[Range<u64>] {
        &self.pieces
    }

    /// Their bytes together, and those of the dictionary.
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }

    /// Rows of all of its pages together.
    pub(super) fn row_count(&self) -> u64 {
        self.rows.iter().map(|rows| rows.len() as u64).sum()
    }

    /// The rows to decode, counted among those of its pages.
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

    /// Holds the headers of pages against the index.
    ///
    /// # Errors
    /// `Corrupt` where a page has other rows than the index says.
    pub(super) fn check(&self, pages: &[StoredPage]) -> Result<()> {
        let data = pages.iter().filter(|stored| stored.page.kind != Kind::Dictionary);
        let values: Vec<u64> = data.map(|stored| u64::from(stored.page.values)).collect();
        match values.iter().copied().eq(self.rows.iter().map(|rows| rows.len() as u64)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Corrupt, "the pages are others than the offset index says")
                .hint("write the file again, or read it without a filter")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_among_those_of_the_pages() {
        let pages = ChunkPages { pieces: Box::new([]), rows: Box::new([10..20, 20..25, 40..50]) };
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
