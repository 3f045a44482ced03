//! A reading in the text format of Prometheus.

use std::fmt::{Display, Write};

use super::{NextStats, Stats};
use crate::monitor::Stage;

/// One page of metrics in the making.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Begins a metric. Every one has its samples together, as the format demands.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let label = label.map_or(String::new(), |(name, value)| format!("{{{name}=\"{value}\"}}"));
        let _ = writeln!(self.text, "forebay_{name}{label} {value}");
    }

    /// A metric of one sample.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, None, value);
    }

    /// A counter with a sample for each of several labels.
    fn counter(&mut self, name: &str, help: &str, label: &str, samples: &[(&str, f64)]) {
        self.metric(name, "counter", help);
        samples.iter().for_each(|(value, number)| self.sample(name, Some((label, value)), number));
    }
}

impl Stats {
    /// The same in the text exposition format of Prometheus, in base units: seconds and bytes. Serve it as
    /// `text/plain; version=0.0.4`, or write it where the node exporter's textfile collector reads.
    pub fn to_prometheus(&self) -> String {
        let mut page = Page::default();
        let stages = self.stages.named();
        let of = |value: fn(&super::StageStats) -> Option<f64>| {
            stages.iter().filter_map(|(name, stage)| Some((*name, value(stage)?))).collect::<Vec<_>>()
        };
        let by = "stage";
        page.counter(
            "stage_items_total",
            "What each stage put out.",
            by,
            &of(|stage| Some(stage.items as f64)),
        );
        page.counter("stage_bytes_total", "Bytes of it.", by, &of(|stage| Some(stage.bytes as f64)));
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
            "Time in which there was no room for the results of a stage.",
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
            .map(|stage| (stage.name(), self.waits.of(stage)))
            .collect();
        page.counter(
            "wait_seconds_total",
            "Time that the training loop waited, by what held it up.",
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
        page.single("batches_ready", "gauge", "Batches made and not taken.", queues.batches_ready);
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
            "Of the budget, what is kept for batches.",
            memory.batches,
        );
        page.single("memory_row_groups_bytes", "gauge", "Row groups in flight.", memory.row_groups);
        page.single("memory_row_groups_peak_bytes", "gauge", "The most they were.", memory.row_groups_peak);
        page.single("rows_skipped_total", "counter", "Bad rows that were left out.", self.skipped_rows);
        page.single("rows_padded_total", "counter", "Rows repeated to keep ranks equal.", self.padded_rows);
        self.storage(&mut page);
        page.text
    }

    fn next(&self, page: &mut Page) {
        let NextStats { count, sum, p50, p95, p99, p999, first, .. } = self.next;
        page.metric("next_seconds", "summary", "How long next() took, the first batch of all apart.");
        for (quantile, value) in [("0.5", p50), ("0.95", p95), ("0.99", p99), ("0.999", p999)] {
            page.sample("next_seconds", Some(("quantile", quantile)), value);
        }
        page.sample("next_seconds_sum", None, sum);
        page.sample("next_seconds_count", None, count);
        page.single("next_seconds_max", "gauge", "The longest next().", self.next.max);
        page.single(
            "first_batch_seconds",
            "gauge",
            "How long next() took for the first batch of all.",
            first,
        );
    }

    fn storage(&self, page: &mut Page) {
        let traffic = &self.traffic;
        for (name, help, value) in [
            ("store_requests_total", "Reads that were asked of the stores.", traffic.requests),
            ("store_read_bytes_total", "Bytes that came.", traffic.bytes_read),
            ("store_needed_bytes_total", "Bytes that were needed of them.", traffic.bytes_needed),
            ("store_retries_total", "Requests made again.", traffic.retries),
            ("store_hedges_total", "Second requests sent because the first was late.", traffic.hedges),
            ("store_throttled_total", "Answers that asked for fewer requests.", traffic.throttled),
            ("store_stalls_total", "Requests given up because nothing came.", traffic.stalls),
        ] {
            page.single(name, "counter", help, value);
        }
        let Some(cache) = &self.cache else { return };
        for (name, help, value) in [
            ("cache_hits_total", "Look-ups that found their rows.", cache.hits),
            ("cache_misses_total", "Look-ups that did not.", cache.misses),
            ("cache_read_bytes_total", "Bytes handed out.", cache.read_bytes),
            ("cache_written_bytes_total", "Bytes written.", cache.written_bytes),
            ("cache_evictions_total", "Entries removed to make room.", cache.evictions),
        ] {
            page.single(name, "counter", help, value);
        }
        page.single("cache_bytes", "gauge", "Bytes of entries on disk.", cache.bytes);
        page.single("cache_limit_bytes", "gauge", "The most that they may be.", cache.max_bytes);
    }
}
