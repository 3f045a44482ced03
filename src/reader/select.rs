//! Which rows of each row group are selected: those that the data set has, and of them those that a filter selects.
//!
//! Known before the first epoch begins, because the number of selected rows decides the plan: with it `len()` is exact
//! and all ranks have equally many steps, whatever the filter. Row groups that statistics decide are not read; of the
//! others the filter's columns are, once.

use futures::{StreamExt, TryStreamExt, stream};

use super::fetch::Fetcher;
use super::filter::{Filter, RowGroupMatch};
use super::rows;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::row_set::RowSet;
use crate::shard::Part;

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
    stream::iter(live.into_iter().enumerate())
        .map(|(group, live)| scan(filter, fetcher, group, live, limit))
        .buffered(fetcher.store.row_groups_at_once())
        .try_collect()
        .await
}

/// Decides one row group.
async fn scan(filter: &Filter, fetcher: &Fetcher, group: usize, live: RowSet, limit: u64) -> Result<RowSet> {
    let catalog = &fetcher.catalog;
    match filter.prune(catalog, group) {
        RowGroupMatch::None => return Ok(RowSet::none(live.rows())),
        RowGroupMatch::All => return Ok(live),
        RowGroupMatch::Some => {}
    }
    let part = Part { group: group as u32, start: 0, rows: live.count() };
    // A budget of as much has room for it: batches take little of one that is so much larger.
    fetcher.admit(group, |bytes| bytes.saturating_mul(2))?;
    let _permit = fetcher.budget.acquire(fetcher.cost(&part)).await;
    let chunks = fetcher.read(group).await?;
    let limit = super::limit_for(limit);
    let selection = live.selection(0..live.count());
    let batch = rows::read_part(catalog, &fetcher.projection, group, selection.as_ref(), chunks, limit)?;
    Ok(live.compose(&RowSet::from_bits(&filter.evaluate(&batch)?)))
}

fn count(rows: u64) -> Result<u32> {
    u32::try_from(rows).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a row group of {rows} rows; up to 2^32 - 1 are read"))
            .hint("rewrite the file with smaller row groups")
    })
}
