//! What the list of a table says of the values in its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};

use super::Constant;

/// What the list of a table says of the values in its files, column by column. All files of the table share it.
#[derive(Debug, Default)]
pub struct TableStatistics {
    /// The columns of which it says something, by the names that the table gives them.
    pub columns: BTreeMap<String, ListedColumn>,
}

/// What the list of a table says of a column, for each file by its place in the list.
#[derive(Debug)]
pub struct ListedColumn {
    /// Not greater than any value of the file; null where it is not known. Booleans, 64-bit integers and floats, bytes of
    /// texts, dates, and times in microseconds; arrays of other types are passed over.
    pub least: ArrayRef,
    /// Not less than any value of the file, NaN aside; null where `least` is.
    pub greatest: ArrayRef,
    /// Whether the file has nulls.
    pub nulls: Box<[ListedNulls]>,
}

/// Which rows of a file lack a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListedNulls {
    /// It is not known, or some do.
    #[default]
    Unknown,
    /// None.
    None,
    /// All.
    All,
}

/// What the list of a table says of the values in one of its files.
#[derive(Clone, Debug)]
pub struct FileStatistics {
    table: Arc<TableStatistics>,
    at: u32,
}

/// What is known of a file's rows before its footer is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    /// Columns with one value in all of its rows.
    pub constants: &'a [Constant],
    /// What the list of its table says of its values.
    pub statistics: Option<&'a FileStatistics>,
}

/// The least and the greatest value, at a place in their arrays.
#[derive(Clone, Copy, Debug)]
pub struct ListedBounds<'a> {
    /// Not greater than any value.
    pub least: &'a ArrayRef,
    /// Not less than any value.
    pub greatest: &'a ArrayRef,
    /// The place of both.
    pub at: usize,
}

impl FileStatistics {
    /// Those of the file at a place in the list.
    pub fn new(table: Arc<TableStatistics>, at: u32) -> Self {
        FileStatistics { table, at }
    }

    /// Whether a column of the file has nulls; `None` for a column of which nothing is known.
    pub fn nulls(&self, column: &str) -> Option<ListedNulls> {
        self.table.columns.get(column)?.nulls.get(self.at as usize).copied()
    }

    /// The bounds of a column in the file, if they are known.
    pub fn bounds(&self, column: &str) -> Option<ListedBounds<'_>> {
        let at = self.at as usize;
        let ListedColumn { least, greatest, .. } = self.table.columns.get(column)?;
        let are_there = [least, greatest].into_iter().all(|end| at < end.len() && end.is_valid(at));
        are_there.then_some(ListedBounds { least, greatest, at })
    }
}
