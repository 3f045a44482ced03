//! `forebay verify`: checks that each row is delivered once, in the planned order, even if ranks are killed
//! and resumed.
//!
//! Each rank is a separate process, as in training, and all ranks finish a step before any begins the next
//! one. A checkpoint is the loader's state after a step, which is the same on all ranks. When all ranks are
//! killed, the run resumes from the last checkpoint on another number of ranks, and only the repeated steps
//! count. In the end, the delivered rows are compared with the plan and with the stored rows.

mod args;
mod feed;
mod judgement;
mod lives;
mod rank;
mod trainer;

pub(crate) use self::args::Args;
use self::args::Fault;
use self::feed::MixSource;
use self::judgement::Judgement;
use self::lives::{Life, VerifyRun};
pub(super) use self::rank::run as run_rank;
use forebay::column::AsStored;
use forebay::{Dataset, LoaderSpec, Shard};
use forebay_base::{Error, ErrorKind, Result};

use super::console::Console;
use super::deny;
use super::machine;
use super::random::Random;
use super::units::{count, counted};

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
            args.mix.iter().zip(denied).map(|(&weight, deny)| MixSource { weight, deny }).collect()
        }
    };
    let location = args.loader.location.clone();
    let run = VerifyRun { location, datasets, mix, spec, epochs: args.epochs };
    let mut lives = run.lives(args.world, args.kill, &mut Random::new(args.loader.seed, 0), &console)?;
    if let Some(fault) = args.plant {
        plant(fault, &mut lives)?;
    }
    let judgement = Judgement::judge(&run, &lives, &console)?;
    console.say(describe(args, &lives, &judgement))?;
    console.json(&judgement)?;
    match judgement.is_right {
        true => Ok(()),
        false => {
            let next = match args.plant {
                Some(_) => "this is expected, because a fault was planted",
                None => "please report it, with what `forebay verify` printed",
            };
            Err(Error::new(ErrorKind::Internal, "the delivered rows differ from the plan").hint(next))
        }
    }
}

/// Opens the data set, or the data sets of a mix.
fn datasets(args: &Args) -> Result<Vec<Dataset>> {
    if args.mix.is_empty() {
        return Ok(vec![args.loader.open()?]);
    }
    let datasets = args.loader.location.open_each()?;
    if datasets.len() != args.mix.len() {
        let cause = format!("--mix has {}, but there are", counted(args.mix.len() as u64, "weight"));
        return Err(Error::invalid(format!("{cause} {}", counted(datasets.len() as u64, "location")))
            .hint("give one weight for each location"));
    }
    Ok(datasets)
}

/// The loader options of a rank, without its shard. The size of a step is fixed, so that a step has the same
/// rows when the run resumes on another number of ranks.
fn spec(args: &Args) -> LoaderSpec {
    let mut spec = args.loader.spec(Shard::default());
    // Nothing is decoded, because cells are compared as they are stored.
    spec.by_column.clear();
    spec.column("*").as_stored = Some(AsStored);
    spec.row_id = true;
    spec.global_batch_size = Some(args.loader.batch_size.saturating_mul(args.world.into()));
    spec.threads = Some((machine::processors() / args.world).max(1) as usize);
    spec.epochs = Some(args.epochs);
    spec
}

/// Falsifies the delivered rows of a batch in the middle of the run, to show that the check notices it.
fn plant(fault: Fault, lives: &mut [Life]) -> Result<()> {
    let mut batches: Vec<_> = lives
        .iter_mut()
        .flat_map(|life| &mut life.steps)
        .flat_map(|step| &mut step.ranks)
        .filter(|rows| rows.len() > 1)
        .collect();
    let middle = batches.len() / 2;
    let Some(rows) = batches.get_mut(middle) else {
        return Err(Error::invalid("no batch has the 2 rows that a planted fault needs")
            .hint("use a larger `batch_size`"));
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
            0 => format!("denied          {}, none of which was delivered\n", counted(denied.rows, "row")),
            came => {
                format!(
                    "denied          {}, which were DELIVERED {}\n",
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
