//! The options of a mix as one value.

use std::path::PathBuf;

use forebay_base::{Error, Result, sizes};
use serde::{Deserialize, Serialize};

use crate::loader::spec::LoaderSpec;
use crate::shard::{Shard, Stop, Weights};

/// The most weights of a schedule, over all sources: a position has them all, in less than 64 KiB.
const MOST_WEIGHTS: usize = 4_000;

/// Options of a [`Mix`](crate::Mix), with the names that they have in Python: those that belong to all sources together.
///
/// ```
/// let text = r#"{"batch_size": 64, "stop": "last", "repeat": true, "schedule": [[1000, [0.5, 0.5]]]}"#;
/// let spec: forebay::MixSpec = serde_json::from_str(text)?;
/// assert_eq!((spec.batch_size, spec.stop), (64, forebay::Stop::Last));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MixSpec {
    /// Other weights from a step of the run on, one for each source. Default: those of the sources throughout.
    pub schedule: Vec<(u64, Vec<f64>)>,
    /// The seed by which the source of each row is drawn, if it is by chance. Default: each step has its exact share of each
    /// source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_shares: Option<u64>,
    /// When an epoch ends. Default: with the first source that ends.
    pub stop: Stop,
    /// Whether a source that ends before the epoch begins again. Default: true.
    pub repeat: bool,
    /// Whether batches have a column `source` with the number of the source of each row. Default: false.
    pub source: bool,
    /// The share of this process. Default: everything.
    pub shard: Shard,
    /// Rows of a batch of one rank. Default: 32.
    pub batch_size: u64,
    /// Rows of a step over all ranks, instead of `batch_size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_batch_size: Option<u64>,
    /// Whether steps that are not full are left out. Default: false.
    pub drop_last: bool,
    /// How many epochs there will be. Default: unknown.
    pub epochs: Option<u64>,
    /// Bytes for everything in flight, of all sources. Default: as for a loader.
    #[serde(deserialize_with = "sizes::deserialize_optional")]
    pub memory: Option<u64>,
    /// Threads that decode, for all sources. Default: the processors that this process may use.
    pub threads: Option<usize>,
    /// The file for a timeline. Default: none.
    pub trace: Option<PathBuf>,
}

impl Default for MixSpec {
    fn default() -> Self {
        MixSpec {
            schedule: Vec::new(),
            random_shares: None,
            stop: Stop::default(),
            repeat: true,
            source: false,
            shard: Shard::default(),
            batch_size: LoaderSpec::BATCH_SIZE,
            global_batch_size: None,
            drop_last: false,
            epochs: None,
            memory: None,
            threads: None,
            trace: None,
        }
    }
}

impl MixSpec {
    /// Rows of a full step, over all ranks.
    pub(super) fn global_batch(&self) -> u64 {
        self.global_batch_size.unwrap_or_else(|| self.batch_size.saturating_mul(self.shard.world().into()))
    }

    /// The weights by the step of the run from which they hold: those of the sources first.
    ///
    /// # Errors
    /// A weight can never work, there are not as many as sources, or a step does not follow the one before.
    pub(super) fn weights(&self, first: &[f64]) -> Result<Vec<(u64, Weights)>> {
        let weights = first.len().saturating_mul(self.schedule.len());
        if weights > MOST_WEIGHTS {
            let cause = format!(
                "the schedule has {weights} weights: {} changes of {} sources",
                self.schedule.len(),
                first.len()
            );
            return Err(Error::invalid(cause)
                .hint(format!("a position holds up to {MOST_WEIGHTS}; change the weights less often")));
        }
        let mut all = vec![(0, Weights::new(first)?)];
        for (step, weights) in &self.schedule {
            if weights.len() != first.len() {
                let cause = format!("the schedule has {} weights at step {step}", weights.len());
                return Err(Error::invalid(cause).hint(format!("there are {} sources", first.len())));
            }
            if all.last().is_some_and(|(before, _)| step <= before) {
                return Err(Error::invalid(format!("the schedule has step {step} in the wrong place")).hint(
                    "its steps ascend, and are 1 or more: the weights of the sources hold from step 0",
                ));
            }
            all.push((*step, Weights::new(weights)?));
        }
        Ok(all)
    }
}
