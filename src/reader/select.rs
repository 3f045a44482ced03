//! Selects the rows of each row group: those that are not deleted and that a filter selects.
//!
//! The selection is made before the first epoch begins, because the plan depends on the number of selected
//! rows: with it, `len()` is exact and all ranks have the same number of steps, whatever the filter. Row
//! groups and pages are not read if their statistics show that the filter selects all of their rows or none.
//! From the others, the columns of the filter are read once, and the result is kept on disk. If statistics
//! alone decide, nothing is kept, so footers are read again the next time, except those of files whose
//! constant columns decide.

mod lengths;
mod pages;
mod pieces;
mod values;
mod walk;
mod windows;

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_arrow::array::{RecordBatch, RecordBatchOptions};
use forebay_arrow::datatypes::Schema;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::{Catalog, Group, StoredGroup};
use forebay_store::row_set::RowSet;
use forebay_store::source::{FOOTERS_AT_ONCE, Footers, KeptRows};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parquet::file::metadata::ParquetMetaData;

use super::budget::{Budget, Permit};
use super::chunk_pages::GroupPages;
use super::coded::CodedColumns;
use super::decode::limit_for;
use super::filter::index::{GroupIndex, IndexPart};
use super::filter::{Filter, PrunedRows, RowGroupMatch, Rows, Verdicts};
use super::reads::Reads;
use super::rows::{FetchedRows, read_fetched};
use crate::shard::Part;

pub(crate) use lengths::lengths;
pub(crate) use pages::{head_pages, pages};
pub(crate) use pieces::{pieces, pieces_at};
pub(crate) use values::values;
pub(crate) use windows::windows;

/// The result of a scan of local columns is kept on disk only if the scan reads at least this many bytes.
const MIN_KEPT_LOCAL_BYTES: u64 = 4 << 20;

/// The number of bytes of indexes (page indexes and Bloom filters) of one file that are read together.
const INDEX_BYTES_AT_ONCE: u64 = 16 << 20;

/// Reads the columns that determine which rows are selected. Row groups that cannot be read are never
/// skipped, because the selection has to be certain.
#[derive(Clone)]
pub(crate) struct Scanner {
    reads: Reads,
    budget: Budget,
    /// The number of bytes that the decoded rows of a row group may take.
    limit: u64,
    /// The smallest memory budget with which the loader could work, whichever rows are selected. Errors
    /// suggest at least this much.
    least: u64,
}

impl Scanner {
    /// Makes a scanner that reads as `reads` says and uses at most `limit` bytes of memory. `least` is the
    /// smallest memory budget that errors suggest.
    pub(crate) fn new(reads: &Reads, limit: u64, least: u64) -> Self {
        Scanner { reads: reads.clone(), budget: Budget::new(limit), limit, least }
    }

    /// A scanner of the same data set that reads the columns `names`.
    pub(crate) fn of_columns<S: AsRef<str>>(&self, names: &[S]) -> Result<Self> {
        let projection = Arc::new(self.catalog().project(names)?);
        Ok(Scanner { reads: self.reads.of_columns(projection), ..self.clone() })
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.reads.catalog
    }
}

/// The rows of each row group that are not deleted.
pub(crate) fn live_rows(catalog: &Catalog) -> Result<Vec<RowSet>> {
    let mut live = Vec::with_capacity(catalog.groups.len());
    let (mut file, mut file_start) = (usize::MAX, 0);
    for group in &catalog.groups {
        if group.file != file {
            (file, file_start) = (group.file, group.first_row);
        }
        let rows = count(group.rows)?;
        live.push(match &catalog.files[file].deleted {
            None => RowSet::all(rows),
            Some(deleted) => {
                let start = group.first_row - file_start;
                let end = u32::try_from(start + group.rows).map_err(|_| {
                    let cause = "rows are deleted in a file of more than 2^32 - 1 rows";
                    Error::new(ErrorKind::TooLarge, cause).at(catalog.place(group))
                })?;
                deleted.within(start as u32..end).complement()
            }
        });
    }
    Ok(live)
}

