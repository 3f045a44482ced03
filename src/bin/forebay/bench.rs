//! `forebay bench`: how fast the data comes, whether an accelerator would wait for it, and what for.

mod accelerator;
mod drive;
mod fetch;
mod machine;
mod meeting;
mod report;
mod simulated;
mod tally;
mod verdict;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay::{Error, Loader, Result, Shard};

use self::accelerator::Accelerator;
use self::drive::{Course, drive};
use self::machine::Clock;
use self::report::Report;
use super::console::Console;
use super::options::{LoaderOptions, Order};
use super::units;

/// Measures the loader: rows a second, the wait for each batch, and how busy it keeps a simulated accelerator.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    loader: LoaderOptions,
    /// Simulate an accelerator that takes this long for a batch, in milliseconds [default: as fast as it goes]
    #[arg(long, value_name = "MS", value_parser = units::parse_milliseconds)]
    step_ms: Option<Duration>,
    /// Epochs to run
    #[arg(long, default_value_t = 1)]
    epochs: u64,
    /// Stop after so many batches of each rank
    #[arg(long)]
    max_batches: Option<u64>,
    /// Threads that decode, for each rank [default: the processors, shared among the ranks]
    #[arg(long)]
    threads: Option<usize>,
    /// Run so many ranks in this process, which wait for each other after each step
    #[arg(long, default_value_t = 1)]
    world: u32,
    /// Stop at a stage: fetch (bytes alone), rows (no shuffle, no decoding), decode (no shuffle), batch (everything)
    #[arg(long, value_enum, default_value_t = Until::Batch)]
    until: Until,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write a timeline of the first rank to a file that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay bench /data/train --image image=rrc224                   as fast as it goes
  forebay bench /data/train --image image=rrc224 --step-ms 125     would a GPU wait?
  forebay bench /data/train --image image=rrc224 --world 2 --step-ms 125
  forebay bench /data/train --image image=rrc224 --until rows      no shuffle, no decoding
  forebay bench /data/clicks --batch-size 8192 --json -            one JSON object

A step begins when all ranks have their batch, and takes a fixed time. Utilisation is the sum of the \
steps over the time from the first batch to the end, less what the simulation itself costs. The margin \
is what the loader gives without steps, taken for a few seconds afterwards, over what the steps take.";

/// The last stage that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Until {
    /// Bytes from storage
    Fetch,
    /// Parquet decoded, in stored order
    Rows,
    /// Images decoded, in stored order
    Decode,
    /// Everything, shuffled
    Batch,
}

/// The unthrottled run that tells the margin takes no longer than this.
const MARGIN_TIME: Duration = Duration::from_secs(5);
/// More ranks than this are not one machine's.
const LARGEST_WORLD: u32 = 256;

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    let console = Console::new(args.json.as_deref());
    if args.until == Until::Fetch {
        let report = fetch::measure(&args.loader, args.max_batches, &console)?;
        console.say(&report)?;
        return console.json(&report);
    }
    let report = measure(args, &console)?;
    console.say(&report)?;
    console.json(&report)
}

fn measure(args: &Args, console: &Console) -> Result<Report> {
    let accelerator = Accelerator::new(args.step_ms.unwrap_or_default());
    let floor = accelerator.floor();
    let (origin, clock) = (Instant::now(), Clock::now());
    let loaders = args.loaders()?;
    let steps = args.steps(loaders.first().map_or(0, Loader::len));
    let course = Course { accelerator, epochs: 0..args.epochs, steps: Some(steps), at_most: None };
    let mut progress = console.progress("running", "steps", steps);
    let ranks = drive(&loaders, &course, origin, || progress.advance(1))?;
    drop(progress);
    let spent = Clock::spent_since(clock);
    let mut report = Report::new(args, &loaders, &ranks, accelerator.step(), floor, spent);
    if args.step_ms.is_some() {
        let epochs = args.epochs..u64::MAX;
        let free = Course {
            accelerator: Accelerator::new(Duration::ZERO),
            epochs,
            steps: None,
            at_most: Some(MARGIN_TIME),
        };
        report.set_margin(&drive(&loaders, &free, Instant::now(), || ())?);
    }
    report.conclude();
    Ok(report)
}

impl Args {
    fn check(&self) -> Result<()> {
        if self.world == 0 {
            return Err(Error::invalid("--world is 0").hint("it counts the ranks to run: 1 or more"));
        }
        if self.world > LARGEST_WORLD {
            return Err(Error::invalid(format!("--world {} is more than {LARGEST_WORLD}", self.world))
                .hint("bench runs all ranks in this process; `forebay plan` takes any number"));
        }
        for (name, zero) in [
            ("epochs", self.epochs == 0),
            ("max-batches", self.max_batches == Some(0)),
            ("threads", self.threads == Some(0)),
        ] {
            if zero {
                return Err(Error::invalid(format!("--{name} must be at least 1")));
            }
        }
        Ok(())
    }

    /// One loader for each rank.
    fn loaders(&self) -> Result<Vec<Loader>> {
        let mut options = self.loader.clone();
        if self.until == Until::Rows {
            options.image.clear();
        }
        if self.until != Until::Batch {
            options.order = Order::Stored;
        }
        let dataset = options.open()?;
        // A misspelt image column is an error, also where images are not decoded.
        self.loader.image.iter().try_for_each(|(column, _)| dataset.catalog().column(column).map(|_| ()))?;
        (0..self.world)
            .map(|rank| {
                let shard = Shard::new(rank, self.world)?;
                let builder = options.loader(&dataset, shard)?.threads(self.threads_each());
                match self.trace.as_ref().filter(|_| rank == 0) {
                    Some(path) => builder.trace(path).build(),
                    None => builder.build(),
                }
            })
            .collect()
    }

    fn threads_each(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(|| (processors / self.world as usize).max(1))
    }

    /// Steps of the whole run when an epoch has `each`.
    fn steps(&self, each: u64) -> u64 {
        let all = each.saturating_mul(self.epochs);
        self.max_batches.map_or(all, |most| all.min(most))
    }
}
