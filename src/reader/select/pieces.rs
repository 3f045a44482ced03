//! Cuts row groups that are too large for the memory budget into pieces that can be read one at a time.

use std::collections::HashMap;
use std::ops::Range;

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::pages::{self, PageLocations};
use forebay_store::catalog::{StoredGroup, chunks};
use forebay_store::row_set::RowSet;
use forebay_store::source::Footers;
use parquet::file::metadata::ParquetMetaData;

use super::super::budget::Budget;
use super::super::chunk_pages::GroupPages;
use super::super::pieces::{Piece, Pieces};
use super::super::reads::Reads;
use super::walk::walked;

/// The size of a piece is the memory for row groups divided by this number.
const PIECE_DIVISOR: u64 = 16;

/// Cuts row groups that do not fit into a budget of `room` bytes into pieces that do. `larger` has the row
/// groups to look at, with their selected rows. Row groups that fit after all, or that cannot be cut, are not
/// in the result.
///
/// Reads the offset indexes of the columns, or the page headers of columns that have no index.
pub(crate) async fn pieces(reads: &Reads, larger: Vec<(usize, RowSet)>, room: u64) -> Result<Pieces> {
    let budget = Budget::new(room);
    let mut finder = Finder::open(reads).await?;
    let mut found = HashMap::new();
    for (group, selected) in larger {
        // Before the footer is read, the cost may be an estimate. Afterwards it is exact.
        reads.read_footer(group).await?;
        if reads.group_cost(group).total() <= budget.largest() {
            continue;
        }
        let locations = finder.locations(group).await?;
        let Some(runs) = locations.runs(reads, group, room / PIECE_DIVISOR) else { continue };
        let ordinals = |rows: Range<u32>| selected.rank(rows.start)..selected.rank(rows.end);
        let runs = runs.into_iter().map(ordinals);
        if let Some(pieces) = locations.pieces(reads, group, &selected, runs)?
            && pieces.iter().all(|piece| piece.cost.total() <= budget.largest())
        {
            found.insert(group, pieces.into());
        }
    }
    Ok(Pieces::new(found))
}

/// Cuts row groups into pieces at given rows. `groups` has, for each row group, its selected rows and the
/// ordinals among them at which the second and all later pieces begin.
///
/// # Errors
/// Fails if the pages of a row group cannot be read one by one.
pub(crate) async fn pieces_at(reads: &Reads, groups: Vec<(usize, RowSet, Vec<u32>)>) -> Result<Pieces> {
    let mut finder = Finder::open(reads).await?;
    let mut found = HashMap::new();
    for (group, selected, cuts) in groups {
        reads.read_footer(group).await?;
        let locations = finder.locations(group).await?;
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain(std::iter::once(selected.count()));
        let pieces = locations.pieces(reads, group, &selected, starts.zip(ends).map(|(a, b)| a..b))?;
        let pieces = pieces.ok_or_else(|| {
            let cause = "the row group has more rows than `piece_rows`, and none of its columns \
                         has pages with known numbers of rows";
            Error::new(ErrorKind::Unsupported, cause)
                .hint("read a column of numbers or text beside its lists, leave out `piece_rows`, or write smaller row groups")
                .at(reads.catalog.place(&reads.catalog.groups[group]))
        })?;
        found.insert(group, pieces.into());
    }
    Ok(Pieces::new(found))
}

/// Finds the pages of row groups. It reads the footer of a file once for consecutive row groups of the file.
struct Finder<'a> {
    reads: &'a Reads,
    footers: Footers<'a>,
    /// The index and the footer of the file that was read last.
    footer: Option<(usize, ParquetMetaData)>,
}

/// The pages of a row group. A row group joins one or several stored row groups. For each of these, this has
/// the pages of the leaf columns whose pages can be read one by one.
struct Locations(Vec<StoredLocations>);

struct StoredLocations {
    stored: StoredGroup,
    of_leaf: HashMap<usize, PageLocations>,
    /// The number of bytes and the index of the largest of these columns; `None` if there is none.
    largest: Option<(u64, usize)>,
}

impl<'a> Finder<'a> {
    async fn open(reads: &'a Reads) -> Result<Self> {
        let footers = Footers::open(&reads.store, &reads.catalog).await?;
        Ok(Finder { reads, footers, footer: None })
    }

    /// Finds the pages of a row group. Its footer must have been read before.
    async fn locations(&mut self, group: usize) -> Result<Locations> {
        let catalog = &self.reads.catalog;
        let mut found = Vec::new();
        for stored in catalog.stored(&catalog.groups[group]) {
            found.push(self.of_stored(group, stored).await?);
        }
        Ok(Locations(found))
    }