/// Finds the rows of each row group that `filter` selects from the `live` (not deleted) rows. `scanner` reads
/// the filter's columns.
pub(crate) async fn matching(filter: &Filter, live: Vec<RowSet>, scanner: &Scanner) -> Result<Vec<RowSet>> {
    let Reads { catalog, store, .. } = &scanner.reads;
    let keeper = {
        let (store, catalog, filter) = (store.clone(), catalog.clone(), filter.canonical());
        waiting(move || KeptRows::for_filter(&store, &catalog, &filter)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let live = live.clone();
        if let Some(selected) = waiting(move || kept.load(&live)).await {
            return Ok(selected);
        }
    }
    let decided = prune(filter, scanner).await?;
    let cost = decided.iter().enumerate().map(|(group, decided)| match decided {
        Decided::None | Decided::All => 0,
        Decided::Open => scanner.reads.stored(group),
        Decided::Rows(rows, _) => {
            let (some, all) = (u64::from(rows.some.count()), u64::from(rows.some.rows()));
            scanner.reads.stored(group) / all.max(1) * some
        }
    });
    let verdicts = &filter.verdicts(&scanner.reads.projection);
    let is_dear = cost.sum::<u64>() >= if store.is_local() { MIN_KEPT_LOCAL_BYTES } else { 1 };
    let selected: Vec<RowSet> = stream::iter(live.into_iter().zip(decided).enumerate())
        .map(|(group, (live, decided))| async move {
            match decided {
                Decided::None => Ok(RowSet::none(live.rows())),
                Decided::All => Ok(live),
                Decided::Open => scan(filter, verdicts, scanner, group, live, None).await,
                Decided::Rows(rows, pages) => {
                    let open = live.intersection(&rows.some);
                    let sure = live.intersection(&rows.all);
                    match open.count() {
                        0 => Ok(sure),
                        _ => {
                            let found = scan(filter, verdicts, scanner, group, open, pages.as_ref()).await?;
                            Ok(found.union(&sure))
                        }
                    }
                }
            }
        })
        .buffered(scanner.reads.store.row_groups_at_once())
        .try_collect()
        .await?;
    if let Some(keeper) = keeper.filter(|_| is_dear) {
        let selected = selected.clone();
        let keep = move || {
            keeper.keep(&selected);
            Some(())
        };
        waiting(keep).await;
    }
    Ok(selected)
}

/// Whether reading the `selected` rows costs so much that the result is kept on disk.
fn is_dear(scanner: &Scanner, selected: &[RowSet]) -> bool {
    let read = selected.iter().enumerate().filter(|(_, rows)| rows.count() > 0);
    let cost: u64 = read.map(|(group, _)| scanner.reads.stored(group)).sum();
    cost >= if scanner.reads.store.is_local() { MIN_KEPT_LOCAL_BYTES } else { 1 }
}

/// Runs work that uses the local disk, on a thread that may block. Returns `None` if it fails or panics.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()?
}

/// Which rows of a row group match the filter, as far as this is known without reading them.
enum Decided {
    None,
    All,
    /// The rows have to be read to find out.
    Open,
    /// Some rows are known to match or not to match. The second field has the pages that hold the remaining
    /// rows; `None` means all pages.
    Rows(PrunedRows, Option<GroupPages>),
}

impl From<RowGroupMatch> for Decided {
    fn from(matches: RowGroupMatch) -> Self {
        match matches {
            RowGroupMatch::None => Decided::None,
            RowGroupMatch::All => Decided::All,
            RowGroupMatch::Some => Decided::Open,
        }
    }
}

