//! Bad rows: the policy for rows that cannot be delivered, and a record of those that were left out.

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::RowId;
use serde::{Deserialize, Serialize};

/// The hint in an error about a bad row.
pub(crate) const SKIP_HINT: &str = "set `on_bad_row` to skip and count such rows";

/// The policy for rows that cannot be delivered. The default is `Raise`.
///
/// ```
/// use forebay::OnBadRow;
///
/// assert_eq!(OnBadRow::default(), OnBadRow::Raise);
/// assert_eq!(OnBadRow::skip(100), OnBadRow::Skip { at_most: 100, refill: false });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnBadRow {
    /// Ends the epoch with an error that says where the row is.
    #[default]
    Raise,
    /// Leaves the row out and counts it. A batch is then shorter, so that all ranks still have the same
    /// number of steps. A batch in which all rows are bad gets the next good row of its rank, so that no
    /// batch is empty; that row counts as repeated.
    ///
    /// A row is also bad if it holds a null and its column becomes an array of values: numbers, booleans,
    /// times, fixed-length binary, lists, and structures of these, unless `fill_null` gives a value. With
    /// [`Raise`](OnBadRow::Raise) such nulls are delivered, since Arrow can hold them. Text and binary may be
    /// null in any case.
    ///
    /// Only the wanted part of an image is decoded: damage outside that part, such as below a crop, is not
    /// found.
    Skip {
        /// The most rows that one rank may leave out in one epoch; one more ends the epoch with an error. A
        /// [`Position`](crate::Position) has the count.
        at_most: u64,
        /// Whether other rows of the same batch replace rows that are left out, so that batches keep their
        /// shape. They count as repeated.
        #[serde(default, skip_serializing_if = "is_false")]
        refill: bool,
    },
}

impl OnBadRow {
    /// Leaves out up to `at_most` rows per rank and epoch.
    pub fn skip(at_most: u64) -> Self {
        OnBadRow::Skip { at_most, refill: false }
    }

    /// Leaves out up to `at_most` rows per rank and epoch, and delivers other rows of the same batch in their
    /// place.
    pub fn refill(at_most: u64) -> Self {
        OnBadRow::Skip { at_most, refill: true }
    }

    /// Whether other rows replace those that are left out, so that batches keep their shape.
    pub(crate) fn refills(self) -> bool {
        matches!(self, OnBadRow::Skip { refill: true, .. })
    }

    /// Fails if more bad rows were left out than allowed: `all` has the bad rows that an epoch left out, in
    /// addition to `before` earlier ones.
    pub(crate) fn check(self, before: u64, all: &[BadRow]) -> Result<()> {
        let OnBadRow::Skip { at_most, .. } = self else { return Ok(()) };
        let left = usize::try_from(at_most.saturating_sub(before)).unwrap_or(usize::MAX);
        let Some(one_more) = all.get(left) else { return Ok(()) };
        let (count, error) = (before + all.len() as u64, one_more.error());
        let cause = format!("{count} bad rows, of which {at_most} may be skipped: {}", error.cause());
        Err(Error::new(ErrorKind::BadRow, cause)
            .at(error.place().clone())
            .hint("raise at_most, or repair the rows"))
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
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
///     println!("{}", row.error()); // photos/a.parquet, row group 7, row 512, column "image": corrupt JPEG: …
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BadRow {
    /// The reason. All rows of a row group that cannot be read share one reason, which does not name a row:
    /// there may be millions.
    reason: Error,
    /// The ordinal of the row in its row group.
    row: u64,
    /// The number of the row in the data set. Given to [`Deny`](crate::Deny), it leaves the row out of later
    /// runs.
    pub id: RowId,
    /// The global row at which the step that left the row out ends.
    pub end: u64,
}

impl BadRow {
    pub(crate) fn new(reason: Error, row: u64, id: RowId) -> Self {
        BadRow { reason, row, id, end: 0 }
    }

    /// This bad row, as left out of a step that ends at row `end`.
    pub(crate) fn until(self, end: u64) -> Self {
        BadRow { end, ..self }
    }

    /// The reason why the row was left out, with its place.
    pub fn error(&self) -> Error {
        self.reason.clone().at(Place::default().row(self.row))
    }
}
