//! `forebay doctor`: predicts whether an accelerator would wait for data, how far the loader's rate exceeds
//! the demand, and which change would help.

mod advice;
mod measure;
mod model;
mod trial;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_base::{Error, ErrorKind, Place, Result};
use serde::Serialize;

use self::advice::Demand;
use self::measure::Bench;
use self::model::{Change, Measured, Rate};
use super::console::Console;
use super::machine::{self, Clock};
use super::options::LoaderOptions;
use super::units::{self, count, counted, percent, seconds};

/// Measures the store, this machine and a cache, predicts whether an accelerator would wait, and says what to
/// change.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    loader: LoaderOptions,
    /// Time that the accelerator takes for a batch, in milliseconds [default: none, which reports rates
    /// alone]
    #[arg(long, value_name = "MS", value_parser = units::parse_milliseconds)]
    step_ms: Option<Duration>,
    /// Ranks that train on this machine: each takes a batch in a step
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u32, 1>)]
    ranks: u32,
    /// Threads that decode, all ranks together [default: the processors]
    #[arg(long, value_parser = units::whole::<u32, 1>)]
    threads: Option<u32>,
    /// Predict for this many threads as well; may be repeated
    #[arg(long, value_name = "N", value_parser = units::whole::<u32, 1>)]
    if_threads: Vec<u32>,
    /// Predict for a store whose first byte takes this many milliseconds as well; may be repeated
    #[arg(long, value_name = "MS", value_parser = units::parse_milliseconds)]
    if_latency_ms: Vec<Duration>,
    /// Seconds of each of the five measurements
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = units::whole::<u64, 1>)]
    seconds: u64,
    /// Folder on the disk that a cache would be on; what is written there is removed [default: the system's]
    #[arg(long, value_name = "DIR", value_parser = units::local_path())]
    scratch: Option<PathBuf>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay doctor s3://acme/train --image image=rrc224                 rates alone
  forebay doctor s3://acme/train --image image=rrc224 --step-ms 125   would an accelerator be fed?
  forebay doctor s3://acme/train --image image=rrc224 --step-ms 125 --ranks 8 --scratch /nvme
  forebay doctor /data/train --image image=rrc224 --step-ms 125 --if-threads 16 --if-latency-ms 100

Five measurements are made: the store by itself, the loader as asked for, and the loader from a warm \
cache with all threads, with one, and with images kept as pixels. From these everything else is \
predicted, each figure with the half width of its 95 % interval. The margin is what is given over \
what the accelerator takes: below 1 it waits, below 1.3 a short delay makes it wait.";

/// The report of `forebay doctor`: measurements, predictions and advice.
#[derive(Serialize)]
struct DoctorReport {
    version: &'static str,
    locations: Vec<String>,
    step_ms: Option<f64>,
    ranks: u32,
    batch_size: u64,
    demand_rows_per_second: Option<f64>,
    /// The rate with the given options, divided by the demanded rate.
    margin: Option<f64>,
    /// How many processors other programs kept busy during the measurements.
    others_cores: Option<f64>,
    bound_by: advice::Bound,
    measured: Measured,
    predictions: Vec<Prediction>,
    advice: Vec<String>,
}

/// The predicted rate after one change, such as more threads or a faster store.
#[derive(Clone, Serialize)]
struct Prediction {
    #[serde(rename = "if")]
    change: Change,
    rate: Rate,
    /// The utilisation of the accelerator, from 0 to 1.
    utilisation: Option<f64>,
    margin: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    let console = Console::new(args.json.as_deref())?;
    let scratch = TemporaryFolder::new(args.scratch.clone())?;
    let dataset = args.loader.open()?;
    let bench = Bench {
        dataset: &dataset,
        options: &args.loader,
        threads: args.threads.unwrap_or_else(machine::processors),
        time: Duration::from_secs(args.seconds),
        scratch: &scratch.0,
    };
    let mut progress = console.progress("measuring", "trials", measure::TRIALS);
    let (began, before) = (Instant::now(), Clock::now());
    let measured = bench.measure(&mut progress)?;
    let others = Clock::now().zip(before).map(|(now, then)| Clock::between(then, now).others);
    drop(progress);
    let mut report = DoctorReport::new(args, &dataset, measured)?;
    report.others_cores = others.map(|seconds| seconds / began.elapsed().as_secs_f64());
    console.say(&report)?;
    console.json(&report)
}

impl Args {
    fn check(&self) -> Result<()> {
        match self.step_ms.is_some_and(|step| step.is_zero()) {
            true => Err(Error::invalid("--step-ms is 0").hint("leave it out if there is no accelerator")),
            false => Ok(()),
        }
    }

