//! The figures of a report of `bench`.

use serde_json::Value;

use crate::page::formats::{millis, plain, ratio, size, whole};
use crate::page::{Figure, Group, Say};
use crate::units::{percent, seconds};

/// The figures of the table under each heading: a name, the path in the report, and how the number is
/// formatted.
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
pub(super) const HEAD: &[Figure] = &[
    ("rows a second", "/rows_per_second", whole),
    ("accelerator busy", "/accelerator/utilisation_min", percent),
    ("margin", "/accelerator/margin", ratio),
    ("next() p99.9", "/next_ms/p99.9", millis),
    ("first batch", "/seconds_to_first_batch", seconds),
    ("peak memory", "/peak_rss_bytes", size),
];

/// The figures of the table in groups, one for each heading. The figures of each rank are part of the group
/// `Accelerator`.
pub(super) fn groups(report: &Value) -> Vec<Group> {
    let group = |(heading, figures): &(&str, &[Figure])| {
        let mut group = Group::new(heading, figures);
        if *heading == "Accelerator" {
            group.figures.extend(ranks(report));
        }
        group
    };
    TABLE.iter().map(group).collect()
}

/// The figures of each rank.
fn ranks(report: &Value) -> Vec<(String, String, Say)> {
    let ranks = report.pointer("/accelerator/ranks").and_then(Value::as_array).map_or(0, Vec::len);
    let of = |rank: usize, what: &str, key: &str, say: Say| {
        (format!("{what}, rank {rank}"), format!("/accelerator/ranks/{rank}/{key}"), say)
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
        .collect()
}
