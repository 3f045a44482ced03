//! Footers: read side by side and checked. What plans and reads need of them is kept ([`Footer`]).

mod assemble;
mod claims;
mod kept;
mod later;
mod mend;
mod structure;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use forebay_arrow::fail::OrFail;
use forebay_base::panics::caught;
use forebay_base::promise::Promise;
use forebay_base::{Error, ErrorKind, Place, Result};
use futures::{FutureExt, StreamExt, stream};
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetStatisticsPolicy, RowGroupMetaData,
};
use tokio::sync::SemaphorePermit;
use xxhash_rust::xxh3::xxh3_64;

use super::index::Packing;
use super::list::{FolderFilter, KeyTypes, settle};
use super::metadata_cache;
use super::other_formats::OtherFormat;
use super::store::Store;
use crate::catalog::{FileColumns, Footer, KnownColumns};
use crate::snapshot::{DataFile, Pin};

use kept::Kept;

pub(super) use assemble::assemble;
pub(super) use kept::KeptFooters;
pub(super) use later::FooterTurns;
pub use later::Footers;

/// Footers that are read at the same time. More hides the latency of a slow disk, and costs a thread each.
pub const FOOTERS_AT_ONCE: usize = 16;

/// Bytes read at a file's end, which usually hold the whole footer; a larger one costs a second read.
pub(super) const TAIL: u64 = 64 << 10;

/// The end of every Parquet file: the length of its metadata, and the magic.
const ENDING: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// Bytes of a file that is not Parquet that the message shows.
const BYTES_SHOWN: u64 = 8;

/// The longest footer that is read. Those of the widest real data sets take tens of megabytes; one that claims more is
/// suspicious, and is not allocated.
pub(super) const LONGEST_FOOTER: u64 = 128 << 20;

/// The most rows that a row group of any size may have, and for each of its bytes beyond that. A plan takes memory for
/// each row long before the pages are read; real row groups have a few rows per byte at best.
const ROWS_FOR_NOTHING: u64 = 1 << 24;
const ROWS_A_BYTE: u64 = 1024;

/// Bytes of large footers that are read and parsed at the same time, by all files together.
const FOOTER_BYTES_AT_ONCE: u32 = LONGEST_FOOTER as u32;

/// The memory that reading footers may take beside what is kept of them: of a few at once, while they are parsed.
const WHILE_READ: u64 = 8 << 20;

/// What a user can do about a file that is damaged, or none of Parquet.
const IF_DAMAGED: &str = "write or copy the file again, or name the files without it";

fn encrypted_error() -> Error {
    Error::new(ErrorKind::Unsupported, "the file is encrypted, which is not read")
        .hint("write it without encryption, or name the files without it")
}

/// A file with its footer, unless that is read later.
pub(super) struct Opened {
    file: DataFile,
    footer: Option<Footer>,
    /// Key-value metadata, of the first file only.
    key_values: Option<Vec<KeyValue>>,
}

/// A footer that was parsed and checked.
struct Parsed {
    hash: u64,
    metadata: ParquetMetaData,
    /// Those of the file by itself.
    columns: Arc<FileColumns>,
}

/// The files of the folders that a filter keeps, with the folders' keys as constants. Reads one footer: a key that the files
/// hold as a column is none of the folders'.
pub(super) async fn kept_files(
    store: &Store,
    kept: &KeptFooters,
    mut files: Vec<DataFile>,
    folders: &FolderFilter,
    types: &KeyTypes,
) -> Result<Vec<DataFile>> {
    let first: Vec<DataFile> = files.first().cloned().into_iter().collect();
    let first = read_all(store, kept, first, &Arc::new(KnownColumns::default()), None).await?;
    let stored = first.iter().find_map(|first| Some(first.footer.as_ref()?.columns.schema.clone()));
    settle(files.iter_mut(), types, |key| {
        stored.as_ref().is_some_and(|stored| stored.column_with_name(key).is_some())
    })?;
    files.retain(|file| file.constants.is_empty() || (folders.keeps)(&file.constants));
    match files.is_empty() {
        true => Err(no_folder()),
        false => Ok(files),
    }
}