    /// Lists the changes whose effects are predicted: other numbers of threads, other latencies, a faster
    /// store, and caches.
    fn changes(&self, measured: &Measured) -> Vec<Change> {
        let threads = [self.if_threads.as_slice(), &[1, measured.threads / 2, measured.processors]].concat();
        let mut threads: Vec<u32> = threads.into_iter().filter(|&n| n > 0 && n != measured.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        let mut changes = vec![Change::None];
        changes.extend(threads.into_iter().map(Change::Threads));
        changes.extend(self.if_latency_ms.iter().map(|latency| Change::FirstByte(latency.as_secs_f64())));
        changes.extend([Change::FreeStore, Change::RowCache, Change::PixelCache]);
        changes
    }
}

impl DoctorReport {
    fn new(args: &Args, dataset: &forebay::Dataset, measured: Measured) -> Result<Self> {
        let step = args.step_ms.map(|step| step.as_secs_f64());
        let taken = step.map(|step| (u64::from(args.ranks) * args.loader.batch_size) as f64 / step);
        let predictions: Vec<Prediction> = args
            .changes(&measured)
            .into_iter()
            .filter_map(|change| {
                let rate = measured.predict(change)?;
                let margin = taken.map(|taken| rate.rows_per_second / taken);
                Some(Prediction { change, rate, utilisation: margin.map(|margin| margin.min(1.0)), margin })
            })
            .collect();
        let demand = taken.map(|rows_per_second| Demand { rows_per_second, ranks: args.ranks });
        Ok(DoctorReport {
            version: env!("CARGO_PKG_VERSION"),
            locations: args.loader.location.shown(),
            step_ms: step.map(|step| step * 1e3),
            ranks: args.ranks,
            batch_size: args.loader.batch_size,
            demand_rows_per_second: taken,
            margin: predictions.first().and_then(|now| now.margin),
            others_cores: None,
            bound_by: advice::bound(&measured),
            advice: advice::list(
                &measured,
                demand.as_ref(),
                &advice::DataLayout::read(dataset, &args.loader)?,
            ),
            measured,
            predictions,
        })
    }
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = |rate: f64| format!("{} rows/s", count(rate as u64));
        let error = |rate: Rate| format!("± {}", count(rate.plus_minus.ceil() as u64));
        let Measured { threads, processors, store, cached, cached_alone, .. } = self.measured;
        if let Some((taken, step)) = self.demand_rows_per_second.zip(self.step_ms) {
            writeln!(
                f,
                "demand      {}: {} of {} rows every {}",
                rows(taken),
                counted(u64::from(self.ranks), "batch"),
                count(self.batch_size),
                seconds(step / 1e3)
            )?;
        }
        write!(f, "the store   gives {} {}", rows(store.rate.rows_per_second), error(store.rate))?;
        match store.first_byte > 0.0 {
            true => writeln!(f, ", first byte after {}", seconds(store.first_byte))?,
            false => writeln!(f)?,
        }
        writeln!(
            f,
            "preparing   {} {} with {} on {}, {} {} with one; bytes at hand, Parquet decoded",
            rows(cached.rows_per_second),
            error(cached),
            counted(u64::from(threads), "thread"),
            counted(u64::from(processors), "processor"),
            rows(cached_alone.rows_per_second),
            error(cached_alone)
        )?;
        match self.margin {
            Some(margin) => writeln!(f, "margin      {margin:.2}, {}", self.bound_by)?,
            None => writeln!(f, "limit       {}", self.bound_by)?,
        }
        if let Some(cores) = self.others_cores.filter(|cores| *cores > machine::MAX_OTHER_CORES) {
            writeln!(
                f,
                "disturbed   other programs kept {cores:.1} processors busy: repeat this on a quiet machine"
            )?;
        }
        write!(f, "\n{:<36} {:>20}", "if", "rows/s")?;
        if self.margin.is_some() {
            write!(f, " {:>12} {:>8}", "utilisation", "margin")?;
        }
        writeln!(f)?;
        for Prediction { change, rate, utilisation, margin } in &self.predictions {
            let given = format!("{} {}", count(rate.rows_per_second as u64), error(*rate));
            write!(f, "{:<36} {given:>20}", change.to_string())?;
            if let Some((utilisation, margin)) = utilisation.zip(*margin) {
                write!(f, " {:>12} {margin:>8.2}", percent(utilisation))?;
            }
            writeln!(f)?;
        }
        self.advice.iter().try_for_each(|advice| write!(f, "\n- {advice}"))
    }
}

/// A temporary folder, which is removed when it is dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(parent: Option<PathBuf>) -> Result<Self> {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let folder = parent.join(format!("forebay-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the scratch folder cannot be made: {error}"))
                .at(Place::file(folder.display().to_string()))
                .hint("name a folder that exists and can be written to with --scratch")
        })?;
        Ok(TemporaryFolder(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // An error is ignored: files that cannot be removed stay in the scratch folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