/// Finds out which rows match, as far as this is possible without reading them: from the constants of files,
/// then from the statistics of row groups, then from the indexes of their pages.
async fn prune(filter: &Filter, scanner: &Scanner) -> Result<Vec<Decided>> {
    let Reads { catalog, store, .. } = &scanner.reads;
    let groups = 0..catalog.groups.len();
    let mut decided: Vec<Decided> = groups.map(|group| filter.prune(catalog, group, None).into()).collect();
    let open = catalog.groups.iter().zip(&decided).filter(|(_, decided)| matches!(decided, Decided::Open));
    let files: BTreeSet<usize> = open.map(|(group, _)| group.file).collect();
    if files.is_empty() || filter.columns().is_empty() {
        return Ok(decided);
    }
    let footers = &Footers::open(store, catalog).await?;
    let reads = files.into_iter().map(|file| {
        async move {
            let footer = footers.read(file).await?;
            prune_file(filter, scanner, file, &footer).await
        }
        .boxed()
    });
    let mut read = stream::iter(reads).buffered(FOOTERS_AT_ONCE);
    while let Some(of_file) = read.try_next().await? {
        of_file.into_iter().for_each(|(group, known)| decided[group] = known);
    }
    Ok(decided)
}

/// Finds out which rows of a file match, as far as its footer and the indexes of its pages show it.
async fn prune_file(
    filter: &Filter,
    scanner: &Scanner,
    file: usize,
    footer: &ParquetMetaData,
) -> Result<Vec<(usize, Decided)>> {
    let Reads { catalog, store, .. } = &scanner.reads;
    let mut stored: Vec<Examined> = Vec::new();
    for group in catalog.groups_of(file) {
        let at = &catalog.groups[group];
        for of_group in catalog.stored(at) {
            let matches = filter.prune_stored(catalog, at, of_group, Some(footer));
            let parts = match matches {
                RowGroupMatch::Some => {
                    filter.index_parts(catalog, &catalog.files[file], of_group.index, footer)
                }
                RowGroupMatch::None | RowGroupMatch::All => Vec::new(),
            };
            stored.push(Examined { group, stored: of_group, matches, parts });
        }
    }
    let mut decided = Vec::new();
    // The stored row groups that were decided so far and belong to one row group of the catalogue, which may
    // join several. When all of them are decided, they are combined.
    let mut of_group: Vec<(StoredGroup, PrunedRows, GroupIndex)> = Vec::new();
    // Several indexes are read together, as long as they take little memory.
    let mut rest = &stored[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let some = rest.iter().take_while(|examined| {
            bytes += examined.parts.iter().map(|part| part.range.end - part.range.start).sum::<u64>();
            bytes <= INDEX_BYTES_AT_ONCE
        });
        let (now, later) = rest.split_at(some.count().max(1));
        rest = later;
        let ranges = now.iter().flat_map(|examined| &examined.parts).map(|part| part.range.clone());
        let ranges: Vec<_> = ranges.collect();
        let read = match ranges.is_empty() {
            true => Vec::new(),
            false => store.read_ranges(&catalog.files[file], &ranges).await?,
        };
        let mut bytes = &read[..];
        for (place, Examined { group, stored, matches, parts }) in now.iter().enumerate() {
            let (own, others) = bytes.split_at(parts.len());
            bytes = others;
            let at = &catalog.groups[*group];
            let index = GroupIndex::read(parts, own, *stored, footer);
            let rows = (!parts.is_empty()).then(|| filter.prune_rows(catalog, at, *stored, footer, &index));
            let rows = match rows.flatten() {
                Some(rows) => rows,
                None => PrunedRows::alike(*matches, count(stored.rows)?),
            };
            of_group.push((*stored, rows, index));
            if now.get(place + 1).or(rest.first()).is_none_or(|next| next.group != *group) {
                decided.push((*group, joined(scanner, at, std::mem::take(&mut of_group))?));
            }
        }
    }
    Ok(decided)
}

/// A stored row group, and whether none, all, or perhaps some of its rows match according to its statistics.
struct Examined {
    group: usize,
    stored: StoredGroup,
    matches: RowGroupMatch,
    /// The parts of its indexes (page indexes and Bloom filters) that may decide about further rows.
    parts: Vec<IndexPart>,
}

