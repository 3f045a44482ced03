//! One snapshot of a table.

use forebay_arrow::array::ArrayRef;

use crate::deletes::DeletionVector;
use crate::schema::Column;

/// One snapshot of a table: its columns, its live files, and what deletes rows of them.
#[derive(Debug)]
pub struct Table {
    /// The columns in order.
    pub columns: Vec<Column>,
    /// For each partition the columns that have one value in it, by their places, with that.
    pub partitions: Vec<Vec<(usize, ArrayRef)>>,
    /// The live files, in the order of their locations.
    pub files: Vec<File>,
    /// The files that delete rows by their positions.
    pub positions: Vec<Positions>,
    /// The files that delete rows by their values.
    pub equalities: Vec<Equality>,
}

/// A file with rows.
#[derive(Debug)]
pub struct File {
    /// Its location.
    pub location: Box<str>,
    /// Bytes.
    pub size: u64,
    /// Rows with those that are deleted.
    pub rows: u64,
    /// How many row groups it has, where the manifest says where they begin.
    pub row_groups: Option<usize>,
    /// Its partition, by its place among those of the table.
    pub partition: u32,
    /// Which commit its rows are of, in order.
    pub sequence: i64,
    /// Which of its rows are deleted.
    pub deletion: Option<Box<DeletionVector>>,
}

/// A file that deletes rows by their positions.
#[derive(Debug)]
pub struct Positions {
    /// Its location.
    pub location: Box<str>,
    /// Bytes.
    pub size: u64,
    /// Which commit it is of, in order.
    pub sequence: i64,
}

/// A file that deletes rows by their values.
#[derive(Debug)]
pub struct Equality {
    /// Its location.
    pub location: Box<str>,
    /// Bytes.
    pub size: u64,
    /// Which commit it is of, in order.
    pub sequence: i64,
    /// The partition whose rows it deletes, by its place among those of the table; `None` for all of them.
    pub partition: Option<u32>,
    /// The columns that rows are told by.
    pub columns: Vec<Column>,
}

impl Table {
    /// The file at a location, by its place.
    pub fn file_at(&self, location: &str) -> Option<usize> {
        self.files.binary_search_by(|file| (*file.location).cmp(location)).ok()
    }

    /// Whether a file that deletes rows by their positions concerns a file: its rows are not of later
    /// commits, and no deletion vector has taken its place.
    pub fn concerns(&self, positions: &Positions, file: &File) -> bool {
        file.sequence <= positions.sequence && file.deletion.is_none()
    }

    /// Whether a file that deletes rows by their values concerns a file: its rows are of earlier commits.
    pub fn compares(&self, equality: &Equality, file: &File) -> bool {
        file.sequence < equality.sequence
            && equality.partition.is_none_or(|partition| partition == file.partition)
    }
}
