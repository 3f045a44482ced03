//! The bytes of a batch, known before it is made.

use std::sync::Arc;

use crate::arrow::array::{Array, RecordBatch};

use super::semaphore::BatchSemaphore;
use super::sizing::words;
use crate::batch::{heaviest, longest, weigh};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::reader::{Resident, Rows};

/// The next move where values that are not stored make a batch too large.
const EXPANDED_HINT: &str = "sparse vectors are delivered with all of their zeros: read their fields \
                             \"indices\" and \"values\" by name in `columns` to have them as they are stored";

/// Known bounds of the bytes of a batch before its rows are known.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Columns whose values differ in length.
    pub(crate) columns: Vec<usize>,
    /// Of them those whose values take as much as the longest of their batch.
    pub(crate) to_longest: Vec<usize>,
    /// Of them those whose values are expanded once they are gathered.
    pub(crate) expanded: Vec<usize>,
    /// Bytes that a row takes in all others.
    pub(crate) others: u64,
    /// Bytes that one batch may take.
    pub(crate) largest: u64,
    /// Rows of a sample.
    pub(crate) of_a_sample: u64,
}

impl Lengths {
    /// The most bytes that one of the rows takes in columns whose values differ in length.
    pub(super) fn longest(&self, rows: &RecordBatch) -> u64 {
        self.columns.iter().map(|&column| longest(rows.column(column))).sum()
    }

    /// The bytes of a batch before it is made, where its rows differ: an upper limit if that fits `permits` already,
    /// else the exact number.
    ///
    /// # Errors
    /// The batch is larger than one may be. `place` is that of a row in a column, of a source and a place in its
    /// deal.
    pub(super) fn weigh(
        &self,
        permits: &BatchSemaphore,
        longest: u64,
        sources: &[Arc<Resident>],
        picks: &[(u32, u32)],
        place: impl Fn(&Resident, u32, usize) -> Place,
    ) -> Result<u64> {
        let Lengths { columns, to_longest, others, largest, of_a_sample, .. } = self;
        let rows = picks.len() as u64;
        if columns.is_empty() || rows == 0 {
            return Ok(0);
        }
        let most = rows.saturating_mul(others + longest);
        if permits.fits(most) {
            return Ok(most);
        }
        let all: Vec<Arc<Rows>> = sources.iter().map(|source| source.rows()).collect();
        let stored = |&(source, place): &(u32, u32)| (source, sources[source as usize].row_at(place));
        let stored: Vec<(u32, u32)> = picks.iter().map(stored).collect();
        let exactly = columns.iter().map(|&column| {
            let sources: Vec<&dyn Array> =
                all.iter().map(|rows| rows.batch.column(column).as_ref()).collect();
            match to_longest.contains(&column) {
                false => weigh(&sources, &stored),
                true => heaviest(&sources, &stored).saturating_mul(rows),
            }
        });
        let bytes = exactly.sum::<u64>().saturating_add(rows.saturating_mul(*others));
        if bytes <= *largest {
            return Ok(bytes);
        }
        if all.iter().any(|rows| !rows.is_intact()) {
            // Another program changed the lengths: the batch will be made of other rows.
            return Ok(*largest);
        }
        let cause = format!(
            "a batch of {rows} rows takes {}, over the {} that one may take of the memory budget",
            words(bytes),
            words(*largest)
        );
        let samples = u128::from(rows) / u128::from((*of_a_sample).max(1));
        let fits = (samples * u128::from(*largest) / u128::from(bytes)).max(1);
        // A batch may take a sixth of any budget.
        let enough = words(bytes.saturating_mul(6));
        let hint = match samples > 1 {
            true => format!("`batch_size={fits}` may fit, or raise `memory` to {enough}"),
            false => format!("raise `memory` to {enough}"),
        };
        let error = Error::new(ErrorKind::TooLarge, cause).hint(hint);
        Err(match self.most_expanded(&all, &stored) {
            Some((column, pick)) => {
                let (source, at) = picks[pick];
                error.hint_also(EXPANDED_HINT).at(place(&sources[source as usize], at, column))
            }
            None => error,
        })
    }

    /// The column that takes the most of a batch, if its values are expanded, and its row that takes the most.
    fn most_expanded(&self, all: &[Arc<Rows>], stored: &[(u32, u32)]) -> Option<(usize, usize)> {
        let of = |column: usize| -> Vec<&dyn Array> {
            all.iter().map(|rows| rows.batch.column(column).as_ref()).collect()
        };
        let &most = self.columns.iter().max_by_key(|column| weigh(&of(**column), stored))?;
        let sources = of(most);
        // The first of equals is the last that is asked for.
        let row = (0..stored.len()).rev().max_by_key(|row| weigh(&sources, &stored[*row..row + 1]))?;
        self.expanded.contains(&most).then_some((most, row))
    }
}
