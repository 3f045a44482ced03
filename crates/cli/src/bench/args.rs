//! The arguments of `bench`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::{Loader, Shard};
use forebay_base::{Error, Result};

use super::accelerator::Accelerator;
use super::decoded::DecodedImages;
use super::workload;
use crate::machine;
use crate::options::{LoaderOptions, Order, check_threads};
use crate::units;

/// Measures the loader: rows a second, the wait for each batch, and how busy it keeps a simulated
/// accelerator.
#[derive(clap::Args, Clone)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("locations", |arg| arg.required(false)))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) loader: LoaderOptions,
    #[command(flatten)]
    pub(super) workload: workload::WorkloadOptions,
    /// Simulate an accelerator that takes this long for a batch, in milliseconds [default: as fast as it
    /// goes]
    #[arg(long, value_name = "MS", value_parser = units::parse_milliseconds)]
    pub(super) step_ms: Option<Duration>,
    /// Draw the time of each step evenly around --step-ms, up to this share shorter or longer; all ranks draw
    /// the same
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide_default_value = true, value_parser = units::parse_share)]
    pub(super) jitter: f32,
    /// Keep this many threads busy beside the run, at the loader's own priority, as other programs would
    #[arg(long, value_name = "THREADS", default_value_t = 0, hide_default_value = true, value_parser = units::whole::<usize, 0>)]
    pub(super) pressure: usize,
    /// Epochs to run [default: 1; with --seconds, as many as fit]
    #[arg(long, value_parser = units::whole::<u64, 1>)]
    pub(super) epochs: Option<u64>,
    /// Stop after this many batches of each rank
    #[arg(long, value_parser = units::whole::<u64, 1>)]
    pub(super) max_batches: Option<u64>,
    /// Stop after this many seconds, at the end of a step; later measurements take no longer either
    #[arg(long, value_name = "S", value_parser = units::parse_seconds)]
    pub(super) seconds: Option<Duration>,
    /// Threads that decode, for each rank [default: the processors, shared among the ranks]
    #[arg(long, value_parser = units::whole::<usize, 1>)]
    pub(super) threads: Option<usize>,
    /// Afterwards, take the rate without an accelerator with each of these --threads, a few seconds each
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = units::whole::<usize, 1>)]
    pub(super) thread_sweep: Vec<usize>,
    /// Run this many ranks in this process, which wait for each other after each step
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u32, 1>)]
    pub(super) world: u32,
    /// Stop at a stage: fetch (bytes alone), rows (no shuffle, no decoding), decode (no shuffle), batch
    /// (everything)
    #[arg(long, value_enum, default_value_t = Until::Batch)]
    pub(super) until: Until,
    /// Afterwards, read epoch 0 once in this order and once as stored, images not decoded, and compare row by
    /// row
    #[arg(long)]
    pub(super) check_order: bool,
    /// Count the classes in each batch, with or without --check-order: the different values of this column
    #[arg(long, value_name = "COLUMN")]
    pub(super) classes_of: Option<String>,
    /// Report as one self-contained page of HTML, with plots
    #[arg(long, value_name = "FILE", value_parser = units::local_path())]
    pub(super) report: Option<PathBuf>,
    /// Compare with an earlier run, whose --json or --report wrote this file: a line of text, and in --report
    /// both runs in each plot and side by side in the table
    #[arg(long, value_name = "FILE", value_parser = units::local_path())]
    pub(super) against: Option<PathBuf>,
    /// Write a timeline of the first rank to a file that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE", value_parser = units::local_path())]
    pub(super) trace: Option<PathBuf>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    pub(super) json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay bench /data/train --image image=rrc224                   as fast as it goes
  forebay bench /data/train --image image=rrc224 --step-ms 125     would a GPU wait?
  forebay bench /data/train --image image=rrc224 --step-ms 125 --jitter 0.2 --pressure 2
  forebay bench /data/train --image image=rrc224 --world 2 --step-ms 125
  forebay bench /data/train --image image=rrc224 --until rows      no shuffle, no decoding
  forebay bench /data/train --epochs 3 --thread-sweep 1,2,4 --report report.html
  forebay bench /data/train --against before.json --report report.html
  forebay bench /data/train --check-order --classes-of label       every row once? well mixed?
  forebay bench /data/clicks --batch-size 8192 --json -            one JSON object
  forebay bench --workload mlperf-flux --scale 0.5                 half of what a B200 would take

A step begins when all ranks have their batch, and takes a fixed time. Utilisation is the sum of the \
steps over the time from the first batch to the end, less what the simulation itself costs. The margin \
is what the loader gives without steps, taken for a few seconds afterwards, over what the steps take. \
--pressure stays on for that, and for --thread-sweep.

A workload is a batch size and a step time that MLPerf Storage or ffcv has published for an accelerator, \
on data of the published shape that is made here. It runs for 30 seconds unless --epochs, --max-batches or \
--seconds says otherwise. --scale 0.01 makes each step a hundred times as long, which demands a hundredth \
of the published rate; the work for each row stays the same. It is not an MLPerf result.";

/// The last stage that a run includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Until {
    /// Bytes from storage
    Fetch,
    /// Parquet decoded, in stored order
    Rows,
    /// Images decoded, in stored order
    Decode,
    /// Everything, shuffled
    Batch,
}

/// The time limit of a run without a simulated accelerator. Such a run measures how much faster the loader is
/// than the accelerator, or its rate with one of the numbers in `--thread-sweep`.
const FREE_TIME: Duration = Duration::from_secs(5);
/// The largest number of ranks that a run simulates.
const MAX_WORLD: u32 = 256;
/// The largest number of threads for `--pressure`; a larger number is taken for a typing error.
const MAX_PRESSURE_THREADS: usize = 4_096;

