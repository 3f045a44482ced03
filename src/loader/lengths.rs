//! Computes how many bytes a batch will take before it is made, and rejects a batch that would be too large.

use std::sync::Arc;

use forebay_arrow::array::{Array, RecordBatch};
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::RowId;

use super::semaphore::BatchSemaphore;
use super::sizing::words;
use crate::batch::{heaviest, longest, weigh, weigh_each};
use crate::column::{Codec, RowCells};
use crate::reader::{Resident, Rows};

/// The hint of the error if the zeros of sparse vectors, which are not stored, make a batch too large.
const EXPANDED_HINT: &str = "sparse vectors are delivered with all of their zeros: read their fields \
                             \"indices\" and \"values\" by name in `columns` to have them as they are stored";

/// The sizes of columns from which the bytes of a batch are computed before it is made, and the limit on
/// these bytes.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// The indices of the columns whose values differ in length.
    pub(crate) columns: Vec<usize>,
    /// The columns among `columns` in which every value takes as many bytes as the longest value of its
    /// batch.
    pub(crate) to_longest: Vec<usize>,
    /// The columns among `columns` whose delivered values hold more than is stored, such as sparse vectors
    /// with all of their zeros.
    pub(crate) expanded: Vec<usize>,
    /// The columns among `columns` in which the content of a cell determines the bytes of its row, each with
    /// the codec that computes them.
    pub(crate) by_cell: Vec<(usize, Codec)>,
    /// The bytes that a row takes in all columns that are not in `columns`.
    pub(crate) others: u64,
    /// The bytes that a sample takes in addition to those of its rows; 0 unless samples are packs.
    pub(crate) beside_rows: u64,
    /// The most bytes that one batch may take.
    pub(crate) largest: u64,
    /// The number of rows in a sample.
    pub(crate) of_a_sample: u64,
}

impl Lengths {
    /// Returns an upper bound of the bytes that one of these rows takes in `columns`: the sum of the longest
    /// value of each column.
    pub(super) fn longest(&self, rows: &RecordBatch) -> u64 {
        let longest = |column: &usize| match self.weigher(*column) {
            Some(codec) => {
                let rows = (0..rows.num_rows()).map(|row| cell_bytes(codec, rows, row, *column));
                rows.max().unwrap_or(0)
            }
            None => longest(rows.column(*column)),
        };
        self.columns.iter().map(longest).sum()
    }

    /// Returns the bytes that the batch of the rows in `picks` will take: an upper bound if `permits` have
    /// room for it, otherwise the exact number. Returns 0 if all rows take equally many bytes. `samples` is
    /// the number of samples that the rows make. `row` is called for an error, to find the row that the
    /// error names: its arguments are a source, a place in the source's order of delivery, and a column.
    ///
    /// # Errors
    /// Fails if the batch would take more than `largest` bytes.
    pub(super) fn weigh(
        &self,
        permits: &BatchSemaphore,
        longest: u64,
        sources: &[Arc<Resident>],
        picks: &[(u32, u32)],
        samples: usize,
        row: impl Fn(&Resident, u32, usize) -> FoundRow,
    ) -> Result<u64> {
        let Lengths { columns, to_longest, others, beside_rows, largest, .. } = self;
        let rows = picks.len() as u64;
        let beside = beside_rows.saturating_mul(samples as u64);
        if columns.is_empty() || rows == 0 {
            return Ok(0);
        }
        let most = rows.saturating_mul(others + longest).saturating_add(beside);
        if permits.fits(most) {
            return Ok(most);
        }
        let all: Vec<Arc<Rows>> = sources.iter().map(|source| source.rows()).collect();
        let stored = |&(source, place): &(u32, u32)| (source, sources[source as usize].row_at(place));
        let stored: Vec<(u32, u32)> = picks.iter().map(stored).collect();
        let exactly = columns.iter().map(|&column| {
            let sources = of_column(&all, column);
            match (to_longest.contains(&column), self.weigher(column)) {
                (false, None) => weigh(&sources, &stored),
                (true, None) => heaviest(&sources, &stored).saturating_mul(rows),
                (false, Some(_)) => self.each(column, &all, &stored).iter().sum(),
                (true, Some(_)) => {
                    let each = self.each(column, &all, &stored);
                    each.into_iter().max().unwrap_or(0).saturating_mul(rows)
                }
            }
        });
        let bytes = exactly.sum::<u64>().saturating_add(rows.saturating_mul(*others)).saturating_add(beside);
        if bytes <= *largest {
            return Ok(bytes);
        }
        if all.iter().any(|rows| !rows.is_intact()) {
            // Another program changed the cache file of these rows, so the computed bytes are wrong. The
            // batch will be made from rows that are fetched again.
            return Ok(*largest);
        }
        let heavy = self.heaviest_of(&all, &stored);
        let (source, at) = picks[heavy.row];
        let found = row(&sources[source as usize], at, heavy.column);
        Err(self.too_large(bytes, rows, samples, &heavy, found))
    }