/// No folder is left of a data set.
pub fn no_folder() -> Error {
    Error::invalid("no row is selected").hint("the filter matches no folder")
}

/// Reads the footers of files; fails with the first file, of those that were asked for, that cannot be read. Not those of
/// files whose rows and columns are declared, once there is one whose costs stand for theirs. They are packed as well, if they are
/// to be handed on.
pub(super) async fn read_all(
    store: &Store,
    kept: &KeptFooters,
    files: Vec<DataFile>,
    known: &Arc<KnownColumns>,
    mut packing: Option<&mut Packing>,
) -> Result<Vec<Opened>> {
    let _promise = Promise::new(WHILE_READ);
    let is_late = are_late(&files);
    let read_now = || files.iter().zip(&is_late).filter(|(_, is_late)| !**is_late).map(|(file, _)| file);
    let is_packed = packing.is_some();
    let mut renewal = kept.renew(read_now().map(|file| (&*file.whole, &file.pin)));
    let at_once = FOOTERS_AT_ONCE.max(store.row_groups_at_once());
    let mut opened: Vec<Option<Opened>> = files.iter().map(|_| None).collect();
    // No more are asked for then.
    let has_failed = AtomicBool::new(false);
    let asked_for = files.into_iter().zip(is_late).enumerate().take_while(|_| !has_failed.load(Relaxed));
    let reads = asked_for.map(|(at, (mut file, is_late))| {
        let key = metadata_cache::key(&file.whole, &file.pin);
        let found = kept.get(&file.whole, &file.pin);
        let is_for_cache = Kept::is_for_cache(found.as_ref());
        let is_wanted = is_packed || is_for_cache;
        let (known, tail) = (known.clone(), file.tail.take());
        async move {
            if is_late {
                let bytes = found.filter(|_| is_for_cache).map(|kept| kept.bytes);
                return Ok((Opened { file, footer: None, key_values: None }, key, is_for_cache, bytes));
            }
            let place = file.place();
            let read = async {
                let size = file.pin.size;
                let parsed = |bytes: Bytes| {
                    let (known, file) = (known.clone(), &file);
                    async move {
                        let Parsed { hash, metadata, columns } =
                            on_runtime(move || parse(&bytes, size, &known)).await?;
                        let metadata = claims::with_sizes(store, file.volume, &file.pin, metadata).await?;
                        on_runtime(move || {
                            let key_values =
                                metadata.file_metadata().key_value_metadata().filter(|_| at == 0);
                            Ok((Footer::new(hash, columns, &metadata)?, key_values.cloned()))
                        })
                        .await
                    }
                };
                // The file is not to blame for what was kept of it elsewhere.
                let sound = match found {
                    Some(kept) => parsed(kept.bytes.clone()).await.ok().map(|footer| (kept.bytes, footer)),
                    None => None,
                };
                let (bytes, (footer, key_values)) = match sound {
                    Some(sound) => sound,
                    None => {
                        let (bytes, _permit) = fetch(store, file.volume, &file.pin, tail).await?;
                        (bytes.clone(), parsed(bytes).await?)
                    }
                };
                let opened = Opened { file, footer: Some(footer), key_values };
                Ok((opened, key, is_for_cache, is_wanted.then_some(bytes)))
            };
            read.await.map_err(|error: Error| error.at(place).hint_if_damaged(IF_DAMAGED))
        }
        .map(move |read| (at, read))
        .boxed()
    });
    // In any order, so that one that is late holds up no others.
    let mut reads = stream::iter(reads).buffer_unordered(at_once);
    let mut failed: Option<(usize, Error)> = None;
    while let Some((at, read)) = reads.next().await {
        match read {
            Ok((file, key, is_for_cache, bytes)) => {
                if let Some((renewal, bytes)) = renewal.as_mut().zip(bytes.as_ref().filter(|_| is_for_cache))
                {
                    renewal.add(key, bytes);
                }
                if let Some((packing, bytes)) = packing.as_mut().zip(bytes.filter(|_| file.footer.is_some()))
                {
                    packing.add(&file.file.whole, &file.file.pin, bytes)?;
                }
                opened[at] = Some(file);
            }
            Err(error) if failed.as_ref().is_none_or(|(first, _)| at < *first) => failed = Some((at, error)),
            Err(_) => {}
        }
        if let Some((first, _)) = &failed {
            has_failed.store(true, Relaxed);
            if opened[..*first].iter().all(Option::is_some) {
                break;
            }
        }
    }
    kept.warn_of_damage(store);
    if let Some((_, error)) = failed {
        return Err(error);
    }
    if let Some(renewal) = renewal {
        renewal.keep();
    }
    // The files that they were made of are not needed beside them, and neither is another list of as many.
    drop(reads);
    Ok(opened.into_iter().map_while(|file| file).collect())
}

