//! The figures that the page of a training run lists: their labels, paths in the report's JSON, and formats.

use super::summary::Summary;
use crate::page::formats::{size, whole};
use crate::page::{Figure, Group, Say};
use crate::units::{percent, seconds};

/// The figures by heading.
const GROUPS: &[(&str, &[Figure])] = &[
    (
        "Run",
        &[
            ("Ranks of the run", "/world", whole),
            ("Ranks in this report", "/reported", whole),
            ("Rows in a batch", "/batch_size", whole),
            ("Batches", "/batches", whole),
            ("Rows", "/rows", whole),
            ("Time within epochs", "/seconds", seconds),
            ("Rows a second", "/rows_per_second", whole),
        ],
    ),
    (
        "Waiting",
        &[
            ("Time with its batch, the rank that fared worst", "/busy_min", percent),
            ("First batch", "/first_batch", seconds),
            ("next() p50", "/next/p50", seconds),
            ("next() p99", "/next/p99", seconds),
            ("next() p99.9", "/next/p999", seconds),
            ("Longest stall", "/next/max", seconds),
            ("Waited for the store", "/waited/fetch", seconds),
            ("Waited for memory", "/waited/memory", seconds),
            ("Waited for the cache", "/waited/cache", seconds),
            ("Waited for Parquet", "/waited/parquet", seconds),
            ("Waited for the plan", "/waited/shuffle", seconds),
            ("Waited for gathering", "/waited/gather", seconds),
            ("Waited for decoding", "/waited/decode", seconds),
            ("Waited for handing over", "/waited/hand_over", seconds),
            ("Waited for the transform", "/waited/transform", seconds),
            ("Waited for the device", "/waited/device", seconds),
        ],
    ),
    (
        "Work",
        &[
            ("Reading row groups", "/stages/fetch/working", seconds),
            ("Decoding Parquet, summed over threads", "/stages/parquet/working", seconds),
            ("Gathering rows, summed over threads", "/stages/gather/working", seconds),
            ("Decoding images, summed over threads", "/stages/decode/working", seconds),
            ("Images", "/stages/decode/items", whole),
            ("Handing over", "/stages/hand_over/working", seconds),
            ("Transform, summed over workers", "/stages/transform/working", seconds),
            ("Copying to the device", "/stages/device/working", seconds),
        ],
    ),
    (
        "Memory, storage and cache",
        &[
            ("Peak memory of the largest process", "/peak_rss_bytes", size),
            ("Memory budget of all ranks", "/budget_bytes", size),
            ("Requests", "/requests", whole),
            ("Bytes read", "/bytes_read", size),
            ("Cache hits", "/cache_hits", whole),
            ("Cache misses", "/cache_misses", whole),
            ("Rows skipped", "/skipped_rows", whole),
            ("Rows repeated", "/padded_rows", whole),
        ],
    ),
];

/// The figures at the head of the page.
pub(super) const HEAD: &[Figure] = &[
    ("rows a second", "/rows_per_second", whole),
    ("time with its batch", "/busy_min", percent),
    ("next() p99.9", "/next/p999", seconds),
    ("longest stall", "/next/max", seconds),
    ("first batch", "/first_batch", seconds),
    ("peak memory", "/peak_rss_bytes", size),
];

/// The figures of the whole run by heading; with several ranks, also those of each rank.
pub(super) fn groups(summary: &Summary) -> Vec<Group> {
    let mut groups: Vec<Group> =
        GROUPS.iter().map(|(heading, figures)| Group::new(heading, figures)).collect();
    let several = summary.ranks.iter().enumerate().filter(|_| summary.ranks.len() > 1);
    let of_ranks = several.flat_map(|(place, rank)| {
        let of = |what: &str, key: &str, say: Say| {
            (format!("{what}, rank {}", rank.rank), format!("/ranks/{place}/{key}"), say)
        };
        [
            of("Time with its batch", "busy", percent),
            of("Rows", "rows", whole),
            of("next() p99.9", "stats/next/p999", seconds),
            of("Longest stall", "stats/next/max", seconds),
        ]
    });
    groups.push(Group { heading: "Ranks".to_owned(), figures: of_ranks.collect() });
    groups
}
