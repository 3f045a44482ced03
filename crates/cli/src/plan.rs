//! `forebay plan`: what each rank reads in an epoch, before anything is read.
//!
//! The command reads only the footers of the Parquet files, so it takes milliseconds for any number of ranks.

use std::path::PathBuf;

use forebay::Shard;
use forebay::plan::{BetterMixing, RankPlan, RankReads};
use forebay_base::Result;
use serde::Serialize;

use super::console::Console;
use super::options::{LoaderOptions, Order};
use super::units::{self, bytes, count, counted};

/// Shows what each rank reads: steps, rows, row groups and bytes, and the memory that it takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    loader: LoaderOptions,
    /// Training processes that share the data set
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u32, 1>)]
    world: u32,
    /// Which epoch; all have the same number of steps
    #[arg(long, default_value_t = 0, value_parser = units::whole::<u64, 0>)]
    epoch: u64,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay plan /data/train --world 8
  forebay plan /data/train --world 8 --batch-size 128 --drop-last
  forebay plan /data/train --world 512 --lanes 512 --memory 12GB --json plan.json";

/// The most ranks that the table shows. In a larger world, it shows only the first ones.
const RANKS_SHOWN: usize = 16;

/// The plan of an epoch for all ranks.
#[derive(Serialize)]
struct PlanReport {
    epoch: u64,
    world: u32,
    steps: u64,
    /// The number of rows in the data set.
    rows: u64,
    row_groups: usize,
    /// The number of rows that no rank receives.
    dropped: u64,
    /// The number of rows that are delivered twice, over all ranks.
    padded: u64,
    /// How many bytes all ranks fetch.
    stored_bytes: u64,
    /// The number of row groups that all ranks together fetch, divided by the number of row groups in the
    /// data set: 1 if each row group is fetched once.
    read_amplification: f64,
    /// How rows are mixed.
    order: Order,
    ranks: Vec<RankPlan>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let report = plan(args)?;
    console.say(describe(&report))?;
    console.json(&report)
}

fn plan(args: &Args) -> Result<PlanReport> {
    let dataset = args.loader.open()?;
    let ranks = (0..args.world)
        .map(|rank| {
            let spec = args.loader.spec(Shard::new(rank, args.world)?);
            dataset.loader().spec(spec).plan(args.epoch)
        })
        .collect::<Result<Vec<_>>>()?;
    let row_groups = dataset.catalog().groups.len();
    let reads = || ranks.iter().filter_map(|plan| plan.reads.as_ref());
    let sum = |part: fn(&RankReads) -> u64| reads().map(part).sum::<u64>();
    Ok(PlanReport {
        epoch: args.epoch,
        world: args.world,
        steps: ranks.first().map_or(0, |plan| plan.steps),
        rows: dataset.catalog().rows(),
        row_groups,
        dropped: reads().next().map_or(0, |reads| reads.dropped),
        padded: sum(|reads| reads.padded),
        stored_bytes: sum(|reads| reads.stored_bytes),
        read_amplification: sum(|reads| reads.row_groups) as f64 / row_groups.max(1) as f64,
        order: args.loader.order,
        ranks,
    })
}

fn describe(report: &PlanReport) -> String {
    let mut text = format!(
        "epoch {}: {} of {} for {}, {} each\n",
        report.epoch,
        counted(report.rows, "row"),
        counted(report.row_groups as u64, "row group"),
        counted(u64::from(report.world), "rank"),
        counted(report.steps, "step"),
    );
    text += &format!(
        "{:>6} {:>10} {:>12} {:>8} {:>11} {:>12} {:>12} {:>12}\n",
        "rank", "steps", "rows", "padded", "row groups", "reads", "peak memory", "at most"
    );
    for plan in report.ranks.iter().take(RANKS_SHOWN) {
        let Some(reads) = &plan.reads else { continue };
        text += &format!(
            "{:>6} {:>10} {:>12} {:>8} {:>11} {:>12} {:>12} {:>12}\n",
            plan.rank,
            count(plan.steps),
            count(plan.rows),
            count(reads.padded),
            count(reads.row_groups),
            bytes(reads.stored_bytes),
            bytes(reads.expected_memory),
            bytes(reads.most_memory),
        );
    }
    if let Some(more) = report.ranks.len().checked_sub(RANKS_SHOWN).filter(|more| *more > 0) {
        text += &format!("{:>6} and {} (--json has them all)\n", "…", counted(more as u64, "more rank"));
    }
    text + &summary(report)
}

/// A remark that names options for better mixing; empty unless too few row groups fit into the shuffle
/// window.
fn better(reads: &RankReads) -> String {
    let one = |better: &BetterMixing| {
        let option = better.option.to_string().replace('_', "-");
        format!("of about {:.1} with --{option} {}", better.row_groups_of_a_batch, better.rows)
    };
    let found: Vec<String> = reads.better_mixing.iter().map(one).collect();
    match found.is_empty() {
        true => String::new(),
        false => format!("        few row groups fit the window: {}\n", found.join(", ")),
    }
}

/// A remark that the first batch mixes fewer row groups than later ones, because the shuffle window delivers
/// rows while it fills; empty if the first batch mixes nearly as many.
fn opening(reads: &RankReads) -> String {
    const NOTABLE_SHARE: f64 = 0.8;
    let first = reads.row_groups_of_first_batch;
    match first as f64 >= NOTABLE_SHARE * reads.row_groups_of_a_batch {
        true => String::new(),
        false => format!(
            "        the first batch is of {}: the window deals rows while it fills, until step {}\n",
            count(first),
            count(reads.full_window_step)
        ),
    }
}

/// A remark about the memory in which a rank keeps its rows for later epochs; empty if it keeps none.
fn staying(reads: &RankReads) -> String {
    match reads.staying_bytes {
        0 => String::new(),
        room => format!("; rows stay in memory, in {}, and are read once", bytes(room)),
    }
}

fn summary(report: &PlanReport) -> String {
    let rows = |number: u64, what: &str| match number {
        0 => format!("no row is {what}"),
        1 => format!("1 row is {what}"),
        more => format!("{} rows are {what}", count(more)),
    };
    let first = report.ranks.first().and_then(|plan| Some((plan, plan.reads.as_ref()?)));
    let window = first.map_or(String::new(), |(plan, reads)| {
        let (lanes, pool) = (u64::from(plan.lanes), u64::from(reads.pool));
        format!(
            "order: {}, from --order; {}, each mixing up to {}\n\
             mixing: a batch is of {:.1} row groups, of {:.1} if it were drawn uniformly from all rows\n\
             {}{}memory: the peak is an estimate; most row groups are held at step {}{}\n",
            report.order,
            counted(lanes, "lane"),
            counted(pool, "row group"),
            reads.row_groups_of_a_batch,
            reads.row_groups_if_uniform,
            opening(reads),
            better(reads),
            count(reads.peak_step),
            staying(reads),
        )
    });
    format!(
        "{window}together: {} read, {:.2} times each row group; {}, {}",
        bytes(report.stored_bytes),
        report.read_amplification,
        rows(report.padded, "repeated to keep ranks equal"),
        rows(report.dropped, "dropped"),
    )
}
