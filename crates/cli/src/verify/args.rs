//! The arguments of `verify`.

use std::path::PathBuf;

use serde::Serialize;

use crate::options::LoaderOptions;
use crate::units;

/// Proves on your own data that each row comes once, in the planned order, also where ranks are killed and
/// resumed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) loader: LoaderOptions,
    /// Training processes that share the data set
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u32, 1>)]
    pub(super) world: u32,
    /// How many epochs
    #[arg(long, default_value_t = 2, value_parser = units::whole::<u64, 1>)]
    pub(super) epochs: u64,
    /// Kill all ranks at random steps, this many times [5 if given without a number], and resume them on
    /// other numbers of ranks
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_value_t = 0,
        default_missing_value = "5", hide_default_value = true, value_parser = units::whole::<u32, 0>)]
    pub(super) kill: u32,
    /// Mix the locations by these weights, one for each: each is then a data set of its own
    #[arg(long, value_name = "WEIGHT,...", value_delimiter = ',', value_parser = parse_weight)]
    pub(super) mix: Vec<f64>,
    /// Leave out rows: a list of row ids, or COLUMN=FILE for a list of the column's values; may be repeated.
    /// With --mix SOURCE:FILE, or SOURCE:COLUMN=FILE: sources count from 0
    #[arg(long, value_name = "FILE")]
    pub(super) deny: Vec<String>,
    /// Alter the rows that a rank delivered, to see that verify finds the fault
    #[arg(long, value_enum, value_name = "FAULT")]
    pub(super) plant: Option<Fault>,
    /// Run inside this framework, killed once and resumed on one process, beside the framework's own loader
    /// over the same rows
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = NOT_IN_A_TRAINER)]
    pub(super) trainer: Option<Trainer>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    pub(super) json: Option<PathBuf>,
}

/// The options that cannot be combined with `--trainer`, because a run inside a framework would ignore them.
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

/// An error that `--plant` makes in the delivered rows, to show that `verify` finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Fault {
    /// A row is delivered twice
    Duplicate,
    /// A row is not delivered
    Loss,
    /// Two rows of a batch are swapped
    Swap,
}

/// The training framework in which `--trainer` runs the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Trainer {
    /// A PyTorch loop by hand, and DataLoader
    Torch,
    /// A loop by hand, and StatefulDataLoader
    Torchdata,
    /// Lightning's Trainer
    Lightning,
    /// Accelerate
    Accelerate,
    /// The Trainer of Transformers
    Hf,
    /// Keras' fit
    Keras,
    /// Ray Train
    Ray,
    /// Spark's TorchDistributor
    Spark,
}

/// Parses a weight of a mix.
fn parse_weight(text: &str) -> Result<f64, String> {
    let weight = text.trim().parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0);
    weight.ok_or_else(|| {
        "weights are numbers of at least 0 with commas between them, such as 0.7,0.3".to_owned()
    })
}
