//! The figures of a report as a table. Each figure is taken from the JSON by its path, so that the page and
//! the JSON cannot differ.

use std::fmt::Write;

use serde_json::Value;

use super::html::escaped;
use crate::units::{bytes, count, percent, seconds};

/// Formats a figure for people.
type Say = fn(f64) -> String;
/// The label of a figure, its path in the JSON, and its format.
type Figure = (&'static str, &'static str, Say);

/// The figures by heading. A figure that a run does not have is left out.
const TABLE: &[(&str, &[Figure])] = &[
    (
        "Run",
        &[
            ("Ranks", "/world", whole),
            ("Decoding threads of each rank", "/threads", whole),
            ("Threads kept busy beside the run", "/pressure", whole),
            ("Rows in a batch", "/batch_size", whole),
            ("Epochs", "/epochs", whole),
            ("Steps of each rank", "/steps", whole),
            ("Rows", "/rows", whole),
            ("Images", "/images", whole),
            ("Duration", "/seconds", seconds),
        ],
    ),
    (
        "Published demand",
        &[
            ("Published step", "/workload/published_step_ms", millis),
            ("Published rows a second", "/workload/published_rows_per_second", whole),
            ("Scale", "/workload/scale", plain),
            ("Demanded rows a second of each rank", "/workload/demanded_rows_per_second", whole),
            ("Demanded bytes a second of each rank", "/workload/demanded_bytes_per_second", size),
            ("Utilisation that MLPerf Storage asks for", "/workload/asked_utilisation", percent),
        ],
    ),
    (
        "Throughput",
        &[
            ("Rows a second", "/rows_per_second", whole),
            ("Rows a second, first epoch", "/cold_rows_per_second", whole),
            ("Rows a second, median of later epochs", "/warm_rows_per_second", whole),
            ("Images a second", "/images_per_second", whole),
            ("Stored bytes a second", "/stored_bytes_per_second", size),
        ],
    ),
    (
        "Accelerator",
        &[
            ("Step, mean", "/accelerator/step_ms", millis),
            ("Step, share by which it varies", "/accelerator/jitter", percent),
            ("Utilisation of the worst rank", "/accelerator/utilisation_min", percent),
            ("Margin: rate without steps over demand", "/accelerator/margin", ratio),
            ("Cost of the simulation for each step, taken off", "/accelerator/floor_ms", millis),
        ],
    ),
    (
        "Waiting",
        &[
            ("First batch, from opening the data set", "/seconds_to_first_batch", seconds),
            ("next() p50", "/next_ms/p50", millis),
            ("next() p95", "/next_ms/p95", millis),
            ("next() p99", "/next_ms/p99", millis),
            ("next() p99.9", "/next_ms/p99.9", millis),
            ("Longest stall", "/longest_stall_ms", millis),
            ("Longest gap between epochs", "/epoch_gap_ms", millis),
            ("Waited for the store", "/waited/store", seconds),
            ("Waited for Parquet", "/waited/parquet", seconds),
            ("Waited for gathering", "/waited/gather", seconds),
            ("Waited for decoding", "/waited/decode", seconds),
        ],
    ),
    (
        "Cost",
        &[
            ("Processor time for 1,000 rows", "/cpu_seconds_per_1000_rows", seconds),
            ("Processors that other programs kept busy", "/others_cores", ratio),
            ("Peak memory of the process", "/peak_rss_bytes", size),
            ("Memory budget of all ranks", "/budget_bytes", size),
        ],
    ),
    (
        "Storage and cache",
        &[
            ("Requests", "/traffic/requests", whole),
            ("Requests for each GB", "/requests_per_gb", whole),
            ("Bytes read", "/traffic/bytes_read", size),
            ("Bytes needed", "/traffic/bytes_needed", size),
            ("Bytes read for each that was needed", "/read_amplification", ratio),
            ("Requests made again", "/traffic/retries", whole),
            ("Requests sent twice", "/traffic/hedges", whole),
            ("Cache hits", "/cache_hits", whole),
            ("Cache misses", "/cache_misses", whole),
        ],
    ),
    (
        "Order",
        &[
            ("Rows delivered once", "/order_check/rows/once", whole),
            ("Rows delivered twice or more", "/order_check/rows/twice", whole),
            ("Rows never delivered", "/order_check/rows/never", whole),
            ("χ² per degree of freedom; 1 if uniform", "/order_check/rows/chi2_per_degree_of_freedom", ratio),
            ("Classes in a batch, mean", "/order_check/classes/mean_per_batch", ratio),
            ("Classes in a batch if drawn uniformly", "/order_check/classes/expected_per_batch", ratio),
            ("Fewest classes in a batch", "/order_check/classes/min_per_batch", whole),
            ("Rows skipped", "/skipped_rows", whole),
            ("Rows repeated", "/padded_rows", whole),
        ],
    ),
];

