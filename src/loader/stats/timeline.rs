//! The waits and the work of the training loop in each stretch of a run.

use serde::{Deserialize, Serialize};

use super::{NANOS, Waits};
use crate::monitor::{self, Stage, Timings};

/// The waits and the work of the training loop during a run, in buckets of time. All buckets are equally
/// long, and the first one begins with the loop's first request for a batch.
///
/// There are at most 600 buckets. A bucket is one second long at first; when all are full, neighbours are
/// merged in pairs and the length doubles. The times of all buckets add up to
/// [`Stats::waits`](super::Stats::waits) and [`Stats::consumer`](super::Stats::consumer).
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
    /// The length of each bucket, in seconds.
    pub bucket_seconds: f64,
    /// The buckets in the order of time. The first one begins with the first request for a batch.
    pub buckets: Vec<Bucket>,
}

/// The work and waits of the training loop in one bucket of a [`Timeline`]. Time between epochs is not
/// counted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The seconds that the training loop waited, by the stage that it waited for.
    pub waits: Waits,
    /// The seconds that the training loop spent on its own work.
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

    /// The share of this bucket's time in which the training loop worked on a batch instead of waiting, from
    /// 0 to 1. Time between epochs is not counted; `None` if there is no other time in the bucket.
    pub fn busy(&self) -> Option<f64> {
        let time = self.waits.total() + self.consumer;
        (time > 0.0).then(|| self.consumer / time)
    }
}
