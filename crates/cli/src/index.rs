//! `forebay index`: writes the footers of a folder's files into one file beside them.

use std::path::PathBuf;

use forebay_base::Result;
use forebay_store::source::IndexReport;

use super::console::Console;
use super::location::Location;
use super::units::{bytes, count, counted, local_path};

/// Writes the footers of all files of a folder into one file in it, so that every process opens the folder
/// with a listing and one read.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
    /// Report as one JSON array, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay index s3://acme/train/                 writes s3://acme/train/_forebay_index
  forebay plan s3://acme/train/ --world 1024     reads it, and no footer
  forebay index s3://acme/train/                 again, after files were added: reads theirs alone

Files that were added or changed since are read as if there were no index. Loaders use it by themselves;
-o index=off leaves it out.";

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    let written = args.location.open()?.write_index()?;
    let lines: Vec<String> = written.iter().map(describe).collect();
    console.say(lines.join("\n"))?;
    console.json(&written)
}

fn describe(index: &IndexReport) -> String {
    let IndexReport { location, files, files_read, footer_bytes, bytes: stored, .. } = index;
    format!(
        "{location}: an index of {} ({}) in place of {} of footers, of which {} were read now",
        counted(*files, "footer"),
        bytes(*stored),
        bytes(*footer_bytes),
        count(*files_read),
    )
}
