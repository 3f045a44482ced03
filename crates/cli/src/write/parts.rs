//! The files that are written: which rows each has, and how an interrupted run goes on.
//!
//! The division into files depends only on the source and the options. So a run that was interrupted can be
//! continued: files that are complete stay, and the others are written again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::DataType;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::source::{Destination, Resumed, is_inside};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use rayon::ThreadPool;
use serde_json::json;
use tokio::runtime::Runtime;
use xxhash_rust::xxh3::Xxh3;

use super::layout;
use super::source::{RowSource, TableSource, WriteSource};
use crate::random::Random;

/// The largest row group, unless the user says otherwise.
const ROW_GROUP_BYTES: u64 = 32 << 20;
/// The smallest row group that a small source is divided into, so that ranks and the shuffle have a choice.
const SMALL_ROW_GROUP_BYTES: u64 = 1 << 20;
/// The number of row groups that a small source is divided into.
const MIN_ROW_GROUPS: u64 = 16;
/// The number of row groups in a file.
const ROW_GROUPS_PER_FILE: usize = 16;
/// Parquet that nests deeper is not read.
const MAX_DEPTH: usize = 60;
/// The threads that send files to a store.
const SENDING_THREADS: usize = 2;

/// All that decides what is written, and to where.
pub(super) struct Job<'a> {
    pub(super) source: &'a WriteSource,
    pub(super) from: &'a Path,
    pub(super) to: &'a str,
    /// The options of the store that is written to.
    pub(super) storage: BTreeMap<String, String>,
    /// The seed by which rows are mixed.
    pub(super) shuffle: Option<u64>,
    pub(super) row_group_bytes: Option<u64>,
    /// Other options that decide what is written.
    pub(super) options: String,
    /// The threads that read.
    pub(super) pool: &'a ThreadPool,
}

/// The result of writing.
#[derive(Default)]
pub(super) struct JobTotals {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Files that an interrupted run had completed.
    pub(super) files_before: u64,
}

/// A file that is written.
#[derive(Debug, PartialEq)]
enum WrittenPart {
    /// Rows of the order, divided into row groups.
    Rows(Vec<Range<usize>>),
    /// Files that are read from the first row to the last.
    Tables(Range<usize>),
}

impl Job<'_> {
    /// Writes all files that are not there yet. `done` is called with the bytes that were read.
    pub(super) fn write(&self, done: &mut (dyn FnMut(u64) + Send)) -> Result<JobTotals> {
        for field in self.source.schema().fields() {
            if depth(field.data_type()) > MAX_DEPTH {
                let error = Error::new(
                    ErrorKind::Unsupported,
                    format!("a column nests more than {MAX_DEPTH} levels deep"),
                );
                let place = Place::file(self.from.display().to_string()).column(field.name().as_str());
                return Err(error.at(place).hint("--text writes a column of JSON as text"));
            }
        }
        let destination = Destination::parse(self.to, &self.storage)?;
        if is_inside(self.to, &self.from.display().to_string())? {
            let error = Error::invalid("the folder is inside the one that is read");
            return Err(error.at(destination.place("")).hint("name a folder beside it"));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(SENDING_THREADS)
            .enable_all()
            .build()
            .map_err(|error| Error::not_started("the threads that send files", &error))?;
        let order = self.order();
        let parts = self.parts(&order);
        let Resumed { complete, lock } = wait(&runtime, destination.resume(&self.record(&order)))?;
        let mut output = PartWriter {
            job: self,
            destination,
            runtime,
            order,
            complete,
            written: JobTotals::default(),
            rows: AtomicU64::new(0),
        };
        for (number, part) in parts.iter().enumerate() {
            output.write_part(part, &name(number, parts.len()), done)?;
        }
        output.check_rows()?;
        output.destination.finish()?;
        drop(lock);
        Ok(output.written)
    }

    /// The rows in the order in which they are written.
    fn order(&self) -> Vec<usize> {
        let WriteSource::Rows(rows) = self.source else { return Vec::new() };
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if let Some(seed) = self.shuffle {
            let mut random = Random::new(seed, 0);
            for last in (1..order.len()).rev() {
                // The high half of the product of 64 random bits and the number of choices.
                let drawn = (u128::from(random.bits()) * (last as u128 + 1)) >> u64::BITS;
                order.swap(last, drawn as usize);
            }
        }
        order
    }

    fn row_group_bytes(&self) -> u64 {
        let fitting = (self.source.bytes() / MIN_ROW_GROUPS).clamp(SMALL_ROW_GROUP_BYTES, ROW_GROUP_BYTES);
        self.row_group_bytes.unwrap_or(fitting).max(1)
    }

    fn parts(&self, order: &[usize]) -> Vec<WrittenPart> {
        let limit = self.row_group_bytes();
        match self.source {
            WriteSource::Rows(rows) => {
                let groups = runs(order.len(), limit, |row| rows.row_bytes(order[row]));
                groups.chunks(ROW_GROUPS_PER_FILE).map(|groups| WrittenPart::Rows(groups.to_vec())).collect()
            }
            WriteSource::Tables(tables) => {
                let limit = limit.saturating_mul(ROW_GROUPS_PER_FILE as u64);
                let files = tables.files();
                runs(files.len(), limit, |file| files[file].bytes)
                    .into_iter()
                    .map(WrittenPart::Tables)
                    .collect()
            }
        }
    }

    /// A text that differs for any other job: what is read, and the options.
    fn record(&self, order: &[usize]) -> String {
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        let count = match self.source {
            WriteSource::Rows(rows) => {
                order.iter().for_each(|row| add(&rows.identity(*row)));
                rows.len()
            }
            WriteSource::Tables(tables) => {
                let files = tables.files();
                files.iter().for_each(|file| add(&format!("{} {}", file.relative, file.bytes)));
                files.len()
            }
        };
        add(&format!("{:?}", self.source.schema()));
        let record = json!({
            "written_by": concat!("forebay ", env!("CARGO_PKG_VERSION")),
            "kind": self.source.kind(),
            "items": count,
            "shuffle": self.shuffle,
            "row_group_bytes": self.row_group_bytes(),
            "options": self.options,
            "fingerprint": format!("{:016x}", hash.digest()),
        });
        format!("{record:#}\n")
    }
}

