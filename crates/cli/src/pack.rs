//! `forebay pack` and `forebay unpack`: rewrite a data set with its JPEGs as coefficients, or its
//! coefficients as JPEGs.

use std::path::PathBuf;

use forebay::repack::Repack;
use forebay::repack::RepackOptions;
use forebay::repack::RepackReport;
use forebay::repack::RepackedColumn;
use forebay_base::Result;

use super::console::Console;
use super::location::{open, parse_options};
use super::options::check_threads;
use super::units::{self, bytes, count, counted, local_path, percent};

/// Rewrites a data set with its JPEGs as coefficients, which take less time to decode.
#[derive(clap::Args)]
#[command(after_help = PACK_EXAMPLES)]
pub(crate) struct PackArgs {
    /// The form in which JPEGs are written: their coefficients, without loss
    #[arg(long, required = true)]
    coefficients: bool,
    /// Keep the images too: their coefficients become a column of their own, NAME_coefficients
    #[arg(long)]
    keep_images: bool,
    #[command(flatten)]
    common: Common,
}

/// Rewrites a data set with JPEGs in place of their coefficients.
#[derive(clap::Args)]
#[command(after_help = UNPACK_EXAMPLES)]
pub(crate) struct UnpackArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Path, URL or glob of the Parquet files, which are only read
    #[arg(value_name = "URL")]
    from: String,
    /// Folder or prefix that gets the new files, under their names: empty, or not there yet
    #[arg(value_name = "OUT")]
    to: String,
    /// Columns of images [default: those that hold any]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Threads that decode [default: one for each processor]
    #[arg(long, value_parser = units::whole::<usize, 1>)]
    threads: Option<usize>,
    /// Option of the stores, such as aws_region=eu-west-1
    #[arg(short = 'o', long = "storage-option", value_name = "KEY=VALUE")]
    storage_options: Vec<String>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = local_path())]
    json: Option<PathBuf>,
}

const PACK_EXAMPLES: &str = "\
Examples:
  forebay pack --coefficients photos photos-packed
  forebay pack --coefficients s3://acme/train s3://acme/train-packed --columns image
  forebay pack --coefficients photos photos-both --keep-images

Loaders read the new column as they read the images, and give the same pixels. It takes 1.2 to 1.5 times
the bytes. All other columns, row groups and metadata are copied.";

const UNPACK_EXAMPLES: &str = "\
Examples:
  forebay unpack photos-packed photos-again

Each image is a baseline JPEG of the same coefficients, and so of the same pixels. Orientation, size,
sampling and tables are kept; comments, thumbnails and colour profiles are not. An image of several
scans, of which loaders decode no parts, is written with a scan for each component.";

pub(crate) fn pack(args: &PackArgs) -> Result<()> {
    debug_assert!(args.coefficients, "coefficients are the only packed form");
    run(&args.common, Repack::Pack { beside: args.keep_images }, "packing")
}

pub(crate) fn unpack(args: &UnpackArgs) -> Result<()> {
    run(&args.common, Repack::Unpack, "unpacking")
}

fn run(args: &Common, form: Repack, doing: &'static str) -> Result<()> {
    check_threads("--threads", args.threads)?;
    let console = Console::new(args.json.as_deref())?;
    let storage = parse_options(&args.storage_options)?;
    let dataset = open(vec![args.from.clone()], &args.storage_options)?;
    let (from, columns) = (args.from.clone(), args.columns.clone());
    let options = RepackOptions { from, form, columns, threads: args.threads, storage };
    let mut progress = console.progress(doing, "rows", dataset.rows());
    let report = dataset.repack(&args.to, &options, |rows| progress.advance(rows))?;
    drop(progress);
    console.say(describe(form, &report))?;
    console.json(&report)
}

fn describe(form: Repack, report: &RepackReport) -> String {
    let RepackReport { files, rows, bytes_before, bytes_after, columns, .. } = report;
    let mut lines = vec![format!(
        "{} of {}: {} before, {} after",
        counted(*files, "file"),
        counted(*rows, "row"),
        bytes(*bytes_before),
        bytes(*bytes_after),
    )];
    lines.extend(columns.iter().map(|column| describe_column(form, column)));
    lines.join("\n")
}

fn describe_column(form: Repack, column: &RepackedColumn) -> String {
    let RepackedColumn { column, written_as, changed, kept, nulls, bytes_before, bytes_after } = column;
    let (now, others) = match form {
        Repack::Pack { .. } => ("coefficients", "damaged, of another format, or packed already"),
        Repack::Unpack => ("JPEG", "of no coefficients"),
    };
    let name = if column == written_as { column.clone() } else { format!("{column} as {written_as}") };
    let share = *bytes_after as f64 / (*bytes_before).max(1) as f64;
    let mut line =
        format!("{name}: {} as {now}, {} of the bytes", counted(*changed, "image"), percent(share));
    if *kept > 0 {
        line += &format!("; {} copied unchanged, {others}", counted(*kept, "cell"));
    }
    if *nulls > 0 {
        line += &format!("; {} null", count(*nulls));
    }
    line
}
