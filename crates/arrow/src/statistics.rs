//! Statistics about the values of a column in each file of a table, as the table's list of files gives them.

use arrow_array::ArrayRef;

/// The least and the greatest value of a column in each file, and whether it has nulls. A file has both
/// bounds or neither.
#[derive(Debug)]
pub struct ColumnStatistics {
    /// A lower bound of the column's values in each file; null if unknown. The array has booleans, 64-bit
    /// integers and floats, bytes of texts, dates, or times in microseconds; arrays of other types are
    /// ignored.
    pub least: ArrayRef,
    /// An upper bound of the column's values in each file, not counting NaN; null if `least` is null.
    pub greatest: ArrayRef,
    /// For each file, whether none, all or perhaps some of its rows are null in the column.
    pub nulls: Box<[Nulls]>,
}

/// Whether none, all or perhaps some rows of a file are null in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Nulls {
    /// Some rows are null, or it is not known whether any are.
    #[default]
    Unknown,
    /// No row is null.
    None,
    /// All rows are null.
    All,
}
