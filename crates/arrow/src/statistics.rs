//! The statistics that lists of tables have about the values in files, column by column.

use arrow_array::ArrayRef;

/// The least and the greatest value of a column in each file, and whether it has nulls. A file has both
/// bounds or neither.
#[derive(Debug)]
pub struct ColumnStatistics {
    /// A bound that no value of the file is below; null if it is not known. It has booleans, 64-bit integers
    /// and floats, bytes of texts, dates, or times in microseconds; arrays of other types are ignored.
    pub least: ArrayRef,
    /// A bound that no value of the file exceeds, NaN aside; null if `least` is null.
    pub greatest: ArrayRef,
    /// Which rows of each file are null.
    pub nulls: Box<[Nulls]>,
}

/// Which rows of a file are null in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Nulls {
    /// It is not known whether rows are null, or some are.
    #[default]
    Unknown,
    /// No row is null.
    None,
    /// All rows are null.
    All,
}
