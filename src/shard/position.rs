//! How far an epoch got: a few integers and a fingerprint.

use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::files::SavedFiles;
use super::kept_text::kept_text;
use super::order_spec::OrderSpec;
use super::skips::SkippedRows;
use super::spec::Shuffle;
use super::split::Split;

/// The format of [`Position`] that is written.
const POSITION_VERSION: u32 = 3;

/// The largest number of an epoch: the one after it has a number too, by which a position says that it is complete.
pub(crate) const LAST_EPOCH: u64 = u64::MAX - 1;

/// How far an epoch got: in JSON types only, and the same on every rank.
///
/// A position resumes on any number of processes: it counts rows of the global order, which does not depend on the ranks
/// that read them. Save it with the model, as JSON for example, and give it to
/// [`Loader::restore`](crate::Loader::restore):
///
/// ```
/// # let json = r#"{"version":3,"fingerprint":"00","epoch":3,"row":640,
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
    pub order: OrderId,
    /// The epoch that is under way, or about to begin.
    pub epoch: u64,
    /// Rows of it that were handed over, all ranks together.
    pub row: u64,
    /// Bad rows that the rank that saved it had left out of the epoch until then. It is the one field in which ranks may differ:
    /// it counts against the limit of [`OnBadRow::Skip`](crate::OnBadRow::Skip), and no order depends on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// The form in which a cache kept images, if there was one: it does not change the order, but may change pixels
    /// slightly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_tier: Option<String>,
    /// The batches of the loader that was asked, by which its steps are counted; another loader may have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SavedSplit>,
    /// The files of the data set, to say what is not the same where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<SavedFiles>,
}

/// The batches of a loader, as a position has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedSplit {
    /// Rows of a full step, over all ranks.
    pub global_batch_size: u64,
    /// Number of ranks.
    pub world: u32,
    /// Whether rows that do not fill a step are left out.
    pub drop_last: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Split> for SavedSplit {
    fn from(split: Split) -> Self {
        let Split { global_batch: global_batch_size, shard, drop_last, .. } = split;
        SavedSplit { global_batch_size, world: shard.world(), drop_last }
    }
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
    skipped: u64,
    #[serde(default)]
    cache_tier: Option<String>,
    #[serde(default)]
    split: Option<SavedSplit>,
    #[serde(default)]
    files: Option<SavedFiles>,
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
        let Fields { fingerprint, order, epoch, row, skipped, cache_tier, split, files } = fields;
        Ok(Position { version, fingerprint, order, epoch, row, skipped, cache_tier, split, files })
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
    /// The filter in canonical form, or a hash of it where it is long.
    pub filter: Option<String>,
    /// A hash of the rows that are denied, if some are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    /// What a sample is, in canonical form or a hash of that, if it is not a row; all rows are counted in samples then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<String>,
    /// The most rows of a row group that is shuffled as a whole, if larger ones are in pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) piece_rows: Option<u64>,
    /// Rows that are passed over: epoch, first row, and the row after the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<SkippedRows>,
}

impl OrderId {
    pub(crate) fn new(spec: &OrderSpec, rows: u64, filter: Option<String>, denied: Option<String>) -> Self {
        OrderId {
            shuffle: spec.mixing.name().into(),
            seed: spec.seed,
            pool: spec.pool,
            lanes: spec.lanes,
            rows,
            filter: filter.map(kept_text),
            denied,
            samples: None,
            piece_rows: spec.piece_rows,
            skipped: spec.skipped.to_vec(),
        }
    }

    /// The shuffle of a loader that takes a position of this order, and its window from it.
    pub(crate) fn shuffle(&self) -> Result<Shuffle> {
        let mixing = serde_json::from_value(self.shuffle.as_str().into()).map_err(|_| {
            let cause =
                format!("the state has an order {:?}, which this release does not know", self.shuffle);
            Error::new(ErrorKind::StateMismatch, cause).hint("use the release that saved it, or a later one")
        })?;
        let OrderId { seed, lanes, piece_rows, .. } = *self;
        Ok(Shuffle { mixing, seed, window_rows: None, lanes: Some(lanes), piece_rows })
    }
}

impl OrderId {
    /// Refuses an order in which other rows are denied than in this one, which was saved.
    pub(crate) fn check_denied(&self, here: &OrderId) -> Result<()> {
        if self.denied == here.denied {
            return Ok(());
        }
        let words = |denied: &Option<String>| denied.clone().unwrap_or_else(|| "none".into());
        let cause = format!(
            "the state was saved with denied rows {}, and here they are {}",
            words(&self.denied),
            words(&here.denied)
        );
        Err(Error::new(ErrorKind::StateMismatch, cause)
            .hint("give the lists that the run was given with `deny`"))
    }
}

impl Position {
    pub(crate) fn new(fingerprint: String, order: OrderId, epoch: u64, row: u64) -> Self {
        Position {
            version: POSITION_VERSION,
            fingerprint,
            order,
            epoch,
            row,
            skipped: 0,
            cache_tier: None,
            split: None,
            files: None,
        }
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
        if saved.piece_rows != here.piece_rows {
            let words = |rows: Option<u64>| rows.map_or_else(|| "none".into(), |rows| rows.to_string());
            return differs("piece_rows", &words(saved.piece_rows), &words(here.piece_rows));
        }
        if saved.filter != here.filter {
            let words = |filter: &Option<String>| filter.clone().unwrap_or_else(|| "none".into());
            return differs("filter", &words(&saved.filter), &words(&here.filter));
        }
        if saved.samples != here.samples {
            let words = |samples: &Option<String>| samples.clone().unwrap_or_else(|| "rows".into());
            return differs("samples", &words(&saved.samples), &words(&here.samples));
        }
        // Between epochs no row of the next one has come, so that it may leave out others than the last one did.
        let may_deny_others = self.row == 0;
        if saved.denied != here.denied && !may_deny_others {
            let words = |denied: &Option<String>| denied.clone().unwrap_or_else(|| "none".into());
            return differs("denied rows", &words(&saved.denied), &words(&here.denied)).map_err(|error| {
                error.hint_also("other rows may be denied from a state between two epochs on")
            });
        }
        if saved.rows != here.rows && saved.denied == here.denied {
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
