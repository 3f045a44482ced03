//! A snapshot of a table, as its manifests describe it.

use std::collections::BTreeMap;

use forebay_arrow::array::ArrayRef;
use forebay_arrow::statistics::ColumnStatistics;

use crate::deletes::DeletionVector;
use crate::schema::TableColumn;

/// A snapshot of a table: its columns, its live files, and the deletes that apply to them.
#[derive(Debug)]
pub struct Table {
    /// The columns in order.
    pub columns: Vec<TableColumn>,
    /// For each partition, the columns that have one value in all its rows: the index of the column, and the
    /// value.
    pub partitions: Vec<Vec<(usize, ArrayRef)>>,
    /// The live files, sorted by location.
    pub files: Vec<TableFile>,
    /// The statistics of the columns that have any in the manifests, by column name. The index of a file in
    /// them is [`listed`](TableFile::listed).
    pub statistics: BTreeMap<String, ColumnStatistics>,
    /// The files that delete rows by position.
    pub positions: Vec<Positions>,
    /// The files that delete rows by value.
    pub equalities: Vec<Equality>,
}

/// A file with rows.
#[derive(Debug)]
pub struct TableFile {
    /// The location of the file.
    pub location: Box<str>,
    /// The size of the file in bytes.
    pub size: u64,
    /// The number of rows, deleted ones included.
    pub rows: u64,
    /// The number of row groups, if the manifest says where they begin.
    pub row_groups: Option<usize>,
    /// The id of the file's first row, if the table tracks row ids. The ids of the other rows follow it,
    /// unless the file stores ids in the [column](crate::ROW_ID_COLUMN) for them.
    pub first_row_id: Option<i64>,
    /// The index of the file's values in [`statistics`](Table::statistics).
    pub listed: u32,
    /// The partition of the file, as an index into the table's partitions.
    pub partition: u32,
    /// The sequence number of the commit that added the rows, which decides which deletes apply to them.
    pub sequence: i64,
    /// The deletion vector of the file, if it has one.
    pub deletion: Option<Box<DeletionVector>>,
}

/// A file that deletes rows by position.
#[derive(Debug)]
pub struct Positions {
    /// The location of the file.
    pub location: Box<str>,
    /// The size of the file in bytes.
    pub size: u64,
    /// The sequence number of the commit that added the deletes.
    pub sequence: i64,
}

/// A file that deletes rows by value.
#[derive(Debug)]
pub struct Equality {
    /// The location of the file.
    pub location: Box<str>,
    /// The size of the file in bytes.
    pub size: u64,
    /// The sequence number of the commit that added the deletes.
    pub sequence: i64,
    /// The partition whose rows are deleted, as an index into the table's partitions; `None` for all
    /// partitions.
    pub partition: Option<u32>,
    /// The columns whose values identify deleted rows.
    pub columns: Vec<TableColumn>,
}

impl Table {
    /// The index of the file with this location in `files`.
    pub fn file_at(&self, location: &str) -> Option<usize> {
        self.files.binary_search_by(|file| (*file.location).cmp(location)).ok()
    }

    /// Whether deletes by position apply to a file: they were not committed before the file's rows, and the
    /// file has no deletion vector, which would replace them.
    pub fn concerns(&self, positions: &Positions, file: &TableFile) -> bool {
        file.sequence <= positions.sequence && file.deletion.is_none()
    }

    /// Whether deletes by value apply to a file: its rows were added by an earlier commit, and they are in
    /// the partition that the deletes are for.
    pub fn compares(&self, equality: &Equality, file: &TableFile) -> bool {
        file.sequence < equality.sequence
            && equality.partition.is_none_or(|partition| partition == file.partition)
    }
}
