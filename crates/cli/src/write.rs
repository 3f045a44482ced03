//! `forebay write`: writes the rows of existing files as Parquet that is laid out for training.
//!
//! ```text
//! folder ─ source ─► what it holds: images, tars, tables ─┐
//!                                                          ├─ division ─► one Parquet file each
//! destination ─► files that an interrupted run completed ─┘
//! ```

mod archives;
mod arrow_files;
mod boxes;
mod cells;
mod coco;
mod csv_files;
mod division;
mod features;
mod folder;
mod images;
mod job;
mod json_files;
mod kept;
mod masks;
mod mds;
mod mds_values;
mod odd_boxes;
mod read;
mod recognise;
mod sizes;
mod source;
mod values;
mod yolo;

use std::path::PathBuf;

use forebay_base::{Error, Place, Result};
use serde::Serialize;
use serde_json::{Value, json};

use self::archives::Archives;
use self::job::Job;
use self::source::WriteSource;
use super::console::{Console, note};
use super::location::{open, parse_options};
use super::options::check_threads;
use super::units::{self, bytes, counted, local_path, seconds};

/// Writes a folder of images, WebDataset tars, COCO or YOLO annotations, CSV, JSON lines, Arrow files or
/// MDS shards as well-laid-out Parquet.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the files, or one of them; it is only read
    #[arg(value_name = "FROM", value_parser = local_path())]
    from: PathBuf,
    /// Folder or URL that gets the Parquet files: empty, not there yet, or begun by an interrupted run of
    /// the same command
    #[arg(value_name = "OUT")]
    to: String,
    /// COCO's annotations of the images, a JSON file: their boxes and classes, masks and key points
    #[arg(long, value_name = "FILE", value_parser = local_path(), conflicts_with = "yolo")]
    coco: Option<PathBuf>,
    /// YOLO's annotations, boxes, outlines or key points: for images/a.jpg those of labels/a.txt, with the
    /// names of the classes from data.yaml
    #[arg(long)]
    yolo: bool,
    /// Mix the rows once, by this seed: images of a class lie together in their folder
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "0",
          value_parser = units::whole::<u64, 0>)]
    shuffle: Option<u64>,
    /// Columns of CSV and JSON that hold paths, from the folder of their file: the files' bytes are written.
    /// They are of this machine
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    files: Vec<String>,
    /// Columns of CSV and JSON that hold base64 or data URIs: the bytes are written
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    base64: Vec<String>,
    /// Columns of CSV, JSON and tars that are text, whatever their values look like
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    text: Vec<String>,
    /// Size of a row group, such as 16MiB [default: 32 MiB, or less so that there are sixteen]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    row_group_bytes: Option<u64>,
    /// Threads that read [default: one for each processor]
    #[arg(long, value_parser = units::whole::<usize, 1>)]
    threads: Option<usize>,
    /// Option of the store that is written to, such as aws_region=eu-west-1
    #[arg(short = 'o', long = "storage-option", value_name = "KEY=VALUE")]
    storage_options: Vec<String>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay write photos/train train.parquet --shuffle         a folder for each class: image, label, path
  forebay write shards/ s3://acme/train/                     WebDataset tars: a column for each ending
  forebay write coco/train2017 train --coco instances_train2017.json --shuffle
  forebay write yolo/images/train train --yolo --shuffle
  forebay write table.csv table --files image                a table that names the files of its images
  forebay write rows.jsonl rows --base64 image               images as text in JSON lines

The same command continues an interrupted run where it stopped. Files that are read are not changed.";

