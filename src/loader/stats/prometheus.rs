//! Writes the statistics in the text format of Prometheus.

use std::fmt::{Display, Write};

use super::{NextStats, Stats};
use crate::monitor::Stage;

/// The text of the metrics that were written so far.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Writes the lines that begin a metric. Its samples must follow directly, as the format demands.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let label = label.map_or(String::new(), |(name, value)| format!("{{{name}=\"{value}\"}}"));
        let _ = writeln!(self.text, "forebay_{name}{label} {value}");
    }

    /// Writes a metric with one sample.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, None, value);
    }

    /// Writes a counter that has one sample for each value of a label.
    fn counter(&mut self, name: &str, help: &str, label: &str, samples: &[(&str, f64)]) {
        self.metric(name, "counter", help);
        samples.iter().for_each(|(value, number)| self.sample(name, Some((label, value)), number));
    }
}

impl Stats {
    /// The statistics in the text exposition format of Prometheus, in base units: seconds and bytes. Serve it
    /// as `text/plain; version=0.0.4`, or write it where the node exporter's textfile collector reads.
    pub fn to_prometheus(&self) -> String {
        let mut page = Page::default();
        let stages = self.stages.named();
        let of = |value: fn(&super::StageStats) -> Option<f64>| {
            stages.iter().filter_map(|(name, stage)| Some((*name, value(stage)?))).collect::<Vec<_>>()
        };
        let by = "stage";
        page.counter(
            "stage_items_total",
            "Items that each stage produced.",
            by,
            &of(|stage| Some(stage.items as f64)),
        );
        page.counter("stage_bytes_total", "Bytes of these items.", by, &of(|stage| Some(stage.bytes as f64)));
        page.counter(
            "stage_working_seconds_total",
            "Time that each stage worked, summed over the threads of the pool.",
            by,
            &of(|stage| Some(stage.working)),
        );
        page.counter(
            "stage_starved_seconds_total",
            "Time in which a stage had nothing to work on.",
            by,
            &of(|stage| stage.starved),
        );
        page.counter(
            "stage_blocked_seconds_total",
            "Time in which a stage had no room for its results.",
            by,
            &of(|stage| stage.blocked),
        );
        let pool = &self.pool;
        page.single("pool_threads", "gauge", "Threads that decode.", pool.threads);
        page.counter(
            "pool_seconds_total",
            "Time of the threads that decode, summed over them.",
            "state",
            &[("working", pool.working), ("starved", pool.starved), ("blocked", pool.blocked)],
        );
        let waits: Vec<(&str, f64)> = Stage::ALL
            .into_iter()
            .filter(|stage| *stage != Stage::Consumer)
            .map(|stage| (stage.name(), self.waits.for_stage(stage)))
            .collect();
        page.counter(
            "wait_seconds_total",
            "Time that the training loop waited, by the stage that it waited for.",
            by,
            &waits,
        );
        page.single(
            "consumer_seconds_total",
            "counter",
            "The training loop's own time, between a batch and the next request.",
            self.consumer,
        );
        self.next(&mut page);
        let queues = &self.queues;
        page.single(
            "batches_ready",
            "gauge",
            "Batches that wait for the training loop.",
            queues.batches_ready,
        );
        page.single(
            "row_groups_in_flight",
            "gauge",
            "Row groups on their way to the window.",
            queues.row_groups,
        );
        let memory = &self.memory;
        page.single("memory_budget_bytes", "gauge", "The memory budget.", memory.budget);
        page.single(
            "memory_batches_bytes",
            "gauge",
            "Bytes of the budget that are kept for batches.",
            memory.batches,
        );
        page.single("memory_row_groups_bytes", "gauge", "Bytes of row groups in flight.", memory.row_groups);
        page.single(
            "memory_row_groups_peak_bytes",
            "gauge",
            "Peak bytes of row groups in flight.",
            memory.row_groups_peak,
        );
        let help = "Bytes of rows that stay in memory from one epoch to the next.";
        page.single("memory_staying_bytes", "gauge", help, memory.staying);
        let help = "Rows that epochs had from memory, and did not read.";
        page.single("memory_staying_rows_total", "counter", help, memory.staying_rows);
        page.single("rows_skipped_total", "counter", "Bad rows that were left out.", self.skipped_rows);
        let help = "Values that are not in the vocabulary of their column.";
        page.single("values_unknown_total", "counter", help, self.unknown_values);
        page.single("rows_padded_total", "counter", "Rows repeated to keep ranks equal.", self.padded_rows);
        self.storage(&mut page);
        page.text
    }

    fn next(&self, page: &mut Page) {
        let NextStats { count, sum, p50, p95, p99, p999, first, .. } = self.next;
        page.metric(
            "next_seconds",
            "summary",
            "Duration of next(), without the first batch of the first epoch.",
        );
        for (quantile, value) in [("0.5", p50), ("0.95", p95), ("0.99", p99), ("0.999", p999)] {
            page.sample("next_seconds", Some(("quantile", quantile)), value);
        }
        page.sample("next_seconds_sum", None, sum);
        page.sample("next_seconds_count", None, count);
        page.single(
            "next_seconds_max",
            "gauge",
            "Longest next(), without the first batch of the first epoch.",
            self.next.max,
        );
        page.single(
            "first_batch_seconds",
            "gauge",
            "Duration of next() for the first batch of the first epoch.",
            first,
        );
    }

