//! Advice on the layout, limited to what changes the speed or the mixing of training.

use super::columns::LeafColumn;
use super::report::Report;
use crate::units::{bytes, count, counted};

/// Smaller requests spend most of their time on latency.
const SMALL_ROW_GROUP: u64 = 1 << 20;
/// Row groups of this size suit shuffling from disks and object stores alike.
const GOOD_ROW_GROUP: &str = "16 to 64 MB";
/// With larger pages, reading one row costs reading many.
const LARGE_PAGE: u64 = 4 << 20;
/// Values of this size are images or other files, not numbers.
const LARGE_VALUE: u64 = 1 << 10;
/// A codec that saves less than this share costs more time than it saves.
const IN_VAIN: f64 = 0.03;
/// The largest row group over the mean one, from which on memory is planned for an exception.
const UNEVEN: u64 = 4;
/// With more than one deleted row for so many live ones, a table is worth compacting.
const MANY_DELETES: u64 = 10;
/// With fewer row groups than this, ranks and shuffling have little to choose from.
const FEW_TO_SHARE: u64 = 8;

/// All advice for what was found.
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

/// Deleted rows are fetched with the rows around them.
fn many_deletes(report: &Report) -> Option<String> {
    let table = report.tables.iter().find(|table| table.deleted_rows > report.rows / MANY_DELETES)?;
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
    let worth_splitting = report.row_group_bytes.mean > 2 * SMALL_ROW_GROUP;
    (groups < FEW_TO_SHARE && worth_splitting).then(|| {
        format!(
            "{}: more ranks than that read some of them twice, and the shuffle has few places to draw from. Write row \
             groups of {} rows or fewer.",
            if groups == 1 { "There is only 1 row group".to_owned() } else { format!("There are only {groups} row groups") },
            count((report.rows / (2 * FEW_TO_SHARE)).max(1)),
        )
    })
}

fn small_groups(report: &Report) -> Option<String> {
    let mean = report.row_group_bytes.mean;
    (mean < SMALL_ROW_GROUP && report.row_groups.total > report.files.max(FEW_TO_SHARE as usize) as u64).then(|| {
        format!(
            "Row groups of {} are tiny: from an object store each costs a round trip of tens of milliseconds. Write row \
             groups of {GOOD_ROW_GROUP}.",
            bytes(mean)
        )
    })
}

fn uneven_groups(report: &Report) -> Option<String> {
    let (mean, max) = (report.row_group_bytes.mean, report.row_group_bytes.max);
    (max > SMALL_ROW_GROUP && max / mean.max(1) >= UNEVEN).then(|| {
        format!(
            "Row groups are uneven: the largest has {}, the mean {}. Memory has to be planned for the largest.",
            bytes(max),
            bytes(mean)
        )
    })
}

fn no_index(report: &Report) -> Option<String> {
    let without = report.columns.iter().filter(|column| !column.page_index).count() as u64;
    // In small chunks a page index is of no use.
    (without > 0 && report.row_group_bytes.mean >= SMALL_ROW_GROUP).then(|| {
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
    (column.binary && column.is_compressed() && column.mean_value() >= LARGE_VALUE && saved < IN_VAIN).then(|| {
        format!(
            "Column {:?} is compressed in vain: its values are compressed already, and unpacking them costs a copy. \
             pyarrow: compression={{{:?}: \"none\"}}.",
            column.name, column.name
        )
    })
}

fn dictionary(column: &LeafColumn) -> Option<String> {
    (column.binary && column.has_dictionary() && column.mean_value() >= LARGE_VALUE).then(|| {
        format!(
            "Column {:?} begins with a dictionary, which large values do not share, and any row needs all of it. pyarrow: \
             use_dictionary with the names of the other columns.",
            column.name
        )
    })
}

fn large_page(column: &LeafColumn) -> Option<String> {
    let page = column.largest_page_bytes.filter(|page| *page > LARGE_PAGE)?;
    (column.mean_value() >= LARGE_VALUE).then(|| {
        format!(
            "Column {:?} has pages of up to {}, about {} values each: any of them costs the whole page. pyarrow: \
             write_batch_size=8 with data_page_size=262144.",
            column.name,
            bytes(page),
            count(page / column.mean_value().max(1))
        )
    })
}