    async fn of_stored(&mut self, group: usize, stored: StoredGroup) -> Result<StoredLocations> {
        let Reads { catalog, store, projection, .. } = self.reads;
        let at = &catalog.groups[group];
        let rows = u32::try_from(stored.rows).unwrap_or(u32::MAX);
        let file = &catalog.files[at.file];
        let footer = match self.footer.take_if(|(of, _)| *of == at.file) {
            Some(kept) => self.footer.insert(kept),
            None => self.footer.insert((at.file, self.footers.read(at.file).await?)),
        };
        let columns = &file.footer()?.columns;
        let mut found = StoredLocations { stored, of_leaf: HashMap::new(), largest: None };
        for (leaf, chunk) in chunks(file.footer()?, stored.index, projection) {
            if !columns.is_read_by_pages(columns.parquet.get_column_root_idx(leaf)) {
                continue;
            }
            let index = pages::offset_index(footer.1.row_group(stored.index).column(leaf), file.size);
            // For a local column with a dictionary, the page headers are read although there is an index.
            // They also show which pages do not need the dictionary, which may be large.
            let index = index.filter(|_| !(chunk.has_dictionary && store.is_local()));
            let mut of_leaf = None;
            if let Some(range) = index {
                let bytes = store.read_ranges(file, std::slice::from_ref(&range)).await?;
                of_leaf = bytes.first().and_then(|bytes| PageLocations::read(bytes, &chunk, stored.rows));
            }
            if of_leaf.is_none() {
                of_leaf = walked(store, file, &chunk, rows, rows).await?;
            }
            if let Some(of_leaf) = of_leaf {
                found.of_leaf.insert(leaf, of_leaf);
                found.largest = found.largest.max(Some((chunk.length, leaf)));
            }
        }
        Ok(found)
    }
}

impl Locations {
    /// Returns runs of rows that take about `bytes` bytes each and do not cross the border between two stored
    /// row groups; `None` if the row group cannot be cut.
    fn runs(&self, reads: &Reads, group: usize, bytes: u64) -> Option<Vec<Range<u32>>> {
        let all = u128::from(reads.group_cost(group).total().max(1));
        let of_group = u128::from(reads.catalog.groups[group].rows);
        let mut found = Vec::new();
        for StoredLocations { stored, of_leaf, largest } in &self.0 {
            let start = stored.start as u32;
            let Some((length, pages)) =
                largest.and_then(|(length, leaf)| Some((length, of_leaf.get(&leaf)?)))
            else {
                found.push(start..start + stored.rows as u32);
                continue;
            };
            // The cost of the row group is divided among its stored row groups in proportion to their rows.
            let cost = (all * u128::from(stored.rows)).div_ceil(of_group).max(1);
            let step = u64::try_from(u128::from(length) * u128::from(bytes) / cost).unwrap_or(length);
            found.extend(runs(pages, step).into_iter().map(|run| start + run.start..start + run.end));
        }
        let is_cut = self.0.len() > 1 || self.0.iter().any(|stored| stored.largest.is_some());
        is_cut.then_some(found)
    }

    /// Makes a piece for each range of `ordinals` among the `selected` rows; `None` if the pages of no column
    /// can be read one by one.
    fn pieces(
        &self,
        reads: &Reads,
        group: usize,
        selected: &RowSet,
        ordinals: impl Iterator<Item = Range<u32>>,
    ) -> Result<Option<Vec<Piece>>> {
        let Reads { catalog, projection, .. } = reads;
        let at = &catalog.groups[group];
        let of_leaf = |index: usize, leaf: usize| {
            let stored = self.0.iter().find(|found| found.stored.index == index)?;
            stored.of_leaf.get(&leaf)
        };
        let mut pieces = Vec::new();
        for ordinals in ordinals.filter(|ordinals| !ordinals.is_empty()) {
            let (start, count) = (ordinals.start, ordinals.end - ordinals.start);
            let rows = RowSet::from_runs(selected.rows(), selected.runs(ordinals));
            let pages = GroupPages::holding(catalog, projection, at, &rows, of_leaf, true)?;
            let Some(pages) = pages else { return Ok(None) };
            let cost = pages.cost(catalog, projection, at, u64::from(count))?;
            pieces.push(Piece { start, rows: count, cost, pages });
        }
        Ok(Some(pieces))
    }
}

/// Cuts the rows of a column chunk into runs that end where a page ends. Each run has at least `step` bytes
/// of pages, except the last one.
fn runs(locations: &PageLocations, step: u64) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for page in 0..locations.len() {
        let range = locations.range(page);
        bytes += range.end - range.start;
        if bytes >= step || page + 1 == locations.len() {
            let end = locations.rows_of(page).end;
            runs.push(start..end);
            (start, bytes) = (end, 0);
        }
    }
    runs
}
