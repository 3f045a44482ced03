//! Finds the rows at which windows (samples of consecutive rows) begin, by the values of the deciding
//! columns: the `by` and `within` columns of the window.

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use forebay_arrow::compute::take;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use forebay_store::row_set::RowSet;
use forebay_store::source::KeptRows;
use futures::{StreamExt, TryStreamExt, stream};

use super::super::reads::Reads;
use super::{Scanner, columns_of, is_dear, waiting};
use crate::batch::compact;
use crate::samples::{Deciding, SequenceStarts, Stretches, Window};

/// The stretches of selected rows of a row group that may be in one window, and the values of the deciding
/// columns in its first and last selected row.
struct GroupRows {
    stretches: Stretches,
    ends: Option<(Deciding, Deciding)>,
}

/// Returns, for each row group, those of its `selected` rows at which a window begins. `scanner` reads the
/// deciding columns. If reading is costly, the result is kept on disk, so that they are read only once. `key`
/// identifies the result: it names the window and the selection of rows.
pub(crate) async fn windows(
    window: Window,
    selected: Vec<RowSet>,
    scanner: &Scanner,
    key: &str,
) -> Result<Vec<RowSet>> {
    let Reads { catalog, store, projection, .. } = &scanner.reads;
    let sequences = window.across_borders().sequences(catalog);
    if projection.columns().is_empty() {
        return Ok(without_columns(&window, &selected, sequences));
    }
    let keeper = {
        let (store, catalog, key) = (store.clone(), catalog.clone(), key.to_owned());
        waiting(move || KeptRows::for_filter(&store, &catalog, &key)).await.map(Arc::new)
    };
    if let Some(kept) = keeper.clone() {
        let selected = selected.clone();
        if let Some(starts) = waiting(move || kept.load(&selected)).await {
            return Ok(starts);
        }
    }
    let is_dear = is_dear(scanner, &selected);
    let found = starts(&window, &selected, scanner, sequences).await?;
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

/// Returns the rows at which windows begin if there are no deciding columns.
fn without_columns(window: &Window, selected: &[RowSet], sequences: Vec<Range<usize>>) -> Vec<RowSet> {
    let of_sequence = |groups: Range<usize>| {
        let mut starts = SequenceStarts::new(window);
        for rows in &selected[groups] {
            starts.push(rows, &Stretches::new(rows.count() as usize), None);
        }
        starts.finish()
    };
    sequences.into_iter().flat_map(of_sequence).collect()
}

/// Reads the deciding columns, several row groups at once, and returns the rows at which windows begin. A
/// window may continue through the row groups of one range in `sequences`.
async fn starts(
    window: &Window,
    selected: &[RowSet],
    scanner: &Scanner,
    sequences: Vec<Range<usize>>,
) -> Result<Vec<RowSet>> {
    let has_windows = |groups: &Range<usize>| {
        let rows: u64 = selected[groups.clone()].iter().map(|rows| u64::from(rows.count())).sum();
        rows >= window.length().into()
    };
    let wanted = sequences.into_iter().map(|groups| (has_windows(&groups), groups));
    let wanted = wanted.flat_map(|(has_windows, groups)| {
        let first = groups.start;
        groups.map(move |group| (group, group == first, has_windows))
    });
    let mut read = stream::iter(wanted)
        .map(|(group, is_first, has_windows)| async move {
            let rows = &selected[group];
            let is_read = has_windows && rows.count() > 0;
            let read = match is_read {
                true => group_rows(window, scanner, group, rows).await?,
                false => GroupRows { stretches: Stretches::new(0), ends: None },
            };
            Ok((group, is_first, has_windows, read))
        })
        .buffered(scanner.reads.store.row_groups_at_once());
    let mut found = Vec::with_capacity(selected.len());
    let mut sequence = SequenceStarts::new(window);
    let mut last: Option<Deciding> = None;
    while let Some((group, is_first, has_windows, read)) = read.try_next().await? {
        if is_first {
            let before = std::mem::replace(&mut sequence, SequenceStarts::new(window));
            found.extend(before.finish());
            last = None;
        }
        let rows = &selected[group];
        if !has_windows {
            sequence.push(&RowSet::none(rows.rows()), &read.stretches, None);
            continue;
        }
        let border = match (&last, &read.ends) {
            (Some(before), Some((first, _))) => {
                let border = Stretches::border(window, before, first).map_err(|error| {
                    let catalog = &scanner.reads.catalog;
                    error.at(catalog.place_of_row(&catalog.groups[group], rows.select(0).into()))
                });
                Some(border?)
            }
            _ => None,
        };
        sequence.push(rows, &read.stretches, border);
        last = read.ends.map(|(_, end)| end).or(last);
    }
    found.extend(sequence.finish());
    Ok(found)
}

/// Reads the deciding columns of one row group, and finds the rows that may be in one window.
async fn group_rows(window: &Window, scanner: &Scanner, group: usize, rows: &RowSet) -> Result<GroupRows> {
    let (_permit, batch) = columns_of(scanner, group, rows, None, None).await?;
    let stretches = stretches(window, scanner, group, rows, &batch)?;
    let ends = match window.across_borders().is_row_group() {
        true => None,
        false => Some((deciding(window, &batch, 0)?, deciding(window, &batch, rows.count() - 1)?)),
    };
    Ok(GroupRows { stretches, ends })
}

/// Copies the values of the deciding columns in one row, so that `batch` need not be kept.
fn deciding(window: &Window, batch: &RecordBatch, row: u32) -> Result<Deciding> {
    let of_row = |name: Option<&str>| {
        let column = name.and_then(|name| batch.column_by_name(name));
        let of_row =
            |column: &ArrayRef| compact(&take(column, &UInt32Array::from(vec![row]), None).or_fail()?);
        column.map(of_row).transpose()
    };
    Ok(Deciding { by: of_row(window.by_column())?, within: of_row(window.within_column())? })
}

fn stretches(
    window: &Window,
    scanner: &Scanner,
    group: usize,
    rows: &RowSet,
    batch: &RecordBatch,
) -> Result<Stretches> {
    let catalog = &scanner.reads.catalog;
    let column = |name: Option<&str>| name.and_then(|name| batch.column_by_name(name));
    let (by, within) = (column(window.by_column()), column(window.within_column()));
    Stretches::find(window, batch.num_rows(), by, within).map_err(|(row, error)| {
        let at = &catalog.groups[group];
        error.at(match row {
            Some(row) => catalog.place_of_row(at, rows.select(row as u32).into()),
            None => catalog.place(at),
        })
    })
}
