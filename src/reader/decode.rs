//! Decodes the fetched bytes of parts (runs of rows of a row group) and of heads (first rows of a row group
//! that belong to samples of an earlier one).

use forebay_arrow::array::RecordBatch;
use forebay_base::Result;

use super::budget::ALONE_BEYOND;
use super::fetch::Fetcher;
use super::reads::{Chunks, Reads};
use super::rows;
use crate::samples::{EpochSamples, Head};
use crate::shard::Part;

/// Decodes the fetched bytes of a part (a run of rows of a row group). The rows may take up to
/// [`ALONE_BEYOND`] bytes more than `limit`, because the only row group that has memory may do so.
pub(crate) fn read(
    fetcher: &Fetcher,
    samples: &EpochSamples,
    part: &Part,
    chunks: Chunks,
    limit: u64,
) -> Result<RecordBatch> {
    let Reads { catalog, projection, coded, .. } = &fetcher.reads;
    let coded = coded.as_deref();
    let selection = samples.rows_of(part).selection();
    let group = part.group as usize;
    let pages = fetcher.pages_of(part);
    let rows = rows::FetchedRows { group, selection: selection.as_ref(), chunks, pages, coded };
    rows::read_fetched(catalog, projection, rows, limit_for(limit))
}

/// Decodes several parts, and joins their rows. If one of them cannot be decoded, the error does not say
/// which.
pub(crate) fn read_together(
    fetcher: &Fetcher,
    samples: &EpochSamples,
    parts: Vec<(Part, Chunks)>,
    limit: u64,
) -> Result<RecordBatch> {
    let Reads { catalog, projection, coded, .. } = &fetcher.reads;
    let coded = coded.as_deref();
    let selections: Vec<_> = parts.iter().map(|(part, _)| samples.rows_of(part).selection()).collect();
    let parts = parts.into_iter().zip(&selections).map(|((part, chunks), selection)| rows::FetchedRows {
        group: part.group as usize,
        selection: selection.as_ref(),
        chunks,
        pages: fetcher.pages_of(&part),
        coded,
    });
    rows::read_parts(catalog, projection, parts.collect(), limit_for(limit))
}

/// Decodes the fetched bytes of a head like those of a part; see [`read`].
pub(crate) fn read_head(
    fetcher: &Fetcher,
    samples: &EpochSamples,
    head: Head,
    chunks: Chunks,
    limit: u64,
) -> Result<RecordBatch> {
    let Reads { catalog, projection, coded, .. } = &fetcher.reads;
    let coded = coded.as_deref();
    let selection = samples.rows_of_head(head).selection();
    let (group, pages) = (head.group as usize, fetcher.head_pages(head));
    let rows = rows::FetchedRows { group, selection: selection.as_ref(), chunks, pages, coded };
    rows::read_fetched(catalog, projection, rows, limit_for(limit))
}

/// Cuts the rows of a part out of `rows`, which are all selected rows of its row group.
pub(crate) fn cut(samples: &EpochSamples, rows: &RecordBatch, part: &Part) -> RecordBatch {
    let Part { start, rows: count, .. } = samples.decoded(part);
    rows.slice(start as usize, count as usize)
}

/// The most bytes that the rows of one row group may take if the budget is `limit`.
pub(super) fn limit_for(limit: u64) -> u64 {
    limit.saturating_add(ALONE_BEYOND)
}
