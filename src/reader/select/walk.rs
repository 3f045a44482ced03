//! Finds the pages of column chunks that have no offset index, by reading their page headers one after the
//! other.

use std::ops::Range;

use forebay_base::Result;
use forebay_store::catalog::page_header::{self, PageKind};
use forebay_store::catalog::pages::PageLocations;
use forebay_store::catalog::{ColumnChunk, File};
use forebay_store::source::Store;
use parquet::basic::Encoding;

/// The numbers that page headers use for the encodings of values that refer to a dictionary.
const DICTIONARY_ENCODINGS: [i32; 2] = [Encoding::PLAIN_DICTIONARY as i32, Encoding::RLE_DICTIONARY as i32];

/// The number of bytes that are read first to find a page header, and the most that are read if the header is
/// longer.
const HEADER_BYTES: u64 = 8 << 10;
const LONGEST_HEADER: u64 = 16 << 20;

/// Finds the pages that hold the first `wanted` of the `rows` rows in a column chunk. The rest of the chunk
/// counts as one page. Returns `None` if the pages are malformed, because decoding them gives a better error.
pub(super) async fn walked(
    store: &Store,
    file: &File,
    chunk: &ColumnChunk<'_>,
    rows: u32,
    wanted: u32,
) -> Result<Option<PageLocations>> {
    let Range { start, end } = chunk.range();
    let mut found: Vec<(u32, Range<u64>)> = Vec::new();
    let (mut at, mut first, mut length) = (start, 0u64, HEADER_BYTES);
    let mut plain_from = 0;
    while at < end {
        let block = at..end.min(at + length);
        let bytes = store.read_ranges(file, std::slice::from_ref(&block)).await?;
        let Some(bytes) = bytes.first() else { return Ok(None) };
        let mut next = at;
        while let Some(rest) = usize::try_from(next - at).ok().and_then(|from| bytes.get(from..))
            && let Ok((page, header)) = page_header::read(rest)
        {
            let page_end = next.saturating_add(header as u64).saturating_add(page.compressed.into());
            if page.kind != PageKind::Dictionary {
                let Ok(row) = u32::try_from(first) else { return Ok(None) };
                found.push((row, next..page_end));
                first += u64::from(page.values);
                if DICTIONARY_ENCODINGS.contains(&page.encoding) {
                    plain_from = found.len();
                }
            }
            next = page_end;
            if next >= end || first >= wanted.into() {
                break;
            }
        }
        if first >= wanted.into() && next < end {
            let Ok(row) = u32::try_from(first) else { return Ok(None) };
            found.push((row, next..end));
            (first, next) = (rows.into(), end);
        }
        // If no header was found, it is longer than the bytes that were read, so more bytes are read next.
        length = if next == at { length.saturating_mul(8) } else { HEADER_BYTES };
        if next == at && (block.end == end || length > LONGEST_HEADER) {
            return Ok(None);
        }
        at = next;
    }
    let found = PageLocations::new(found, chunk, rows).filter(|_| first == u64::from(rows));
    Ok(found.map(|found| found.plain_from(plain_from)))
}
