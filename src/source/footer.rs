//! Footers: read side by side, checked, and put together into a catalogue.

mod structure;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::Schema;
use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use xxhash_rust::xxh3::xxh3_64;

use super::clouds::MetadataCache as MetadataCacheChoice;
use super::list::Found;
use super::metadata_cache::{self, MetadataCache};
use super::store::Store;
use crate::catalog::{Catalog, File, Layout, unify};
use crate::error::{Error, ErrorKind, OrFail, Place, Result};
use crate::panics::caught;

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
    found: Found,
    hash: u64,
    metadata: ParquetMetaData,
    layout: Arc<Layout>,
    /// Key-value metadata, of the first file only.
    key_values: Option<Vec<KeyValue>>,
}

/// Reads the footers of all files, in their order; fails with the first that cannot be read. `kept` says where those of
/// remote files are kept from one time to the next.
pub(super) async fn read_all(
    store: &Store,
    found: Vec<Found>,
    kept: Option<MetadataCacheChoice>,
) -> Result<Vec<Footer>> {
    let (found, kept) = match store.is_local() {
        true => (found, None),
        false => {
            let load = move || {
                let kept = MetadataCache::load(kept, &found);
                Ok((found, kept))
            };
            store.blocking(load).await?
        }
    };
    let mut renewal = kept.as_ref().and_then(|kept| kept.renew(&found));
    let layouts = Arc::new(Layouts::default());
    let large = Semaphore::new(FOOTER_BYTES_AT_ONCE as usize);
    let large = &large;
    let at_once = FOOTERS_AT_ONCE.max(store.row_groups_at_once());
    let mut footers = Vec::with_capacity(found.len());
    let mut is_first = true;
    let reads = found.into_iter().map(|found| {
        let known = kept.as_ref().and_then(|kept| kept.get(&found));
        let (layouts, key) = (layouts.clone(), metadata_cache::key(&found));
        let first = std::mem::take(&mut is_first);
        async move {
            let place = found.place();
            let read = async {
                let (bytes, _permit) = match known {
                    Some(known) => (known, None),
                    None => fetch(store, &found, large).await?,
                };
                let parsed = bytes.clone();
                // By the few threads of the runtime, not by the many that wait for disks: each thread has a heap of its own,
                // which the footers would be strewn over.
                let parsing = tokio::spawn(async move { parse(found, &parsed, &layouts, first) });
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

/// Puts the files into a catalogue. Fails with `Unsupported` where their columns differ.
pub(super) fn assemble(footers: Vec<Footer>) -> Result<Catalog> {
    let location = |footer: &Footer| footer.found.shown.clone();
    let schemas: Vec<_> =
        footers.iter().map(|footer| (location(footer), footer.layout.schema.clone())).collect();
    let common = unify(&schemas)?;
    let key_values = footers.first().and_then(|footer| footer.key_values.clone()).unwrap_or_default();
    let pairs = key_values.into_iter().filter(|pair| pair.key != ARROW_SCHEMA);
    let pairs: HashMap<_, _> = pairs.filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let common = Arc::new(Schema::new_with_metadata(common.fields().clone(), pairs));

    let mut placed: HashMap<*const Layout, Arc<Layout>> = HashMap::new();
    let mut files = Vec::with_capacity(footers.len());
    for (footer, (location, _)) in footers.into_iter().zip(schemas) {
        let layout = match placed.get(&Arc::as_ptr(&footer.layout)) {
            Some(layout) => layout.clone(),
            None => {
                let layout = Arc::new(footer.layout.for_catalog(&common)?);
                placed.insert(Arc::as_ptr(&footer.layout), layout.clone());
                layout
            }
        };
        files.push(File {
            location,
            relative: footer.found.relative.into(),
            volume: footer.found.volume as u32,
            path: footer.found.pin.path,
            size: footer.found.pin.size,
            version: footer.found.pin.version,
            footer_hash: footer.hash,
            metadata: Arc::new(footer.metadata),
            layout,
        });
    }
    Catalog::new(files, common)
}

/// The layouts seen so far: files that were written alike share one, which is most of what a footer weighs.
#[derive(Default)]
struct Layouts {
    known: Mutex<Vec<(Option<String>, Arc<Layout>)>>,
}

impl Layouts {
    fn intern(&self, metadata: &FileMetaData) -> Result<Arc<Layout>> {
        let pairs = metadata.key_value_metadata();
        let hint = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == ARROW_SCHEMA)).cloned();
        let hint_text = hint.as_ref().and_then(|pair| pair.value.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = known
            .iter()
            .find(|(text, layout)| *text == hint_text && *layout.parquet == *metadata.schema_descr());
        if let Some((_, layout)) = alike {
            return Ok(layout.clone());
        }
        let layout =
            Arc::new(Layout::new(metadata.schema_descr_ptr(), hint.map(|pair| vec![pair]).as_ref())?);
        known.push((hint_text, layout.clone()));
        Ok(layout)
    }
}

fn parse(found: Found, bytes: &[u8], layouts: &Layouts, is_first: bool) -> Result<Footer> {
    structure::check(bytes)?;
    let decoded = caught(|| decode(bytes, layouts));
    let (metadata, layout) =
        decoded.unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")))?;
    check(&metadata, found.pin.size)?;

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
        layout.parquet.clone(),
        about.column_orders().cloned(),
    );
    let row_groups = metadata.into_builder().take_row_groups();
    let hash = xxh3_64(bytes);
    Ok(Footer { found, hash, metadata: ParquetMetaData::new(slim, row_groups), layout, key_values })
}

/// The footer's bytes, without its ending; and the permit to hold them, if they are more than the end of a file that is
/// read at once.
async fn fetch<'a>(
    store: &Store,
    found: &Found,
    large: &'a Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>)> {
    let size = found.pin.size;
    let read = |range| read_one(store, found, range);
    let tail = match &found.tail {
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

async fn read_one(store: &Store, found: &Found, range: Range<u64>) -> Result<Bytes> {
    let mut read = store.read(found.volume, &found.pin, &[range]).await?;
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

fn decode(bytes: &[u8], layouts: &Layouts) -> Result<(ParquetMetaData, Arc<Layout>)> {
    // Nobody asks for histograms of levels, which are two allocations for each column chunk.
    let options = ParquetMetaDataOptions::new().with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
    let layout = layouts.intern(metadata.file_metadata())?;
    if Arc::ptr_eq(&layout.parquet, &metadata.file_metadata().schema_descr_ptr()) {
        return Ok((metadata, layout));
    }
    // Once more, with the shared schema: each column chunk points into its schema, and would keep this one alive.
    drop(metadata);
    let options = options.with_schema(layout.parquet.clone());
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
    Ok((metadata, layout))
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
