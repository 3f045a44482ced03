//! Divides the rows of a source among the files that are written.
//!
//! The division depends only on the source and the options, so that an interrupted run can be resumed:
//! complete files are kept, and the others are written again.

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

use super::source::WriteSource;
use crate::random::Random;

/// The default size of a row group in bytes; the row groups of a small source are smaller.
const ROW_GROUP_BYTES: u64 = 32 << 20;
/// The smallest default size of a row group in bytes. A small source is divided into row groups that are
/// smaller than usual, because a shuffle and several ranks need more than a few row groups.
const SMALL_ROW_GROUP_BYTES: u64 = 1 << 20;
/// The number of row groups that a small source is divided into, if they do not become smaller than
/// `SMALL_ROW_GROUP_BYTES`.
const MIN_ROW_GROUPS: u64 = 16;
/// The number of row groups in a file.
const ROW_GROUPS_PER_FILE: usize = 16;

/// The rows or tables that are written, in their order, and their division into files.
pub(super) struct Division<'a> {
    source: &'a WriteSource,
    /// The rows of the source in the order in which they are written; empty for a source of tables.
    pub(super) order: Vec<usize>,
    pub(super) row_group_bytes: u64,
    pub(super) parts: Vec<WrittenPart>,
}

/// The rows of one written file: some of the source's rows, or all rows of some of its files.
#[derive(Debug, PartialEq)]
pub(super) enum WrittenPart {
    /// For every row group, the range of its rows in [`Division::order`].
    Rows(Vec<Range<usize>>),
    /// A range of the source's files, which are read from the first row to the last.
    Tables(Range<usize>),
}

impl<'a> Division<'a> {
    /// Divides a source into row groups of `row_group_bytes`, or of a default size. `shuffle` is the seed by
    /// which the rows are mixed.
    pub(super) fn new(source: &'a WriteSource, shuffle: Option<u64>, row_group_bytes: Option<u64>) -> Self {
        let fitting = (source.bytes() / MIN_ROW_GROUPS).clamp(SMALL_ROW_GROUP_BYTES, ROW_GROUP_BYTES);
        let row_group_bytes = row_group_bytes.unwrap_or(fitting).max(1);
        let (order, parts) = match source {
            WriteSource::Rows(rows) => {
                let order = order(rows.len(), shuffle);
                let groups = runs(order.len(), row_group_bytes, |row| rows.row_bytes(order[row]));
                let parts = groups.chunks(ROW_GROUPS_PER_FILE);
                let parts = parts.map(|groups| WrittenPart::Rows(groups.to_vec())).collect();
                (order, parts)
            }
            WriteSource::Tables(tables) => {
                let limit = row_group_bytes.saturating_mul(ROW_GROUPS_PER_FILE as u64);
                let files = tables.files();
                let parts = runs(files.len(), limit, |file| files[file].bytes);
                (Vec::new(), parts.into_iter().map(WrittenPart::Tables).collect())
            }
        };
        Division { source, order, row_group_bytes, parts }
    }

    /// About how many bytes of the source go into a written file.
    pub(super) fn bytes(&self, part: &WrittenPart) -> u64 {
        match (part, self.source) {
            (WrittenPart::Rows(groups), WriteSource::Rows(rows)) => {
                groups.iter().flat_map(Clone::clone).map(|row| rows.row_bytes(self.order[row])).sum()
            }
            (WrittenPart::Tables(files), WriteSource::Tables(tables)) => {
                tables.files()[files.clone()].iter().map(|file| file.bytes).sum()
            }
            _ => 0,
        }
    }

    /// The number of rows or files that are read.
    pub(super) fn items(&self) -> usize {
        match self.source {
            WriteSource::Rows(rows) => rows.len(),
            WriteSource::Tables(tables) => tables.files().len(),
        }
    }

    /// A hash that changes if other rows or files are read, or in another order.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        match self.source {
            WriteSource::Rows(rows) => self.order.iter().for_each(|row| add(&rows.identity(*row))),
            WriteSource::Tables(tables) => {
                tables.files().iter().for_each(|file| add(&format!("{} {}", file.relative, file.bytes)));
            }
        }
        add(&format!("{:?}", self.source.schema()));
        hash.digest()
    }
}

/// The order of the rows: the stored one, or one that is drawn by a seed.
fn order(rows: usize, shuffle: Option<u64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows).collect();
    if let Some(seed) = shuffle {
        let mut random = Random::new(seed, 0);
        for last in (1..order.len()).rev() {
            // Maps 64 random bits to an index from 0 to `last`.
            let drawn = (u128::from(random.bits()) * (last as u128 + 1)) >> u64::BITS;
            order.swap(last, drawn as usize);
        }
    }
    order
}

/// Divides items into runs of consecutive items. Each run but the last has at least `limit` bytes.
fn runs(items: usize, limit: u64, bytes: impl Fn(usize) -> u64) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut sum) = (0, 0_u64);
    for item in 0..items {
        sum = sum.saturating_add(bytes(item));
        if sum >= limit {
            runs.push(start..item + 1);
            (start, sum) = (item + 1, 0);
        }
    }
    if start < items {
        runs.push(start..items);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_all_items_and_are_as_large_as_asked_for() {
        assert_eq!(runs(5, 10, |_| 4), [0..3, 3..5]);
        assert_eq!(runs(3, 10, |_| 40), [0..1, 1..2, 2..3]);
        assert!(runs(0, 10, |_| 4).is_empty());
        assert_eq!(runs(2, u64::MAX, |_| u64::MAX), [0..1, 1..2]);
    }
}
