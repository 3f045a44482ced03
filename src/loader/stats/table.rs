//! Prints the statistics as a table of text.

use std::fmt;

use super::{MemoryStats, NextStats, PoolStats, QueueStats, Stats};
use crate::monitor::Stage;

/// The stage called `name`; `None` for "list", which a training loop never waits for.
fn waited(name: &str) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name)
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let heads = ["items", "MB", "working s", "starved s", "blocked s", "waited for s"];
        let [items, mb, working, starved, blocked, wait] = heads;
        writeln!(
            f,
            "{:<10} {items:>12} {mb:>11} {working:>10} {starved:>10} {blocked:>10} {wait:>13}",
            "stage"
        )?;
        let time = |seconds: Option<f64>| seconds.map_or(String::new(), |seconds| format!("{seconds:.3}"));
        for (name, stage) in self.stages.named() {
            let wait = waited(name).map(|stage| self.waits.for_stage(stage));
            // Stages that this loader does not use are left out.
            if stage.items == 0 && stage.working + wait.unwrap_or(0.0) == 0.0 {
                continue;
            }
            writeln!(
                f,
                "{name:<10} {:>12} {:>11.1} {:>10.3} {:>10} {:>10} {:>13}",
                stage.items,
                megabytes(stage.bytes),
                stage.working,
                time(stage.starved),
                time(stage.blocked),
                time(wait)
            )?;
            if name == "fetch" {
                let memory = self.waits.memory;
                writeln!(
                    f,
                    "{:<10} {:>12} {:>11} {:>10} {:>10} {:>10} {memory:>13.3}",
                    "memory", "", "", "", "", ""
                )?;
            }
        }
        let PoolStats { threads, working, starved, blocked } = self.pool;
        writeln!(
            f,
            "{:<10} {:>12} {:>11} {working:>10.3} {starved:>10.3} {blocked:>10.3}",
            "pool",
            format!("{threads} threads"),
            ""
        )?;
        let NextStats { count, p50, p95, p99, p999, max, first, .. } = self.next;
        let millis = |seconds: f64| format!("{:.3}", seconds * 1e3);
        writeln!(
            f,
            "next()     {count} times, ms: p50 {}, p95 {}, p99 {}, p99.9 {}, longest {}; the first batch {}",
            millis(p50),
            millis(p95),
            millis(p99),
            millis(p999),
            millis(max),
            millis(first)
        )?;
        let QueueStats { batches_ready, batches_ready_mean, row_groups, row_groups_mean } = self.queues;
        writeln!(
            f,
            "queues     {batches_ready} batches ready (mean {batches_ready_mean:.1}), {row_groups} row groups in \
             flight (mean {row_groups_mean:.1})"
        )?;
        let MemoryStats { budget, batches, row_groups, row_groups_peak, staying, staying_rows } = self.memory;
        writeln!(
            f,
            "budget     {:.0} MB of row groups in flight (peak {:.0}), {:.0} MB kept for batches, of {:.0} MB",
            megabytes(row_groups),
            megabytes(row_groups_peak),
            megabytes(batches),
            megabytes(budget)
        )?;
        if staying > 0 {
            let megabytes = megabytes(staying);
            writeln!(
                f,
                "staying    {megabytes:.1} MB of rows in memory, from which epochs had {staying_rows} rows"
            )?;
        }
        writeln!(f, "store      {}", self.traffic)?;
        if let Some(cache) = &self.cache {
            write!(f, "cache      {cache}")?;
            if cache.writing > 0.0 {
                let share = 100.0 * cache.writing / (cache.writing + working);
                write!(f, "; writing was {share:.1} % of the work")?;
            }
            writeln!(f)?;
        }
        if self.skipped_rows + self.padded_rows > 0 {
            writeln!(f, "rows       {} skipped, {} repeated", self.skipped_rows, self.padded_rows)?;
        }
        if !self.sources.is_empty() {
            let all: u64 = self.sources.iter().map(|source| source.rows).sum();
            let share = |rows: u64| 100.0 * rows as f64 / all.max(1) as f64;
            let sources = (0..).zip(&self.sources).map(|(number, source): (usize, _)| {
                format!("{number}: {} rows ({:.2} %)", source.rows, share(source.rows))
            });
            writeln!(f, "sources    {}", sources.collect::<Vec<_>>().join(", "))?;
        }
        if self.unknown_values > 0 {
            writeln!(f, "values     {} not in the vocabulary", self.unknown_values)?;
        }
        write!(f, "{}", self.verdict())
    }
}
