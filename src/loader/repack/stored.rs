//! Lets the Parquet crate read a file of a data set from any store, by implementing its traits for random
//! access.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use forebay_arrow::fail::Foreign;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::Catalog;
use forebay_store::source::Store;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::loader::dataset::Dataset;
use crate::loader::threads::IoRuntime;

/// The number of bytes that one request reads if a file is read sequentially.
const BLOCK_BYTES: u64 = 8 << 20;

/// A file of a data set. Reads fail if the file was changed since the data set was opened.
#[derive(Clone)]
pub(super) struct StoredFile {
    io: Arc<IoRuntime>,
    store: Store,
    catalog: Arc<Catalog>,
    file: usize,
}

impl StoredFile {
    pub(super) fn new(dataset: &Dataset, file: usize) -> Result<Self> {
        let (io, store) = dataset.here()?;
        Ok(StoredFile { io, store, catalog: dataset.catalog.clone(), file })
    }

    /// Reads the footer, and the page indexes if the file has them.
    pub(super) fn metadata(&self) -> Result<ParquetMetaData> {
        let read = || {
            let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
            reader.parse_and_finish(self).map_err(ours)
        };
        caught(read).unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")))
    }

    /// The bytes `start..start + length` of the file, or an error.
    pub(super) fn read(&self, start: u64, length: u64) -> Result<Bytes> {
        let (store, catalog, file) = (self.store.clone(), self.catalog.clone(), self.file);
        let range = start..start.saturating_add(length);
        let read = async move { store.read_ranges(&catalog.files[file], &[range]).await };
        let mut read = self.io.wait_for(read)??;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read returned nothing"))
    }
}

impl Length for StoredFile {
    fn len(&self) -> u64 {
        self.catalog.files[self.file].size
    }
}

impl ChunkReader for StoredFile {
    type T = Blocks;

    fn get_read(&self, start: u64) -> ParquetResult<Blocks> {
        Ok(Blocks { file: self.clone(), at: start, block: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if start.saturating_add(length as u64) > self.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} of {}", self.len())));
        }
        self.read(start, length as u64).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads a file sequentially from some offset, in blocks of [`BLOCK_BYTES`].
pub(super) struct Blocks {
    file: StoredFile,
    /// The offset of the next block.
    at: u64,
    block: Bytes,
}

impl Read for Blocks {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let length = BLOCK_BYTES.min(self.file.len().saturating_sub(self.at));
            if length == 0 || to.is_empty() {
                return Ok(0);
            }
            self.block = self.file.read(self.at, length).map_err(io::Error::other)?;
            self.at += length;
        }
        let count = to.len().min(self.block.len());
        self.block.copy_to_slice(&mut to[..count]);
        Ok(count)
    }
}

/// Converts an error of the Parquet crate. If it wraps an error of this crate or of a disk, that error is
/// returned.
pub(super) fn ours(error: ParquetError) -> Error {
    let ParquetError::External(inner) = error else { return error.into_error() };
    let inner = match inner.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(inner) => inner,
    };
    match inner.downcast::<io::Error>() {
        Ok(disk) => match disk.downcast::<Error>() {
            Ok(ours) => ours,
            Err(disk) => Error::new(ErrorKind::Io, disk.to_string()),
        },
        Err(inner) => ParquetError::External(inner).into_error(),
    }
}
