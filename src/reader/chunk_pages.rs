//! Of column chunks the pages that hold the rows to be read, where these are few.
//!
//! Only of columns with one value a row, each page of which says in its header how many rows it has: an index that is wrong is
//! then noticed. The others are read whole.

use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::basic::Type;

use super::pages::{Kind, StoredPage};
use crate::catalog::pages::PageLocations;
use crate::catalog::{Catalog, ColumnChunk, Group, Projection, chunks};
use crate::error::{Error, ErrorKind, Result};
use crate::row_set::RowSet;

/// Pages are read by themselves if that leaves out so large a part of their chunk's bytes.
const LEFT_OUT: u64 = 4;

/// For each column chunk of a row group that a projection reads, in the order of the file's leaf columns, the pages to read;
/// `None` for all.
#[derive(Clone, Debug)]
pub(crate) struct GroupPages(Arc<[Option<ChunkPages>]>);

/// Some of the pages of a column chunk.
#[derive(Debug)]
pub(crate) struct ChunkPages {
    /// The bytes to fetch: the dictionary, if there is one, and runs of pages.
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
        let of = |(leaf, chunk): (usize, ColumnChunk<'_>)| match is_read_by_pages(&chunk) {
            true => ChunkPages::of(locations(leaf)?, &chunk, rows, in_any_case),
            false => None,
        };
        let pages: Arc<[_]> = chunks(footer, group, projection).map(of).collect();
        Ok(pages.iter().any(Option::is_some).then_some(GroupPages(pages)))
    }

    /// The bytes to fetch of a row group in place of its chunks, in the same order.
    pub(crate) fn ranges(&self, whole: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let of = |(whole, pages): (Range<u64>, &Option<ChunkPages>)| match pages {
            Some(pages) => pages.pieces.to_vec(),
            None => vec![whole],
        };
        whole.into_iter().zip(self.0.iter()).flat_map(of).collect()
    }

    /// The pages of the `chunk`-th column chunk.
    pub(super) fn chunk(&self, chunk: usize) -> Option<&ChunkPages> {
        self.0.get(chunk)?.as_ref()
    }
}

/// Whether the pages of a chunk can be read one by one: they have as many rows as values.
pub(crate) fn is_read_by_pages(chunk: &ColumnChunk<'_>) -> bool {
    let is_flat = chunk.column.max_rep_level() == 0 && chunk.column.path().parts().len() == 1;
    // Those are looked at a second time.
    is_flat && chunk.column.physical_type() != Type::INT96
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
        let dictionary = whole.start..locations.range(0).start;
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
        let values: Vec<u64> = data.map(|stored| stored.page.values).collect();
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