/// The work on the files of one job.
struct PartWriter<'a> {
    job: &'a Job<'a>,
    destination: Destination,
    runtime: Runtime,
    order: Vec<usize>,
    /// The names of files that an interrupted run completed.
    complete: BTreeSet<String>,
    written: JobTotals,
    /// The rows that this run wrote.
    rows: AtomicU64,
}

impl PartWriter<'_> {
    fn write_part(
        &mut self,
        part: &WrittenPart,
        name: &str,
        done: &mut (dyn FnMut(u64) + Send),
    ) -> Result<()> {
        self.written.files += 1;
        if self.complete.contains(name) {
            self.written.files_before += 1;
            self.written.bytes += wait(&self.runtime, self.destination.file_bytes(name))?;
            done(self.bytes_of(part));
            return Ok(());
        }
        let unfinished = self.destination.unfinished(&format!("{name}{}", Destination::UNFINISHED))?;
        let made = self.make(part, &unfinished, done).and_then(|()| {
            let bytes = std::fs::metadata(&unfinished).or_fail()?.len();
            wait(&self.runtime, self.destination.put(&unfinished, name))?;
            self.written.bytes += bytes;
            Ok(())
        });
        made.map_err(|error| {
            // An incomplete file is of no use, and may be what fills the disk.
            let _ = std::fs::remove_file(&unfinished);
            match error.kind() == ErrorKind::Io && error.place().file.is_none() {
                true => error
                    .at(Place::file(unfinished.display().to_string()))
                    .hint("name a folder on a disk that has room; the same command then goes on"),
                false => error,
            }
        })
    }

    /// Refuses a job that found no rows.
    fn check_rows(&self) -> Result<()> {
        match self.rows.load(Relaxed) > 0 || self.written.files_before > 0 {
            true => Ok(()),
            false => {
                self.destination.abandon();
                let error = Error::invalid("the files have no rows").hint("there is nothing to write");
                Err(error.at(Place::file(self.job.from.display().to_string())))
            }
        }
    }

    fn bytes_of(&self, part: &WrittenPart) -> u64 {
        match (part, self.job.source) {
            (WrittenPart::Rows(groups), WriteSource::Rows(rows)) => {
                groups.iter().flat_map(Clone::clone).map(|row| rows.row_bytes(self.order[row])).sum()
            }
            (WrittenPart::Tables(files), WriteSource::Tables(tables)) => {
                tables.files()[files.clone()].iter().map(|file| file.bytes).sum()
            }
            _ => 0,
        }
    }

    /// Writes one file.
    fn make(&self, part: &WrittenPart, path: &Path, done: &mut (dyn FnMut(u64) + Send)) -> Result<()> {
        let schema = self.job.source.schema();
        let file = File::create(path).or_fail()?;
        let properties = layout::properties(&schema);
        let mut writer = to_disk(ArrowWriter::try_new(file, schema, Some(properties)))?;
        match (part, self.job.source) {
            (WrittenPart::Rows(groups), WriteSource::Rows(rows)) => {
                self.write_rows(&**rows, groups, &mut writer, done)?
            }
            (WrittenPart::Tables(files), WriteSource::Tables(tables)) => {
                self.write_tables(&**tables, files.clone(), &mut writer, done)?;
            }
            // Parts are those of the source.
            (WrittenPart::Rows(_), WriteSource::Tables(_))
            | (WrittenPart::Tables(_), WriteSource::Rows(_)) => {}
        }
        to_disk(writer.into_inner())?.sync_all().or_fail()
    }

    /// Writes row groups; while one is written, the next one is read.
    #[allow(clippy::disallowed_methods, reason = "it runs in the command's own pool")]
    fn write_rows(
        &self,
        rows: &dyn RowSource,
        groups: &[Range<usize>],
        writer: &mut ArrowWriter<File>,
        done: &mut (dyn FnMut(u64) + Send),
    ) -> Result<()> {
        let read = |group: &Range<usize>| rows.read(&self.order[group.clone()]);
        let mut next = groups.first().map(|group| self.job.pool.install(|| read(group)));
        for (number, group) in groups.iter().enumerate() {
            let Some(batch) = next.take() else { break };
            let batch = batch?;
            let mut write = || -> Result<()> {
                self.rows.fetch_add(batch.num_rows() as u64, Relaxed);
                to_disk(writer.write(&batch))?;
                to_disk(writer.flush())?;
                done(group.clone().map(|row| rows.row_bytes(self.order[row])).sum());
                Ok(())
            };
            let (wrote, following) =
                self.job.pool.install(|| rayon::join(&mut write, || groups.get(number + 1).map(read)));
            wrote?;
            next = following;
        }
        Ok(())
    }

    /// Writes the rows of files one after another, and ends a row group when it is large enough.
    fn write_tables(
        &self,
        tables: &dyn TableSource,
        files: Range<usize>,
        writer: &mut ArrowWriter<File>,
        done: &mut (dyn FnMut(u64) + Send),
    ) -> Result<()> {
        let limit = self.job.row_group_bytes() as usize;
        for file in files {
            let about = &tables.files()[file];
            let read = tables.read(file, &mut |batch: RecordBatch| {
                self.rows.fetch_add(batch.num_rows() as u64, Relaxed);
                to_disk(writer.write(&batch))?;
                match writer.in_progress_size() >= limit {
                    true => to_disk(writer.flush()),
                    false => Ok(()),
                }
            });
            read.map_err(|error| match error.place().file.is_none() && error.kind() != ErrorKind::Io {
                true => error.at(Place::file(about.path.display().to_string())),
                false => error,
            })?;
            done(about.bytes);
        }
        Ok(())
    }
}

