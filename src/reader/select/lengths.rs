//! How long rows are, by the values of one column.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::super::fetch::Fetcher;
use super::{DEAR_LOCAL, columns_of, waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::row_set::RowSet;
use crate::samples;
use crate::source::KeptRows;

/// Of each row group how long its `selected` rows are, by the one column that `fetcher` reads: once, for the result is kept under
/// `key`, which names the column and what selected the rows.
pub(crate) async fn lengths(
    selected: Vec<RowSet>,
    fetcher: &Fetcher,
    key: &str,
    limit: u64,
) -> Result<Vec<Vec<u32>>> {
    let Fetcher { catalog, store, .. } = fetcher;
    let keeper = {
        let (store, catalog, key) = (store.clone(), catalog.clone(), key.to_owned());
        waiting(move || KeptRows::of(&store, &catalog, &key)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let counts: Vec<u32> = selected.iter().map(RowSet::count).collect();
        if let Some(lengths) = waiting(move || kept.load_numbers(&counts)).await {
            return Ok(lengths);
        }
    }
    let cost = selected.iter().enumerate().filter(|(_, rows)| rows.count() > 0);
    let cost = cost.map(|(group, _)| fetcher.stored(group)).sum::<u64>();
    let is_dear = cost >= if store.is_local() { DEAR_LOCAL } else { 1 };
    let found: Vec<Vec<u32>> = stream::iter(selected.into_iter().enumerate())
        .map(|(group, rows)| async move {
            if rows.count() == 0 {
                return Ok(Vec::new());
            }
            let (_permit, batch) = columns_of(fetcher, group, &rows, None, limit).await?;
            let column = batch.columns().first();
            let column = column.ok_or_else(|| Error::new(ErrorKind::Internal, "lengths of no column"))?;
            samples::lengths(column).map_err(|(row, error)| {
                let place = catalog.place(&catalog.groups[group]);
                let place = place.column(batch.schema_ref().field(0).name().as_str());
                error.at(match row {
                    Some(row) => place.row(rows.select(row as u32).into()),
                    None => place,
                })
            })
        })
        .buffered(store.row_groups_at_once())
        .try_collect()
        .await?;
    if let Some(keeper) = keeper.filter(|_| is_dear) {
        let found = found.clone();
        let keep = move || {
            keeper.keep_numbers(&found);
            Some(())
        };
        waiting(keep).await;
    }
    Ok(found)
}
