//! Reads a few columns of single files of a table, to find the rows that the table deletes, and the row ids
//! that its files store.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use forebay_arrow::array::ArrayRef;
use forebay_arrow::convert::{Trouble, converted};
use forebay_arrow::datatypes::{DataType, SchemaRef};
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::footer::whole;
use super::store::Store;
use crate::snapshot::{ColumnNames, DataFile};

/// The most rows that are decoded at a time.
const AT_ONCE: usize = 8_192;

/// A column to read, and the type to read it as.
pub(super) struct WantedColumn {
    /// The name of the column in the table.
    pub(super) name: String,
    pub(super) data_type: DataType,
}

/// Some consecutive rows of a file: their number, and an array for each wanted column, or `None` if the file
/// lacks the column.
pub(super) struct StoredRows {
    pub(super) count: usize,
    pub(super) columns: Vec<Option<ArrayRef>>,
}

/// Reads the wanted columns of a file from its first row to its last, and passes some rows at a time to
/// `take`. The bytes of only one row group are in memory at a time.
///
/// # Errors
/// The errors of reading the file, and those that `take` returns.
pub(super) async fn each(
    store: &Store,
    file: &DataFile,
    names: &Arc<ColumnNames>,
    wanted: &[WantedColumn],
    mut take: impl FnMut(StoredRows) -> Result<()>,
) -> Result<()> {
    let (metadata, columns) = whole(store, file, names).await?;
    let places: Vec<_> = wanted.iter().map(|wanted| columns.schema.index_of(&wanted.name).ok()).collect();
    for wanted in wanted {
        if let Some(error) = columns.refused.get(&wanted.name) {
            return Err(error.clone());
        }
    }
    let mut roots: Vec<usize> = places.iter().flatten().copied().collect();
    roots.sort_unstable();
    roots.dedup();
    let leaves = columns.leaves_of(&roots);
    let metadata = Arc::new(metadata);
    for group in 0..metadata.num_row_groups() {
        let about = metadata.row_group(group);
        let rows = usize::try_from(about.num_rows()).unwrap_or(0);
        if leaves.is_empty() {
            take(StoredRows { count: rows, columns: places.iter().map(|_| None).collect() })?;
            continue;
        }
        let ranges = leaves.iter().map(|&leaf| {
            let (start, length) = about.column(leaf).byte_range();
            start..start.saturating_add(length)
        });
        let ranges: Vec<Range<u64>> = ranges.collect();
        let parts = store.read_within(file.volume, &file.pin, &ranges).await?;
        let parts = Parts { size: file.pin.size, parts: ranges.into_iter().zip(parts).collect() };
        let read = caught(|| {
            let reader = reader(parts, &metadata, columns.schema.clone(), &leaves, group)?;
            for batch in reader {
                let batch = batch.map_err(|error| malformed(&error.to_string()))?;
                let of = |(wanted, place): (&WantedColumn, &Option<usize>)| {
                    let Some(root) = place else { return Ok(None) };
                    let at = roots.binary_search(root).unwrap_or_default();
                    let array = converted(batch.column(at), &wanted.data_type)
                        .map_err(|trouble| unlike(&trouble, wanted))?;
                    Ok(Some(array))
                };
                let columns = wanted.iter().zip(&places).map(of).collect::<Result<_>>()?;
                take(StoredRows { count: batch.num_rows(), columns })?;
            }
            Ok(())
        });
        read.unwrap_or_else(|_| Err(malformed("its pages make no sense")))?;
    }
    Ok(())
}

fn reader(
    parts: Parts,
    metadata: &Arc<ParquetMetaData>,
    schema: SchemaRef,
    leaves: &[usize],
    group: usize,
) -> Result<parquet::arrow::arrow_reader::ParquetRecordBatchReader> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(schema);
    let failed = |error: ParquetError| malformed(&error.to_string());
    let about = ArrowReaderMetadata::try_new(metadata.clone(), options).map_err(failed)?;
    let mask = ProjectionMask::leaves(metadata.file_metadata().schema_descr(), leaves.iter().copied());
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(parts, about);
    builder
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(AT_ONCE)
        .build()
        .map_err(failed)
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the file cannot be read: {why}"))
}

fn unlike(trouble: &Trouble, wanted: &WantedColumn) -> Error {
    let why = match trouble {
        Trouble::Value(misfit) => misfit.cause.clone(),
        Trouble::Types(error) => error.to_string(),
    };
    Error::new(ErrorKind::Unsupported, format!("column {:?} is not of its table's type: {why}", wanted.name))
}

/// The parts of a file that were read, each with its byte range. The Parquet crate reads pages from them.
struct Parts {
    size: u64,
    parts: Vec<(Range<u64>, Bytes)>,
}

impl Parts {
    fn from(&self, start: u64) -> parquet::errors::Result<Bytes> {
        let part = self.parts.iter().find(|(range, _)| range.contains(&start));
        let (range, bytes) =
            part.ok_or_else(|| ParquetError::General("a page beyond its column".to_owned()))?;
        Ok(bytes.slice((start - range.start) as usize..))
    }
}

impl Length for Parts {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Parts {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.from(start)?;
        match bytes.len() >= length {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF("a page that ends beyond its column".to_owned())),
        }
    }
}