/// The figures at the head of the page.
const HEAD: &[Figure] = &[
    ("rows a second", "/rows_per_second", whole),
    ("accelerator busy", "/accelerator/utilisation_min", percent),
    ("margin", "/accelerator/margin", ratio),
    ("next() p99.9", "/next_ms/p99.9", millis),
    ("first batch", "/seconds_to_first_batch", seconds),
    ("peak memory", "/peak_rss_bytes", size),
];

fn whole(value: f64) -> String {
    count(value.round() as u64)
}

fn plain(value: f64) -> String {
    value.to_string()
}

fn size(value: f64) -> String {
    bytes(value as u64)
}

fn millis(value: f64) -> String {
    seconds(value / 1e3)
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// The most telling figures, in large type.
pub(super) fn head(report: &Value) -> String {
    let mut cards = String::from("<dl class=\"head\">\n");
    for (name, at, say) in HEAD {
        if let Some(shown) = shown(report, at, *say) {
            let _ = writeln!(cards, "<div><dt>{}</dt><dd>{shown}</dd></div>", escaped(name));
        }
    }
    cards + "</dl>\n"
}

/// The table of all figures.
pub(super) fn table(report: &Value) -> String {
    let mut table = String::from("<table>\n<caption>All figures</caption>\n");
    for (heading, figures) in TABLE {
        let rows: Vec<(String, String)> = figures
            .iter()
            .filter_map(|(name, at, say)| Some(((*name).to_owned(), shown(report, at, *say)?)))
            .chain(if *heading == "Accelerator" { ranks(report) } else { Vec::new() })
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(table, "<tbody>\n<tr><th colspan=\"2\" scope=\"rowgroup\">{heading}</th></tr>");
        for (name, value) in rows {
            let _ = writeln!(table, "<tr><th scope=\"row\">{}</th><td>{value}</td></tr>", escaped(&name));
        }
        table.push_str("</tbody>\n");
    }
    table + "</table>\n"
}

/// The figures of each rank.
fn ranks(report: &Value) -> Vec<(String, String)> {
    let ranks = report.pointer("/accelerator/ranks").and_then(Value::as_array).map_or(0, Vec::len);
    let of = |rank: usize, what: &str, key: &str, say: Say| {
        Some((
            format!("{what}, rank {rank}"),
            shown(report, &format!("/accelerator/ranks/{rank}/{key}"), say)?,
        ))
    };
    (0..ranks)
        .flat_map(|rank| {
            [
                of(rank, "Utilisation", "mean", percent),
                of(rank, "Worst second", "worst_second", percent),
                of(rank, "Variation over seconds", "variation", |value| format!("{value:.3}")),
                of(rank, "Late wake-ups of the simulation", "late", percent),
            ]
        })
        .flatten()
        .collect()
}

/// The figure at the path `at`, as text for people with the value for programs in an attribute.
fn shown(report: &Value, at: &str, say: Say) -> Option<String> {
    let value = report.pointer(at).filter(|value| value.is_number())?;
    Some(format!("<data value=\"{value}\" data-field=\"{at}\">{}</data>", escaped(&say(value.as_f64()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_json_and_what_is_absent_is_left_out() {
        let report = serde_json::json!({
            "rows": 12_345, "rows_per_second": 1234.5678, "accelerator": null, "next_ms": { "p99.9": 0.25 },
        });
        let table = table(&report);
        assert!(table.contains("<data value=\"12345\" data-field=\"/rows\">12,345</data>"), "{table}");
        assert!(table.contains("<data value=\"0.25\" data-field=\"/next_ms/p99.9\">250.0 µs</data>"));
        assert!(!table.contains("Accelerator") && !table.contains("Utilisation"), "{table}");
        let head = head(&report);
        assert!(head.contains("1,235") && !head.contains("margin"), "{head}");
    }
}
