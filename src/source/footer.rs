//! Footers: read side by side and checked.

mod assemble;
mod structure;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use xxhash_rust::xxh3::xxh3_64;

use super::clouds::MetadataCache as MetadataCacheChoice;
use super::metadata_cache::{self, MetadataCache};
use super::store::Store;
use crate::catalog::FileColumns;
use crate::error::{Error, ErrorKind, OrFail, Place, Result};
use crate::panics::caught;
use crate::snapshot::DataFile;

pub(super) use assemble::assemble;

/// Footers that are read at the same time. More hides the latency of a slow disk, and costs a thread each.
const FOOTERS_AT_ONCE: usize = 16;

/// Bytes read at a file's end in the hope that the whole footer is among them. Most are smaller; a larger one costs a
/// second read.
pub(super) const TAIL: u64 = 64 << 10;

/// The end of every Parquet file: the length of its metadata, and the magic.
const ENDING: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// How many bytes of a file that is not Parquet the message shows.
const BYTES_SHOWN: u64 = 8;

/// The longest footer that is read. The widest of real data sets take tens of megabytes; one that claims more is a reason
/// to doubt it, not to allocate.
const LONGEST_FOOTER: u64 = 128 << 20;

/// The most rows that a row group may have whatever it takes, and for each of its bytes beyond that. A plan takes memory
/// for each row long before the pages are seen; real row groups have a few rows in a byte at best.
const ROWS_FOR_NOTHING: u64 = 1 << 24;
const ROWS_A_BYTE: u64 = 1024;

/// Bytes of large footers that are read and parsed at the same time, by all files together.
const FOOTER_BYTES_AT_ONCE: u32 = LONGEST_FOOTER as u32;

/// The key under which Arrow writers keep their schema.
const ARROW_SCHEMA: &str = "ARROW:schema";

const ENCRYPTED: &str = "the file is encrypted, which is not read";

/// A file with its footer.
pub(super) struct Footer {
    file: DataFile,
    hash: u64,
    metadata: ParquetMetaData,
    columns: Arc<FileColumns>,
    /// Key-value metadata, of the first file only.
    key_values: Option<Vec<KeyValue>>,
}

/// Reads the footers of all files, in their order; fails with the first that cannot be read. `kept` says where those of
/// remote files are kept from one time to the next.
pub(super) async fn read_all(
    store: &Store,
    files: Vec<DataFile>,
    kept: Option<MetadataCacheChoice>,
) -> Result<Vec<Footer>> {
    let (files, kept) = match store.is_local() {
        true => (files, None),
        false => {
            let load = move || {
                let kept = MetadataCache::load(kept, &files);
                Ok((files, kept))
            };
            store.blocking(load).await?
        }
    };
    let mut renewal = kept.as_ref().and_then(|kept| kept.renew(&files));
    let known_columns = Arc::new(KnownColumns::default());
    let large = Semaphore::new(FOOTER_BYTES_AT_ONCE as usize);
    let large = &large;
    let at_once = FOOTERS_AT_ONCE.max(store.row_groups_at_once());
    let mut footers = Vec::with_capacity(files.len());
    let mut is_first = true;
    let reads = files.into_iter().map(|file| {
        let known = kept.as_ref().and_then(|kept| kept.get(&file));
        let (known_columns, key) = (known_columns.clone(), metadata_cache::key(&file));
        let first = std::mem::take(&mut is_first);
        async move {
            let place = file.place();
            let read = async {
                let (bytes, _permit) = match known {
                    Some(known) => (known, None),
                    None => fetch(store, &file, large).await?,
                };
                let parsed = bytes.clone();
                // By the few threads of the runtime, not by the many that wait for disks: each thread has a heap of its own,
                // which the footers would be strewn over.
                let parsing = tokio::spawn(async move { parse(file, &parsed, &known_columns, first) });
                let footer = parsing.await.unwrap_or_else(|error| match error.is_cancelled() {
                    true => Err(Error::new(ErrorKind::Closed, "the runtime was shut down")),
                    false => Err(Error::new(ErrorKind::Internal, error.to_string())),
                })?;
                Ok((footer, key, bytes))
            };
            read.await.map_err(|error: Error| error.at(place))
        }
        .boxed()
    });
    let mut read = stream::iter(reads).buffered(at_once);
    while let Some((footer, key, bytes)) = read.try_next().await? {
        if let Some(renewal) = &mut renewal {
            renewal.add(key, &bytes);
        }
        footers.push(footer);
    }
    if let Some(renewal) = renewal {
        renewal.keep();
    }
    Ok(footers)
}

