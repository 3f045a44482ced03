//! Statistics about the values in files, which a table has in its list of files. Filters skip files with
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::statistics::{ColumnStatistics, Nulls};

use super::Constant;

/// The statistics from a table's list of files, column by column. All files of the table share this value.
#[derive(Debug, Default)]
pub struct TableStatistics {
    /// The statistics of each column, by the column's name in the table. Their arrays have one entry for each
    /// file.
    pub columns: BTreeMap<String, ColumnStatistics>,
}

/// The statistics of one file of a table: an index into the arrays of all files.
#[derive(Clone, Debug)]
pub struct FileStatistics {
    table: Arc<TableStatistics>,
    at: u32,
}

/// All that a table's list of files says about the values in one file, before the file's footer is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    /// The columns with one value in all rows of the file.
    pub constants: &'a [Constant],
    /// The statistics of the file, if the table's list has any.
    pub statistics: Option<&'a FileStatistics>,
}

/// The bounds of a column's values in one file: an entry in two arrays, which have the bounds of all files.
#[derive(Clone, Copy, Debug)]
pub struct ListedBounds<'a> {
    /// An array of lower bounds. A bound is less than or equal to every value of the column in its file.
    pub least: &'a ArrayRef,
    /// An array of upper bounds. A bound is greater than or equal to every value of the column in its file,
    /// not counting NaN.
    pub greatest: &'a ArrayRef,
    /// The index of the file's bounds in both arrays.
    pub at: usize,
}

impl FileStatistics {
    /// The statistics of file number `at` in the table's list.
    pub fn new(table: Arc<TableStatistics>, at: u32) -> Self {
        FileStatistics { table, at }
    }

    /// Whether none, all or perhaps some of the file's rows are null in the column; `None` for a column
    /// without statistics.
    pub fn nulls(&self, column: &str) -> Option<Nulls> {
        self.table.columns.get(column)?.nulls.get(self.at as usize).copied()
    }

    /// The bounds of a column's values in the file, if both are known.
    pub fn bounds(&self, column: &str) -> Option<ListedBounds<'_>> {
        let at = self.at as usize;
        let ColumnStatistics { least, greatest, .. } = self.table.columns.get(column)?;
        let are_there = [least, greatest].into_iter().all(|end| at < end.len() && end.is_valid(at));
        are_there.then_some(ListedBounds { least, greatest, at })
    }
}
