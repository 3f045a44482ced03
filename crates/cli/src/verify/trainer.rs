//! `forebay verify --trainer`: runs the loader inside a Python framework, and then the framework's own loader
//! over the same rows, to compare which rows each delivers.
//!
//! The frameworks are Python, so the interpreter that started this program runs them. This file passes it the
//! task and prints the result.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use forebay::Dataset;
use forebay_arrow::datatypes::FieldRef;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::source;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::{Args, Trainer};
use crate::HOST;
use crate::console::{Console, note};
use crate::location::parse_options;
use crate::options::Order;
use crate::units::{count, counted};

/// The task that the interpreter reads. It comes on standard input, because locations may hold secrets.
#[derive(Serialize)]
struct Told {
    trainer: Trainer,
    urls: Vec<String>,
    storage_options: BTreeMap<String, String>,
    split: Option<String>,
    config: Option<String>,
    columns: Vec<String>,
    memory: Option<u64>,
    batch_size: u64,
    world: u32,
    epochs: u64,
    seed: u64,
    window_rows: Option<u64>,
}

/// The fields of the interpreter's JSON result that this file needs; `--json` prints the whole result.
#[derive(Deserialize)]
struct Said {
    title: String,
    version: String,
    own_loader: String,
    rows: u64,
    left_out: u64,
    steps: u64,
    step_rows: u64,
    epochs: u64,
    world: u32,
    checkpoint: u64,
    killed: u64,
    forebay: TrainerOutcome,
    own: TrainerOutcome,
}

/// The result of one loader: how many rows it delivered once, twice or never, or why it failed.
#[derive(Deserialize)]
#[serde(untagged)]
enum TrainerOutcome {
    Counted { once: u64, twice: u64, never: u64, planned_never: u64, is_each_epoch: bool },
    Failed { failed: String },
}

impl TrainerOutcome {
    fn is_right(&self) -> bool {
        match self {
            TrainerOutcome::Counted { twice, never, planned_never, is_each_epoch, .. } => {
                *twice == 0 && never == planned_never && *is_each_epoch
            }
            TrainerOutcome::Failed { .. } => false,
        }
    }

    /// The outcome in words, for the end of a line of the report.
    fn shown(&self) -> String {
        match self {
            TrainerOutcome::Failed { failed } => failed.clone(),
            TrainerOutcome::Counted { once, twice, never, planned_never, is_each_epoch } => {
                let never = never - planned_never.min(never);
                let verdict = match (self.is_right(), *twice + never, is_each_epoch) {
                    (true, ..) => ": each row once in an epoch",
                    (_, 0, false) => ": each row once over all epochs, but not in each",
                    _ => "",
                };
                format!(
                    "{} once, {} twice or more, {} never{verdict}",
                    count(*once),
                    count(*twice),
                    count(never)
                )
            }
        }
    }
}

/// Runs forebay's loader and the framework's own loader in the framework, and prints the results.
pub(super) fn run(args: &Args, trainer: Trainer) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let mut python = interpreter()?;
    let dataset = args.loader.open()?;
    let told = told(args, trainer, &dataset)?;
    note(
        "each loader is started, killed and resumed: this takes as long as starting the framework four times",
    );
    let said = ask(&mut python, &told)?;
    if let Some(refused) = said.get("refused").and_then(Value::as_str) {
        return Err(Error::invalid(refused));
    }
    let report: Said = serde_json::from_value(said.clone()).map_err(|error| unclear(&error.to_string()))?;
    console.say(describe(&report))?;
    console.json(&said)?;
    match report.forebay.is_right() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Internal,
            format!("in {}, the delivered rows differ from the plan", report.title),
        )
        .hint("please report it, with what `forebay verify` printed")),
    }
}

/// The command for the Python interpreter that started this program.
fn interpreter() -> Result<Command> {
    match HOST.get().map(Vec::as_slice) {
        Some([program, words @ ..]) => {
            let mut command = Command::new(program);
            command.args(words);
            Ok(command)
        }
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            "trainers need Python, which this build of the program does not contain",
        )
        .hint("install forebay with pip in the environment of the trainer, and run `forebay verify` there")),
    }
}

fn told(args: &Args, trainer: Trainer, dataset: &Dataset) -> Result<Told> {
    if args.loader.order != Order::Window {
        return Err(
            Error::invalid("verifying a trainer always shuffles through a window").hint("leave out --order")
        );
    }
    if args.loader.location.names_a_version() {
        return Err(Error::invalid("verifying a trainer always reads the newest version of a table")
            .hint("leave out --version and --timestamp"));
    }
    let (locations, storage_options) = args.loader.location.words();
    let (split, config) = args.loader.location.part().names();
    let columns = match &args.loader.columns {
        Some(columns) => columns.clone(),
        // Rows are identified by their row ids, but the loader must read some column beside them.
        None => {
            let schema = dataset.schema();
            let is_full = |field: &&FieldRef| field.data_type().is_numeric() && !field.is_nullable();
            let found = schema.fields().iter().find(is_full);
            let found = found.or_else(|| schema.fields().iter().find(|field| field.data_type().is_numeric()));
            let found = found.ok_or_else(|| {
                Error::invalid("the data has no column of numbers")
                    .hint("name the columns to read with --columns A,B")
            })?;
            vec![found.name().clone()]
        }
    };
    Ok(Told {
        trainer,
        urls: locations.iter().map(|location| source::absolute(location)).collect::<Result<_>>()?,
        storage_options: parse_options(&storage_options)?,
        split,
        config,
        columns,
        memory: args.loader.memory,
        batch_size: args.loader.batch_size,
        world: args.world,
        epochs: args.epochs,
        seed: args.loader.seed,
        window_rows: args.loader.window_rows,
    })
}

/// Makes the interpreter run the trainer, and returns its result.
fn ask(python: &mut Command, told: &Told) -> Result<Value> {
    let told = serde_json::to_vec(told).map_err(|error| unclear(&error.to_string()))?;
    let python = python.arg("verify-trainer").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = python.spawn().map_err(Foreign::into_error)?;
    if let Some(mut input) = process.stdin.take() {
        // A write error is ignored: the interpreter has then ended, and has printed the reason.
        let _ = input.write_all(&told);
    }
    let output = process.wait_with_output().or_fail()?;
    if !output.status.success() {
        return Err(Error::new(ErrorKind::Internal, format!("the interpreter ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| unclear(&error.to_string()))
}

fn unclear(error: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("the answer of the Python interpreter cannot be read: {error}"))
}

fn describe(said: &Said) -> String {
    let Said { title, version, own_loader, rows, left_out, steps, step_rows, epochs, world, .. } = said;
    let mut text = format!(
        "{title} {version}: {} of {} in {} of {}, on {}; killed after {} and resumed on one rank from the \
         checkpoint after {}\n",
        counted(*epochs, "epoch"),
        counted(*rows, "row"),
        counted(*steps, "step"),
        counted(*step_rows, "row"),
        counted((*world).into(), "rank"),
        counted(said.killed, "step"),
        count(said.checkpoint),
    );
    if *left_out > 0 {
        let (does, is) = if *left_out == 1 { ("does", "is") } else { ("do", "are") };
        let rows = counted(*left_out, "row");
        let _ = writeln!(text, "{rows} of each epoch {does} not fill a step and {is} left out");
    }
    let _ = writeln!(text, "forebay         {}", said.forebay.shown());
    let _ = write!(text, "its own loader  {} ({own_loader})", said.own.shown());
    text
}
