//! Decides whether [`Tier::Auto`](crate::Tier::Auto) keeps the rows of a local data set in the cache, from
//! measured costs.
//!
//! Rows that are read again must be decoded, but then lie in memory in the order of delivery. Rows from the
//! cache need no decoding, but lie in stored order, so a batch collects them from all over the window and the
//! processor waits for memory. The types and encodings of the columns and the processor determine which is
//! faster. If the bytes do not fit into the page cache, the disk may be slower than the processor and then
//! decides.

use serde::{Deserialize, Serialize};

/// Rows are kept only if the cache is this many times as fast as reading them again: the cache takes disk
/// space and time to write, and costs that were measured on a sample are not exact.
const MIN_GAIN: f64 = 1.25;

/// The measured costs of the rows of a data set, on this processor and its disks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RowCosts {
    /// The processor time of reading a row again: decoding it and gathering it into a batch, in seconds.
    pub(super) again: f64,
    /// The processor time of gathering a row from the cache into a batch, in seconds.
    pub(super) kept: f64,
    /// The bytes a second that the data set's disk reads; `None` if it was not measured.
    pub(super) source_disk: Option<f64>,
    /// The bytes a second that the cache's disk reads; `None` if it was not measured.
    pub(super) cache_disk: Option<f64>,
}

/// The amount of data that an epoch reads, and the threads and page cache of the machine that reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToKeep {
    pub(super) rows: u64,
    /// The bytes of the column chunks that hold the rows.
    pub(super) stored: u64,
    /// The bytes that the rows take in the cache.
    pub(super) held: u64,
    pub(super) threads: usize,
    /// The bytes that the page cache keeps from one epoch to the next.
    pub(super) page_cache: u64,
}

impl RowCosts {
    /// The costs as text, to keep beside the cache; [`parse`](Self::parse) reads it.
    pub(super) fn to_note(self) -> String {
        // JSON can always represent these numbers, so this cannot fail.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// Reads the text that [`to_note`](Self::to_note) wrote; `None` if it is damaged or has negative costs.
    pub(super) fn parse(note: &str) -> Option<Self> {
        let costs: RowCosts = serde_json::from_str(note).ok()?;
        (costs.again >= 0.0 && costs.kept >= 0.0).then_some(costs)
    }

    /// Explains why the rows are not kept in the cache; `None` if they are kept.
    pub(super) fn why_read_again(&self, rows: &ToKeep) -> Option<String> {
        let again = rows.seconds(self.again, rows.stored, self.source_disk)?;
        let kept = rows.seconds(self.kept, rows.held, self.cache_disk)?;
        let nanos = |seconds: f64| format!("{:.0} ns", seconds * 1e9);
        (again < MIN_GAIN * kept).then(|| {
            format!(
                "nothing is kept: local rows are read again in {} each, and come from the cache in {}",
                nanos(again),
                nanos(kept)
            )
        })
    }
}

impl ToKeep {
    /// The time per row in seconds: that of the disk or of the processor, whichever is longer. `processor` is
    /// the time of one thread for a row, and `bytes` is the size of all rows on the disk. `None` if the disk
    /// has to be read and its rate is unknown.
    fn seconds(&self, processor: f64, bytes: u64, disk: Option<f64>) -> Option<f64> {
        let of_disk = match self.is_read_from_disk(bytes) {
            true => bytes as f64 / self.rows.max(1) as f64 / disk.filter(|rate| *rate > 0.0)?,
            false => 0.0,
        };
        Some(of_disk.max(processor / self.threads.max(1) as f64))
    }

    /// Whether this number of bytes is too large for the page cache, so that each epoch reads it from the
    /// disk.
    pub(super) fn is_read_from_disk(&self, bytes: u64) -> bool {
        bytes > self.page_cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    /// A table whose rows take 100 ns to read again and as long from the cache, and fit into the page cache.
    const TABLE: RowCosts = RowCosts { again: 1e-7, kept: 1e-7, source_disk: None, cache_disk: None };
    const ROWS: ToKeep =
        ToKeep { rows: 100_000_000, stored: 8 * GB, held: 9 * GB, threads: 1, page_cache: 16 * GB };

    fn keeps(costs: RowCosts, rows: ToKeep) -> bool {
        costs.why_read_again(&rows).is_none()
    }

    #[test]
    fn rows_are_kept_where_the_cache_is_faster_by_a_quarter() {
        assert!(!keeps(TABLE, ROWS));
        assert!(
            !keeps(RowCosts { again: 1.2e-7, ..TABLE }, ROWS),
            "a small gain may be an error of measurement"
        );
        assert!(keeps(RowCosts { again: 1.3e-7, ..TABLE }, ROWS));
        assert!(!keeps(RowCosts { kept: 2e-7, ..TABLE }, ROWS));
        let why = RowCosts { kept: 2e-7, ..TABLE }.why_read_again(&ROWS).unwrap();
        assert!(why.contains("100 ns") && why.contains("200 ns"), "{why}");
    }

    #[test]
    fn the_disk_counts_where_the_page_cache_is_too_small() {
        let small = ToKeep { page_cache: GB, ..ROWS };
        let disks = |source, cache| RowCosts { source_disk: source, cache_disk: cache, ..TABLE };
        // A row takes 80 bytes as stored and 90 in the cache.
        assert!(!keeps(disks(Some(1e9), Some(1e9)), small), "kept rows are larger, on the same disk");
        assert!(keeps(disks(Some(1e8), Some(2e9)), small), "800 ns against 100");
        assert!(!keeps(disks(Some(2e9), Some(1e8)), small));
        assert!(
            keeps(disks(None, Some(1e8)), small) && keeps(disks(Some(2e9), None), small),
            "nothing is known"
        );
        // Compressed to a tenth, the stored rows fit into the page cache, so only decoding takes time. The
        // disk of the cache takes 900 ns for a row.
        let compressed = ToKeep { stored: ROWS.held / 10, ..small };
        assert!(!keeps(RowCosts { again: 2e-7, ..disks(None, Some(1e8)) }, compressed));
        assert!(keeps(RowCosts { again: 2e-6, ..disks(None, Some(1e8)) }, compressed));
    }

    #[test]
    fn threads_share_the_processor_s_part_and_not_the_disk_s() {
        let costs = RowCosts { again: 4e-7, kept: 1e-7, source_disk: None, cache_disk: Some(1e9) };
        let rows = ToKeep { page_cache: 8 * GB, ..ROWS };
        assert!(keeps(costs, rows), "400 ns against 100");
        assert!(!keeps(costs, ToKeep { threads: 4, ..rows }), "100 ns against the disk's 90");
    }

    #[test]
    fn costs_are_read_back_from_their_note_and_nothing_else_is_one() {
        let costs = RowCosts { source_disk: Some(1.5e9), ..TABLE };
        assert_eq!(RowCosts::parse(&costs.to_note()), Some(costs));
        for other in ["", "{}", "7", r#"{"again":-1,"kept":1,"source_disk":null,"cache_disk":null}"#] {
            assert_eq!(RowCosts::parse(other), None, "{other}");
        }
    }
}
