//! `forebay inspect`: the contents of a data set, from its footers, and advice on its layout.

mod advice;
mod columns;
mod pages;
mod petastorm;
mod report;

use std::path::PathBuf;

use forebay::Dataset;
use forebay_base::Result;

use self::columns::FooterTotals;
use self::petastorm::SchemaReport;
use self::report::{Refused, Report, Spread, TableReport};
use super::console::Console;
use super::location::Location;
use super::units;
use super::window::WindowSizes;

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

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let dataset = args.location.open()?;
    let report = inspect(args, &dataset)?;
    console.say(&report)?;
    console.json(&report)
}

fn inspect(args: &Args, dataset: &Dataset) -> Result<Report> {
    let catalog = dataset.catalog();
    let FooterTotals { columns, groups, group_rows, group_bytes, written_by } =
        dataset.fold_footers(FooterTotals::default(), FooterTotals::add)?;
    let schema = dataset.petastorm_schema();
    let mut report = Report {
        locations: args.location.shown(),
        fingerprint: catalog.fingerprint.to_string(),
        tables: dataset.tables().iter().map(TableReport::describe).collect(),
        files: catalog.files.len(),
        file_bytes: catalog.files.iter().map(|file| file.size).sum(),
        written_by: written_by.into_iter().collect(),
        rows: dataset.rows(),
        row_groups: Spread::measure(groups.into_iter()),
        row_group_bytes: Spread::measure(group_bytes.into_iter()),
        row_group_rows: Spread::measure(group_rows.into_iter()),
        columns,
        petastorm: schema.as_ref().ok().and_then(|schema| schema.as_deref().map(SchemaReport::describe)),
        window: WindowSizes::measure(catalog, &catalog.project_readable()?),
        refused: catalog.refused().iter().map(Refused::describe).collect(),
        advice: Vec::new(),
    };
    report.advice = catalog.splits.iter().map(|splits| format!("{splits}.")).collect();
    // An error in Petastorm's schema is listed as advice, because a loader would fail with the same error.
    // The text of the error says how to read the data without the schema.
    report.advice.extend(schema.err().map(|error| format!("{error}.")));
    report.advice.extend(advice::list(&report));
    Ok(report)
}
