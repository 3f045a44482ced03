//! Writes rows to files that are laid out for training. A file is either complete or missing.
//!
//! Pictures are stored without further compression, without a dictionary, without statistics, and in small
//! pages, so that a reader can take a few rows without fetching the others.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;

use super::draw::Artist;
use super::order::{FileLayout, Order, RowKind};
use super::{encode, mlperf, table};
use crate::parquet_files::{self, name, to_disk};

/// The number of pictures or token lists made between two updates of the progress bar. It is a multiple of
/// common numbers of cores, so that each core makes equally many.
const ROWS_AT_A_TIME: u64 = 64;

/// The number of embeddings made at a time, each of which takes 2 MB.
const EMBEDDINGS_AT_A_TIME: u64 = 8;

/// The suffix of a file that is not complete.
const UNFINISHED: &str = ".tmp";

/// The files and rows that were written.
pub(crate) struct WriteOutcome {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Creates `dir`. Refuses a folder that is not empty, unless `force` is given; then an earlier data set of
/// this program is removed, so that its rows do not mix with the new ones.
pub(super) fn prepare(dir: &Path, force: bool) -> Result<()> {
    let place = || Place::file(dir.display().to_string());
    let at = |error: std::io::Error| error.into_error().at(place());
    if dir.exists() && !dir.is_dir() {
        return Err(Error::invalid("this is a file, and synth writes a folder")
            .at(place())
            .hint("name a folder, or a path that does not exist"));
    }
    fs::create_dir_all(dir).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the folder cannot be made: {error}"))
            .at(place())
            .hint("name a folder on a disk that this user can write to")
    })?;
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if !force {
            return Err(Error::invalid("the folder is not empty")
                .at(place())
                .hint("--force replaces an earlier set"));
        }
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours) {
            fs::remove_file(&path).map_err(at)?;
        }
    }
    Ok(())
}

/// Whether `file` is the name of a file that this program wrote, finished or not.
fn is_ours(file: &str) -> bool {
    let finished = file.strip_suffix(UNFINISHED).unwrap_or(file);
    let numbers =
        finished.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet")?.split_once("-of-"));
    numbers.and_then(|(number, count)| Some(name(number.parse().ok()?, count.parse().ok()?))).as_deref()
        == Some(finished)
}

/// Writes all files, and calls `done` with the number of rows finished.
pub(crate) fn files(
    dir: &Path,
    order: &Order,
    layout: &FileLayout,
    threads: usize,
    mut done: impl FnMut(u64) + Send,
) -> Result<WriteOutcome> {
    let studio = Studio::new(order);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start threads: {error}")))?;
    let count = layout.rows.div_ceil(layout.rows_per_file);
    let mut written = WriteOutcome { files: count, bytes: 0 };
    for number in 0..count {
        let first = number * layout.rows_per_file;
        let rows = first..first.saturating_add(layout.rows_per_file).min(layout.rows);
        let path = dir.join(name(number, count));
        written.bytes += pool
            .install(|| file(&path, &studio, rows, layout.rows_per_group, &mut done))
            .map_err(|error| {
                // An incomplete file is useless, and may be the one that fills the disk.
                let _ = fs::remove_file(unfinished(&path));
                let error = match error.kind() {
                    ErrorKind::Io => error.hint("name a folder on a disk that has room"),
                    _ => error,
                };
                error.at(Place::file(path.display().to_string()))
            })?;
    }
    Ok(written)
}

/// The name of a file until it is complete.
fn unfinished(path: &Path) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(UNFINISHED);
    PathBuf::from(longer)
}

/// Writes one file, under another name until it is complete.
fn file(
    path: &Path,
    studio: &Studio<'_>,
    rows: std::ops::Range<u64>,
    rows_per_group: u64,
    done: &mut impl FnMut(u64),
) -> Result<u64> {
    let unfinished = unfinished(path);
    let file = File::create(&unfinished).or_fail()?;
    let mut writer = to_disk(ArrowWriter::try_new(file, studio.schema.clone(), Some(studio.properties())))?;
    let mut group = rows.start;
    while group < rows.end {
        let end = group.saturating_add(rows_per_group).min(rows.end);
        let mut row = group;
        while row < end {
            let some = studio.rows_at_a_time().min(end - row);
            to_disk(writer.write(&studio.batch(row, some)?))?;
            row += some;
            done(some);
        }
        to_disk(writer.flush())?;
        group = end;
    }
    let file = to_disk(writer.into_inner())?;
    let bytes = file.metadata().or_fail()?.len();
    fs::rename(&unfinished, path).or_fail()?;
    Ok(bytes)
}

/// The source of rows for the writer.
struct Studio<'a> {
    order: &'a Order,
    artist: Artist,
    schema: Arc<Schema>,
}

