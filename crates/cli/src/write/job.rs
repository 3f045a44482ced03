//! Writes the files of a job. After an interruption each file is either complete or missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::DataType;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::source::{Destination, Resumed, is_inside};
use parquet::arrow::ArrowWriter;
use rayon::ThreadPool;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::division::{Division, WrittenPart};
use super::source::{RowSource, TableSource, WriteSource};
use crate::parquet_files::{self, to_disk};

/// The largest nesting depth of a column's type. Parquet that is nested more deeply cannot be read back.
const MAX_DEPTH: usize = 60;
/// The number of threads that send files to a store.
const SENDING_THREADS: usize = 2;

/// Everything that decides which files are written, and where.
pub(super) struct Job<'a> {
    pub(super) source: &'a WriteSource,
    pub(super) from: &'a Path,
    pub(super) to: &'a str,
    /// The options of the store that is written to.
    pub(super) storage: BTreeMap<String, String>,
    /// The seed by which rows are mixed.
    pub(super) shuffle: Option<u64>,
    pub(super) row_group_bytes: Option<u64>,
    /// The options that decide what is written, by their names.
    pub(super) options: Value,
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

impl Job<'_> {
    /// Writes all files that are not there yet. Calls `done` with the number of bytes that were read.
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
        let division = Division::new(self.source, self.shuffle, self.row_group_bytes);
        let Resumed { complete, lock } = wait(&runtime, destination.resume(&self.record(&division)))?;
        let mut output = PartWriter {
            job: self,
            division: &division,
            destination,
            runtime,
            complete,
            written: JobTotals::default(),
            rows: AtomicU64::new(0),
        };
        let count = division.parts.len() as u64;
        for (number, part) in (0..).zip(&division.parts) {
            output.write_part(part, &parquet_files::name(number, count), done)?;
        }
        output.check_rows()?;
        output.destination.finish()?;
        drop(lock);
        Ok(output.written)
    }

    /// The text that identifies the job. It contains a hash of the rows to read, and the options.
    fn record(&self, division: &Division<'_>) -> String {
        let record = json!({
            "written_by": concat!("forebay ", env!("CARGO_PKG_VERSION")),
            "kind": self.source.kind(),
            "items": division.items(),
            "row_group_bytes": division.row_group_bytes,
            "options": self.options,
            "fingerprint": format!("{:016x}", division.fingerprint()),
        });
        format!("{record:#}\n")
    }
}

/// Writes the files of one job.
struct PartWriter<'a> {
    job: &'a Job<'a>,
    division: &'a Division<'a>,
    destination: Destination,
    runtime: Runtime,
    /// The names of files that an interrupted run completed.
    complete: BTreeSet<String>,
    written: JobTotals,
    /// The number of rows that this run has written.
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
            done(self.division.bytes(part));
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

    /// Writes one file.
    fn make(&self, part: &WrittenPart, path: &Path, done: &mut (dyn FnMut(u64) + Send)) -> Result<()> {
        let schema = self.job.source.schema();
        let file = File::create(path).or_fail()?;
        let properties = parquet_files::properties(&schema);
        let mut writer = to_disk(ArrowWriter::try_new(file, schema, Some(properties)))?;
        match (part, self.job.source) {
            (WrittenPart::Rows(groups), WriteSource::Rows(rows)) => {
                self.write_rows(&**rows, groups, &mut writer, done)?
            }
            (WrittenPart::Tables(files), WriteSource::Tables(tables)) => {
                self.write_tables(&**tables, files.clone(), &mut writer, done)?;
            }
            // A source of rows is divided into rows and a source of tables into tables, so these combinations
            // do not occur.
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
        let read = |group: &Range<usize>| rows.read(&self.division.order[group.clone()]);
        let mut next = groups.first().map(|group| self.job.pool.install(|| read(group)));
        for (number, group) in groups.iter().enumerate() {
            let Some(batch) = next.take() else { break };
            let batch = batch?;
            let mut write = || -> Result<()> {
                self.rows.fetch_add(batch.num_rows() as u64, Relaxed);
                to_disk(writer.write(&batch))?;
                to_disk(writer.flush())?;
                done(group.clone().map(|row| rows.row_bytes(self.division.order[row])).sum());
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
        let limit = self.division.row_group_bytes as usize;
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

/// Blocks until work on a store is done.
#[allow(clippy::disallowed_methods, reason = "the runtime is the command's own")]
fn wait<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    runtime.block_on(work)
}

/// The nesting depth of a type in Parquet, where a list counts as two levels.
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
