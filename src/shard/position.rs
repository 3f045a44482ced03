//! How far an epoch got: a few integers and a fingerprint.

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::order::OrderSpec;
use crate::error::{Error, ErrorKind, Result};

/// The format of [`Position`] that is written.
const POSITION_VERSION: u32 = 2;

/// The largest number of an epoch: the one after it has a number too, by which a position says that it is complete.
pub(crate) const LAST_EPOCH: u64 = u64::MAX - 1;

/// How far an epoch got: in JSON types only, and the same on every rank.
///
/// A position resumes on any number of processes: it counts rows of the global order, which does not depend on the ranks
/// that read them. Save it with the model, as JSON for example, and give it to
/// [`Loader::restore`](crate::Loader::restore):
///
/// ```
/// # let json = r#"{"version":2,"fingerprint":"00","epoch":3,"row":640,
/// #     "order":{"shuffle":"window","seed":17,"pool":4,"lanes":2,"rows":1000,"filter":null}}"#;
/// let position: forebay::Position = serde_json::from_str(json)?;
/// assert_eq!((position.epoch, position.row), (3, 640));
///
/// // A position of a version that this release does not read is refused as such, whatever its fields are.
/// let later = serde_json::from_str::<forebay::Position>(r#"{"version":9,"when":"later"}"#);
/// assert!(later.unwrap_err().to_string().contains("format version 9"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Versioned")]
#[non_exhaustive]
pub struct Position {
    /// Format of this record.
    pub version: u32,
    /// Fingerprint of the data set that it belongs to.
    pub fingerprint: String,
    /// The order that it counts in.
    #[doc(hidden)]
    pub order: OrderId,
    /// The epoch that is under way, or about to begin.
    pub epoch: u64,
    /// Rows of it that were handed over, all ranks together.
    pub row: u64,
    /// The form in which a cache kept images, if there was one: it does not change the order, but may change pixels
    /// slightly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_tier: Option<String>,
}

/// A position as it is read: its version, and the rest unparsed, since another version has other fields.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
    #[serde(flatten)]
    fields: Map<String, serde_json::Value>,
}

/// The fields of version [`POSITION_VERSION`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    fingerprint: String,
    order: OrderId,
    epoch: u64,
    row: u64,
    #[serde(default)]
    cache_tier: Option<String>,
}

impl TryFrom<Versioned> for Position {
    type Error = String;

    fn try_from(Versioned { version, fields }: Versioned) -> Result<Self, String> {
        if version != POSITION_VERSION {
            return Err(format!(
                "the state has format version {version}, and this release reads version {POSITION_VERSION}"
            ));
        }
        let fields = serde_json::from_value(fields.into()).map_err(|error| error.to_string())?;
        let Fields { fingerprint, order, epoch, row, cache_tier } = fields;
        Ok(Position { version, fingerprint, order, epoch, row, cache_tier })
    }
}

/// An order by name: everything that decides it beside the data set.
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
        OrderId {
            shuffle: spec.mixing.name().into(),
            seed: spec.seed,
            pool: spec.pool,
            lanes: spec.lanes,
            rows,
            filter,
        }
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
            .hint("build the loader as it was then, or start again without the state"))
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
        if self.epoch > LAST_EPOCH && self.row > 0 {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "the state is damaged: it is in epoch {}, and the last one is {LAST_EPOCH}",
                    self.epoch
                ),
            ));
        }
        Ok(())
    }
}
