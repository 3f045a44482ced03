//! The statistics of values in files, as the list of a table has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::statistics::{ColumnStatistics, Nulls};

use super::Constant;

/// The statistics of a table's list, column by column. All files of the table share them.
#[derive(Debug, Default)]
pub struct TableStatistics {
    /// The statistics of columns, by the columns' names in the table; their arrays have one entry for each
    /// file of the list.
    pub columns: BTreeMap<String, ColumnStatistics>,
}

/// The statistics of the values in one file of a table.
#[derive(Clone, Debug)]
pub struct FileStatistics {
    table: Arc<TableStatistics>,
    at: u32,
}

/// Everything that is known about a file's rows before its footer is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    /// The columns with one value in all rows of the file.
    pub constants: &'a [Constant],
    /// The statistics of the file's values in the list of its table.
    pub statistics: Option<&'a FileStatistics>,
}

/// The bounds of a column's values in one file, which are stored in two arrays.
#[derive(Clone, Copy, Debug)]
pub struct ListedBounds<'a> {
    /// An array with a bound that no value is below.
    pub least: &'a ArrayRef,
    /// An array with a bound that no value exceeds.
    pub greatest: &'a ArrayRef,
    /// The index of the bounds in both arrays.
    pub at: usize,
}

impl FileStatistics {
    /// The statistics of the file at the place `at` in the list.
    pub fn new(table: Arc<TableStatistics>, at: u32) -> Self {
        FileStatistics { table, at }
    }

    /// The nulls of a column in the file; `None` for a column without statistics.
    pub fn nulls(&self, column: &str) -> Option<Nulls> {
        self.table.columns.get(column)?.nulls.get(self.at as usize).copied()
    }

    /// The bounds of a column's values in the file, if they are known.
    pub fn bounds(&self, column: &str) -> Option<ListedBounds<'_>> {
        let at = self.at as usize;
        let ColumnStatistics { least, greatest, .. } = self.table.columns.get(column)?;
        let are_there = [least, greatest].into_iter().all(|end| at < end.len() && end.is_valid(at));
        are_there.then_some(ListedBounds { least, greatest, at })
    }
}
