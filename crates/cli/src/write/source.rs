//! The kinds of files that are written as Parquet.

use std::path::{Path, PathBuf};

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Place, Result};

use super::archives::Archives;
use super::arrow::ArrowFiles;
use super::cells::Wanted;
use super::csv::CsvFiles;
use super::folder::{self, Found, FoundKind};
use super::images::ClassFolders;
use super::json::JsonFiles;
use super::mds::MdsShards;

/// Rows that can be read in any order, such as the images of a folder.
pub(super) trait Rows: Send + Sync {
    /// The kind in words, in the plural.
    fn kind(&self) -> &'static str;
    /// The columns that are written.
    fn schema(&self) -> SchemaRef;
    /// The number of rows.
    fn len(&self) -> usize;
    /// About how many bytes row `row` has.
    fn row_bytes(&self, row: usize) -> u64;
    /// A text that differs if row `row` was replaced by another one.
    fn identity(&self, row: usize) -> String;
    /// Reads these rows, on the threads of the current pool.
    fn read(&self, rows: &[usize]) -> Result<RecordBatch>;
    /// The names of the classes.
    fn classes(&self) -> &[String] {
        &[]
    }
    /// What the user should know about what is left out.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Files whose rows are read from the first to the last.
pub(super) trait Tables: Send + Sync {
    /// The kind in words.
    fn kind(&self) -> &'static str;
    /// The columns that are written.
    fn schema(&self) -> SchemaRef;
    /// The files, with their sizes.
    fn files(&self) -> &[Found];
    /// Reads file `file` and hands on its rows, a few at a time.
    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()>;
}

/// What is written as Parquet.
pub(super) enum Source {
    Rows(Box<dyn Rows>),
    Tables(Box<dyn Tables>),
}

impl Source {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Source::Rows(rows) => rows.kind(),
            Source::Tables(tables) => tables.kind(),
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Source::Rows(rows) => rows.schema(),
            Source::Tables(tables) => tables.schema(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        match self {
            Source::Rows(rows) => rows.classes(),
            Source::Tables(_) => &[],
        }
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            Source::Rows(rows) => rows.remarks(),
            Source::Tables(_) => Vec::new(),
        }
    }

    /// The bytes of all rows, or of all files.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Source::Rows(rows) => (0..rows.len()).map(|row| rows.row_bytes(row)).sum(),
            Source::Tables(tables) => tables.files().iter().map(|file| file.bytes).sum(),
        }
    }
}

/// Recognises the files of a folder by their names.
pub(super) fn open(from: &Path, columns: Wanted) -> Result<Source> {
    let found = folder::find(from)?;
    let Some(kind) = folder::kind(&found) else {
        let names: Vec<String> = found.iter().take(3).map(|file| file.relative.clone()).collect();
        let cause = match names.is_empty() {
            true => "the folder holds no files".to_owned(),
            false => format!("no file has a name that forebay write knows; it holds {}", names.join(", ")),
        };
        return Err(Error::invalid(cause)
            .hint("it reads images, .tar, .csv, .tsv, .jsonl, .ndjson, .json, .arrow, .feather and MDS"));
    };
    let (files, others): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|file| FoundKind::of_name(&file.relative) == Some(kind));
    Ok(match kind {
        FoundKind::Image => Source::Rows(Box::new(ClassFolders::open(files, others.len())?)),
        FoundKind::Tar => Source::Rows(Box::new(Archives::open(files)?)),
        FoundKind::Csv => Source::Tables(Box::new(CsvFiles::open(files, columns)?)),
        FoundKind::Json => Source::Tables(Box::new(JsonFiles::open(files, columns)?)),
        FoundKind::Arrow => Source::Tables(Box::new(ArrowFiles::open(files)?)),
        FoundKind::Mds => Source::Tables(Box::new(MdsShards::open(&files)?)),
    })
}

/// The error of a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => forebay_base::ErrorKind::NotFound,
        _ => forebay_base::ErrorKind::Io,
    };
    Error::new(kind, format!("this cannot be read: {error}")).at(place(path))
}

pub(super) fn place(path: &Path) -> Place {
    Place::file(path.display().to_string())
}

/// Reads a whole file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

/// The path of a file beside another one.
pub(super) fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}
