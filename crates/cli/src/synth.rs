//! `forebay synth`: writes a synthetic data set, with the same bytes for the same seed.
//!
//! It draws photographs and makes tables and token lists, so that anyone can repeat a measurement without a
//! download. It can also store a user's own images.

mod canvas;
mod colour;
mod draw;
mod encode;
mod gallery;
mod leaf;
mod material;
mod mlperf;
mod order;
mod table;
mod write;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use forebay_base::{Error, Result};
use serde::Serialize;

use super::console::{Console, note};
use super::options::check_threads;
use super::units::{self, bytes, count, counted, seconds};

pub(super) use self::gallery::Gallery;
pub(super) use self::mlperf::{EMBEDDING_BYTES, FEATURE_BYTES, features_read};
pub(super) use self::order::{FileLayout, Order, RowKind};
pub(super) use self::write::files;

/// Generates pictures, tables or token lists, or takes images, and writes them as well-laid-out Parquet.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to write into; created, and refused if it holds anything
    #[arg(value_parser = units::local_path())]
    dir: PathBuf,
    /// Rows to write [default, with --from: one for each image]
    #[arg(long, required_unless_present = "from", value_parser = units::whole::<u64, 1>)]
    rows: Option<u64>,
    /// Use the images of this folder, unchanged, instead of drawing; they repeat if they are too few, and the
    /// folders in it are classes
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["image", "png", "quality", "classes", "table", "tokens"],
        value_parser = units::local_path(),
    )]
    from: Option<PathBuf>,
    /// Width and height of the pictures
    #[arg(long, value_name = "WxH", default_value = "500x375", value_parser = units::parse_extent)]
    image: (u32, u32),
    /// Draw lossless PNG instead of JPEG, for tiny pictures
    #[arg(long, conflicts_with_all = ["table", "tokens"])]
    png: bool,
    /// JPEG quality: one number, or a range from which each picture's is drawn
    #[arg(long, value_name = "Q|LO..HI", default_value = "90..95", value_parser = parse_quality)]
    quality: RangeInclusive<u8>,
    /// Number of classes, which differ in shape and colour
    #[arg(long, default_value_t = 10, value_parser = units::whole::<u32, 1>)]
    classes: u32,
    /// Make a table instead: a label, 13 nullable float32 and 26 int32 columns
    #[arg(long, conflicts_with = "tokens")]
    table: bool,
    /// Make token lists of this length instead
    #[arg(long, value_name = "LENGTH", value_parser = units::whole::<usize, 1>)]
    tokens: Option<usize>,
    /// Rows in a row group [default: 100 JPEG, 5,000 PNG, 100,000 table rows, 1,000 token lists]
    #[arg(long, value_parser = units::whole::<u64, 1>)]
    rows_per_group: Option<u64>,
    /// Rows in a file [default: ten row groups]
    #[arg(long, value_parser = units::whole::<u64, 1>)]
    rows_per_file: Option<u64>,
    /// The same seed writes the same bytes
    #[arg(long, default_value_t = 0, value_parser = units::whole::<u64, 0>)]
    seed: u64,
    /// Threads that draw [default: one for each core]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_parser = units::whole::<usize, 0>)]
    threads: usize,
    /// Write into a folder that is not empty; an earlier data set of synth is removed
    #[arg(long)]
    force: bool,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = units::local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay synth /tmp/photos --rows 5000                           JPEG photographs, about 65 KB each
  forebay synth /tmp/mine --from ~/Pictures                       your own, with their folders as classes
  forebay synth /tmp/photos --rows 5120 --rows-per-group 512      the same in larger row groups
  forebay synth /tmp/tiny --rows 50000 --image 32x32 --png        the shape of CIFAR-10
  forebay synth /tmp/clicks --rows 4000000 --table                the shape of Criteo
  forebay synth /tmp/text --rows 100000 --tokens 2048             sequences for a language model";

/// Files have ten row groups by default, so that even a small data set has several files.
const GROUPS_PER_FILE: u64 = 10;
/// The largest width and height of a picture in pixels; a larger one is rejected as a typing error.
const MAX_SIDE_PIXELS: u32 = 16_384;

/// The files that were written.
#[derive(Serialize)]
struct SynthReport {
    dir: String,
    kind: &'static str,
    rows: u64,
    files: u64,
    bytes: u64,
    seconds: f64,
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let order = args.order()?;
    let layout = args.layout(&order);
    let console = Console::new(args.json.as_deref())?;
    if order.gallery.others > 0 {
        note(format_args!(
            "passed over, as no images by their names: {}",
            counted(order.gallery.others, "file")
        ));
    }
    let started = std::time::Instant::now();
    write::prepare(&args.dir, args.force)?;
    let mut progress = console.progress("writing", "rows", layout.rows);
    let written = files(&args.dir, &order, &layout, args.threads, |rows| progress.advance(rows))?;
    drop(progress);
    let report = SynthReport {
        dir: args.dir.display().to_string(),
        kind: order.kind.noun(),
        rows: layout.rows,
        files: written.files,
        bytes: written.bytes,
        seconds: started.elapsed().as_secs_f64(),
        seed: order.seed,
    };
    console.say(sentence(&report))?;
    console.json(&report)
}

fn sentence(report: &SynthReport) -> String {
    format!(
        "{} in {} under {}: {}, {} a row, in {} ({} rows/s)",
        counted(report.rows, report.kind),
        counted(report.files, "file"),
        report.dir,
        bytes(report.bytes),
        bytes(report.bytes / report.rows.max(1)),
        seconds(report.seconds),
        count((report.rows as f64 / report.seconds) as u64),
    )
}

impl Args {
    fn kind(&self) -> RowKind {
        match self.tokens {
            Some(length) => RowKind::Tokens(length),
            None if self.from.is_some() => RowKind::Own,
            None if self.table => RowKind::Table,
            None if self.png => RowKind::Png,
            None => RowKind::Jpeg,
        }
    }

    fn order(&self) -> Result<Order> {
        check_threads("--threads", Some(self.threads))?;
        let (width, height) = self.image;
        if width.max(height) > MAX_SIDE_PIXELS {
            return Err(Error::invalid(format!(
                "--image {width}x{height} is larger than {MAX_SIDE_PIXELS} on a side"
            )));
        }
        let quality = self.quality.clone();
        let gallery = match &self.from {
            Some(folder) => Gallery::open(folder, self.seed)?,
            None => Gallery::default(),
        };
        let (kind, classes, seed) = (self.kind(), self.classes, self.seed);
        Ok(Order { kind, width, height, quality, classes, gallery, seed })
    }

    fn layout(&self, order: &Order) -> FileLayout {
        let rows_per_group = self.rows_per_group.unwrap_or(order.kind.rows_per_group());
        let rows_per_file = self.rows_per_file.unwrap_or(rows_per_group.saturating_mul(GROUPS_PER_FILE));
        FileLayout { rows: self.rows.unwrap_or(order.gallery.len()), rows_per_group, rows_per_file }
    }
}

/// Parses a quality, such as "92", or a range with both ends included, such as "90..95".
fn parse_quality(text: &str) -> Result<RangeInclusive<u8>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if (1..=100).contains(&low) && (low..=100).contains(&high) => Ok(low..=high),
        _ => Err(format!("{text:?} is not a quality between 1 and 100, or a range such as 90..95")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_is_a_number_or_a_range() {
        assert_eq!(parse_quality("92"), Ok(92..=92));
        assert_eq!(parse_quality("90..95"), Ok(90..=95));
        for text in ["", "0", "101", "95..90", "high"] {
            assert!(parse_quality(text).is_err(), "{text}");
        }
    }
}
