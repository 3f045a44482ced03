//! `forebay bench`: how fast batches come, and whether an accelerator would wait for them.

mod accelerator;
mod against;
mod args;
mod check;
mod decoded;
mod drawn;
mod drive;
mod epochs;
mod fetch;
mod live;
mod meeting;
mod order;
mod page;
mod pressure;
mod report;
mod simulated;
mod sweep;
mod tally;
mod undecoded;
mod verdict;
mod workload;

use std::time::Instant;

use forebay::Loader;
use forebay_base::Result;

use self::against::Before;
use self::args::Until;
use self::drive::{DriveSettings, drive, unthrottled};
use self::live::Live;
use self::pressure::Pressure;
use self::report::BenchReport;
use super::console::{self, Console};
use super::output::Output;

pub(crate) use self::args::Args;

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    let console = Console::new(args.json.as_deref())?;
    let before = args.against.as_deref().map(Before::read).transpose()?;
    let page = args.report.as_deref().map(|file| Output::new("--report", file)).transpose()?;
    // This only checks that the file can be written. The loader opens the file itself, after a workload has
    // made its data.
    args.trace.as_deref().map(|file| Output::new("--trace", file)).transpose()?;
    let (args, held) = workload::resolve(args, &console)?;
    if args.until == Until::Fetch {
        let report = fetch::measure(&args.loader, args.max_batches, &console)?;
        console.say(&report)?;
        return console.json(&report);
    }
    let mut report = measure(&args, &console)?;
    report.workload = held;
    if let Some(output) = page {
        output.write(&page::render(&report, before.as_ref())?)?;
    }
    let compared = match &before {
        Some(before) => before.lines(&page::value(&report)?),
        None => String::new(),
    };
    console.say(format!("{report}{compared}"))?;
    console.json(&report)
}

fn measure(args: &Args, console: &Console) -> Result<BenchReport> {
    let accelerator = args.accelerator();
    let floor = accelerator.floor();
    let origin = Instant::now();
    let loaders = args.loaders(args.epochs_to_read())?;
    let each = loaders.first().map_or(0, Loader::len);
    let pressure = Pressure::start(args.pressure);
    let course = DriveSettings {
        accelerator,
        epochs: 0..args.last_epoch(),
        steps: Some(args.steps(each)),
        at_most: args.seconds,
        pressure: &pressure,
        decoded: args.decoded(),
    };
    let mut live = Live::new(console, args.expected_steps(each), loaders.first());
    let ranks = drive(&loaders, &course, origin, |lap| live.step(lap))?;
    drop(live);
    let mut report = BenchReport::new(args, &loaders, &ranks, accelerator.step(), floor);
    for loader in loaders {
        // Closing the loader writes the trace.
        loader.close();
        while let Some(warning) = loader.take_warning() {
            console::warn(warning);
        }
    }
    if args.step_ms.is_some() {
        // The unthrottled run needs new loaders, because the loaders above do not read beyond the last epoch.
        let args = Args { trace: None, ..args.clone() };
        report.set_margin(&unthrottled(&args.loaders(None)?, args.free_time(), &pressure)?);
    }
    report.thread_sweep = sweep::measure(args, &pressure, console)?;
    drop(pressure);
    report.order_check = check::check(args, console)?;
    report.conclude();
    Ok(report)
}
