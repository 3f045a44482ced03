//! `forebay verify`: whether each row comes once, in the planned order, also where ranks are killed and resumed.
//!
//! Each rank is a process of its own, as in training. All ranks take a step before any takes the next one, and a checkpoint is
//! the position that any of them has after a step. Ranks that are killed resume from the last checkpoint, on another number of
//! ranks; the steps after it are taken again, and those that were lost do not count. What came is then held against the plan,
//! and against the rows as they are stored.

mod feed;
mod judgement;
mod lives;
mod rank;
mod trainer;

use std::path::PathBuf;

use self::feed::Source;
use self::judgement::Judgement;
use self::lives::{Life, Run};
pub(super) use self::rank::run as run_rank;
use forebay::{Dataset, LoaderSpec, Shard};
use forebay_base::{Error, ErrorKind, Result};

use super::console::Console;
use super::deny;
use super::machine;
use super::options::LoaderOptions;
use super::random::Random;
use super::units::{self, count, counted};

/// Proves on your own data that each row comes once, in the planned order, also where ranks are killed and resumed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    loader: LoaderOptions,
    /// Training processes that share the data set
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u32, 1>)]
    world: u32,
    /// How many epochs
    #[arg(long, default_value_t = 2, value_parser = units::whole::<u64, 1>)]
    epochs: u64,
    /// Kill all ranks at random steps, so often [5 if given without a number], and resume them on other numbers of ranks
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_value_t = 0,
        default_missing_value = "5", hide_default_value = true, value_parser = units::whole::<u32, 0>)]
    kill: u32,
    /// Mix the locations by these weights, one for each: each is then a data set of its own
    #[arg(long, value_name = "WEIGHT,...", value_delimiter = ',', value_parser = parse_weight)]
    mix: Vec<f64>,
    /// Leave out rows: a list of row ids, or COLUMN=FILE for a list of the column's values; may be repeated. With --mix
    /// SOURCE:FILE, or SOURCE:COLUMN=FILE: sources count from 0
    #[arg(long, value_name = "FILE")]
    deny: Vec<String>,
    /// Alter what a rank delivered, to see that this is found
    #[arg(long, value_enum, value_name = "FAULT")]
    plant: Option<Fault>,
    /// Inside this framework, killed once and resumed on one process, beside the framework's own loader over the same rows
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = NOT_IN_A_TRAINER)]
    trainer: Option<trainer::Trainer>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

/// Options that a trainer's run has not: each of them would be passed over.
const NOT_IN_A_TRAINER: [&str; 16] = [
    "plant",
    "deny",
    "kill",
    "mix",
    "image",
    "float",
    "cache",
    "lanes",
    "piece_rows",
    "drop_last",
    "balance",
    "weights",
    "draws",
    "without_replacement",
    "window",
    "bucket",
];

const EXAMPLES: &str = "\
Examples:
  forebay verify /data/train --world 8 --kill
  forebay verify s3://acme/train --columns id,label --world 4 --batch-size 64 --kill=20
  forebay verify /data/web /data/books --mix 0.7,0.3 --world 8 --kill
  forebay verify /data/web /data/books --mix 0.7,0.3 --deny 0:bad.txt --deny 1:url=gone.txt
  forebay verify /data/train --balance label --world 8 --kill
  forebay verify /data/train --world 8 --plant swap         exit status 1: two rows came in the wrong order
  forebay verify /data/train --world 2 --trainer lightning  needs Python, with forebay and lightning

It reads all rows once as they are stored, and once in each epoch. --columns chooses those that are compared.";

/// What can be altered to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// A row comes twice
    Duplicate,
    /// A row does not come
    Loss,
    /// Two rows of a batch come in the wrong order
    Swap,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(trainer) = args.trainer {
        return trainer::run(args, trainer);
    }
    let console = Console::new(args.json.as_deref())?;
    let datasets = datasets(args)?;
    let mut spec = spec(args);
    let mix = match args.mix.is_empty() {
        true => {
            spec.deny = deny::read_all(&args.deny)?;
            Vec::new()
        }
        false => {
            let denied = deny::read_of_sources(&args.deny, datasets.len())?;
            args.mix.iter().zip(denied).map(|(&weight, deny)| Source { weight, deny }).collect()
        }
    };
    let location = args.loader.location.clone();
    let run = Run { location, datasets, mix, spec, epochs: args.epochs };
    let mut lives = run.lives(args.world, args.kill, &mut Random::new(args.loader.seed, 0), &console)?;
    if let Some(fault) = args.plant {
        plant(fault, &mut lives)?;
    }
    let judgement = Judgement::of(&run, &lives, &console)?;
    console.say(describe(args, &lives, &judgement))?;
    console.json(&judgement)?;
    match judgement.is_right {
        true => Ok(()),
        false => {
            let next = match args.plant {
                Some(_) => "as it should be: a fault was planted",
                None => "please report it, with what `forebay verify` printed",
            };
            Err(Error::new(ErrorKind::Internal, "what came is not what was planned").hint(next))
        }
    }
}