/// The report of `forebay write`.
#[derive(Serialize)]
struct WriteReport {
    /// The kind of the files that were read, such as "images".
    kind: &'static str,
    rows: u64,
    files: u64,
    bytes: u64,
    /// Files that an interrupted run had completed.
    files_before: u64,
    /// The names of the classes, in the order of their numbers.
    classes: Vec<String>,
    columns: Vec<String>,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    check_threads("--threads", args.threads)?;
    let console = Console::new(args.json.as_deref())?;
    let started = std::time::Instant::now();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads.unwrap_or(0))
        .build()
        .map_err(|error| Error::not_started("the threads that read", &error))?;
    let (source, left_out) = pool.install(|| args.source())?;
    let job = Job {
        source: &source,
        from: &args.from,
        to: &args.to,
        storage: parse_options(&args.storage_options)?,
        shuffle: args.shuffle,
        row_group_bytes: args.row_group_bytes,
        options: args.choices(),
        pool: &pool,
    };
    let mut progress = console.progress("writing", "bytes", source.bytes());
    let written = job.write(&mut |bytes| progress.advance(bytes))?;
    drop(progress);
    left_out.iter().chain(&source.remarks()).for_each(note);
    let report = WriteReport {
        kind: source.kind(),
        rows: open(vec![args.to.clone()], &args.storage_options)?.rows(),
        files: written.files,
        bytes: written.bytes,
        files_before: written.files_before,
        classes: source.classes().to_vec(),
        columns: source.schema().fields().iter().map(|field| field.name().clone()).collect(),
        seconds: started.elapsed().as_secs_f64(),
    };
    console.say(describe(&report, args))?;
    console.json(&report)
}

fn describe(report: &WriteReport, args: &Args) -> String {
    let WriteReport { kind, rows, files, bytes: size, files_before, classes, columns, seconds: time } =
        report;
    let mut lines = vec![format!(
        "{} from {kind} in {}, {}, in {}",
        counted(*rows, "row"),
        counted(*files, "file"),
        bytes(*size),
        seconds(*time)
    )];
    if *files_before > 0 {
        lines.push(format!("{} had been completed before", counted(*files_before, "file")));
    }
    lines.push(format!("columns: {}", columns.join(", ")));
    match classes.len() {
        0 => {}
        few @ 1..=10 => lines.push(format!("{few} classes: {}", classes.join(", "))),
        many => lines.push(format!("{many} classes: {}, ...", classes[..10].join(", "))),
    }
    if args.shuffle.is_none() && !classes.is_empty() {
        lines.push(
            "rows are in the order of their files; --shuffle mixes classes that lie together".to_owned(),
        );
    }
    lines.join("\n")
}

impl Args {
    /// Finds the source of the rows to write. The returned texts tell the user which files are left out.
    fn source(&self) -> Result<(WriteSource, Vec<String>)> {
        let place = || Place::file(self.from.display().to_string());
        let (source, left_out) = match (&self.coco, self.yolo) {
            (Some(annotations), _) => {
                (WriteSource::Rows(Box::new(coco::open(&self.from, annotations)?)), Vec::new())
            }
            (None, true) => (WriteSource::Rows(Box::new(yolo::open(&self.from)?)), Vec::new()),
            (None, false) => {
                let columns = cells::NamedColumns {
                    files: self.files.clone(),
                    base64: self.base64.clone(),
                    text: self.text.clone(),
                };
                recognise::open(&self.from, columns).map_err(|error| error.at(place()))?
            }
        };
        if let (WriteSource::Tables(_), Some(_)) = (&source, self.shuffle) {
            let error =
                Error::invalid(format!("--shuffle mixes images, and this folder has {}", source.kind()));
            return Err(error.at(place()).hint("leave it out: loaders shuffle rows as they read them"));
        }
        if source.kind() != "CSV" && source.kind() != "JSON" {
            let text = if source.kind() == Archives::KIND { &[][..] } else { &self.text };
            let given = [("--files", &self.files[..]), ("--base64", &self.base64), ("--text", text)];
            if let Some((option, _)) = given.iter().find(|(_, columns)| !columns.is_empty()) {
                let cause =
                    format!("{option} names columns of CSV and JSON, and this folder has {}", source.kind());
                return Err(Error::invalid(cause).at(place()).hint("leave it out"));
            }
        }
        Ok((source, left_out))
    }

    /// The options that decide what is written, for the record of the job.
    fn choices(&self) -> Value {
        let Args { coco, yolo, files, base64, text, shuffle, row_group_bytes, .. } = self;
        json!({
            "--coco": coco.as_ref().map(|path| path.display().to_string()),
            "--yolo": yolo,
            "--files": files,
            "--base64": base64,
            "--text": text,
            "--shuffle": shuffle,
            "--row-group-bytes": row_group_bytes,
        })
    }
}
