//! Finds the lengths of rows from the values of one column.

use std::sync::Arc;

use forebay_base::Result;
use forebay_store::row_set::RowSet;
use forebay_store::source::KeptRows;

use super::super::reads::Reads;
use super::values::of_each_group;
use super::{Scanner, is_dear, waiting};
use crate::samples;

/// Finds the lengths of the `selected` rows of each row group from the column that `scanner` reads. The
/// column is read only once: the result is kept on disk under `key`, which names the column and the selection
/// of rows.
pub(crate) async fn lengths(selected: Vec<RowSet>, scanner: &Scanner, key: &str) -> Result<Vec<Vec<u32>>> {
    let Reads { catalog, store, .. } = &scanner.reads;
    let keeper = {
        let (store, catalog, key) = (store.clone(), catalog.clone(), key.to_owned());
        waiting(move || KeptRows::for_filter(&store, &catalog, &key)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let counts: Vec<u32> = selected.iter().map(RowSet::count).collect();
        if let Some(lengths) = waiting(move || kept.load_numbers(&counts)).await {
            return Ok(lengths);
        }
    }
    let is_dear = is_dear(scanner, &selected);
    let found = of_each_group(selected, scanner, samples::lengths).await?;
    let Some(keeper) = keeper.filter(|_| is_dear) else { return Ok(found) };
    // The result is shared with the thread that writes it, because a copy for many rows would be large.
    let found = Arc::new(found);
    let kept = found.clone();
    let keep = move || {
        keeper.keep_numbers(&kept);
        Some(())
    };
    waiting(keep).await;
    Ok(Arc::unwrap_or_clone(found))
}
