//! The results of a run, for people and for programs.

use std::fmt;
use std::time::Duration;

use forebay::stats::{self, CacheStats, Stage, Stages, Verdict};
use forebay::{Loader, Stats};
use forebay_store::source::TrafficStats;
use serde::Serialize;

use super::args::{Args, Until};
use super::check::OrderCheck;
use super::decoded::DecodedImages;
use super::drive::RankRun;
use super::epochs::{self, BenchEpoch};
use super::simulated::Simulated;
use super::sweep::Point;
use super::tally::{self, Bin, Waits};
use super::undecoded::{self, Undecoded};
use super::verdict;
use super::workload::HeldDemand;
use crate::machine::{self, Clock};
use crate::options::Order;
use crate::units::{bytes, count, counted, percent, seconds};

/// The largest share of a run that the wait for the first batch may take. Above it, the report warns that the
/// run was too short for a steady rate.
const MAX_START_SHARE: f64 = 0.25;

/// The report leaves out a stage if the training loops waited for it for less than this time, in seconds.
const MIN_SHOWN_SECONDS: f64 = 1e-3;

/// The results of a run of `forebay bench`.
#[derive(Serialize)]
pub(super) struct BenchReport {
    pub(super) version: &'static str,
    /// The instruction set that the program was compiled for, such as `x86-64-v3`.
    pub(super) level: &'static str,
    /// Whether the compiler optimised the program.
    pub(super) optimised: bool,
    pub(super) locations: Vec<String>,
    /// The fingerprint (a hash) of the data set, which changes with its files and with the version of a
    /// table.
    pub(super) fingerprint: String,
    pub(super) columns: Vec<String>,
    /// How images are decoded.
    pub(super) decode: DecodedImages,
    pub(super) seed: u64,
    /// The rate that the benchmark of `--workload` demands, which the run is compared with.
    pub(super) workload: Option<HeldDemand>,
    pub(super) until: Until,
    pub(super) order: Order,
    pub(super) world: u32,
    pub(super) threads: usize,
    /// The number of threads of `--pressure`, which kept processors busy during the run.
    pub(super) pressure: usize,
    pub(super) batch_size: u64,
    /// The number of epochs that began; the run may end within the last one.
    pub(super) epochs: u64,
    pub(super) steps: u64,
    pub(super) rows: u64,
    /// The number of decoded images that the ranks received. Each image of a clip or a window counts.
    pub(super) images: u64,
    /// The time from the first request for a batch to the end of the last step.
    pub(super) seconds: f64,
    pub(super) rows_per_second: f64,
    /// Whether the wait for the first batch took so large a share of the time that the rates do not describe
    /// steady work.
    pub(super) too_short: bool,
    /// The rate of the first epoch.
    pub(super) cold_rows_per_second: Option<f64>,
    /// The median rate of all epochs after the first.
    pub(super) warm_rows_per_second: Option<f64>,
    pub(super) images_per_second: f64,
    /// The columns whose images were delivered encoded.
    pub(super) undecoded: Vec<Undecoded>,
    pub(super) stored_bytes_per_second: f64,
    /// The time from opening the data set to the first batch of the slowest rank.
    pub(super) seconds_to_first_batch: f64,
    /// The number of rows that all ranks got in each whole second.
    pub(super) rows_by_second: Vec<u64>,
    pub(super) next_ms: Waits,
    pub(super) next_histogram: Vec<Bin>,
    pub(super) longest_stall_ms: f64,
    pub(super) epoch_gap_ms: Option<f64>,
    pub(super) accelerator: Option<Simulated>,
    /// How long the ranks waited after their first batch, in seconds, by the stage that held them up.
    pub(super) waited: stats::Waits,
    /// The work of the stages of all ranks.
    pub(super) stages: Stages,
    /// The bottleneck that the loaders report.
    verdict: Verdict,
    /// The processor time of the loader for 1,000 delivered rows, without the simulated training loops and
    /// the threads of `--pressure`. It includes batches that were made ahead but never delivered, which
    /// matters in short runs.
    pub(super) cpu_seconds_per_1000_rows: Option<f64>,
    /// The mean number of processors that other programs kept busy during the run.
    pub(super) others_cores: Option<f64>,
    pub(super) peak_rss_bytes: Option<u64>,
    pub(super) budget_bytes: u64,
    /// The requests of all ranks to the stores, including those for footers.
    pub(super) traffic: TrafficStats,
    pub(super) requests_per_gb: f64,
    /// The number of bytes that were read, divided by the number of bytes that were needed.
    pub(super) read_amplification: f64,
    /// The row cache of the first rank.
    pub(super) cache: Option<CacheStats>,
    /// How many lookups of all ranks found their rows in the cache, and how many did not.
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
    pub(super) skipped_rows: u64,
    pub(super) padded_rows: u64,
    pub(super) by_epoch: Vec<BenchEpoch>,
    pub(super) thread_sweep: Vec<Point>,
    pub(super) order_check: Option<OrderCheck>,
    pub(super) bottleneck: String,
}

