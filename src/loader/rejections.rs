//! Records the rows that the user's functions reject after the loader delivered them. They are listed and
//! counted like the bad rows that the loader itself finds.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::Catalog;

use super::bad_rows::{BadRow, OnBadRow, SKIP_HINT};
use super::epoch::Epoch;
use super::handle::Loader;
use super::progress::Receipt;
use super::source::Source;
use crate::monitor::Monitor;

/// The rows of one epoch that the user's functions rejected.
pub struct Rejections {
    sources: Vec<OfSource>,
    monitor: Arc<Monitor>,
    /// The number of rejected rows of each source so far.
    counts: Mutex<Vec<u64>>,
}

struct OfSource {
    /// The source, which may be gone before the epoch is.
    source: Weak<Source>,
    catalog: Arc<Catalog>,
    on_bad_row: OnBadRow,
    /// The number of rows in the data sets of the sources before it.
    first_number: u64,
}

impl Loader {
    /// Makes an empty record of the rows that the user's functions reject, for an epoch that begins.
    pub fn rejections(&self) -> Rejections {
        let source = |source: &Arc<Source>| OfSource {
            source: Arc::downgrade(source),
            catalog: source.fetcher.reads.catalog.clone(),
            on_bad_row: source.spec.on_bad_row,
            first_number: source.first_number,
        };
        let sources: Vec<OfSource> = self.sources.all().iter().map(source).collect();
        let counts = Mutex::new(vec![0; sources.len()]);
        Rejections { sources, monitor: self.sources.first().monitor.clone(), counts }
    }

    /// Reads this rank's rows of an epoch again from the first one, without counting them. If the user's
    /// functions rejected all rows of a batch at the end of a resumed epoch, the first row that they keep
    /// takes their place. All batches of the epoch under way must have arrived, because reading ends it.
    pub fn read_again(&self, number: u64) -> Epoch {
        Epoch::again(&self.sources, number)
    }
}

impl Rejections {
    /// Records the rejected rows of the next batch, and returns them. `after` is the receipt of the batch,
    /// `rejected` has the index in the batch and the reason of each rejected row, and `last` is the last bad
    /// row that the loader itself had found in the epoch. Also returns a receipt that counts the rejected
    /// rows, or an error if there are more bad rows than allowed.
    pub fn settle(
        &self,
        after: &Receipt,
        rejected: &[(usize, String)],
        last: Option<&BadRow>,
    ) -> (Vec<BadRow>, Result<Receipt>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rows, mut failure) = (Vec::new(), None);
        for (at, why) in rejected {
            let Some((source, bad)) = after.numbers().get(*at).and_then(|row| self.bad_row(*row, why, after))
            else {
                continue;
            };
            counts[source] += 1;
            let OfSource { on_bad_row, .. } = self.sources[source];
            let native = after.skipped.get(source).copied().unwrap_or(0);
            let checked = match on_bad_row {
                OnBadRow::Raise => Err(bad.error().hint_also(SKIP_HINT)),
                OnBadRow::Skip { .. } => {
                    on_bad_row.check(native + counts[source] - 1, std::slice::from_ref(&bad))
                }
            };
            failure = failure.or(checked.err());
            rows.push(bad);
        }
        self.monitor.skipped.fetch_add(rows.len() as u64, Relaxed);
        for (source, OfSource { on_bad_row, .. }) in self.sources.iter().enumerate() {
            let native = after.skipped.get(source).copied().unwrap_or(0);
            if let Some(last) = last.filter(|_| native > 0) {
                let before = native + counts[source] - 1;
                failure = failure.or(on_bad_row.check(before, std::slice::from_ref(last)).err());
            }
        }
        if let Some(error) = failure {
            return (rows, Err(error));
        }
        let of = |source: usize| after.skipped.get(source).copied().unwrap_or(0) + counts[source];
        let skipped: Vec<u64> = (0..counts.len()).map(of).collect();
        let skipped = if skipped.iter().any(|count| *count > 0) { skipped.into() } else { Arc::default() };
        (rows, Ok(Receipt { skipped, ..after.clone() }))
    }

    /// Counts `rows` more repeated rows, which replace rejected ones.
    pub fn repeats(&self, rows: u64) {
        self.monitor.padded.fetch_add(rows, Relaxed);
    }

    /// Makes the record of a bad row, and returns it with the index of its source. `number` is the row's
    /// ordinal among the rows of all sources.
    fn bad_row(&self, number: u64, why: &str, after: &Receipt) -> Option<(usize, BadRow)> {
        let at = self.sources.partition_point(|source| source.first_number <= number).checked_sub(1)?;
        let OfSource { source, catalog, first_number, .. } = &self.sources[at];
        // A loader that skips bad rows has read the row ids already. Any other loader raises an error that
        // shows no id, so a failure to read the ids is ignored.
        drop(source.upgrade().map(|source| source.read_row_ids()));
        let row = number - first_number;
        let group = catalog.groups.partition_point(|group| group.first_row <= row).checked_sub(1)?;
        let in_group = row - catalog.groups[group].first_row;
        let place = catalog.place_of_row(&catalog.groups[group], in_group);
        let error = Error::new(ErrorKind::BadRow, why.to_owned()).at(place);
        let id = catalog.ids_of(group).at(in_group);
        Some((at, BadRow::new(error, in_group, id).until(after.row)))
    }
}
