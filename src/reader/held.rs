//! Lets the Parquet crate read a part of a file from memory.

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// A part of a file in memory, which begins at the offset `start` of the file.
pub(crate) struct Held {
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
}

impl Length for Held {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Held {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let length = self.len().saturating_sub(start) as usize;
        self.get_bytes(start, length).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let from = start.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        let range = range.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start}")))?;
        Ok(self.bytes.slice(range))
    }
}