/// The fingerprint of the data set of a loader.
fn fingerprint(loader: &Loader) -> String {
    loader.position().sources.first().map(|source| source.fingerprint.clone()).unwrap_or_default()
}

/// The names of the columns that a loader delivers.
fn columns(loader: &Loader) -> Vec<String> {
    loader.schema().fields().iter().map(|field| field.name().clone()).collect()
}

impl BenchReport {
    /// Computes the report from `ranks` and `loaders`: one record of a run and one loader for each rank.
    pub(super) fn new(
        args: &Args,
        loaders: &[Loader],
        ranks: &[RankRun],
        step: Duration,
        floor: Duration,
    ) -> Self {
        let laps = || ranks.iter().map(|run| run.laps.as_slice());
        let images = ranks.iter().map(|run| run.images).sum();
        let rows: u64 = laps().flatten().map(|lap| lap.rows).sum();
        let asked = laps().filter_map(|laps| laps.first()).map(|lap| lap.asked).fold(f64::INFINITY, f64::min);
        let ended = laps().filter_map(|laps| laps.last()).map(|lap| lap.ended).fold(0.0, f64::max);
        let time = (ended - asked).max(f64::MIN_POSITIVE);
        let first = laps().filter_map(|laps| laps.first()).map(|lap| lap.got).fold(0.0, f64::max);
        let start = (first - asked).max(0.0) / time;
        let next_ms = tally::waits(laps());
        let by_epoch = epochs::epochs(ranks);
        let (cold, warm) = epochs::cold_and_warm(&by_epoch);
        let marks = ranks.first().map(|run| run.marks.as_slice()).unwrap_or_default();
        let spent = (|| Some(Clock::between(marks.first()?.clock?, marks.last()?.clock?)))();
        let cpu = epochs::cpu_seconds(ranks, 0, by_epoch.len());
        let traffic = loaders.first().map(|loader| loader.stats().traffic).unwrap_or_default();
        let mut report = BenchReport {
            version: env!("CARGO_PKG_VERSION"),
            level: machine::LEVEL,
            optimised: machine::OPTIMISED,
            locations: args.loader.location.shown(),
            fingerprint: loaders.first().map(fingerprint).unwrap_or_default(),
            columns: loaders.first().map(columns).unwrap_or_default(),
            decode: args.decoded(),
            seed: args.loader.seed,
            workload: None,
            until: args.until,
            order: if args.until == Until::Batch { args.loader.order } else { Order::Stored },
            world: args.world,
            threads: args.threads_each(),
            pressure: args.pressure,
            batch_size: args.loader.batch_size,
            epochs: by_epoch.len() as u64,
            steps: ranks.first().map_or(0, |run| run.laps.len() as u64),
            rows,
            images,
            seconds: time,
            rows_per_second: rows as f64 / time,
            too_short: start > MAX_START_SHARE,
            cold_rows_per_second: cold,
            warm_rows_per_second: warm,
            images_per_second: images as f64 / time,
            undecoded: ranks.first().map(|run| run.undecoded.clone()).unwrap_or_default(),
            stored_bytes_per_second: 0.0,
            seconds_to_first_batch: first,
            rows_by_second: tally::rows_by_second(&laps().collect::<Vec<_>>()),
            longest_stall_ms: next_ms.max,
            next_ms,
            next_histogram: tally::histogram(laps()),
            epoch_gap_ms: tally::epoch_gap(laps()).map(|gap| gap * 1e3),
            accelerator: (!step.is_zero()).then(|| Simulated::new(ranks, step, args.jitter, floor)),
            waited: stats::Waits::default(),
            stages: Stages::default(),
            verdict: Stats::verdict_of(&[]),
            cpu_seconds_per_1000_rows: cpu.map(|seconds| epochs::per_thousand(seconds, rows)),
            others_cores: spent.map(|it| it.others / time),
            peak_rss_bytes: machine::peak_rss(),
            budget_bytes: 0,
            requests_per_gb: traffic.requests_per_gigabyte(),
            read_amplification: traffic.amplification(),
            traffic,
            cache: loaders.first().and_then(|loader| loader.stats().cache),
            cache_hits: 0,
            cache_misses: 0,
            skipped_rows: 0,
            padded_rows: 0,
            by_epoch,
            thread_sweep: Vec::new(),
            order_check: None,
            bottleneck: String::new(),
        };
        let stats: Vec<Stats> = loaders.iter().map(Loader::stats).collect();
        stats.iter().zip(ranks).for_each(|(stats, run)| report.add(stats, run));
        report.verdict = Stats::verdict_of(&stats);
        report.stored_bytes_per_second = report.stages.fetch.bytes as f64 / time;
        report
    }