/// Combines the decisions about stored row groups into one decision about the row group that joins them.
fn joined(
    scanner: &Scanner,
    group: &Group,
    mut stored: Vec<(StoredGroup, PrunedRows, GroupIndex)>,
) -> Result<Decided> {
    let Reads { catalog, projection, .. } = &scanner.reads;
    let all = count(group.rows)?;
    let is_each = |of: fn(&PrunedRows) -> bool| stored.iter().all(|(_, rows, _)| of(rows));
    if is_each(|rows| rows.some.count() == 0 && rows.all.count() == 0) {
        return Ok(Decided::None);
    }
    if is_each(|rows| rows.all.is_all()) {
        return Ok(Decided::All);
    }
    // No row was decided, so the row group is read as if it had no indexes.
    if is_each(|rows| rows.some.is_all()) {
        return Ok(Decided::Open);
    }
    let set = |of: fn(&PrunedRows) -> &RowSet| {
        let runs = stored.iter().flat_map(|(stored, rows, _)| {
            let start = stored.start as u32;
            of(rows).runs(0..of(rows).count()).map(move |run| start + run.start..start + run.end)
        });
        RowSet::from_runs(all, runs)
    };
    let rows = PrunedRows { all: set(|rows| &rows.all), some: set(|rows| &rows.some) };
    stored.retain(|(_, rows, _)| rows.some.count() > 0);
    let locations = |index: usize, leaf: usize| {
        let (.., found) = stored.iter().find(|(stored, ..)| stored.index == index)?;
        found.locations(leaf)
    };
    let pages = match rows.some.count() {
        0 => None,
        _ => GroupPages::holding(catalog, projection, group, &rows.some, locations, true)?,
    };
    Ok(Decided::Rows(rows, pages))
}

/// Reads the filter's columns of the `live` rows of one row group, and returns the rows that match.
async fn scan(
    filter: &Filter,
    verdicts: &Verdicts,
    scanner: &Scanner,
    group: usize,
    live: RowSet,
    pages: Option<&GroupPages>,
) -> Result<RowSet> {
    let catalog = &scanner.reads.catalog;
    let (_permit, batch);
    if scanner.reads.projection.columns().is_empty() {
        // The filter uses no columns, only the positions of rows.
        batch = without_columns(live.count())?;
    } else {
        (_permit, batch) = columns_of(scanner, group, &live, pages, verdicts.coded()).await?;
    }
    let at = &catalog.groups[group];
    let before = at.first_row - catalog.groups[catalog.groups_of(at.file).start].first_row;
    let file = &catalog.files[at.file].relative;
    let rows = Rows { batch: &batch, file, first: before, live: Some(&live), verdicts: Some(verdicts) };
    let matching = filter.matching(&rows).map_err(|error| error.at(catalog.place(at)))?;
    Ok(live.compose(&RowSet::from_bits(&matching)))
}

/// Reads the columns of the `live` rows of one row group, of which `coded` may be read as integer codes. Also
/// returns the permit for their memory.
async fn columns_of(
    scanner: &Scanner,
    group: usize,
    live: &RowSet,
    pages: Option<&GroupPages>,
    coded: Option<&CodedColumns>,
) -> Result<(Option<Permit>, RecordBatch)> {
    let part = Part { group: group as u32, start: 0, rows: live.count() };
    // If `bytes` do not fit, the error suggests a memory budget of twice as many. This is enough, because
    // batches take only a small part of the budget.
    let alone = scanner.reads.alone(group, live.count(), 0);
    scanner.reads.admit(&alone, &scanner.budget, |bytes| bytes.saturating_mul(2).max(scanner.least))?;
    let permit = scanner.budget.acquire(scanner.reads.cost(&part).total()).await;
    let chunks = scanner.reads.read_pages(group, pages).await?;
    let selection = live.selection(0..live.count());
    let rows = FetchedRows { group, selection: selection.as_ref(), chunks, pages, coded };
    let batch =
        read_fetched(&scanner.reads.catalog, &scanner.reads.projection, rows, limit_for(scanner.limit))?;
    Ok((permit, batch))
}

/// A batch of `rows` rows without columns.
fn without_columns(rows: u32) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).or_fail()
}

fn count(rows: u64) -> Result<u32> {
    u32::try_from(rows).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a row group of {rows} rows; up to 2^32 - 1 are read"))
            .hint("rewrite the file with smaller row groups")
    })
}