/// The columns seen so far: files that were written alike share one, which is most of what a footer weighs.
#[derive(Default)]
struct KnownColumns {
    known: Mutex<Vec<(Option<String>, Arc<FileColumns>)>>,
}

impl KnownColumns {
    fn intern(&self, metadata: &FileMetaData) -> Result<Arc<FileColumns>> {
        let pairs = metadata.key_value_metadata();
        let hint = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == ARROW_SCHEMA)).cloned();
        let hint_text = hint.as_ref().and_then(|pair| pair.value.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = known
            .iter()
            .find(|(text, columns)| *text == hint_text && *columns.parquet == *metadata.schema_descr());
        if let Some((_, columns)) = alike {
            return Ok(columns.clone());
        }
        let columns =
            Arc::new(FileColumns::new(metadata.schema_descr_ptr(), hint.map(|pair| vec![pair]).as_ref())?);
        known.push((hint_text, columns.clone()));
        Ok(columns)
    }
}

fn parse(file: DataFile, bytes: &[u8], known_columns: &KnownColumns, is_first: bool) -> Result<Footer> {
    structure::check(bytes)?;
    let decoded = caught(|| decode(bytes, known_columns));
    let (metadata, columns) =
        decoded.unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")))?;
    check(&metadata, file.pin.size)?;

    let about = metadata.file_metadata();
    let key_values = if is_first { about.key_value_metadata().cloned() } else { None };
    // The key-value metadata (pandas, Spark, Hugging Face) can outweigh all else, and is the same in every file.
    // The rows are counted afresh: some writers leave the total at 0, and the decoder stops where it says.
    let rows = metadata.row_groups().iter().map(RowGroupMetaData::num_rows).fold(0, i64::saturating_add);
    let slim = FileMetaData::new(
        about.version(),
        rows,
        about.created_by().map(str::to_owned),
        None,
        columns.parquet.clone(),
        about.column_orders().cloned(),
    );
    let row_groups = metadata.into_builder().take_row_groups();
    let hash = xxh3_64(bytes);
    Ok(Footer { file, hash, metadata: ParquetMetaData::new(slim, row_groups), columns, key_values })
}

/// The footer's bytes, without its ending; and the permit to hold them, if they are more than the end of a file that is
/// read at once.
async fn fetch<'a>(
    store: &Store,
    file: &DataFile,
    large: &'a Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>)> {
    let size = file.pin.size;
    let read = |range| read_one(store, file, range);
    let tail = match &file.tail {
        Some(tail) => tail.clone(),
        None => read(size.saturating_sub(TAIL)..size).await?,
    };
    let tail_start = size - tail.len() as u64;
    let Some((before, ending)) = tail.split_last_chunk::<{ ENDING as usize }>() else {
        return Err(not_parquet(&tail));
    };
    let [length @ .., a, b, c, d] = *ending;
    match &[a, b, c, d] {
        MAGIC => {}
        MAGIC_ENCRYPTED => return Err(Error::new(ErrorKind::Unsupported, ENCRYPTED)),
        _ => return Err(not_parquet(&read(0..size.min(BYTES_SHOWN)).await?)),
    }
    let length = u64::from(u32::from_le_bytes(length));
    let end = size - ENDING;
    let Some(start) = end.checked_sub(length).filter(|&start| start >= MAGIC.len() as u64) else {
        let cause = format!("the footer's length is given as {length} bytes, in a file of {size}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    };
    if length > LONGEST_FOOTER {
        let cause = format!("the footer is {length} bytes long; up to {LONGEST_FOOTER} are read");
        let error = Error::new(ErrorKind::TooLarge, cause);
        return Err(error.hint("rewrite the file with fewer columns or larger row groups"));
    }
    if start < tail_start {
        // Fits: the longest footer is no longer than what is read at once.
        let permit = large.acquire_many(length as u32).await;
        let permit = permit.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        return Ok((read(start..end).await?, Some(permit)));
    }
    // In bounds: both lie in the tail.
    Ok((tail.slice((start - tail_start) as usize..before.len()), None))
}

async fn read_one(store: &Store, file: &DataFile, range: Range<u64>) -> Result<Bytes> {
    let mut read = store.read(file.volume, &file.pin, &[range]).await?;
    read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
}

fn not_parquet(head: &[u8]) -> Error {
    if head.starts_with(MAGIC) {
        return Error::new(
            ErrorKind::Corrupt,
            "the file is truncated: it begins as Parquet, but has no footer",
        );
    }
    let shown: String =
        head.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from).collect();
    Error::new(ErrorKind::Corrupt, format!("not a Parquet file: starts with \"{shown}\""))
}

