//! The kinds of files that are written as Parquet.

use std::path::{Path, PathBuf};

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Place, Result};

use super::archives::Archives;
use super::arrow_files::ArrowFiles;
use super::cells::NamedColumns;
use super::csv_files::CsvFiles;
use super::folder::{self, DiskFile, FoundKind};
use super::images::ClassFolders;
use super::json_files::JsonFiles;
use super::mds::MdsShards;
use crate::units::counted;

/// Rows that can be read in any order, such as the images of a folder.
pub(super) trait RowSource: Send + Sync {
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
    /// Remarks for the user, such as the number of files that are left out.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Files whose rows are read from the first to the last.
pub(super) trait TableSource: Send + Sync {
    /// The kind in words.
    fn kind(&self) -> &'static str;
    /// The columns that are written.
    fn schema(&self) -> SchemaRef;
    /// The files, with their sizes.
    fn files(&self) -> &[DiskFile];
    /// Reads file `file` and hands on its rows, a few at a time.
    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()>;
}

/// The rows that are written as Parquet.
pub(super) enum WriteSource {
    Rows(Box<dyn RowSource>),
    Tables(Box<dyn TableSource>),
}

impl WriteSource {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            WriteSource::Rows(rows) => rows.kind(),
            WriteSource::Tables(tables) => tables.kind(),
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            WriteSource::Rows(rows) => rows.schema(),
            WriteSource::Tables(tables) => tables.schema(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        match self {
            WriteSource::Rows(rows) => rows.classes(),
            WriteSource::Tables(_) => &[],
        }
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            WriteSource::Rows(rows) => rows.remarks(),
            WriteSource::Tables(_) => Vec::new(),
        }
    }

    /// The bytes of all rows, or of all files.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            WriteSource::Rows(rows) => (0..rows.len()).map(|row| rows.row_bytes(row)).sum(),
            WriteSource::Tables(tables) => tables.files().iter().map(|file| file.bytes).sum(),
        }
    }
}

/// Recognises the files of a folder by their names.
///
/// Returns a remark on the other files as well.
pub(super) fn open(from: &Path, columns: NamedColumns) -> Result<(WriteSource, Option<String>)> {
    let found = folder::find(from)?;
    let Some(kind) = folder::kind(&found) else {
        let names: Vec<String> = found.iter().take(3).map(|file| file.relative.clone()).collect();
        let cause = match names.is_empty() {
            true => "the folder holds no files".to_owned(),
            false => format!("no file has a name that forebay write knows; it holds {}", names.join(", ")),
        };
        let is_packed = |file: &DiskFile| {
            [".tar.gz", ".tgz", ".tar.zst", ".zip"].iter().any(|ending| file.relative.ends_with(ending))
        };
        return Err(Error::invalid(cause).hint(match found.iter().any(is_packed) {
            true => "unpack archives first: tars are read without compression",
            false => {
                "it reads images, .tar, .csv, .tsv, .jsonl, .ndjson, .json, .arrow, .feather, and MDS with its index.json"
            }
        }));
    };
    let (files, others): (Vec<DiskFile>, Vec<DiskFile>) =
        found.into_iter().partition(|file| FoundKind::of_name(&file.relative) == Some(kind));
    let is_other = |file: &&DiskFile| !(kind == FoundKind::Mds && file.relative.contains(".mds"));
    let others = others.iter().filter(is_other).count() as u64;
    let remark = (others > 0)
        .then(|| format!("left out, since they are not {}: {}", kind.noun(), counted(others, "file")));
    let source = match kind {
        FoundKind::Image => WriteSource::Rows(Box::new(ClassFolders::open(files)?)),
        FoundKind::Tar => WriteSource::Rows(Box::new(Archives::open(files)?)),
        FoundKind::Csv => WriteSource::Tables(Box::new(CsvFiles::open(files, columns)?)),
        FoundKind::Json => WriteSource::Tables(Box::new(JsonFiles::open(files, columns)?)),
        FoundKind::Arrow => WriteSource::Tables(Box::new(ArrowFiles::open(files)?)),
        FoundKind::Mds => WriteSource::Tables(Box::new(MdsShards::open(&files)?)),
    };
    Ok((source, remark))
}

/// The error of a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => forebay_base::ErrorKind::NotFound,
        // A compressed file that is cut or damaged.
        std::io::ErrorKind::UnexpectedEof
        | std::io::ErrorKind::InvalidData
        | std::io::ErrorKind::InvalidInput => forebay_base::ErrorKind::Corrupt,
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

/// Reads a file that had a number of bytes when it was found.
pub(super) fn read_found(path: &Path, bytes: u64) -> Result<Vec<u8>> {
    let content = read_file(path)?;
    match content.len() as u64 == bytes {
        true => Ok(content),
        false => {
            let cause = format!(
                "the file changed while others were read: it had {bytes} bytes, and has {}",
                content.len()
            );
            let error = Error::new(forebay_base::ErrorKind::Corrupt, cause);
            Err(error.at(place(path)).hint("remove what was written, and write it again"))
        }
    }
}

/// The path of a file beside another one.
pub(super) fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}