    fn storage(&self, page: &mut Page) {
        let traffic = &self.traffic;
        for (name, help, value) in [
            ("store_requests_total", "Reads requested from the stores.", traffic.requests),
            ("store_read_bytes_total", "Bytes received.", traffic.bytes_read),
            (
                "store_needed_bytes_total",
                "Of the bytes received, those that were needed.",
                traffic.bytes_needed,
            ),
            ("store_retries_total", "Requests retried.", traffic.retries),
            ("store_hedges_total", "Second requests sent because the first one was late.", traffic.hedges),
            ("store_throttled_total", "Responses that asked for fewer requests.", traffic.throttled),
            ("store_stalls_total", "Requests abandoned because no byte arrived.", traffic.stalls),
        ] {
            page.single(name, "counter", help, value);
        }
        let Some(cache) = &self.cache else { return };
        for (name, help, value) in [
            ("cache_hits_total", "Lookups that were hits.", cache.hits),
            ("cache_misses_total", "Lookups that were misses.", cache.misses),
            ("cache_read_bytes_total", "Bytes of rows handed out.", cache.read_bytes),
            ("cache_written_bytes_total", "Bytes written.", cache.written_bytes),
            ("cache_evictions_total", "Entries removed to make room.", cache.evictions),
        ] {
            page.single(name, "counter", help, value);
        }
        page.single("cache_bytes", "gauge", "Bytes of entries on disk.", cache.bytes);
        page.single("cache_limit_bytes", "gauge", "Limit of the bytes of entries on disk.", cache.max_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheStats;
    use crate::loader::stats::{MemoryStats, QueueStats};

    #[test]
    fn each_number_is_the_sample_of_its_metric() {
        let mut stats = Stats { skipped_rows: 1, unknown_values: 2, padded_rows: 3, ..Stats::default() };
        stats.next = NextStats { count: 4, sum: 5.5, max: 6.5, first: 7.5, ..NextStats::default() };
        stats.queues = QueueStats { batches_ready: 8, row_groups: 9, ..QueueStats::default() };
        stats.memory = MemoryStats {
            budget: 10,
            batches: 11,
            row_groups: 12,
            row_groups_peak: 13,
            staying: 14,
            staying_rows: 15,
        };
        (stats.traffic.requests, stats.traffic.bytes_read, stats.traffic.bytes_needed) = (16, 17, 18);
        (stats.traffic.retries, stats.traffic.hedges) = (19, 20);
        (stats.traffic.throttled, stats.traffic.stalls) = (21, 22);
        stats.pool.threads = 30;
        let of_stores = [
            ("rows_skipped_total", "1"),
            ("values_unknown_total", "2"),
            ("rows_padded_total", "3"),
            ("next_seconds_count", "4"),
            ("next_seconds_sum", "5.5"),
            ("next_seconds_max", "6.5"),
            ("first_batch_seconds", "7.5"),
            ("batches_ready", "8"),
            ("row_groups_in_flight", "9"),
            ("memory_budget_bytes", "10"),
            ("memory_batches_bytes", "11"),
            ("memory_row_groups_bytes", "12"),
            ("memory_row_groups_peak_bytes", "13"),
            ("memory_staying_bytes", "14"),
            ("memory_staying_rows_total", "15"),
            ("store_requests_total", "16"),
            ("store_read_bytes_total", "17"),
            ("store_needed_bytes_total", "18"),
            ("store_retries_total", "19"),
            ("store_hedges_total", "20"),
            ("store_throttled_total", "21"),
            ("store_stalls_total", "22"),
            ("pool_threads", "30"),
        ];
        let of_cache = [
            ("cache_hits_total", "23"),
            ("cache_misses_total", "24"),
            ("cache_read_bytes_total", "25"),
            ("cache_written_bytes_total", "26"),
            ("cache_evictions_total", "27"),
            ("cache_bytes", "28"),
            ("cache_limit_bytes", "29"),
        ];
        let has =
            |page: &str, (name, value): &(&str, &str)| page.contains(&format!("\nforebay_{name} {value}\n"));
        let without_cache = stats.to_prometheus();
        stats.cache = Some(CacheStats {
            hits: 23,
            misses: 24,
            read_bytes: 25,
            written_bytes: 26,
            evictions: 27,
            bytes: 28,
            max_bytes: 29,
            ..CacheStats::default()
        });
        let page = stats.to_prometheus();
        for sample in &of_stores {
            assert!(has(&without_cache, sample) && has(&page, sample), "{sample:?}: {page}");
        }
        for sample in &of_cache {
            assert!(!has(&without_cache, sample) && has(&page, sample), "{sample:?}: {page}");
        }
    }
}
