//! The rows with which windows of rows begin, by the values of the columns that decide.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::super::fetch::Fetcher;
use super::{columns_of, is_dear, waiting};
use crate::arrow::array::RecordBatch;
use crate::error::Result;
use crate::row_set::RowSet;
use crate::samples::{Stretches, Window};
use crate::source::KeptRows;

/// Of the `selected` rows of each row group those with which a window begins. `fetcher` reads the columns that decide: once,
/// for the result is kept under `key`, which names the window and what selected the rows.
pub(crate) async fn windows(
    window: Window,
    selected: Vec<RowSet>,
    fetcher: &Fetcher,
    key: &str,
    limit: u64,
) -> Result<Vec<RowSet>> {
    let Fetcher { catalog, store, projection, .. } = fetcher;
    if projection.columns().is_empty() {
        let of_group = |rows: &RowSet| starts(&window, rows, &Stretches::new(rows.count() as usize));
        return Ok(selected.iter().map(of_group).collect());
    }
    let keeper = {
        let (store, catalog, key) = (store.clone(), catalog.clone(), key.to_owned());
        waiting(move || KeptRows::of(&store, &catalog, &key)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let selected = selected.clone();
        if let Some(starts) = waiting(move || kept.load(&selected)).await {
            return Ok(starts);
        }
    }
    let is_dear = is_dear(fetcher, &selected);
    let window = &window;
    let found: Vec<RowSet> = stream::iter(selected.into_iter().enumerate())
        .map(|(group, rows)| async move {
            if rows.count() < window.length() {
                return Ok(RowSet::none(rows.rows()));
            }
            let (_permit, batch) = columns_of(fetcher, group, &rows, None, limit).await?;
            Ok(starts(window, &rows, &stretches(window, fetcher, group, &rows, &batch)?))
        })
        .buffered(store.row_groups_at_once())
        .try_collect()
        .await?;
    if let Some(keeper) = keeper.filter(|_| is_dear) {
        let found = found.clone();
        let keep = move || {
            keeper.keep(&found);
            Some(())
        };
        waiting(keep).await;
    }
    Ok(found)
}

/// The stored rows with which windows begin.
fn starts(window: &Window, rows: &RowSet, stretches: &Stretches) -> RowSet {
    let starts = window.starts(stretches).into_iter().map(|start| start..start + 1);
    rows.compose(&RowSet::from_runs(rows.count(), starts))
}

fn stretches(
    window: &Window,
    fetcher: &Fetcher,
    group: usize,
    rows: &RowSet,
    batch: &RecordBatch,
) -> Result<Stretches> {
    let catalog = &fetcher.catalog;
    let column = |name: Option<&str>| name.and_then(|name| batch.column_by_name(name));
    let (by, within) = (column(window.by_column()), column(window.within_column()));
    Stretches::of(window, batch.num_rows(), by, within).map_err(|(row, error)| {
        let place = catalog.place(&catalog.groups[group]);
        error.at(match row {
            Some(row) => place.row(rows.select(row as u32).into()),
            None => place,
        })
    })
}