impl<'a> Studio<'a> {
    fn new(order: &'a Order) -> Self {
        let schema = match order.kind {
            RowKind::Jpeg | RowKind::Png | RowKind::Own => Schema::new(vec![
                Field::new("image", DataType::Binary, false),
                Field::new("label", DataType::Int64, false),
            ]),
            RowKind::Table => table::click_schema(),
            RowKind::Tokens(_) => table::token_schema(),
            RowKind::Embeddings => mlperf::embedding_schema(),
            RowKind::Features => mlperf::feature_schema(),
        };
        let artist = Artist::new(order.seed, order.width, order.height, order.classes);
        Studio { order, artist, schema: Arc::new(schema) }
    }

    /// The most rows to make at a time. Tables have no limit: their columns are made in parallel, each for a
    /// whole row group.
    fn rows_at_a_time(&self) -> u64 {
        match self.order.kind {
            RowKind::Table | RowKind::Features => u64::MAX,
            RowKind::Embeddings => EMBEDDINGS_AT_A_TIME,
            _ => ROWS_AT_A_TIME,
        }
    }

    fn properties(&self) -> WriterProperties {
        match self.order.kind {
            RowKind::Embeddings | RowKind::Features => parquet_files::uncompressed().build(),
            _ => parquet_files::properties(&self.schema),
        }
    }

    /// Makes the rows `first..first + rows`.
    fn batch(&self, first: u64, rows: u64) -> Result<RecordBatch> {
        match self.order.kind {
            RowKind::Jpeg | RowKind::Png | RowKind::Own => self.pictures(first, rows),
            RowKind::Table => table::clicks(self.order.seed, first, rows as usize, &self.schema),
            RowKind::Tokens(length) => {
                table::tokens(self.order.seed, first, rows as usize, length, &self.schema)
            }
            RowKind::Embeddings => mlperf::embeddings(self.order.seed, first, rows as usize, &self.schema),
            RowKind::Features => mlperf::features(self.order.seed, first, rows as usize, &self.schema),
        }
    }

    fn pictures(&self, first: u64, rows: u64) -> Result<RecordBatch> {
        let rows = first..first + rows;
        let images: Vec<Vec<u8>> =
            rows.clone().into_par_iter().map(|row| self.picture(row)).collect::<Result<_>>()?;
        let labels: Int64Array = rows.map(|row| i64::from(self.label(row))).collect();
        let columns: [ArrayRef; 2] = [Arc::new(BinaryArray::from_iter_values(images)), Arc::new(labels)];
        RecordBatch::try_new(self.schema.clone(), columns.into()).or_fail()
    }

    fn label(&self, row: u64) -> u32 {
        match self.order.kind {
            RowKind::Own => self.order.gallery.label(row),
            _ => self.artist.label(row),
        }
    }

    fn picture(&self, row: u64) -> Result<Vec<u8>> {
        if self.order.kind == RowKind::Own {
            return self.order.gallery.image(row);
        }
        let (rgb, mut random) = self.artist.paint(row);
        let (width, height) = (self.order.width, self.order.height);
        match self.order.kind {
            RowKind::Png => encode::png(&rgb, width, height),
            _ => {
                let (low, high) = (*self.order.quality.start(), *self.order.quality.end());
                let quality = low + random.below(u32::from(high - low) + 1) as u8;
                encode::jpeg(&rgb, width, height, quality)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gallery;
    use super::*;

    #[test]
    fn only_files_that_synth_writes_are_its_own() {
        assert!(is_ours(&name(3, 17)) && is_ours(&(name(3, 17) + UNFINISHED)));
        for other in
            ["part-00003.parquet", "part-3-of-17.parquet", "train.parquet", "part-x-of-00017.parquet", ""]
        {
            assert!(!is_ours(other), "{other}");
        }
    }

    /// The work of a JPEG decoder grows with the number of bytes, so drawn pictures must have a realistic
    /// number.
    #[test]
    fn drawn_photographs_have_as_many_bytes_as_taken_ones() {
        let order = Order {
            kind: RowKind::Jpeg,
            width: 500,
            height: 375,
            quality: 90..=95,
            classes: 10,
            gallery: Gallery::default(),
            seed: 0,
        };
        let studio = Studio::new(&order);
        let sizes = (0..40).map(|row| studio.picture(row).map(|cell| cell.len() as f64 / (500.0 * 375.0)));
        let sizes: Vec<f64> = sizes.collect::<Result<_>>().unwrap();
        let mean = sizes.iter().sum::<f64>() / 40.0;
        let deviation = (sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 40.0).sqrt();
        assert!((0.30..0.40).contains(&mean) && (0.06..0.16).contains(&deviation), "{mean} ± {deviation}");
    }
}
