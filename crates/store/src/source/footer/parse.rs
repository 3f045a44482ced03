//! Parses and checks the bytes of a footer.

use std::sync::Arc;

use forebay_arrow::fail::OrFail;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use xxhash_rust::xxh3::xxh3_64;

use super::check::check;
use super::fetch::fetch;
use super::names::renamed;
use super::{claims, mend, structure};
use crate::catalog::{FileColumns, KnownColumns};
use crate::snapshot::ColumnNames;
use crate::snapshot::DataFile;
use crate::source::store::Store;

/// A footer that was parsed and checked.
pub(super) struct Parsed {
    pub(super) hash: u64,
    pub(super) metadata: ParquetMetaData,
    /// The columns of the file, not yet mapped to those of a catalogue.
    pub(super) columns: Arc<FileColumns>,
}

/// Runs work on the few threads of the async runtime instead of its many blocking threads. The allocator has
/// a heap for each thread, so footers parsed on many threads would take more memory.
pub(super) async fn on_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::spawn(async move { work() }).await.unwrap_or_else(|error| match error.is_cancelled() {
        true => Err(Error::new(ErrorKind::Closed, "the runtime was shut down")),
        false => Err(Error::new(ErrorKind::Internal, error.to_string())),
    })
}

/// Reads the complete footer of a file of a table: its metadata, and its columns with their names in the
/// table.
pub(in crate::source) async fn whole(
    store: &Store,
    file: &DataFile,
    names: &Arc<ColumnNames>,
) -> Result<(ParquetMetaData, Arc<FileColumns>)> {
    let (bytes, _permit) = fetch(store, file.volume, &file.pin, None).await?;
    let (size, names) = (file.pin.size, names.clone());
    let parsed = on_runtime(move || parse(&bytes, size, &KnownColumns::default(), Some(&names))).await?;
    let metadata = claims::with_sizes(store, file.volume, &file.pin, parsed.metadata).await?;
    Ok((metadata, parsed.columns))
}

/// Parses and checks the bytes of a footer. In a file of a table, the columns are renamed to `names`.
pub(super) fn parse(
    bytes: &[u8],
    size: u64,
    known: &KnownColumns,
    names: Option<&ColumnNames>,
) -> Result<Parsed> {
    let edits = structure::check(bytes)?;
    let plain;
    let read = match edits.is_empty() {
        true => bytes,
        false => {
            plain = edits.applied(bytes);
            &plain
        }
    };
    let decoded = caught(|| {
        let first = decode(read, known, names);
        // A footer is repaired and parsed again only if parsing failed or refused a column, which is rare.
        match &first {
            Ok((_, columns)) if columns.refused.is_empty() => first,
            _ => mend::mended(read).map_or(first, |bytes| decode(&bytes, known, names)),
        }
    });
    let (metadata, columns) =
        decoded.unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the footer is malformed")))?;
    let metadata = claims::with_places(metadata);
    check(&metadata, size, bytes.len() as u64)?;
    Ok(Parsed { hash: xxh3_64(bytes), metadata: claims::with_room(metadata, size), columns })
}

fn decode(
    bytes: &[u8],
    known: &KnownColumns,
    names: Option<&ColumnNames>,
) -> Result<(ParquetMetaData, Arc<FileColumns>)> {
    let renamed = match names {
        Some(names) => {
            let schema = ParquetMetaDataReader::decode_schema(bytes).or_fail()?;
            Some(renamed(&schema, names)?)
        }
        None => None,
    };
    let decode = |statistics: ParquetStatisticsPolicy| {
        // Two kinds of statistics are skipped to save memory: histograms of levels would take two allocations
        // for each column chunk, and the encodings of its pages one more.
        let mut options = ParquetMetaDataOptions::new()
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_column_stats_policy(statistics);
        if let Some(renamed) = &renamed {
            options.set_schema(renamed.clone());
        }
        let metadata =
            ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_fail()?;
        let columns = known.of_file(metadata.file_metadata(), names.is_some())?;
        Ok((metadata, columns))
    };
    // If a footer is corrupt only in its statistics, it is decoded without them.
    decode(ParquetStatisticsPolicy::KeepAll).or_else(|error: Error| match error.kind() {
        ErrorKind::Corrupt => decode(ParquetStatisticsPolicy::SkipAll).map_err(|_| error),
        _ => Err(error),
    })
}
