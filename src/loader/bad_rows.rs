//! Rows that cannot be delivered: what to do with them, and which they were.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What to do with a row that cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadRow {
    /// End the epoch with an error that says where the row is.
    #[default]
    Raise,
    /// Leave it out and count it. A batch is shorter by the rows that were left out of it, so that all ranks still
    /// have equally many steps.
    ///
    /// A row is also bad where it holds a null and its column becomes an array of values: numbers, booleans, times, binary
    /// of fixed length, and lists of these, unless `fill_null` gives a value. With [`Raise`](OnBadRow::Raise) such
    /// nulls are delivered, for Arrow has room for them. Text and binary may be null in any case.
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

/// A row that was left out.
#[derive(Clone, Debug)]
pub struct BadRow {
    /// Why, and where it is.
    pub error: Error,
}
