//! Rows that cannot be delivered: what to do with them, and which they were.

use serde::{Deserialize, Serialize};

use crate::catalog::RowId;
use crate::error::Error;

/// What to do with a row that cannot be delivered. Default: raise.
///
/// ```
/// use forebay::OnBadRow;
///
/// assert_eq!(OnBadRow::default(), OnBadRow::Raise);
/// assert_eq!(OnBadRow::skip(100), OnBadRow::Skip { at_most: 100 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnBadRow {
    /// End the epoch with an error that says where the row is.
    #[default]
    Raise,
    /// Leave it out and count it. A batch is shorter by the rows that were left out of it, so that all ranks still
    /// have equally many steps.
    ///
    /// A row is also bad where it holds a null and its column becomes an array of values: numbers, booleans, times, binary
    /// of fixed length, lists, and structures of these, unless `fill_null` gives a value. With [`Raise`](OnBadRow::Raise) such
    /// nulls are delivered, for Arrow has room for them. Text and binary may be null in any case.
    ///
    /// Of an image only the part that is wanted is decoded: damage outside that part, such as below a crop, is not seen.
    Skip {
        /// Rows that one rank may leave out in one epoch; one more ends it with an error.
        at_most: u64,
    },
}

impl OnBadRow {
    /// Leaves out up to `at_most` rows per rank and epoch.
    pub fn skip(at_most: u64) -> Self {
        OnBadRow::Skip { at_most }
    }
}

/// A row that was left out: one entry of [`Epoch::skipped`](super::Epoch::skipped).
///
/// ```no_run
/// use forebay::{Dataset, OnBadRow};
///
/// let loader = Dataset::open("photos/")?.loader().on_bad_row(OnBadRow::skip(100)).build()?;
/// let mut epoch = loader.epoch(0);
/// for batch in &mut epoch {
///     batch?;
/// }
/// for row in epoch.skipped() {
///     println!("{}", row.error); // photos/a.parquet, row group 7, row 512, column "image": corrupt JPEG: …
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BadRow {
    /// The reason, with its place.
    pub error: Error,
    /// Its number, by which [`Deny`](crate::Deny) leaves it out from then on.
    pub id: RowId,
}
