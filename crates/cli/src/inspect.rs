//! `forebay inspect`: the contents of a data set, from its footers, and advice on its layout.

mod advice;
mod columns;
mod pages;

use std::fmt;
use std::path::PathBuf;

use forebay::Dataset;
use forebay_base::error::escaped;
use forebay_base::{Error, Result};
use serde::Serialize;

use self::columns::{Column, Stored};
use super::console::{self, Console};
use super::location::Location;
use super::units::{self, bytes, count, counted};
use super::window::Window;

/// Shows the files, row groups, columns and codecs of a data set, and how its layout could be better.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay inspect /data/train
  forebay inspect '/data/train/part-*.parquet'
  forebay inspect /data/train --json - | jq .columns";

/// The contents of a data set.
#[derive(Serialize)]
struct Report {
    locations: Vec<String>,
    fingerprint: String,
    files: usize,
    file_bytes: u64,
    written_by: Vec<String>,
    rows: u64,
    row_groups: Spread,
    row_group_bytes: Spread,
    row_group_rows: Spread,
    columns: Vec<Column>,
    #[serde(skip)]
    window: Window,
    /// Columns that a loader refuses as they are.
    refused: Vec<Refused>,
    advice: Vec<String>,
}

/// A column that a loader refuses as it is.
#[derive(Serialize)]
struct Refused {
    column: String,
    why: String,
    /// The whole sentence, with the next move.
    #[serde(skip)]
    sentence: String,
}

/// How even something is.
#[derive(Clone, Copy, Serialize)]
struct Spread {
    count: u64,
    min: u64,
    mean: u64,
    max: u64,
    total: u64,
}

impl Spread {
    fn of(values: impl Iterator<Item = u64>) -> Self {
        let empty = Spread { count: 0, min: u64::MAX, mean: 0, max: 0, total: 0 };
        let mut spread = values.fold(empty, |so_far, value| Spread {
            count: so_far.count + 1,
            min: so_far.min.min(value),
            mean: 0,
            max: so_far.max.max(value),
            total: so_far.total.saturating_add(value),
        });
        spread.mean = spread.total / spread.count.max(1);
        spread.min = spread.min.min(spread.max);
        spread
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let dataset = args.location.open()?;
    let report = inspect(args, &dataset)?;
    console.say(&report)?;
    console.json(&report)
}

fn inspect(args: &Args, dataset: &Dataset) -> Result<Report> {
    let catalog = dataset.catalog();
    let Stored { columns, group_bytes, written_by } = dataset.fold_footers(Stored::default(), Stored::add)?;
    let in_file = |file: usize| catalog.groups_of(file).len() as u64;
    let mut report = Report {
        locations: args.location.shown(),
        fingerprint: catalog.fingerprint.to_string(),
        files: catalog.files.len(),
        file_bytes: catalog.files.iter().map(|file| file.size).sum(),
        written_by: written_by.into_iter().collect(),
        rows: catalog.rows(),
        row_groups: Spread::of((0..catalog.files.len()).map(in_file)),
        row_group_bytes: Spread::of(group_bytes.into_iter()),
        row_group_rows: Spread::of(catalog.groups.iter().map(|group| group.rows)),
        columns,
        window: Window::of(catalog, &catalog.project_readable()?),
        refused: catalog.refused().iter().map(Refused::of).collect(),
        advice: Vec::new(),
    };
    report.advice = catalog.splits.iter().map(|splits| format!("{splits}.")).collect();
    report.advice.extend(advice::list(&report));
    Ok(report)
}

impl Refused {
    fn of(refusal: &Error) -> Self {
        let column = refusal.place().column.as_deref().unwrap_or_default().to_owned();
        Refused { column, why: refusal.cause().to_owned(), sentence: refusal.sentence(console::option) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}, {}, {}",
            counted(self.files as u64, "file"),
            counted(self.row_groups.total, "row group"),
            counted(self.rows, "row"),
            bytes(self.file_bytes)
        )?;
        let Spread { min, mean, max, .. } = self.row_group_bytes;
        writeln!(f, "row group   {} to {}, mean {}", bytes(min), bytes(max), bytes(mean))?;
        let Spread { min, mean, max, .. } = self.row_group_rows;
        writeln!(f, "            {} to {} rows, mean {}", count(min), count(max), count(mean))?;
        writeln!(f, "written by  {}", escaped(&self.written_by.join(", ")))?;
        writeln!(f, "fingerprint {}\n", self.fingerprint)?;
        columns::table(&self.columns, f)?;
        writeln!(f)?;
        if !self.refused.is_empty() {
            writeln!(f, "Refused by a loader as they are")?;
            self.refused.iter().try_for_each(|refused| writeln!(f, "- {}", refused.sentence))?;
            writeln!(f)?;
        }
        if self.advice.is_empty() {
            return write!(f, "The layout suits training: nothing to change.");
        }
        write!(f, "Advice")?;
        self.advice.iter().try_for_each(|advice| write!(f, "\n- {}", escaped(advice)))
    }
}
