//! Advice on the layout of a data set, limited to changes that make training faster or its shuffle better.

use super::columns::LeafColumn;
use super::report::Report;
use crate::units::{bytes, count, counted};

/// Row groups smaller than this are reported as too small, because reading them is mostly latency.
const MIN_ROW_GROUP_BYTES: u64 = 1 << 20;
/// The recommended size of a row group, which suits shuffling from disks and from object stores.
const GOOD_ROW_GROUP: &str = "16 to 64 MB";
/// Pages of images or other files are reported if they are larger than this, because a loader has to read a
/// whole page even for one of its rows.
const MAX_PAGE_BYTES: u64 = 4 << 20;
/// Values of at least this mean size are taken for images or other files rather than numbers.
const MIN_FILE_VALUE_BYTES: u64 = 1 << 10;
/// Compression that saves less than this share of the bytes is reported, because decompressing then costs
/// more time than reading fewer bytes saves.
const MIN_SAVED_SHARE: f64 = 0.03;
/// Row groups are reported as uneven if the largest has at least this many times the bytes of the mean one,
/// because memory has to suffice for the largest.
const MAX_ROW_GROUP_RATIO: u64 = 4;
/// Compacting a table is recommended if it has fewer live rows than this for each deleted one.
const MIN_LIVE_PER_DELETED: u64 = 10;
/// Fewer row groups than this are reported, because ranks and the shuffle have too few to divide among them.
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

/// Advises compacting a table with many deleted rows, because deleted rows are fetched together with the rows
/// around them.
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
    // A page index saves nothing if the column chunks are small.
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
