//! `forebay cache`: shows, verifies, fills or empties a cache.

use std::path::PathBuf;

use forebay::stats::CacheStats;
use forebay::stats::Cleared;
use forebay::stats::PastStats;
use forebay::stats::Report;
use forebay::{DiskCache, Tier};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_image::Image;
use serde::Serialize;

use super::console::Console;
use super::image_words::parse_image;
use super::location::open;
use super::units::{bytes, counted, local_path, parse_bytes, percent};

/// Shows, checks, fills or empties a cache of rows. Runs may use it at the same time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the cache
    #[arg(value_name = "DIR", value_parser = local_path())]
    folder: PathBuf,
    /// Compare the checksum of every entry, and remove those that are damaged
    #[arg(long)]
    verify: bool,
    /// Remove all entries
    #[arg(long, conflicts_with_all = ["verify", "warm"])]
    clear: bool,
    /// Fill it with the rows of a data set, for loaders over the same columns
    #[arg(long, value_name = "URL", requires = "max_bytes")]
    warm: Vec<String>,
    /// Columns to keep, in the loader's order [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "warm")]
    columns: Option<Vec<String>>,
    /// A column of images and how the loader decodes it: rrc224 (random resized crop), center224 or
    /// resize224x224, with ,raw299x299x3 for raw pixels and ,bicubic or ,lanczos for another filter
    #[arg(long, value_name = "COLUMN=HOW", value_parser = parse_image, requires = "warm")]
    image: Vec<(String, Image)>,
    /// Form in which images are kept: rows, coefficients, pixels or resized, as the loader's [default: rows]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, requires = "image")]
    tier: Option<Tier>,
    /// The most that the cache may hold, such as 200GB; entries that were not used for longest go
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// Option of the store, such as aws_region=eu-west-1
    #[arg(short = 'o', long = "storage-option", value_name = "KEY=VALUE")]
    storage_options: Vec<String>,
    /// Report as one JSON object, to a file or to standard output (-)
    #[arg(long, value_name = "FILE|-", value_parser = local_path())]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  forebay cache /nvme/forebay
  forebay cache /nvme/forebay --verify
  forebay cache /nvme/forebay --warm s3://acme/train --columns image,label --max-bytes 200GB
  forebay cache /nvme/forebay --warm s3://acme/train --image image=rrc224 --tier coefficients --max-bytes 200GB
  forebay cache /nvme/forebay --max-bytes 100GB
  forebay cache /nvme/forebay --clear";

/// The results of one call of `forebay cache`.
#[derive(Serialize)]
struct CacheOutcome {
    folder: PathBuf,
    cleared: Option<Cleared>,
    verified: Option<Report>,
    /// The cache's statistics: its lookups and writes during this call, and how full it is.
    stats: CacheStats,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let console = Console::new(args.json.as_deref())?;
    if args.warm.is_empty() && !args.folder.is_dir() {
        if args.folder.exists() {
            return Err(Error::invalid("this is not a folder")
                .at(Place::file(args.folder.display().to_string()))
                .hint("give the folder of a cache"));
        }
        return Err(Error::new(ErrorKind::NotFound, "folder not found")
            .at(Place::file(args.folder.display().to_string()))
            .hint("a loader with a cache creates it, and so does --warm"));
    }
    let cache = DiskCache::open(&args.folder, args.max_bytes.unwrap_or(u64::MAX)).map_err(|error| {
        match error.kind() {
            // The library's error advises another `--cache`, an option that this command does not have.
            ErrorKind::Io => error.hint("name a folder that this user can create and write to"),
            _ => error,
        }
    })?;
    if !args.warm.is_empty() {
        warm(args, &cache, &console)?;
    }
    let cleared = args.clear.then(|| cache.clear()).transpose()?;
    let verified = args.verify.then(|| cache.verify()).transpose()?;
    let outcome = CacheOutcome { folder: args.folder.clone(), cleared, verified, stats: cache.stats() };
    console.say(describe(&outcome))?;
    console.json(&outcome)
}

/// Parses a tier: the form in which the cache keeps images. `auto` is refused, because it needs measurements
/// of training.
fn parse_tier(text: &str) -> Result<Tier> {
    if text == Tier::Auto.name() {
        return Err(Error::invalid(
            "the tier auto is decided by measurements during training, not before it",
        )
        .hint("leave out --tier to keep images as stored, or name the form"));
    }
    let named: Vec<Tier> =
        Tier::NAMES.map(|(tier, _)| tier).into_iter().filter(|tier| *tier != Tier::Auto).collect();
    Tier::among(&named, text)
}

fn warm(args: &Args, cache: &DiskCache, console: &Console) -> Result<()> {
    let dataset = open(args.warm.clone(), &args.storage_options)?;
    let mut loader =
        dataset.loader().batch_size(1).cache(cache.clone()).cache_tier(args.tier.unwrap_or(Tier::Rows));
    // Columns without `--image` are cached as they are stored.
    loader = loader.as_stored("*");
    for (column, image) in &args.image {
        loader = loader.decode(column, image.clone());
    }
    if let Some(columns) = &args.columns {
        loader = loader.columns(columns);
    }
    let loader = loader.build()?;
    let mut progress = console.progress("warming", "row groups", dataset.catalog().groups.len() as u64);
    loader.warm(|_, _| progress.advance(1))?;
    Ok(())
}

fn describe(outcome: &CacheOutcome) -> String {
    let CacheOutcome { cleared, verified, stats, .. } = outcome;
    let mut lines = Vec::new();
    if stats.hits + stats.misses > 0 {
        let not_kept = stats.declined.why().map_or(String::new(), |why| {
            format!(", {} not kept: {why}", counted(stats.declined.all(), "row group"))
        });
        lines.push(format!(
            "warmed: {} found in the cache, {} fetched, {} written{not_kept}",
            counted(stats.hits, "row group"),
            stats.misses,
            bytes(stats.written_bytes),
        ));
    }
    if let Some(Cleared { entries, bytes: freed }) = cleared {
        lines.push(format!("cleared: {} of {}", counted(*entries, "row group"), bytes(*freed)));
    }
    if let Some(Report { sound, bytes: whole, rows, damaged, unreadable, parts, strange }) = verified {
        lines.push(format!(
            "verified: {} of {} with {} are whole; {damaged} damaged and removed, {unreadable} unreadable, {} being \
             written, {} not part of a cache",
            counted(*sound, "row group"),
            bytes(*whole),
            counted(*rows, "row"),
            parts,
            counted(*strange, "file"),
        ));
    }
    if stats.evictions > 0 {
        lines.push(format!(
            "removed: {}, the least recently used ones",
            counted(stats.evictions, "row group")
        ));
    }
    if stats.bytes > stats.max_bytes {
        lines.push(
            "the cache is still larger than --max-bytes: a loader has it open, or it cannot be written to"
                .into(),
        );
    }
    lines.push(format!("{} of {}", counted(stats.entries, "row group"), bytes(stats.bytes)));
    let PastStats { hits, misses, damaged, .. } = stats.past;
    if let Some(rate) = stats.past.hit_rate() {
        lines.push(format!(
            "{} of {} since the cache was created were hits, {damaged} found a damaged entry",
            percent(rate),
            counted(hits + misses, "look-up")
        ));
    }
    for off in [&stats.reading_off, &stats.writing_off].into_iter().flatten() {
        lines.push(format!("off: {}", off.why));
    }
    lines.join("\n")
}
