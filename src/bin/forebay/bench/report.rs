//! What a run came to, for people and for programs.

use std::fmt;
use std::time::Duration;

use forebay::cache::CacheStats;
use forebay::loader::{self, Stage, Stages, Verdict};
use forebay::source::TrafficStats;
use forebay::{Loader, Stats};
use serde::Serialize;

use super::drive::Run;
use super::machine::Spent;
use super::simulated::Simulated;
use super::tally::{self, Waits};
use super::{Args, Until, machine, verdict};
use crate::cli::options::Order;
use crate::cli::units::{bytes, count, counted, seconds};

/// Other programs that keep more processors busy than this spoil a measurement.
const DISTURBING: f64 = 0.25;

/// Shorter waits for a stage, in seconds, are not worth a word.
const SHOWN: f64 = 1e-3;

/// A run of `forebay bench`.
#[derive(Serialize)]
pub(super) struct Report {
    version: &'static str,
    locations: Vec<String>,
    until: Until,
    order: Order,
    world: u32,
    threads: usize,
    batch_size: u64,
    epochs: u64,
    steps: u64,
    rows: u64,
    images: u64,
    /// From the first request for a batch to the end of the last step.
    seconds: f64,
    rows_per_second: f64,
    /// The same, epoch by epoch.
    epoch_rows_per_second: Vec<f64>,
    images_per_second: f64,
    stored_bytes_per_second: f64,
    /// From opening the data set to the first batch of the slowest rank.
    seconds_to_first_batch: f64,
    next_ms: Waits,
    longest_stall_ms: f64,
    epoch_gap_ms: Option<f64>,
    pub(super) accelerator: Option<Simulated>,
    /// Seconds that the ranks waited after their first batch, by the stage that held them up.
    waited: loader::Waits,
    /// What the stages of all ranks did.
    stages: Stages,
    /// The bottleneck as the loaders see it.
    verdict: Verdict,
    cpu_seconds_per_1000_rows: Option<f64>,
    /// Processors that other programs kept busy meanwhile.
    others_cores: Option<f64>,
    peak_rss_bytes: Option<u64>,
    budget_bytes: u64,
    /// What was asked of the stores, footers included; all ranks together.
    traffic: TrafficStats,
    /// What the row cache did for the first rank.
    cache: Option<CacheStats>,
    skipped_rows: u64,
    padded_rows: u64,
    bottleneck: String,
}