/// Which files are planned with before their footers are read: those that are declared, behind the first that may hold rows.
fn are_late(files: &[DataFile]) -> Vec<bool> {
    let may_hold_rows =
        |file: &DataFile| file.row_counts.as_ref().is_none_or(|rows| rows.iter().any(|rows| *rows > 0));
    let first = files.iter().position(may_hold_rows).unwrap_or(files.len());
    files.iter().enumerate().map(|(at, file)| at > first && file.is_declared()).collect()
}

/// Runs work on the few threads of the runtime, and not on the many that wait for disks: each thread has a heap of its own,
/// which the footers would be strewn over.
async fn on_runtime<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::spawn(async move { work() }).await.unwrap_or_else(|error| match error.is_cancelled() {
        true => Err(Error::new(ErrorKind::Closed, "the runtime was shut down")),
        false => Err(Error::new(ErrorKind::Internal, error.to_string())),
    })
}

fn parse(bytes: &[u8], size: u64, known: &KnownColumns) -> Result<Parsed> {
    let oddities = structure::check(bytes)?;
    let plain;
    let read = match oddities.is_empty() {
        true => bytes,
        false => {
            plain = oddities.replaced(bytes);
            &plain
        }
    };
    let decoded = caught(|| {
        let first = decode(read, known);
        // Nearly no footer is looked at twice.
        match &first {
            Ok((_, columns)) if columns.refused.is_empty() => first,
            _ => mend::mended(read).map_or(first, |bytes| decode(&bytes, known)),
        }
    });
    let (metadata, columns) =
        decoded.unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")))?;
    let metadata = claims::with_places(metadata);
    check(&metadata, size, bytes.len() as u64)?;
    Ok(Parsed { hash: xxh3_64(bytes), metadata: claims::with_room(metadata, size), columns })
}

fn decode(bytes: &[u8], known: &KnownColumns) -> Result<(ParquetMetaData, Arc<FileColumns>)> {
    let decode = |statistics: ParquetStatisticsPolicy| {
        // Histograms of levels are two allocations for each column chunk, and encodings of each kind of page one more.
        let options = ParquetMetaDataOptions::new()
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_column_stats_policy(statistics);
        let metadata =
            ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
        let columns = known.of_file(metadata.file_metadata())?;
        Ok((metadata, columns))
    };
    // Statistics that make no sense are as good as none.
    decode(ParquetStatisticsPolicy::KeepAll).or_else(|error: Error| match error.kind() {
        ErrorKind::Corrupt => decode(ParquetStatisticsPolicy::SkipAll).map_err(|_| error),
        _ => Err(error),
    })
}

/// The footer's bytes, without its ending; and the permit to hold them, if they are more than the end of a file that is
/// read at once. `tail` is that end, where it is there already.
async fn fetch<'a>(
    store: &'a Store,
    volume: usize,
    pin: &Pin,
    tail: Option<Bytes>,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>)> {
    let size = pin.size;
    let read = |range| read_one(store, volume, pin, range);
    let tail = match tail {
        Some(tail) => tail,
        None => read(size.saturating_sub(TAIL)..size).await?,
    };
    let tail_start = size - tail.len() as u64;
    let Some((before, ending)) = tail.split_last_chunk::<{ ENDING as usize }>() else {
        return Err(not_parquet(&tail, pin));
    };
    let [length @ .., a, b, c, d] = *ending;
    match &[a, b, c, d] {
        MAGIC => {}
        MAGIC_ENCRYPTED => return Err(encrypted_error()),
        _ => return Err(not_parquet(&read(0..size.min(BYTES_SHOWN)).await?, pin)),
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
        let permit = store.footer_turns.large.acquire_many(length as u32).await;
        let permit = permit.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        return Ok((read(start..end).await?, Some(permit)));
    }
    // In bounds: both are in the tail.
    Ok((tail.slice((start - tail_start) as usize..before.len()), None))
}

