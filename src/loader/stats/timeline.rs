//! The time of the training loop over the course of a run.

use serde::{Deserialize, Serialize};

use super::{NANOS, Waits};
use crate::monitor::{self, Stage, Timings};

/// The time of the training loop over the course of a run, in buckets of equal width that follow each other
/// from its first request for a batch on.
///
/// There are at most 600 buckets. They are a second wide at first; when all are full, neighbours are merged
/// and the width doubles. Their sums are [`Stats::waits`](super::Stats::waits) and
/// [`Stats::consumer`](super::Stats::consumer).
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let timeline = loader.stats().timeline;
/// for (number, bucket) in timeline.buckets.iter().enumerate() {
///     let second = number as f64 * timeline.bucket_seconds;
///     println!("from second {second}: {} rows, waited {:.2} s", bucket.rows, bucket.waits.total());
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Width of each bucket, in seconds.
    pub bucket_seconds: f64,
    /// The buckets, from the first request on.
    pub buckets: Vec<Bucket>,
}

/// The work and waits of the training loop in one bucket of a [`Timeline`]. Time between epochs is not
/// counted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Seconds that the training loop waited, by stage.
    pub waits: Waits,
    /// Seconds of the training loop's own work.
    pub consumer: f64,
    /// The number of rows in the batches that the training loop got.
    pub rows: u64,
    /// The number of batches that the training loop got.
    pub batches: u64,
}

impl Timeline {
    pub(super) fn read(timings: &Timings) -> Self {
        let monitor::Timeline { width, ref buckets, .. } = timings.timeline;
        Timeline { bucket_seconds: width as f64 / NANOS, buckets: buckets.iter().map(Bucket::read).collect() }
    }
}

impl Bucket {
    fn read(bucket: &monitor::TimeStretch) -> Self {
        Bucket {
            waits: Waits::read(&bucket.waits),
            consumer: bucket.waits[Stage::Consumer as usize] / NANOS,
            rows: bucket.rows,
            batches: bucket.batches,
        }
    }

    /// The share of the time within epochs in which the training loop had its batch; `None` for a bucket
    /// between epochs.
    pub fn busy(&self) -> Option<f64> {
        let time = self.waits.total() + self.consumer;
        (time > 0.0).then(|| self.consumer / time)
    }
}