impl Args {
    pub(super) fn check(&self) -> Result<()> {
        if self.loader.location.is_empty() && !self.workload.is_given() {
            return Err(Error::invalid("no data set was given")
                .hint("give the URL of one, or a --workload, which makes its own data"));
        }
        if self.world > MAX_WORLD {
            return Err(Error::invalid(format!("--world {} is more than {MAX_WORLD}", self.world))
                .hint("bench runs all ranks in this process; `forebay plan` takes any number"));
        }
        if self.jitter > 0.0 && self.step_ms.is_none() && !self.workload.is_given() {
            return Err(Error::invalid("--jitter without --step-ms")
                .hint("it varies the time of a step: give --step-ms too"));
        }
        if self.pressure > MAX_PRESSURE_THREADS {
            return Err(Error::invalid(format!(
                "--pressure {} is more than {MAX_PRESSURE_THREADS}",
                self.pressure
            ))
            .hint("it counts threads, each of which takes one processor"));
        }
        check_threads("--thread-sweep", self.thread_sweep.iter().copied().max())?;
        for (option, file) in [("--report", &self.report), ("--trace", &self.trace)] {
            if file.as_deref() == Some(Path::new("-")) {
                return Err(Error::invalid(format!("{option} needs the name of a file, not -"))
                    .hint("only --json - writes to standard output"));
            }
        }
        self.workload.check()?;
        let of_batches = [
            ("--report", self.report.is_some()),
            ("--against", self.against.is_some()),
            ("--check-order", self.check_order),
            ("--classes-of", self.classes_of.is_some()),
            ("--step-ms", self.step_ms.is_some()),
            ("--thread-sweep", !self.thread_sweep.is_empty()),
            ("--world", self.world > 1),
            ("--trace", self.trace.is_some()),
        ];
        let given = of_batches.iter().find(|(_, is_given)| *is_given && self.until == Until::Fetch);
        if let Some((option, _)) = given {
            return Err(Error::invalid(format!("{option} with --until fetch")).hint(format!(
                "no batches are made of fetched bytes: leave out {option}, or choose a later stage"
            )));
        }
        Ok(())
    }

    /// Builds one loader for each rank. If the number of epochs is known, the loaders prefetch nothing beyond
    /// them.
    pub(super) fn loaders(&self, epochs: Option<u64>) -> Result<Vec<Loader>> {
        let mut options = self.loader.clone();
        if self.until == Until::Rows {
            options.decode_nothing();
        }
        if self.until != Until::Batch {
            options.order = Order::Stored;
        }
        let dataset = options.open()?;
        // A misspelt image column is an error, even if images are not decoded.
        self.loader.decoded().try_for_each(|column| dataset.catalog().column(column).map(|_| ()))?;
        (0..self.world)
            .map(|rank| {
                let mut spec = options.spec(Shard::new(rank, self.world)?);
                spec.threads = Some(self.threads_each());
                spec.epochs = epochs;
                spec.trace = self.trace.clone().filter(|_| rank == 0);
                dataset.loader().spec(spec).build()
            })
            .collect()
    }

    /// The columns of images that the run decodes.
    pub(super) fn decoded(&self) -> DecodedImages {
        let mut decoded = DecodedImages::default();
        if matches!(self.until, Until::Decode | Until::Batch) {
            for (column, image) in &self.loader.image {
                decoded.add_image(column, self.loader.finished(image));
            }
            for clip in &self.loader.clip {
                decoded.add_clip(&clip.column, clip.clip(|image| self.loader.finished(image)), clip.values());
            }
        }
        decoded
    }

    pub(super) fn threads_each(&self) -> usize {
        self.threads.unwrap_or_else(|| (machine::processors() / self.world).max(1) as usize)
    }

    /// The simulated device; its steps take no time if no time was given.
    pub(super) fn accelerator(&self) -> Accelerator {
        Accelerator::new(self.step_ms.unwrap_or_default()).jitter(self.jitter, self.loader.seed)
    }

    /// The time limit of a run without an accelerator.
    pub(super) fn free_time(&self) -> Duration {
        self.seconds.map_or(FREE_TIME, |most| most.min(FREE_TIME))
    }

    /// The number of epochs to run: `--epochs`, or without it one epoch, or no limit if `--seconds` ends the
    /// run.
    pub(super) fn last_epoch(&self) -> u64 {
        self.epochs.unwrap_or(if self.seconds.is_some() { u64::MAX } else { 1 })
    }

    /// The number of epochs for which the loaders prefetch; `None` if only `--seconds` limits the run.
    pub(super) fn epochs_to_read(&self) -> Option<u64> {
        Some(self.last_epoch()).filter(|last| *last < u64::MAX)
    }

    /// The limit of steps in the whole run, if an epoch has `each` steps.
    pub(super) fn steps(&self, each: u64) -> u64 {
        let all = each.saturating_mul(self.last_epoch());
        self.max_batches.map_or(all, |most| all.min(most))
    }

    /// The approximate number of steps in the run, for the progress bar.
    pub(super) fn expected_steps(&self, each: u64) -> u64 {
        let fitting = self.seconds.zip(self.step_ms).map_or(u64::MAX, |(time, step)| {
            (time.as_secs_f64() / step.as_secs_f64().max(f64::MIN_POSITIVE)) as u64
        });
        self.steps(each).min(fitting)
    }
}
