//! Bad rows: the policy for rows that cannot be delivered, and a record of each row that was left out.

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
    /// With this policy, a null also makes its row bad if the column holds numbers, booleans, times,
    /// fixed-length binary, lists, or structures of these, and `fill_null` gives no value for it. With
    /// [`Raise`](OnBadRow::Raise) such nulls are delivered as nulls. In columns of text and binary, nulls are
    /// delivered with either policy.
    ///
    /// Only the wanted part of an image is decoded: damage outside that part, such as below a crop, is not
    /// found.
    Skip {
        /// The most rows that one rank may leave out in one epoch; one more ends the epoch with an error. A
        /// [`Position`](crate::Position) saves how many rows were left out so far.
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

    /// Fails if an epoch left out more bad rows than allowed. `all` are bad rows that it left out, and
    /// `before` is the number of rows that it left out before them.
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
    /// The reason, without the row's number. If a row group cannot be read, its rows, which may be millions,
    /// share one reason.
    reason: Error,
    /// The ordinal of the row in its row group.
    row: u64,
    /// The number of the row in the data set. Pass it to [`Deny`](crate::Deny) to leave the row out of later
    /// runs.
    pub id: RowId,
    /// The number of rows in the epoch's order, over all ranks, up to the end of the step that left this row
    /// out.
    pub end: u64,
}

impl BadRow {
    pub(crate) fn new(reason: Error, row: u64, id: RowId) -> Self {
        BadRow { reason, row, id, end: 0 }
    }

    /// Sets `end`, the position in the epoch at which the step that left the row out ends.
    pub(crate) fn until(self, end: u64) -> Self {
        BadRow { end, ..self }
    }

    /// The reason why the row was left out, with its place.
    pub fn error(&self) -> Error {
        self.reason.clone().at(Place::default().row(self.row))
    }
}