    /// Finds the sample, the column and the row that the error names if the batch is too large. The batch
    /// must have at least one row.
    fn heaviest_of(&self, all: &[Arc<Rows>], stored: &[(u32, u32)]) -> Heaviest {
        let of_each = |column: &usize| self.each(*column, all, stored);
        let each: Vec<Vec<u64>> = self.columns.iter().map(of_each).collect();
        let sample = usize::try_from(self.of_a_sample).unwrap_or(1).max(1);
        let of_sample = |from: usize| -> u64 {
            let to = stored.len().min(from + sample);
            let others = self.others.saturating_mul((to - from) as u64);
            let columns = self.columns.iter().zip(&each).map(|(column, bytes)| {
                let bytes = &bytes[from..to];
                match self.to_longest.contains(column) {
                    false => bytes.iter().sum(),
                    true => bytes.iter().max().copied().unwrap_or(0).saturating_mul(bytes.len() as u64),
                }
            });
            columns.fold(others, u64::saturating_add)
        };
        // If several samples take equally many bytes, the first of them is chosen.
        let samples = (0..stored.len()).step_by(sample).map(|from| (from, of_sample(from)));
        let (from, bytes) =
            samples.reduce(|most, one| if one.1 > most.1 { one } else { most }).unwrap_or((0, 0));
        let alone = (bytes > self.largest).then_some(bytes);
        let sum = |bytes: &Vec<u64>| bytes.iter().sum::<u64>();
        let column = (0..each.len()).rev().max_by_key(|&at| sum(&each[at])).unwrap_or(0);
        let among = match alone {
            Some(_) => from..stored.len().min(from + sample),
            None => 0..stored.len(),
        };
        let row = among.rev().max_by_key(|&row| each[column][row]).unwrap_or(0);
        Heaviest { alone, column: self.columns[column], row }
    }

    /// Returns the codec that computes the bytes of a row from its cell in a column; `None` if the content of
    /// the column's cells does not determine these bytes.
    fn weigher(&self, column: usize) -> Option<&Codec> {
        self.by_cell.iter().find(|(of, _)| *of == column).map(|(_, codec)| codec)
    }

    /// Returns the bytes that each row in `stored` takes in a column. `stored` has pairs of a source and a
    /// row in it.
    fn each(&self, column: usize, all: &[Arc<Rows>], stored: &[(u32, u32)]) -> Vec<u64> {
        match self.weigher(column) {
            Some(codec) => {
                let rows = stored.iter();
                rows.map(|&(source, row)| {
                    cell_bytes(codec, &all[source as usize].batch, row as usize, column)
                })
                .collect()
            }
            None => weigh_each(&of_column(all, column), stored),
        }
    }

    /// The error for a batch of `bytes` bytes, whose `rows` rows make `samples` samples.
    fn too_large(&self, bytes: u64, rows: u64, samples: usize, heavy: &Heaviest, found: FoundRow) -> Error {
        let largest = self.largest;
        let cause = format!(
            "a batch of {rows} rows takes {}, over the {} that one batch may take of the memory budget",
            words(bytes),
            words(largest)
        );
        // A batch may always take a sixth of the budget, so six times the bytes of a batch are enough.
        let enough = |bytes: u64| words(bytes.saturating_mul(6));
        let hint = match heavy.alone {
            Some(bytes) => {
                let what = if self.of_a_sample > 1 { "the window of this row" } else { "this row" };
                let memory = enough(bytes);
                let fewer = if samples > 1 { " with `batch_size=1`" } else { "" };
                let row = found.id.map_or_else(|| "it".to_owned(), |id| format!("row id {id}"));
                format!(
                    "{what} takes {} alone: raise `memory` to {memory}{fewer}, or leave {row} out with `deny`",
                    words(bytes)
                )
            }
            None => {
                let fits = (samples as u128 * u128::from(largest) / u128::from(bytes)).max(1);
                format!("`batch_size={fits}` may fit, or raise `memory` to {}", enough(bytes))
            }
        };
        let error = Error::new(ErrorKind::TooLarge, cause).hint(hint);
        match (self.expanded.contains(&heavy.column), heavy.alone) {
            (true, _) => error.hint_also(EXPANDED_HINT).at(found.place),
            (false, Some(_)) => error.at(found.place),
            (false, None) => error,
        }
    }
}

/// A row of the data set, as an error message names it.
pub(super) struct FoundRow {
    pub(super) place: Place,
    pub(super) id: Option<RowId>,
}

/// The sample, the column and the row that take the most bytes of a batch.
struct Heaviest {
    /// The bytes of the heaviest sample, if a batch of this sample alone would be too large.
    alone: Option<u64>,
    /// The column that takes the most bytes.
    column: usize,
    /// The row that takes the most bytes in `column`: among the rows of the heaviest sample if `alone` is
    /// set, otherwise among all rows of the batch.
    row: usize,
}

/// Returns the bytes that a row takes in a batch, computed from its cell in `column`; 0 if the cell is null
/// or cannot be read.
fn cell_bytes(codec: &Codec, rows: &RecordBatch, row: usize, column: usize) -> u64 {
    if let Codec::Follow(follow) = codec {
        return follow.row_bytes(rows.column(column).as_ref(), row).unwrap_or(0);
    }
    match (RowCells::new(rows, row, false).peek(column), codec.as_gather()) {
        (Ok(Some(cell)), Some(gather)) => gather.cell_bytes(cell),
        _ => 0,
    }
}

/// The arrays of one column, one for each source.
fn of_column(all: &[Arc<Rows>], column: usize) -> Vec<&dyn Array> {
    all.iter().map(|rows| rows.batch.column(column).as_ref()).collect()
}