fn decode(bytes: &[u8], known_columns: &KnownColumns) -> Result<(ParquetMetaData, Arc<FileColumns>)> {
    // Nobody asks for histograms of levels, which are two allocations for each column chunk.
    let options = ParquetMetaDataOptions::new().with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
    let columns = known_columns.intern(metadata.file_metadata())?;
    if Arc::ptr_eq(&columns.parquet, &metadata.file_metadata().schema_descr_ptr()) {
        return Ok((metadata, columns));
    }
    // Once more, with the shared schema: each column chunk points into its schema, and would keep this one alive.
    drop(metadata);
    let options = options.with_schema(columns.parquet.clone());
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
    Ok((metadata, columns))
}

/// Whether what the footer says can be: every later room relies on it.
fn check(metadata: &ParquetMetaData, size: u64) -> Result<()> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let mut all_rows = 0i64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let corrupt =
            |cause: String| Err(Error::new(ErrorKind::Corrupt, cause).at(Place::default().row_group(index)));
        let rows = group.num_rows();
        if rows < 0 {
            return corrupt(format!("{rows} rows are declared"));
        }
        all_rows = match all_rows.checked_add(rows) {
            Some(all) => all,
            None => return corrupt(format!("{rows} more rows than the {all_rows} before cannot be counted")),
        };
        if group.num_columns() != columns {
            return corrupt(format!("{} column chunks for {columns} columns", group.num_columns()));
        }
        check_chunks(group, size).map_err(|error| error.at(Place::default().row_group(index)))?;
    }
    Ok(())
}

fn check_chunks(group: &RowGroupMetaData, size: u64) -> Result<()> {
    let mut stored = 0u64;
    for chunk in group.columns() {
        let place = || Place::default().column(chunk.column_path().string());
        check_chunk(chunk, group.num_rows(), size).map_err(|error| error.at(place()))?;
        stored = stored.saturating_add(chunk.byte_range().1);
    }
    let rows = group.num_rows().max(0).cast_unsigned();
    if rows > ROWS_FOR_NOTHING.max(stored.saturating_mul(ROWS_A_BYTE)) {
        let cause = format!("a row group of {rows} rows in {stored} bytes");
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("rewrite the file with smaller row groups"));
    }
    // Memory is allowed by what is stored: bytes that many columns share would count for each.
    if stored > size {
        let cause = format!("the column chunks are said to be {stored} bytes, in a file of {size}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, rows: i64, size: u64) -> Result<()> {
    let corrupt = |cause: String| Err(Error::new(ErrorKind::Corrupt, cause));
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.checked_add(chunk.compressed_size());
    let inside = end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= size);
    if start < 0 || chunk.compressed_size() < 0 || !inside {
        let length = chunk.compressed_size();
        return corrupt(format!(
            "the column chunk is said to be {length} bytes at {start}, in a file of {size}"
        ));
    }
    let values = chunk.num_values();
    if values < 0 || chunk.uncompressed_size() < 0 {
        return corrupt("the column chunk has a negative size".into());
    }
    // A row has one value, be it null; of a nested column at least one.
    let is_nested = chunk.column_descr().max_rep_level() > 0;
    if values < rows || values > rows && !is_nested {
        return corrupt(format!("the column chunk has {values} values for {rows} rows"));
    }
    if chunk.file_path().is_some_and(|path| !path.is_empty()) {
        return Err(Error::new(ErrorKind::Unsupported, "the column chunk is kept in another file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_parquet_says_how_it_starts() {
        assert_eq!(not_parquet(b"<html>\n").to_string(), "not a Parquet file: starts with \"<html>\\n\"");
        assert!(not_parquet(b"PAR1abcd").to_string().contains("truncated"));
    }
}
