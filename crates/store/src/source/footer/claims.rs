//! Corrects the offsets and sizes of column chunks that some writers leave out of the footer or get wrong.

use std::ops::Range;

use forebay_base::Result;
use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::catalog::page_header;
use crate::catalog::{leaf_width, writers};
use crate::snapshot::Pin;
use crate::source::store::Store;

/// The number of bytes that are read at first to parse a page header. If it is longer, more are read, up to
/// `LONGEST_HEADER`.
const HEADER_BYTES: u64 = 8 << 10;
const LONGEST_HEADER: u64 = 16 << 20;

/// The number of column chunks whose page headers are read at the same time.
const CHUNKS_AT_ONCE: usize = 256;

/// Column chunks of a fixed-width type are not checked if their decoded values take at most this many bytes.
const MAX_UNCHECKED_BYTES: u64 = 8 << 20;

/// Corrects the offset at which column chunks begin. If the offset of the dictionary page is 0 or after the
/// first data page, the chunk begins at the first data page.
pub(super) fn with_places(metadata: ParquetMetaData) -> ParquetMetaData {
    let is_wrong = |chunk: &ColumnChunkMetaData| {
        let offset = chunk.dictionary_page_offset();
        offset.is_some_and(|offset| offset <= 0 || offset > chunk.data_page_offset())
    };
    if !chunks(&metadata).any(is_wrong) {
        return metadata;
    }
    changed(metadata, |chunk| {
        let first = is_wrong(&chunk).then_some(chunk.data_page_offset())?;
        chunk.into_builder().set_dictionary_page_offset(Some(first)).build().ok()
    })
}

/// Makes column chunks longer, within a file of `size` bytes, if their writer left the header of the
/// dictionary page out of their length. Bytes after the last page are never decoded, so too many do no harm.
pub(super) fn with_room(metadata: ParquetMetaData, size: u64) -> ParquetMetaData {
    if !writers::leaves_out_dictionary_header(metadata.file_metadata().created_by()) {
        return metadata;
    }
    changed(metadata, |chunk| {
        let (start, length) = chunk.byte_range();
        let left = i64::try_from(size.saturating_sub(start.saturating_add(length))).unwrap_or(i64::MAX);
        let length = chunk.compressed_size() + left.min(writers::LEFT_OUT);
        chunk.into_builder().set_total_compressed_size(length).build().ok()
    })
}

/// Corrects the decompressed sizes of column chunks from their page headers, where the footer gives none or
/// just repeats the compressed size. The memory budget relies on these sizes.
pub(super) async fn with_sizes(
    store: &Store,
    volume: usize,
    pin: &Pin,
    metadata: ParquetMetaData,
) -> Result<ParquetMetaData> {
    let doubtful: Vec<Range<u64>> = chunks(&metadata).filter(|chunk| is_doubtful(chunk)).map(range).collect();
    if doubtful.is_empty() {
        return Ok(metadata);
    }
    let mut sizes = Vec::with_capacity(doubtful.len());
    for some in doubtful.chunks(CHUNKS_AT_ONCE) {
        sizes.extend(measured(store, volume, pin, some).await?);
    }
    let mut sizes = sizes.into_iter();
    Ok(changed(metadata, |chunk| {
        let size = is_doubtful(&chunk).then(|| sizes.next()).flatten()?;
        chunk.into_builder().set_total_uncompressed_size(i64::try_from(size).ok()?).build().ok()
    }))
}

/// Whether the footer's decompressed size of a chunk is unreliable and the chunk is large enough to matter.
fn is_doubtful(chunk: &ColumnChunkMetaData) -> bool {
    let (said, stored) = (chunk.uncompressed_size(), chunk.compressed_size());
    let is_said = said >= stored / 2 && said != stored;
    let descriptor = chunk.column_descr();
    let numbers = u64::try_from(chunk.num_values()).unwrap_or(0).saturating_mul(leaf_width(descriptor));
    let matters = descriptor.physical_type() == Type::BYTE_ARRAY || numbers > MAX_UNCHECKED_BYTES;
    chunk.compression() != Compression::UNCOMPRESSED && stored > 0 && !is_said && matters
}

/// Adds up the decompressed sizes of the pages of each chunk, from the page headers. A malformed header ends
/// the sum of its chunk without an error here; decoding the chunk gives a better one.
async fn measured(store: &Store, volume: usize, pin: &Pin, chunks: &[Range<u64>]) -> Result<Vec<u64>> {
    let mut sizes = vec![0u64; chunks.len()];
    // The chunks with pages left to measure: the index of the chunk, the offset of its next page, and the
    // number of bytes to read there.
    let mut left: Vec<(usize, u64, u64)> =
        chunks.iter().enumerate().map(|(at, chunk)| (at, chunk.start, HEADER_BYTES)).collect();
    while !left.is_empty() {
        let blocks = left.iter().map(|&(at, from, length)| from..chunks[at].end.min(from + length));
        let blocks: Vec<Range<u64>> = blocks.collect();
        let read = store.read(volume, pin, &blocks).await?;
        let mut next = Vec::with_capacity(left.len());
        for (((at, from, length), block), bytes) in left.into_iter().zip(blocks).zip(read) {
            let mut to = from;
            while let Some(rest) = usize::try_from(to - from).ok().and_then(|done| bytes.get(done..))
                && let Ok((page, header)) = page_header::read(rest)
            {
                to = to.saturating_add(header as u64).saturating_add(page.compressed.into());
                sizes[at] = sizes[at].saturating_add(header as u64).saturating_add(page.uncompressed.into());
            }
            match to {
                to if to >= chunks[at].end => {}
                to if to > from => next.push((at, to, HEADER_BYTES)),
                _ if block.end < chunks[at].end && length < LONGEST_HEADER => {
                    next.push((at, from, length * 8))
                }
                _ => {}
            }
        }
        left = next;
    }
    Ok(sizes)
}

fn chunks(metadata: &ParquetMetaData) -> impl Iterator<Item = &ColumnChunkMetaData> {
    metadata.row_groups().iter().flat_map(|group| group.columns())
}

/// The byte range of a chunk in its file. It cannot overflow, because it was checked before.
fn range(chunk: &ColumnChunkMetaData) -> Range<u64> {
    let (start, length) = chunk.byte_range();
    start..start + length
}

/// Applies `change` to column chunks; a chunk for which it returns `None` stays the same.
fn changed(
    metadata: ParquetMetaData,
    mut change: impl FnMut(ColumnChunkMetaData) -> Option<ColumnChunkMetaData>,
) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let columns = group.columns().iter().cloned();
        let columns = columns.map(|chunk| change(chunk.clone()).unwrap_or(chunk)).collect();
        let whole = group.clone();
        group.into_builder().set_column_metadata(columns).build().unwrap_or(whole)
    });
    let groups = groups.collect();
    builder.set_row_groups(groups).build()
}