/// A weight of a mix.
fn parse_weight(text: &str) -> Result<f64, String> {
    let weight = text.trim().parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0);
    weight.ok_or_else(|| {
        "weights are numbers of at least 0 with commas between them, such as 0.7,0.3".to_owned()
    })
}

/// The data set; or those of a mix.
fn datasets(args: &Args) -> Result<Vec<Dataset>> {
    if args.mix.is_empty() {
        return Ok(vec![args.loader.open()?]);
    }
    let datasets = args.loader.location.open_each()?;
    if datasets.len() != args.mix.len() {
        let cause = format!("--mix has {}, and there are", counted(args.mix.len() as u64, "weight"));
        return Err(Error::invalid(format!("{cause} {}", counted(datasets.len() as u64, "location")))
            .hint("give one weight for each location"));
    }
    Ok(datasets)
}

/// The options of a rank, but for its shard: a step has the same rows on any number of ranks.
fn spec(args: &Args) -> LoaderSpec {
    let mut spec = args.loader.spec(Shard::default());
    // Images are compared as they are stored.
    spec.by_column.clear();
    spec.row_id = true;
    spec.global_batch_size = Some(args.loader.batch_size.saturating_mul(args.world.into()));
    spec.threads = Some((machine::processors() / args.world).max(1) as usize);
    spec.epochs = Some(args.epochs);
    spec
}

/// Alters what came in a step in the middle.
fn plant(fault: Fault, lives: &mut [Life]) -> Result<()> {
    let mut batches: Vec<_> = lives
        .iter_mut()
        .flat_map(|life| &mut life.steps)
        .flat_map(|step| &mut step.ranks)
        .filter(|rows| rows.len() > 1)
        .collect();
    let middle = batches.len() / 2;
    let Some(rows) = batches.get_mut(middle) else {
        return Err(Error::invalid("no batch has two rows").hint("use a larger `batch_size`"));
    };
    match fault {
        Fault::Duplicate => rows.push(rows[0]),
        Fault::Loss => drop(rows.pop()),
        Fault::Swap => rows.swap(0, 1),
    }
    Ok(())
}

fn describe(args: &Args, lives: &[Life], judgement: &Judgement) -> String {
    let worlds: Vec<_> = lives.iter().map(|life| count(life.world.into())).collect();
    let killed = match lives.len() - 1 {
        0 => String::new(),
        times => {
            format!(", killed {} and resumed on {}", counted(times as u64, "time"), worlds[1..].join(", "))
        }
    };
    let Judgement { rows, denied, order, contents, .. } = judgement;
    let mut text = format!(
        "{} of {} in {} of {}, on {}{killed}\n",
        counted(args.epochs, "epoch"),
        counted(rows.stored, "row"),
        counted(order.steps, "step"),
        counted(args.loader.batch_size * u64::from(args.world), "row"),
        counted(args.world.into(), "rank"),
    );
    let as_planned = |found: u64, planned: u64| match found == planned {
        true => count(found),
        false => format!("{} instead of {}", count(found), count(planned)),
    };
    text += &format!(
        "rows            {} once, {} twice or more, {} never: {}\n",
        count(rows.once),
        as_planned(rows.more, rows.planned_more),
        as_planned(rows.never, rows.planned_never),
        match rows.differing {
            0 => "as planned".to_owned(),
            more => format!("NOT as planned for {}", counted(more, "row")),
        },
    );
    if denied.rows > 0 || !args.deny.is_empty() {
        text += &match denied.came {
            0 => format!("denied          {}, none of which came\n", counted(denied.rows, "row")),
            came => {
                format!(
                    "denied          {}, which CAME {}\n",
                    counted(denied.rows, "row"),
                    counted(came, "time")
                )
            }
        };
    }
    text += &match &order.first_difference {
        None => "order           as planned, in each step of each rank\n".to_owned(),
        Some(first) => format!(
            "order           NOT as planned in {}; the first is {first}\n",
            counted(order.differing_batches, "batch")
        ),
    };
    text + &match contents.differing {
        0 => format!("contents        as stored, in each of {}", counted(contents.compared, "delivered row")),
        more => format!(
            "contents        NOT as stored in {} of {}",
            counted(more, "delivered row"),
            count(contents.compared)
        ),
    }
}