    fn add(&mut self, stats: &Stats, run: &RankRun) {
        self.stages.add(&stats.stages);
        self.waited.add(&stats.waits.since(&run.first_wait));
        self.budget_bytes += stats.memory.budget;
        self.skipped_rows += stats.skipped_rows;
        self.padded_rows += stats.padded_rows;
        if let Some(cache) = &stats.cache {
            self.cache_hits += cache.hits;
            self.cache_misses += cache.misses;
        }
    }

    /// Sets the margin: the loader's rate without a simulated accelerator, divided by the rate that the
    /// accelerator demands. `free` holds the runs without one.
    pub(super) fn set_margin(&mut self, free: &[RankRun]) {
        if let Some(simulated) = &mut self.accelerator {
            simulated.set_margin(free);
        }
    }

    /// The number of processors that other programs kept busy, if it is large enough to distort the measured
    /// rates.
    pub(super) fn busy_others(&self) -> Option<f64> {
        self.others_cores.filter(|cores| *cores > machine::MAX_OTHER_CORES)
    }

    /// Whether the run decoded no images although it delivered columns of encoded images.
    fn lacks_images(&self) -> bool {
        self.until != Until::Rows && self.images == 0 && !self.undecoded.is_empty()
    }

    /// Whether the loader kept the training loops supplied, so that they hardly waited.
    pub(super) fn is_fed(&self) -> bool {
        let busy = self.accelerator.as_ref().map(|it| it.utilisation_min);
        !self.lacks_images() && verdict::is_fed(&self.verdict, busy)
    }

    /// Adds the sentence that names the bottleneck.
    pub(super) fn conclude(&mut self) {
        let accelerator = self.accelerator.as_ref().map(|it| (it.utilisation_min, it.margin));
        let undecoded = if self.lacks_images() { undecoded::sentence(&self.undecoded) } else { None };
        self.bottleneck = undecoded.unwrap_or_else(|| verdict::sentence(&self.verdict, accelerator));
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |ms: f64| seconds(ms / 1e3);
        if let Some(held) = &self.workload {
            writeln!(f, "{held}")?;
        }
        if let Some(why) = machine::unoptimised() {
            writeln!(f, "build           {why}")?;
        }
        writeln!(
            f,
            "{} of {} in {}, {}",
            counted(self.rows, "row"),
            counted(u64::from(self.world), "rank"),
            counted(self.steps, "step"),
            seconds(self.seconds)
        )?;
        let from = if self.until == Until::Batch { "--order" } else { "--until" };
        writeln!(f, "order           {}, from {from}", self.order)?;
        write!(f, "throughput      {} rows/s", count(self.rows_per_second.round() as u64))?;
        if self.images > 0 {
            write!(f, ", {} images/s", count(self.images_per_second as u64))?;
        }
        writeln!(f, ", {}/s stored", bytes(self.stored_bytes_per_second as u64))?;
        if let Some((cold, warm)) = self.cold_rows_per_second.zip(self.warm_rows_per_second) {
            writeln!(
                f,
                "epochs          {} rows/s in the first, {} in the median of the others",
                count(cold.round() as u64),
                count(warm.round() as u64)
            )?;
        }
        writeln!(f, "first batch     after {}", seconds(self.seconds_to_first_batch))?;
        if self.too_short {
            writeln!(
                f,
                "too short       the wait for the first batch is more than {} of the run, so its rates are those of a \
                 start: give it more --seconds or --epochs",
                percent(MAX_START_SHARE)
            )?;
        }
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
        let waits = Stage::ALL.into_iter().map(|stage| (stage, self.waited.for_stage(stage)));
        let waits: Vec<String> = waits
            .filter(|(_, time)| *time >= MIN_SHOWN_SECONDS)
            .map(|(stage, time)| format!("{} {}", stage.name(), seconds(time)))
            .collect();
        let waits = if waits.is_empty() { "nothing".to_owned() } else { waits.join(", ") };
        writeln!(f, "waited for      {waits}")?;
        if let Some(cpu) = self.cpu_seconds_per_1000_rows {
            write!(f, "processor       {} for 1,000 rows", seconds(cpu))?;
            if let Some(cores) = self.busy_others() {
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
        if !self.thread_sweep.is_empty() {
            let rates = self.thread_sweep.iter().filter_map(|point| point.rows_per_second);
            let most = rates.fold(f64::MIN_POSITIVE, f64::max);
            let points =
                self.thread_sweep.iter().map(|Point { threads, rows_per_second }| match rows_per_second {
                    Some(rate) => {
                        format!("{threads}: {} rows/s ({})", count(rate.round() as u64), percent(rate / most))
                    }
                    None => format!("{threads}: too short for a rate, give it more --seconds"),
                });
            writeln!(f, "by threads      {}", points.collect::<Vec<_>>().join(", "))?;
        }
        if self.skipped_rows + self.padded_rows > 0 {
            writeln!(
                f,
                "rows            {} skipped, {} repeated",
                count(self.skipped_rows),
                count(self.padded_rows)
            )?;
        }
        if let Some(check) = &self.order_check {
            writeln!(f, "{check}")?;
        }
        write!(f, "{}", self.bottleneck)
    }
}
