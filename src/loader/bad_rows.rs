//! Rows that cannot be delivered: what to do with them, and which they were.

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::RowId;
use serde::{Deserialize, Serialize};

/// What else may be done about a bad row.
pub(crate) const SKIP_HINT: &str = "to count and skip such rows, say so with `on_bad_row`";

/// What to do with a row that cannot be delivered. Default: raise.
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
    /// End the epoch with an error that says where the row is.
    #[default]
    Raise,
    /// Leave it out and count it. A batch is shorter by the rows that were left out of it, so that all ranks still
    /// have equally many steps. One without any row that can be delivered has the next row of its rank's that can be, so that no
    /// batch is empty; it counts as repeated.
    ///
    /// A row is also bad where it holds a null and its column becomes an array of values: numbers, booleans, times, binary
    /// of fixed length, lists, and structures of these, unless `fill_null` gives a value. With [`Raise`](OnBadRow::Raise) such
    /// nulls are delivered, for Arrow has room for them. Text and binary may be null in any case.
    ///
    /// Of an image only the part that is wanted is decoded: damage outside that part, such as below a crop, is not seen.
    Skip {
        /// Rows that one rank may leave out in one epoch; one more ends it with an error. A [`Position`](crate::Position)
        /// has the count.
        at_most: u64,
        /// Whether rows of the same batch take the place of those that are left out, so that batches keep their shape. They
        /// count as repeated.
        #[serde(default, skip_serializing_if = "is_false")]
        refill: bool,
    },
}

impl OnBadRow {
    /// Leaves out up to `at_most` rows per rank and epoch.
    pub fn skip(at_most: u64) -> Self {
        OnBadRow::Skip { at_most, refill: false }
    }

    /// Leaves out up to `at_most` rows per rank and epoch, and delivers others of the same batch in their place.
    pub fn refill(at_most: u64) -> Self {
        OnBadRow::Skip { at_most, refill: true }
    }

    /// Whether batches keep their shape.
    pub(crate) fn refills(self) -> bool {
        matches!(self, OnBadRow::Skip { refill: true, .. })
    }

    /// The error of more bad rows than may be left out, if these are: of `all` the last ones of an epoch that left out `before`
    /// others.
    pub(crate) fn check(self, before: u64, all: &[BadRow]) -> Result<()> {
        let OnBadRow::Skip { at_most, .. } = self else { return Ok(()) };
        let left = usize::try_from(at_most.saturating_sub(before)).unwrap_or(usize::MAX);
        let Some(one_more) = all.get(left) else { return Ok(()) };
        let (count, error) = (before + all.len() as u64, one_more.error());
        let cause = format!("{count} bad rows, of which {at_most} may be skipped: {}", error.cause());
        Err(Error::new(ErrorKind::BadRow, cause)
            .at(error.place().clone())
            .hint("raise at_most, or mend the rows"))
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
    /// The reason. The rows of a row group that cannot be read share one, which does not name a row: they may be millions.
    reason: Error,
    /// Its ordinal in its row group.
    row: u64,
    /// Its number, by which [`Deny`](crate::Deny) leaves it out from then on.
    pub id: RowId,
    /// The row of the epoch's order after its step.
    pub end: u64,
}

impl BadRow {
    pub(crate) fn new(reason: Error, row: u64, id: RowId) -> Self {
        BadRow { reason, row, id, end: 0 }
    }

    /// The same of a step after which the epoch is at row `end`.
    pub(crate) fn until(self, end: u64) -> Self {
        BadRow { end, ..self }
    }

    /// The reason, with its place.
    pub fn error(&self) -> Error {
        self.reason.clone().at(Place::default().row(self.row))
    }
}
