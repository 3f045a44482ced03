//! Selects the rows of each row group: those that are not deleted, and of them those that a filter selects.
//!
//! Known before the first epoch begins, because the number of selected rows decides the plan: with it `len()` is exact
//! and all ranks have equally many steps, whatever the filter. Row groups that statistics decide are not read; of the
//! others the filter's columns are, once. Statistics are not kept: the footers of files that their constants do not decide
//! are read again for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};

use super::fetch::Fetcher;
use super::filter::{Filter, RowGroupMatch, Rows};
use super::rows;
use crate::arrow::array::{RecordBatch, RecordBatchOptions};
use crate::arrow::datatypes::Schema;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, OrFail, Result};
use crate::row_set::RowSet;
use crate::shard::Part;
use crate::source::{FOOTERS_AT_ONCE, Footers};

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

/// Of the `live` rows of each row group those that `filter` selects. `fetcher` reads the filter's columns.
pub(crate) async fn matching(
    filter: &Filter,
    live: Vec<RowSet>,
    fetcher: &Fetcher,
    limit: u64,
) -> Result<Vec<RowSet>> {
    let matches = prune(filter, fetcher).await?;
    stream::iter(live.into_iter().zip(matches).enumerate())
        .map(|(group, (live, matches))| async move {
            match matches {
                RowGroupMatch::None => Ok(RowSet::none(live.rows())),
                RowGroupMatch::All => Ok(live),
                RowGroupMatch::Some => scan(filter, fetcher, group, live, limit).await,
            }
        })
        .buffered(fetcher.store.row_groups_at_once())
        .try_collect()
        .await
}

/// Decides row groups without their rows, as far as that goes: by the constants of their files, then by their statistics.
async fn prune(filter: &Filter, fetcher: &Fetcher) -> Result<Vec<RowGroupMatch>> {
    let Fetcher { catalog, store, .. } = fetcher;
    let groups = 0..catalog.groups.len();
    let mut matches: Vec<_> = groups.map(|group| filter.prune(catalog, group, None)).collect();
    let open = catalog.groups.iter().zip(&matches).filter(|(_, matches)| **matches == RowGroupMatch::Some);
    let files: BTreeSet<usize> = open.map(|(group, _)| group.file).collect();
    if files.is_empty() || filter.columns().is_empty() {
        return Ok(matches);
    }
    let footers = Footers::open(store, catalog).await?;
    let reads = files.into_iter().map(|file| footers.read(file).map_ok(move |footer| (file, footer)).boxed());
    let mut read = stream::iter(reads).buffered(FOOTERS_AT_ONCE);
    while let Some((file, footer)) = read.try_next().await? {
        for group in catalog.groups_of(file) {
            matches[group] = filter.prune(catalog, group, Some(&footer));
        }
    }
    Ok(matches)
}

/// Decides one row group by its rows.
async fn scan(filter: &Filter, fetcher: &Fetcher, group: usize, live: RowSet, limit: u64) -> Result<RowSet> {
    let catalog = &fetcher.catalog;
    let (_permit, batch);
    if fetcher.projection.columns().is_empty() {
        // By the places of rows alone.
        batch = without_columns(live.count())?;
    } else {
        let part = Part { group: group as u32, start: 0, rows: live.count() };
        // A budget of twice the bytes is enough: batches take little of it.
        fetcher.admit(group, |bytes| bytes.saturating_mul(2))?;
        _permit = fetcher.budget.acquire(fetcher.cost(&part)).await;
        let chunks = fetcher.read(group).await?;
        let selection = live.selection(0..live.count());
        let limit = super::limit_for(limit);
        batch = rows::read_part(catalog, &fetcher.projection, group, selection.as_ref(), chunks, limit)?;
    }
    let at = &catalog.groups[group];
    let before = at.first_row - catalog.groups[catalog.groups_of(at.file).start].first_row;
    let rows =
        Rows { batch: &batch, file: &catalog.files[at.file].relative, first: before, live: Some(&live) };
    let matching = filter.matching(&rows).map_err(|error| error.at(catalog.place(at)))?;
    Ok(live.compose(&RowSet::from_bits(&matching)))
}

/// A batch of that many rows.
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
