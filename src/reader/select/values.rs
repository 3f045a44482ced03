//! Reads the class or the weight of each row from one column, for samples that are drawn by weight.

use std::sync::Arc;

use forebay_arrow::array::ArrayRef;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::row_set::RowSet;
use forebay_store::source::KeptRows;
use futures::{StreamExt, TryStreamExt, stream};

use super::super::reads::Reads;
use super::{Scanner, columns_of, is_dear, waiting};
use crate::samples::{ColumnValues, Sample};

/// Reads the classes or weights of the `selected` rows of each row group from the only column that `scanner`
/// reads. If reading is costly, the result is kept on disk, so that the column is read only once. `key`
/// identifies the result: it names the column, the kind of values and the selection of rows.
pub(crate) async fn values(
    sample: Sample,
    selected: Vec<RowSet>,
    scanner: &Scanner,
    key: &str,
) -> Result<ColumnValues> {
    let Reads { catalog, store, .. } = &scanner.reads;
    let keeper = {
        let (store, catalog, key) = (store.clone(), catalog.clone(), key.to_owned());
        waiting(move || KeptRows::for_filter(&store, &catalog, &key)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let counts: Vec<u32> = selected.iter().map(RowSet::count).collect();
        let load = move || {
            let (text, numbers) = kept.load_numbers_and_text(&counts)?;
            Some(ColumnValues { classes: serde_json::from_slice(&text).ok()?, numbers })
        };
        if let Some(values) = waiting(load).await.filter(ColumnValues::is_whole) {
            return Ok(values);
        }
    }
    let is_dear = is_dear(scanner, &selected);
    let groups = of_each_group(selected, scanner, |column| sample.read(column));
    let found = ColumnValues::of_groups(groups.await?);
    let Some(keeper) = keeper.filter(|_| is_dear) else { return Ok(found) };
    // The result is shared, not copied, since it is large for many rows.
    let found = Arc::new(found);
    let kept = found.clone();
    let keep = move || {
        let text = serde_json::to_vec(&kept.classes).ok()?;
        keeper.keep_numbers_and_text(&text, &kept.numbers);
        Some(())
    };
    waiting(keep).await;
    Ok(Arc::unwrap_or_clone(found))
}

/// Reads the single column of `scanner` and converts the `selected` rows of each row group with `make`. A row
/// group without selected rows gets the default value. If an error of `make` has the ordinal of a row, the
/// returned error names this row.
pub(super) async fn of_each_group<T: Default>(
    selected: Vec<RowSet>,
    scanner: &Scanner,
    make: impl Fn(&ArrayRef) -> Result<T, (Option<usize>, Error)>,
) -> Result<Vec<T>> {
    let (catalog, make) = (&scanner.reads.catalog, &make);
    stream::iter(selected.into_iter().enumerate())
        .map(|(group, rows)| async move {
            if rows.count() == 0 {
                return Ok(T::default());
            }
            let (_permit, batch) = columns_of(scanner, group, &rows, None, None).await?;
            let column = batch.columns().first();
            let column = column.ok_or_else(|| Error::new(ErrorKind::Internal, "values of no column"))?;
            make(column).map_err(|(row, error)| {
                let at = &catalog.groups[group];
                let place = match row {
                    Some(row) => catalog.place_of_row(at, rows.select(row as u32).into()),
                    None => catalog.place(at),
                };
                error.at(place.column(batch.schema_ref().field(0).name().as_str()))
            })
        })
        .buffered(scanner.reads.store.row_groups_at_once())
        .try_collect()
        .await
}
