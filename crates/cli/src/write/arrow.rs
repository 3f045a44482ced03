//! Files and streams of Arrow, which Hugging Face's `datasets` saves to disk.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_arrow::error::ArrowError;
use forebay_arrow::ipc::reader::{FileReader, StreamReader};
use forebay_base::{Error, ErrorKind, Result};

use super::folder::Found;
use super::source::{Tables, place, unreadable};

/// The first bytes of a file with a footer; a stream has none.
const MAGIC: &[u8; 6] = b"ARROW1";
/// The first bytes of Feather's first version.
const FEATHER_V1: &[u8; 4] = b"FEA1";

/// The files of one table, all with the same columns.
pub(super) struct ArrowFiles {
    files: Vec<Found>,
    schema: SchemaRef,
}

/// Either form of a file.
enum Batches {
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl ArrowFiles {
    pub(super) fn open(files: Vec<Found>) -> Result<Self> {
        let Some(first) = files.first() else { return Err(Error::invalid("there are no files")) };
        let schema = Batches::open(&first.path)?.schema();
        for file in &files[1..] {
            if Batches::open(&file.path)?.schema().fields() != schema.fields() {
                let cause = format!("the columns are others than those of {}", first.path.display());
                return Err(Error::invalid(cause).at(place(&file.path)).hint("write them as two data sets"));
            }
        }
        Ok(ArrowFiles { files, schema })
    }
}

impl Tables for ArrowFiles {
    fn kind(&self) -> &'static str {
        "Arrow files"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[Found] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let path = &self.files[file].path;
        let mut batches = Batches::open(path)?;
        while let Some(batch) = batches.next() {
            let batch = batch.map_err(|error| damaged(path, error))?;
            // Later files may differ in their notes.
            take(batch.with_schema(self.schema.clone()).map_err(|error| damaged(path, error))?)?;
        }
        Ok(())
    }
}

impl Batches {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; MAGIC.len()];
        let read = reader.by_ref().take(MAGIC.len() as u64).read_exact(&mut head);
        read.and_then(|()| reader.rewind()).map_err(|error| unreadable(path, &error))?;
        if head.starts_with(FEATHER_V1) {
            let error = Error::new(ErrorKind::Unsupported, "this is the first version of Feather");
            return Err(error.at(place(path)).hint("write it again with pyarrow.feather.write_feather"));
        }
        let opened = match &head == MAGIC {
            true => FileReader::try_new(reader, None).map(Batches::File),
            false => StreamReader::try_new(reader, None).map(Batches::Stream),
        };
        opened.map_err(|error| damaged(path, error))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Batches::File(reader) => reader.schema(),
            Batches::Stream(reader) => reader.schema(),
        }
    }

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self {
            Batches::File(reader) => reader.next(),
            Batches::Stream(reader) => reader.next(),
        }
    }
}

fn damaged(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => unreadable(path, &error),
        other => {
            Error::new(ErrorKind::Corrupt, format!("this is not a file of Arrow: {other}")).at(place(path))
        }
    }
}
