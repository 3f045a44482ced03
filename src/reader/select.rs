//! Which rows of each row group a filter selects.
//!
//! Known before the first epoch begins, because the number of selected rows decides the plan: with it `len()` is exact
//! and all ranks have equally many steps, whatever the filter. Row groups that statistics decide are not read; of the
//! others the filter's columns are, once.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::fetch::Fetcher;
use super::filter::{Filter, Verdict};
use super::rows;
use crate::error::{Error, ErrorKind, Result};
use crate::shard::Part;

/// The selected rows of each row group.
#[derive(Debug)]
pub(crate) struct Selected {
    /// How many.
    pub(crate) counts: Arc<[u32]>,
    /// Which, for row groups that are selected in part.
    rows: Vec<Option<Arc<[u32]>>>,
}

impl Selected {
    /// Every row.
    pub(crate) fn all(rows: impl Iterator<Item = u64>) -> Result<Self> {
        let counts = rows.map(count).collect::<Result<Arc<[u32]>>>()?;
        Ok(Selected { rows: vec![None; counts.len()], counts })
    }

    /// The rows that `filter` selects. `fetcher` reads the filter's columns.
    pub(crate) async fn by(filter: &Filter, fetcher: &Fetcher, limit: u64) -> Result<Self> {
        let groups = 0..fetcher.catalog.groups.len();
        let found: Vec<(u32, Option<Arc<[u32]>>)> = stream::iter(groups)
            .map(|group| scan(filter, fetcher, group, limit))
            .buffered(fetcher.store.row_groups_at_once())
            .try_collect()
            .await?;
        let (counts, rows): (Vec<u32>, Vec<_>) = found.into_iter().unzip();
        Ok(Selected { counts: counts.into(), rows })
    }

    /// The rows of a part that are selected one by one.
    pub(super) fn listed(&self, part: &Part) -> Option<&[u32]> {
        let rows = self.rows[part.group as usize].as_ref()?;
        Some(&rows[part.start as usize..(part.start + part.rows) as usize])
    }

    /// What to decode of a part's row group; `None` for all of it.
    pub(super) fn of_part(&self, part: &Part, group_rows: u64) -> Option<RowSelection> {
        if let Some(rows) = self.listed(part) {
            let ranges =
                rows.chunk_by(|a, b| a + 1 == *b).map(|run| run[0] as usize..run[run.len() - 1] as usize + 1);
            return Some(RowSelection::from_consecutive_ranges(ranges, group_rows as usize));
        }
        (u64::from(part.rows) < group_rows).then(|| {
            let (start, rows) = (part.start as usize, part.rows as usize);
            let rest = group_rows as usize - start - rows;
            vec![RowSelector::skip(start), RowSelector::select(rows), RowSelector::skip(rest)].into()
        })
    }
}

/// Decides one row group.
async fn scan(
    filter: &Filter,
    fetcher: &Fetcher,
    group: usize,
    limit: u64,
) -> Result<(u32, Option<Arc<[u32]>>)> {
    let catalog = &fetcher.catalog;
    let rows = count(catalog.groups[group].rows)?;
    match filter.prune(catalog, group) {
        Verdict::None => return Ok((0, None)),
        Verdict::All => return Ok((rows, None)),
        Verdict::Some => {}
    }
    let part = Part { group: group as u32, start: 0, rows };
    // A budget of as much has room for it: batches take little of one that is so much larger.
    fetcher.admit(group, |bytes| bytes.saturating_mul(2))?;
    let _permit = fetcher.budget.acquire(fetcher.cost(&part)).await;
    let chunks = fetcher.read(group).await?;
    let limit = super::limit_for(limit);
    let batch = rows::read_part(catalog, &fetcher.projection, group, None, chunks, limit)?;
    let selected = filter.evaluate(&batch)?;
    let listed: Vec<u32> = selected.set_indices().map(|row| row as u32).collect();
    Ok(match listed.len() {
        all if all == rows as usize => (rows, None),
        some => (some as u32, (some > 0).then(|| listed.into())),
    })
}

fn count(rows: u64) -> Result<u32> {
    u32::try_from(rows).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a row group of {rows} rows; up to 2^32 - 1 are read"))
            .hint("rewrite the file with smaller row groups")
    })
}
