//! Advice on the layout, limited to what changes the speed or the mixing of training.

use super::columns::LeafColumn;
use super::report::Report;
use crate::units::{bytes, count, counted};

/// The least size of a row group: smaller requests spend most of their time on latency.
const MIN_ROW_GROUP_BYTES: u64 = 1 << 20;
/// Row groups of this size suit shuffling from disks and object stores alike.
const GOOD_ROW_GROUP: &str = "16 to 64 MB";
/// The largest size of a page: with larger pages, reading one row means reading many.
const MAX_PAGE_BYTES: u64 = 4 << 20;
/// The least size of a value that is an image or another file rather than a number.
const MIN_FILE_VALUE_BYTES: u64 = 1 << 10;
/// The least share of the bytes that a codec must save: below it, decoding costs more time than reading
/// saves.
const MIN_SAVED_SHARE: f64 = 0.03;
/// The largest ratio of the largest row group to the mean one. Above it, memory has to be planned for an
/// exception.
const MAX_ROW_GROUP_RATIO: u64 = 4;
/// The number of live rows for each deleted row below which compacting a table is worthwhile.
const MIN_LIVE_PER_DELETED: u64 = 10;
/// The fewest row groups: with fewer, ranks and shuffling have little to choose from.
const MIN_ROW_GROUPS_TO_SHARE: u64 = 8;

/// Returns all advice on the data set of `report`.
pub(super) fn list(report: &Report) -> Vec<String> {
    let mut advice: Vec<String> = [
        report.window.advice(),
        few_groups(report),
        small_groups(report),
        uneven_groups(report),
        no_index(report),
        many_deletes(report),
    ]
    .into_iter()
    .flatten()
    .collect();
    advice.extend(report.columns.iter().filter_map(in_vain));
    advice.extend(report.columns.iter().filter_map(dictionary));
    advice.extend(report.columns.iter().filter_map(large_page));
    advice
}

/// Advises to compact a table with many deleted rows, because they are fetched together with the rows around
/// them.
fn many_deletes(report: &Report) -> Option<String> {
    let table = report.tables.iter().find(|table| table.deleted_rows > report.rows / MIN_LIVE_PER_DELETED)?;
    let compaction = match table.format {
        "Iceberg" => "the procedure rewrite_data_files",
        _ => "REORG TABLE ... APPLY (PURGE) or OPTIMIZE",
    };
    Some(format!(
        "{} of the table are deleted and still stored in its files, and are fetched with the rows around them: compact it, with \
         {compaction}.",
        counted(table.deleted_rows, "row")
    ))
}

fn few_groups(report: &Report) -> Option<String> {
    let groups = report.row_groups.total;
    let worth_splitting = report.row_group_bytes.mean > 2 * MIN_ROW_GROUP_BYTES;
    (groups < MIN_ROW_GROUPS_TO_SHARE && worth_splitting).then(|| {
        format!(
            "{}: more ranks than that read some of them twice, and the shuffle has few places to draw from. Write row \
             groups of {} rows or fewer.",
            if groups == 1 { "There is only 1 row group".to_owned() } else { format!("There are only {groups} row groups") },
            count((report.rows / (2 * MIN_ROW_GROUPS_TO_SHARE)).max(1)),
        )
    })
}

fn small_groups(report: &Report) -> Option<String> {
    let mean = report.row_group_bytes.mean;
    (mean < MIN_ROW_GROUP_BYTES && report.row_groups.total > report.files.max(MIN_ROW_GROUPS_TO_SHARE as usize) as u64).then(|| {
        format!(
            "Row groups of {} are tiny: from an object store each costs a round trip of tens of milliseconds. Write row \
             groups of {GOOD_ROW_GROUP}.",
            bytes(mean)
        )
    })
}

fn uneven_groups(report: &Report) -> Option<String> {
    let (mean, max) = (report.row_group_bytes.mean, report.row_group_bytes.max);
    (max > MIN_ROW_GROUP_BYTES && max / mean.max(1) >= MAX_ROW_GROUP_RATIO).then(|| {
        format!(
            "Row groups are uneven: the largest has {}, the mean {}. Memory has to be planned for the largest.",
            bytes(max),
            bytes(mean)
        )
    })
}

fn no_index(report: &Report) -> Option<String> {
    let without = report.columns.iter().filter(|column| !column.page_index).count() as u64;
    // A page index saves nothing in small chunks.
    (without > 0 && report.row_group_bytes.mean >= MIN_ROW_GROUP_BYTES).then(|| {
        format!(
            "{} no page index, so that a few rows cost a whole column chunk. pyarrow: write_page_index=True; Spark and \
             parquet-mr write it since 1.11.",
            if without == report.columns.len() as u64 {
                "The files have".to_owned()
            } else {
                format!("{} of them have", counted(without, "column"))
            }
        )
    })
}

fn in_vain(column: &LeafColumn) -> Option<String> {
    let saved = 1.0 - column.stored_bytes as f64 / column.uncompressed_bytes.max(1) as f64;
    (column.binary && column.is_compressed() && column.mean_value() >= MIN_FILE_VALUE_BYTES && saved < MIN_SAVED_SHARE).then(|| {
        format!(
            "Column {:?} is compressed in vain: its values are compressed already, and unpacking them costs a copy. \
             pyarrow: compression={{{:?}: \"none\"}}.",
            column.name, column.name
        )
    })
}

fn dictionary(column: &LeafColumn) -> Option<String> {
    (column.binary && column.has_dictionary() && column.mean_value() >= MIN_FILE_VALUE_BYTES).then(|| {
        format!(
            "Column {:?} begins with a dictionary, which large values do not share, and any row needs all of it. pyarrow: \
             use_dictionary with the names of the other columns.",
            column.name
        )
    })
}

fn large_page(column: &LeafColumn) -> Option<String> {
    let page = column.largest_page_bytes.filter(|page| *page > MAX_PAGE_BYTES)?;
    (column.mean_value() >= MIN_FILE_VALUE_BYTES).then(|| {
        format!(
            "Column {:?} has pages of up to {}, about {} values each: any of them costs the whole page. pyarrow: \
             write_batch_size=8 with data_page_size=262144.",
            column.name,
            bytes(page),
            count(page / column.mean_value().max(1))
        )
    })
}
