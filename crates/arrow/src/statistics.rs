//! The statistics that a table's list of files has about the values in the files, column by column.

use arrow_array::ArrayRef;

/// The least and the greatest value of a column in each file, and whether it has nulls. A file has both
/// bounds or neither.
#[derive(Debug)]
pub struct ColumnStatistics {
    /// For each file a bound that no value is below; null if it is not known. The array has booleans, 64-bit
    /// integers and floats, bytes of texts, dates, or times in microseconds; arrays of other types are
    /// ignored.
    pub least: ArrayRef,
    /// For each file a bound that no value exceeds, NaN aside; null if `least` is null.
    pub greatest: ArrayRef,
    /// For each file, which rows are null in the column.
    pub nulls: Box<[Nulls]>,
}

/// Which rows of a file are null in a column.
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
