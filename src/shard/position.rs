//! How far an epoch got: a few integers and a fingerprint.

use serde::{Deserialize, Serialize};

use super::order::OrderSpec;
use super::spec::Mixing;
use crate::error::{Error, ErrorKind, Result};

/// The format of [`Position`] that is written.
const POSITION_VERSION: u32 = 2;

/// What was handed over, as JSON types only and the same on every rank.
///
/// A position taken on one world resumes on another: it counts rows of the global order, which does not depend on who
/// reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Format of this record.
    pub version: u32,
    /// Fingerprint of the data set that it belongs to.
    pub fingerprint: String,
    /// The order that it counts in.
    pub order: OrderId,
    /// The epoch that is under way, or about to begin.
    pub epoch: u64,
    /// Rows of it that were handed over, all ranks together.
    pub row: u64,
    /// In which form a cache kept images, where there was one: it decides no order, but may change pixels by a little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_tier: Option<String>,
}

/// An order by name: all that decides it beside the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderId {
    /// `stored`, `window` or `exact`.
    pub shuffle: String,
    /// Seed of order and augmentation.
    pub seed: u64,
    /// Row groups in a lane's pool.
    pub pool: u32,
    /// Interleaved lanes.
    pub lanes: u32,
    /// Rows that the filter selects.
    pub rows: u64,
    /// The filter in canonical form.
    pub filter: Option<String>,
}

impl OrderId {
    pub(crate) fn new(spec: &OrderSpec, rows: u64, filter: Option<String>) -> Self {
        let shuffle = match spec.mixing {
            Mixing::Stored => "stored",
            Mixing::Window => "window",
            Mixing::Exact => "exact",
        };
        OrderId { shuffle: shuffle.into(), seed: spec.seed, pool: spec.pool, lanes: spec.lanes, rows, filter }
    }
}

impl Position {
    pub(crate) fn new(fingerprint: String, order: OrderId, epoch: u64, row: u64) -> Self {
        Position { version: POSITION_VERSION, fingerprint, order, epoch, row, cache_tier: None }
    }

    /// Refuses a position that does not belong to the given data set and order. Lanes and pool may differ, if the
    /// caller is ready to take them over from the position.
    pub(crate) fn check(&self, fingerprint: &str, order: &OrderId) -> Result<()> {
        let differs = |what: &str, saved: &dyn std::fmt::Display, here: &dyn std::fmt::Display| {
            Err(Error::new(
                ErrorKind::StateMismatch,
                format!("the state was saved with {what} {saved}, this loader has {here}"),
            )
            .hint("give the loader what it had then, or start anew without the state"))
        };
        if self.version != POSITION_VERSION {
            return differs("format version", &self.version, &POSITION_VERSION);
        }
        if self.fingerprint != fingerprint {
            return differs("data set", &self.fingerprint, &fingerprint);
        }
        let (saved, here) = (&self.order, order);
        if saved.shuffle != here.shuffle {
            return differs("shuffle", &saved.shuffle, &here.shuffle);
        }
        if saved.seed != here.seed {
            return differs("seed", &saved.seed, &here.seed);
        }
        if saved.filter != here.filter {
            let words = |filter: &Option<String>| filter.clone().unwrap_or_else(|| "none".into());
            return differs("filter", &words(&saved.filter), &words(&here.filter));
        }
        if saved.rows != here.rows {
            return differs("selected rows", &saved.rows, &here.rows);
        }
        if saved.lanes == 0 || u64::from(saved.lanes) > saved.rows || saved.pool == 0 || self.row > saved.rows
        {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                "the state is damaged: its numbers contradict each other",
            ));
        }
        Ok(())
    }
}