impl Report {
    /// Sums up `ranks`, the laps that `loaders` ran.
    pub(super) fn new(
        args: &Args,
        loaders: &[Loader],
        ranks: &[Run],
        step: Duration,
        floor: Duration,
        spent: Option<Spent>,
    ) -> Self {
        let laps = || ranks.iter().map(|run| run.laps.as_slice());
        let rows: u64 = laps().flatten().map(|lap| lap.rows).sum();
        let asked = laps().filter_map(|laps| laps.first()).map(|lap| lap.asked).fold(f64::INFINITY, f64::min);
        let ended = laps().filter_map(|laps| laps.last()).map(|lap| lap.ended).fold(0.0, f64::max);
        let time = (ended - asked).max(f64::MIN_POSITIVE);
        let first = laps().filter_map(|laps| laps.first()).map(|lap| lap.got).fold(0.0, f64::max);
        let next_ms = tally::waits(laps());
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            locations: args.loader.location.shown(),
            until: args.until,
            order: if args.until == Until::Batch { args.loader.order } else { Order::Stored },
            world: args.world,
            threads: args.threads_each(),
            batch_size: args.loader.batch_size,
            epochs: args.epochs,
            steps: ranks.first().map_or(0, |run| run.laps.len() as u64),
            rows,
            images: 0,
            seconds: time,
            rows_per_second: rows as f64 / time,
            epoch_rows_per_second: tally::epoch_rates(&laps().collect::<Vec<_>>()),
            images_per_second: 0.0,
            stored_bytes_per_second: 0.0,
            seconds_to_first_batch: first,
            longest_stall_ms: next_ms.max,
            next_ms,
            epoch_gap_ms: tally::epoch_gap(laps()).map(|gap| gap * 1e3),
            accelerator: (!step.is_zero()).then(|| Simulated::new(ranks, step, floor)),
            waited: loader::Waits::default(),
            stages: Stages::default(),
            verdict: Stats::verdict_of(&[]),
            cpu_seconds_per_1000_rows: spent.map(|it| it.own / (rows as f64 / 1e3).max(f64::MIN_POSITIVE)),
            others_cores: spent.map(|it| it.others / ended.max(f64::MIN_POSITIVE)),
            peak_rss_bytes: machine::peak_rss(),
            budget_bytes: 0,
            traffic: loaders.first().map(|loader| loader.stats().traffic).unwrap_or_default(),
            cache: loaders.first().and_then(|loader| loader.stats().cache),
            skipped_rows: 0,
            padded_rows: 0,
            bottleneck: String::new(),
        };
        let stats: Vec<Stats> = loaders.iter().map(Loader::stats).collect();
        stats.iter().zip(ranks).for_each(|(stats, run)| report.add(stats, run));
        report.verdict = Stats::verdict_of(&stats);
        // Images are counted where they are decoded, ahead of the consumer: hold them to the rows that arrived.
        report.images = report.stages.decode.items.min(rows.saturating_mul(args.loader.image.len() as u64));
        report.images_per_second = report.images as f64 / time;
        report.stored_bytes_per_second = report.stages.fetch.bytes as f64 / time;
        report
    }

    fn add(&mut self, stats: &Stats, run: &Run) {
        self.stages.add(&stats.stages);
        self.waited.add(&stats.waits.since(&run.first_wait));
        self.budget_bytes += stats.memory.budget;
        self.skipped_rows += stats.skipped_rows;
        self.padded_rows += stats.padded_rows;
    }

    /// Sets what the loader gives when nothing holds it back, against what the accelerator takes.
    pub(super) fn set_margin(&mut self, free: &[Run]) {
        if let Some(simulated) = &mut self.accelerator {
            simulated.set_margin(free);
        }
    }

    /// Adds the sentence that names the bottleneck.
    pub(super) fn conclude(&mut self) {
        let accelerator = self.accelerator.as_ref().map(|it| (it.utilisation_min, it.margin));
        self.bottleneck = verdict::sentence(&self.verdict, accelerator);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |ms: f64| seconds(ms / 1e3);
        writeln!(
            f,
            "{} of {} in {}, {}",
            counted(self.rows, "row"),
            counted(u64::from(self.world), "rank"),
            counted(self.steps, "step"),
            seconds(self.seconds)
        )?;
        write!(f, "throughput      {} rows/s", count(self.rows_per_second as u64))?;
        if self.images > 0 {
            write!(f, ", {} images/s", count(self.images_per_second as u64))?;
        }
        writeln!(f, ", {}/s stored", bytes(self.stored_bytes_per_second as u64))?;
        if self.epoch_rows_per_second.len() > 1 {
            let rates = self.epoch_rows_per_second.iter().map(|rate| count(*rate as u64));
            writeln!(f, "epoch by epoch  {} rows/s", rates.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(f, "first batch     after {}", seconds(self.seconds_to_first_batch))?;
        let Waits { p50, p95, p99, p999, max } = self.next_ms;
        writeln!(
            f,
            "next()          p50 {}, p95 {}, p99 {}, p99.9 {}, longest stall {}",
            millis(p50),
            millis(p95),
            millis(p99),
            millis(p999),
            millis(max)
        )?;
        if let Some(gap) = self.epoch_gap_ms {
            writeln!(f, "between epochs  {}", millis(gap))?;
        }
        if let Some(simulated) = &self.accelerator {
            writeln!(f, "{simulated}")?;
        }
        let waits = Stage::ALL.into_iter().map(|stage| (stage, self.waited.of(stage)));
        let waits: Vec<String> = waits
            .filter(|(_, time)| *time >= SHOWN)
            .map(|(stage, time)| format!("{} {}", stage.name(), seconds(time)))
            .collect();
        let waits = if waits.is_empty() { "nothing".to_owned() } else { waits.join(", ") };
        writeln!(f, "waited for      {waits}")?;
        if let Some(cpu) = self.cpu_seconds_per_1000_rows {
            write!(f, "processor       {} for 1,000 rows", seconds(cpu))?;
            if let Some(cores) = self.others_cores.filter(|cores| *cores > DISTURBING) {
                write!(
                    f,
                    "; other programs kept {cores:.1} processors busy: repeat this on a quiet machine"
                )?;
            }
            writeln!(f)?;
        }
        if let Some(peak) = self.peak_rss_bytes {
            writeln!(f, "memory          {} at most, budget {}", bytes(peak), bytes(self.budget_bytes))?;
        }
        writeln!(f, "store           {}", self.traffic)?;
        if let Some(cache) = &self.cache {
            writeln!(f, "cache           {cache}")?;
        }
        if self.skipped_rows + self.padded_rows > 0 {
            writeln!(
                f,
                "rows            {} skipped, {} repeated",
                count(self.skipped_rows),
                count(self.padded_rows)
            )?;
        }
        write!(f, "{}", self.bottleneck)
    }
}
