//! Reads tables in Arrow's file format or stream format, such as Hugging Face's `datasets` saves to disk.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use forebay_arrow::array::{RecordBatch, RecordBatchOptions};
use forebay_arrow::datatypes::{DataType, Schema, SchemaRef};
use forebay_arrow::error::ArrowError;
use forebay_arrow::ipc::reader::{FileReader, StreamReader};
use forebay_base::error::caught;
use forebay_base::{Error, ErrorKind, Place, Result};

use super::folder::DiskFile;
use super::kept;
use super::read::{place, unreadable};
use super::source::TableSource;

/// The first bytes of Arrow's file format; its stream format does not begin with them.
const MAGIC: &[u8; 6] = b"ARROW1";
/// The first bytes of Feather's first version.
const FEATHER_V1: &[u8; 4] = b"FEA1";

/// The last bytes of a complete Arrow stream.
const END: &[u8; 8] = b"\xff\xff\xff\xff\0\0\0\0";

/// The files of one table, all with the same columns.
pub(super) struct ArrowFiles {
    files: Vec<DiskFile>,
    schema: SchemaRef,
}

/// The reader of a file, which has Arrow's file format or its stream format.
enum ArrowBatches {
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl ArrowFiles {
    pub(super) fn open(files: Vec<DiskFile>) -> Result<Self> {
        let Some(first) = files.first() else { return Err(Error::invalid("there are no files")) };
        let schema = ArrowBatches::open(&first.path)?.schema();
        check(&schema).map_err(|error| error.at(place(&first.path)))?;
        let schema = Arc::new(kept::schema(&schema));
        for file in &files[1..] {
            if kept::schema(&ArrowBatches::open(&file.path)?.schema()).fields() != schema.fields() {
                let cause = format!("the columns are others than those of {}", first.path.display());
                return Err(Error::invalid(cause).at(place(&file.path)).hint("write them as two data sets"));
            }
        }
        Ok(ArrowFiles { files, schema })
    }
}

impl TableSource for ArrowFiles {
    fn kind(&self) -> &'static str {
        "Arrow files"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[DiskFile] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let path = &self.files[file].path;
        let mut batches = ArrowBatches::open(path)?;
        // Arrow's reader panics on some damaged files, so panics are turned into errors.
        let mut next = || {
            let next = caught(|| Ok(batches.next()));
            next.map_err(|error| error.of_kind(ErrorKind::Corrupt).at(place(path)))
        };
        while let Some(batch) = next()? {
            let batch = batch.map_err(|error| damaged(path, error))?;
            let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
                kept::array(column).map_err(|error| error.at(place(path).column(field.name().as_str())))
            });
            let columns = columns.collect::<Result<_>>()?;
            // The metadata of later files' schemas may differ, so batches get the schema of the first file.
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
            take(batch.map_err(|error| damaged(path, error))?)?;
        }
        Ok(())
    }
}

impl ArrowBatches {
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
        if &head != MAGIC {
            let mut end = [0; END.len()];
            let read =
                reader.seek(SeekFrom::End(-(END.len() as i64))).and_then(|_| reader.read_exact(&mut end));
            read.and_then(|()| reader.rewind()).map_err(|error| unreadable(path, &error))?;
            if &end != END {
                let cause = "the stream has no end: it was cut, or is still written";
                return Err(Error::new(ErrorKind::Corrupt, cause).at(place(path)).hint("write it again"));
            }
        }
        let opened = match &head == MAGIC {
            true => FileReader::try_new(reader, None).map(ArrowBatches::File),
            false => StreamReader::try_new(reader, None).map(ArrowBatches::Stream),
        };
        opened.map_err(|error| damaged(path, error))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            ArrowBatches::File(reader) => reader.schema(),
            ArrowBatches::Stream(reader) => reader.schema(),
        }
    }

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self {
            ArrowBatches::File(reader) => reader.next(),
            ArrowBatches::Stream(reader) => reader.next(),
        }
    }
}

/// Refuses columns that Parquet cannot store.
fn check(schema: &Schema) -> Result<()> {
    for (at, field) in schema.fields().iter().enumerate() {
        let problem = match field.data_type() {
            _ if schema.fields()[..at].iter().any(|other| other.name() == field.name()) => {
                "another column has this name".to_owned()
            }
            of if is_foreign(of) => format!("Parquet has no place for {of}"),
            _ => continue,
        };
        let error = Error::new(ErrorKind::Unsupported, problem);
        return Err(error.at(Place::default().column(field.name().as_str())).hint("leave the column out"));
    }
    match schema.fields().is_empty() {
        true => Err(Error::invalid("there are no columns").hint("there is nothing to write")),
        false => Ok(()),
    }
}

/// Whether Parquet cannot store values of this type or of a type nested in it.
fn is_foreign(of: &DataType) -> bool {
    match of {
        DataType::Union(..) | DataType::FixedSizeBinary(0) | DataType::RunEndEncoded(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_foreign(item.data_type()),
        DataType::Struct(fields) => {
            fields.is_empty() || fields.iter().any(|field| is_foreign(field.data_type()))
        }
        _ => false,
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
