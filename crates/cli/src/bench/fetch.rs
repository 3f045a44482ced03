//! `--until fetch`: the rate of the storage alone, which is the upper limit of a loader.

use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

use forebay_base::Result;
use forebay_store::source::TrafficStats;
use serde::Serialize;

use crate::console::Console;
use crate::options::LoaderOptions;
use crate::units::{bytes, count, seconds};

/// The result of reading row groups in their stored order, several at a time, and discarding them.
#[derive(Serialize)]
pub(super) struct FetchReport {
    until: &'static str,
    row_groups: usize,
    rows: u64,
    bytes: u64,
    traffic: TrafficStats,
    seconds: f64,
    bytes_per_second: f64,
    rows_per_second: f64,
}

/// Reads the columns of all row groups. With `max_batches`, reads only the row groups of those batches.
pub(super) fn measure(
    options: &LoaderOptions,
    max_batches: Option<u64>,
    console: &Console,
) -> Result<FetchReport> {
    let dataset = options.open()?;
    let catalog = dataset.catalog();
    let most_rows = max_batches.map_or(u64::MAX, |most| most.saturating_mul(options.batch_size));
    let groups = catalog.groups.partition_point(|group| group.first_row < most_rows);
    let projection = options.projection(&dataset)?;
    let rows = catalog.groups[..groups].iter().map(|group| group.rows).sum::<u64>();
    let progress = Mutex::new(console.progress("reading", "row groups", groups as u64));
    let before = dataset.traffic();
    let started = Instant::now();
    let read = dataset.fetch(0..groups, &projection, move |_| {
        if let Ok(mut progress) = progress.lock() {
            progress.advance(1);
        }
    })?;
    let time = started.elapsed().as_secs_f64();
    Ok(FetchReport {
        until: "fetch",
        row_groups: groups,
        rows,
        bytes: read,
        traffic: dataset.traffic().since(&before),
        seconds: time,
        bytes_per_second: read as f64 / time,
        rows_per_second: rows as f64 / time,
    })
}

impl fmt::Display for FetchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {}: {}/s, {} rows/s, {:.0} requests per GB\n\
             Only bytes are fetched, in stored order; local files that were read before come from memory.",
            bytes(self.bytes),
            seconds(self.seconds),
            bytes(self.bytes_per_second as u64),
            count(self.rows_per_second as u64),
            self.traffic.requests_per_gigabyte(),
        )
    }
}
