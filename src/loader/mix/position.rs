//! How far a mix got: a few integers, and the name of each source's order.

use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::shard::{OrderId, Origin, SavedFiles, SavedSplit, Stop};

/// The format that is written.
const VERSION: u32 = 2;

/// How far an epoch of a [`Mix`](crate::Mix) got: in JSON types only, and the same on every rank.
///
/// It resumes on any number of processes, as a [`Position`](crate::Position) does.
///
/// ```no_run
/// # fn saved() -> String { unimplemented!() }
/// # fn resume(mix: forebay::Mix) -> Result<(), Box<dyn std::error::Error>> {
/// let position: forebay::MixPosition = serde_json::from_str(&saved())?;
/// mix.restore(&position)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MixPosition {
    /// Format of this record: `{"mix": 1}`.
    #[serde(rename = "mix")]
    pub version: u32,
    /// The epoch that is under way, or about to begin.
    pub epoch: u64,
    /// Rows of it that were handed over, of all sources and ranks together.
    pub row: u64,
    /// The number of the next step, counted through all epochs.
    pub step: u64,
    /// Each source: its data set and order, and how far the epoch got in it.
    pub sources: Vec<SavedSource>,
    /// When an epoch ends.
    pub stop: Stop,
    /// Whether sources are repeated.
    pub repeat: bool,
    /// The weights, as parts, by the step from which they hold.
    pub schedule: Vec<(u64, Vec<u64>)>,
    /// The seed by which the source of each row is drawn, if it is by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_shares: Option<u64>,
    /// The step from which steps have been as they are, if that is not the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<SavedOrigin>,
    /// The batches, by which steps are counted.
    pub split: SavedSplit,
}

/// One source in a [`MixPosition`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedSource {
    /// Fingerprint of its data set.
    pub fingerprint: String,
    /// Its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<SavedFiles>,
    /// Its order.
    pub order: OrderId,
    /// The number of its first pass in the epoch.
    pub first_pass: u64,
    /// Rows of it that the epoch has given.
    pub rows: u64,
    /// Bad rows that the rank that saved it had left out of the pass that is under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

/// The step from which steps have been as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedOrigin {
    epoch: u64,
    step: u64,
    passes: Vec<u64>,
    taken: Vec<u64>,
}

impl From<Origin> for SavedOrigin {
    fn from(Origin { epoch, step, passes, taken }: Origin) -> Self {
        SavedOrigin { epoch, step, passes, taken }
    }
}

impl From<SavedOrigin> for Origin {
    fn from(SavedOrigin { epoch, step, passes, taken }: SavedOrigin) -> Self {
        Origin { epoch, step, passes, taken }
    }
}

impl MixPosition {
    /// The format that this release writes and reads.
    pub(super) const fn version() -> u32 {
        VERSION
    }

    /// Refuses a position of another mix. The batches may differ, and weights from its step on.
    pub(super) fn check(&self, here: &MixPosition) -> Result<()> {
        let differs = |what: &str, saved: &dyn std::fmt::Display, here: &dyn std::fmt::Display| {
            let cause = format!("the state was saved with {what} {saved}, this mix has {here}");
            Err(Error::new(ErrorKind::StateMismatch, cause)
                .hint("build the mix as it was then, or start again without the state"))
        };
        if self.version != VERSION {
            return differs("format version", &self.version, &VERSION);
        }
        if self.sources.len() != here.sources.len() {
            return differs("a number of sources of", &self.sources.len(), &here.sources.len());
        }
        if self.stop != here.stop {
            let name = |stop| if stop == Stop::First { "first" } else { "last" };
            return differs("stop", &name(self.stop), &name(here.stop));
        }
        if self.repeat != here.repeat {
            return differs("repeat", &self.repeat, &here.repeat);
        }
        if self.random_shares != here.random_shares {
            let name = |seed: Option<u64>| seed.map_or("none".to_owned(), |seed| seed.to_string());
            return differs("random_shares", &name(self.random_shares), &name(here.random_shares));
        }
        let until = |position: &MixPosition| -> Vec<(u64, Vec<u64>)> {
            position.schedule.iter().filter(|(from, _)| *from < self.step).cloned().collect()
        };
        let (saved, here) = (until(self), until(here));
        if saved != here {
            let words = |schedule: &[(u64, Vec<u64>)]| {
                let all = schedule.iter().map(|(step, weights)| format!("{weights:?} from step {step}"));
                all.collect::<Vec<_>>().join(", ")
            };
            return differs("the weights", &words(&saved), &words(&here)).map_err(|error| {
                error.hint_also(&format!("other weights may begin at step {} or later", self.step))
            });
        }
        let is_damaged = self.sources.iter().any(|source| source.order.lanes == 0 || source.order.pool == 0)
            || self.sources.iter().map(|source| u128::from(source.rows)).sum::<u128>()
                != u128::from(self.row)
            || self.origin.as_ref().is_some_and(|origin| {
                origin.passes.len() != self.sources.len() || origin.taken.len() != self.sources.len()
            });
        if is_damaged {
            return Err(damaged());
        }
        Ok(())
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub(super) fn damaged() -> Error {
    Error::new(ErrorKind::StateMismatch, "the state is damaged: its numbers contradict each other")
}