async fn read_one(store: &Store, volume: usize, pin: &Pin, range: Range<u64>) -> Result<Bytes> {
    let mut read = store.read(volume, pin, &[range]).await?;
    read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))
}

/// The refusal of a file that begins like this, with what it is if that shows.
fn not_parquet(head: &[u8], pin: &Pin) -> Error {
    if head.starts_with(MAGIC) {
        return Error::new(
            ErrorKind::Corrupt,
            "the file is truncated: it begins as Parquet, but has no footer",
        );
    }
    let shown: String =
        head.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from).collect();
    let error = Error::new(ErrorKind::Corrupt, format!("not a Parquet file: starts with \"{shown}\""));
    match OtherFormat::of_file(head, pin.path.filename().unwrap_or_default()) {
        Some(format) => error.hint(format.hint()),
        None => error,
    }
}

/// Whether what the footer, which takes `length` bytes, says can be: every later room relies on it.
fn check(metadata: &ParquetMetaData, size: u64, length: u64) -> Result<()> {
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
        check_chunks(group, size, length).map_err(|error| error.at(Place::default().row_group(index)))?;
    }
    Ok(())
}

fn check_chunks(group: &RowGroupMetaData, size: u64, length: u64) -> Result<()> {
    let mut stored = 0u64;
    for chunk in group.columns() {
        let place = || Place::default().column(chunk.column_path().string());
        check_chunk(chunk, group.num_rows(), size, length).map_err(|error| error.at(place()))?;
        stored = stored.saturating_add(chunk.byte_range().1);
    }
    let rows = group.num_rows().max(0).cast_unsigned();
    if rows > ROWS_FOR_NOTHING.max(stored.saturating_mul(ROWS_A_BYTE)) {
        let cause = format!("a row group of {rows} rows in {stored} bytes");
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("rewrite the file with smaller row groups"));
    }
    // Memory is granted by stored bytes: bytes that many columns share would count for each.
    if stored > size {
        let cause = format!("the column chunks are said to be {stored} bytes, in a file of {size}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, rows: i64, size: u64, footer: u64) -> Result<()> {
    let corrupt = |cause: String| Err(Error::new(ErrorKind::Corrupt, cause));
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.checked_add(chunk.compressed_size());
    let is_before = |limit: u64| end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= limit);
    // The name may be that of this very file, or one that it had.
    let is_named = chunk.file_path().is_some_and(|path| !path.is_empty());
    if is_named && !is_before(size.saturating_sub(footer.saturating_add(ENDING))) {
        return Err(Error::new(ErrorKind::Unsupported, "the column chunk is kept in another file"));
    }
    let inside = is_before(size);
    if start < 0 || chunk.compressed_size() < 0 || !inside {
        let length = chunk.compressed_size();
        return corrupt(format!(
            "the column chunk is said to be {length} bytes at {start}, in a file of {size}"
        ));
    }
    let values = chunk.num_values();
    if values < 0 {
        return corrupt("the column chunk has a negative number of values".into());
    }
    // A row has one value, which may be null; of a nested column at least one.
    let is_nested = chunk.column_descr().max_rep_level() > 0;
    if values < rows || values > rows && !is_nested {
        return corrupt(format!("the column chunk has {values} values for {rows} rows"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_parquet_says_how_it_starts() {
        let said = |head: &[u8], name: &str| {
            let version = crate::snapshot::FileVersion::Modified(0);
            not_parquet(head, &Pin { path: name.into(), size: 8, version }).to_string()
        };
        assert_eq!(said(b"hello\n", "a.parquet"), "not a Parquet file: starts with \"hello\\n\"");
        assert!(said(b"PAR1abcd", "a.parquet").contains("truncated"));
        let csv = said(b"a,b\n1,2\n", "a.csv");
        assert!(
            csv.starts_with("not a Parquet file: starts with \"a,b\\n1,2\\n\" (CSV is not read: "),
            "{csv}"
        );
    }
}
