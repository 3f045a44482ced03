//! The rows on which a filter is evaluated, and their places in the data set.

use forebay_arrow::array::{ArrayRef, RecordBatch};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::row_set::RowSet;

use super::evaluate;
use super::term::Test;
use super::truth::Truth;
use super::verdicts::Verdicts;

/// The rows on which a filter is evaluated, and their places in the data set.
pub(crate) struct Rows<'a> {
    /// The values of the rows in the filter's columns.
    pub(crate) batch: &'a RecordBatch,
    /// The path of the rows' file in the data set.
    pub(crate) file: &'a str,
    /// The number of rows in the file before the row group of these rows.
    pub(crate) first: u64,
    /// The indices of the batch's rows in their row group; `None` if the batch has all rows.
    pub(crate) live: Option<&'a RowSet>,
    /// The columns of `batch` that may hold results of comparisons instead of values; `None` if all hold
    /// values.
    pub(crate) verdicts: Option<&'a Verdicts>,
}

impl<'a> Rows<'a> {
    pub(super) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub(super) fn column(&self, name: &str) -> Result<&'a ArrayRef> {
        let column = self.batch.column_by_name(name);
        column.ok_or_else(|| Error::new(ErrorKind::Internal, format!("column {name:?} was not read")))
    }

    /// Says for each row whether a term is true.
    pub(super) fn test(&self, test: Test<'_>) -> Result<Truth> {
        let column = self.column(test.column)?;
        match self.verdicts.and_then(|verdicts| verdicts.of_test(column, test)) {
            Some(truth) => Ok(truth),
            None => evaluate::term(column, test),
        }
    }

    /// The index of a row in its file.
    pub(super) fn ordinal(&self, row: usize) -> u64 {
        // A row group has fewer than 2^32 rows.
        self.first + self.live.map_or(row as u64, |live| u64::from(live.select(row as u32)))
    }
}
