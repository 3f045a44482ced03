//! `forebay which`: the rows of a step, found from a saved position.

mod rewound;
mod values;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use forebay::Dataset;
use forebay_base::Result;
use forebay_store::catalog::{RowId, RowPlace};
use forebay_store::source;
use serde::Serialize;
use serde_json::Value;

use self::rewound::RewoundRun;
use super::console::Console;
use super::location::Location;
use super::units::{self, counted};

/// Shows which rows a step holds, past or to come: from a saved position, without reading any. For the state
/// of a mix give the location of each source, in their order.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
    /// The position of the run: a file of JSON, as json.dump(loader.state_dict(), file) writes it
    #[arg(long, value_name = "FILE", value_parser = units::local_path())]
    state: PathBuf,
    /// Which step, counted from the first one of epoch 0, or of --epoch [default: the one that comes next]
    #[arg(long, value_parser = units::whole::<u64, 0>)]
    step: Option<u64>,
    /// The epoch in which --step is counted
    #[arg(long, value_parser = units::whole::<u64, 0>, requires = "step")]
    epoch: Option<u64>,
    /// The rank whose rows are listed [default: all ranks, one after another]
    #[arg(long, value_parser = units::whole::<u32, 0>)]
    rank: Option<u32>,
    /// Also read these columns of the rows: numbers, booleans and text
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Vec<String>,
    /// The rows that the run denied: a list of row ids, or COLUMN=FILE for a list of the column's values; may
    /// be repeated. For a mix SOURCE:FILE, or SOURCE:COLUMN=FILE: sources count from 0
    #[arg(long, value_name = "FILE")]
    deny: Vec<String>,
    /// Report as one JSON array, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay which /data/train --state checkpoint.json                      the step that comes next
  forebay which /data/train --state checkpoint.json --step 12345         any step, past or to come
  forebay which /data/train --state checkpoint.json --step 12345 --rank 3 --columns id,url
  forebay which /data/train --state checkpoint.json --step 12345 --json - | jq .[0]
  forebay which /data/web /data/books --state mix.json --step 12345      of a mix of two sources

Steps are counted with the batches and ranks of the run as it was when the state was saved.";

/// A row of the step.
#[derive(Serialize)]
struct Row {
    /// The source of the row, in a mix.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<usize>,
    file: String,
    row_group: usize,
    row: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<serde_json::Map<String, Value>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let (datasets, run) = RewoundRun::open(&args.location, &args.state, &args.deny)?;
    let ranks = args.rank.map_or(0..run.world(), |rank| rank..rank.saturating_add(1));
    let (title, places) = step(args, &run, ranks.collect())?;
    let values = match args.columns.as_slice() {
        [] => HashMap::new(),
        columns => values_of(&datasets, columns, &places)?,
    };
    let is_mix = run.is_mix();
    let rows: Vec<Row> = places
        .iter()
        .map(|place| Row {
            source: is_mix.then_some(place.source),
            file: source::shown(&place.file),
            row_group: place.row_group,
            row: place.row,
            columns: (!args.columns.is_empty())
                .then(|| values.get(&(place.source, place.id)).cloned().unwrap_or_default()),
        })
        .collect();
    console.say(describe(&title, &rows, &args.columns))?;
    console.json(&rows)
}

/// The title of the report, and the rows of the requested step on these ranks.
fn step(args: &Args, run: &RewoundRun, ranks: Vec<u32>) -> Result<(String, Vec<RowPlace>)> {
    let mut places = Vec::new();
    for rank in &ranks {
        places.extend(run.rows(args.epoch, args.step, *rank)?);
    }
    let whose = match ranks.as_slice() {
        [rank] => format!("rank {rank} of {}", run.world()),
        _ => counted(u64::from(run.world()), "rank"),
    };
    let step = run.named(args.epoch, args.step)?;
    Ok((format!("{step}, {whose}: {}", counted(places.len() as u64, "row")), places))
}

/// The values of each row, by source and row id.
fn values_of(
    datasets: &[Dataset],
    columns: &[String],
    places: &[RowPlace],
) -> Result<HashMap<(usize, RowId), serde_json::Map<String, Value>>> {
    let mut found = HashMap::new();
    for (source, dataset) in datasets.iter().enumerate() {
        let of_source: Vec<RowPlace> =
            places.iter().filter(|place| place.source == source).cloned().collect();
        let values = values::of_rows(dataset, columns, &of_source)?;
        found.extend(values.into_iter().map(|(id, values)| ((source, id), values)));
    }
    Ok(found)
}

fn describe(title: &str, rows: &[Row], columns: &[String]) -> String {
    let mut text = format!("{title}\n");
    for Row { source, file, row_group, row, columns: values } in rows {
        if let Some(source) = source {
            let _ = write!(text, "source {source}  ");
        }
        let _ = write!(text, "{file}  row group {row_group}  row {row}");
        for name in columns {
            let value = values.as_ref().and_then(|values| values.get(name)).unwrap_or(&Value::Null);
            let _ = write!(text, "  {name} {value}");
        }
        text.push('\n');
    }
    text.pop();
    text
}