/// Waits for work on a store, which nothing else does in this command.
#[allow(clippy::disallowed_methods, reason = "the runtime is the command's own")]
fn wait<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    runtime.block_on(work)
}

/// The levels of a type in Parquet, which has two for a list.
fn depth(of: &DataType) -> usize {
    match of {
        DataType::Struct(fields) => {
            1 + fields.iter().map(|field| depth(field.data_type())).max().unwrap_or(0)
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => 2 + depth(item.data_type()),
        _ => 1,
    }
}

/// Divides items into runs of at least `limit` bytes each, but for the last one.
fn runs(items: usize, limit: u64, bytes: impl Fn(usize) -> u64) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut sum) = (0, 0_u64);
    for item in 0..items {
        sum = sum.saturating_add(bytes(item));
        if sum >= limit {
            runs.push(start..item + 1);
            (start, sum) = (item + 1, 0);
        }
    }
    if start < items {
        runs.push(start..items);
    }
    runs
}

/// The name of file `number` of `count`.
fn name(number: usize, count: usize) -> String {
    format!("part-{number:05}-of-{count:05}.parquet")
}

/// The result of writing Parquet, where a disk that fails is not damaged Parquet.
fn to_disk<T>(written: std::result::Result<T, ParquetError>) -> Result<T> {
    written.map_err(|error| match error {
        ParquetError::External(source) if source.is::<std::io::Error>() => {
            Error::new(ErrorKind::Io, source.to_string())
        }
        ParquetError::NYI(what) | ParquetError::ArrowError(what) => {
            Error::new(ErrorKind::Unsupported, format!("Parquet has no place for this: {what}"))
        }
        other => other.into_error(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_all_items_and_are_as_large_as_asked_for() {
        assert_eq!(runs(5, 10, |_| 4), [0..3, 3..5]);
        assert_eq!(runs(3, 10, |_| 40), [0..1, 1..2, 2..3]);
        assert!(runs(0, 10, |_| 4).is_empty());
        assert_eq!(runs(2, u64::MAX, |_| u64::MAX), [0..1, 1..2]);
    }
}
