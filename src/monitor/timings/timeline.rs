//! Splits the time of the training loop into buckets of equal length.
//!
//! The memory is bounded: when all buckets are full, neighbours are merged in pairs and the length doubles.
//! Every time that is added to `Timings::waits` is also added to a bucket, so both have the same sums.

use std::ops::Range;

use super::STAGES;
use crate::monitor::stage::Stage;

/// The largest number of buckets.
const BUCKETS: usize = 600;

/// The length of a bucket at first, in nanoseconds.
const FIRST_WIDTH: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The time when the first bucket begins, which is the time of the first request for a batch.
    from: Option<u64>,
    /// The length of each bucket, in nanoseconds.
    pub(crate) width: u64,
    pub(crate) buckets: Vec<TimeStretch>,
}

/// One bucket: how the training loop spent its time in it, and the rows and batches that it got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimeStretch {
    /// Nanoseconds by stage, as in `Timings::waits`.
    pub(crate) waits: [f64; STAGES],
    pub(crate) rows: u64,
    pub(crate) batches: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { from: None, width: FIRST_WIDTH, buckets: Vec::new() }
    }
}

impl Timeline {
    /// Adds a share of a span of time to a stage. A span that crosses the end of a bucket is split there.
    pub(super) fn spend(&mut self, stage: Stage, span: Range<u64>, share: f64) {
        let mut from = span.start;
        while from < span.end {
            let (bucket, end) = self.bucket_at(from);
            let to = span.end.min(end);
            bucket.waits[stage as usize] += (to - from) as f64 * share;
            from = to;
        }
    }

    /// Counts a batch of `rows` rows that the training loop got at the time `at`.
    pub(super) fn deliver(&mut self, rows: u64, at: u64) {
        let (bucket, _) = self.bucket_at(at);
        bucket.rows += rows;
        bucket.batches += 1;
    }

    /// Finds the bucket that contains a time. Returns it with the time when it ends.
    fn bucket_at(&mut self, at: u64) -> (&mut TimeStretch, u64) {
        let from = *self.from.get_or_insert(at);
        let since = at.saturating_sub(from);
        while since / self.width >= BUCKETS as u64 {
            self.merge();
        }
        let place = (since / self.width) as usize;
        if place >= self.buckets.len() {
            // The memory for all buckets is reserved at once, so that no later batch waits for an allocation.
            self.buckets.reserve_exact(BUCKETS - self.buckets.len());
            self.buckets.resize(place + 1, TimeStretch::default());
        }
        (&mut self.buckets[place], from + (place as u64 + 1) * self.width)
    }

    /// Merges neighbouring buckets in pairs, and doubles their length.
    fn merge(&mut self) {
        self.width *= 2;
        let merged = self.buckets.len().div_ceil(2);
        for place in 0..merged {
            let mut bucket = self.buckets[2 * place];
            if let Some(next) = self.buckets.get(2 * place + 1) {
                bucket.add(next);
            }
            self.buckets[place] = bucket;
        }
        self.buckets.truncate(merged);
    }
}

impl TimeStretch {
    fn add(&mut self, other: &TimeStretch) {
        self.waits.iter_mut().zip(other.waits).for_each(|(sum, more)| *sum += more);
        self.rows += other.rows;
        self.batches += other.batches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = FIRST_WIDTH;

    fn fetched(timeline: &Timeline) -> Vec<f64> {
        timeline.buckets.iter().map(|bucket| bucket.waits[Stage::Fetch as usize] / SECOND as f64).collect()
    }

    #[test]
    fn a_span_is_split_where_a_bucket_ends() {
        let mut timeline = Timeline::default();
        let begun = 7 * SECOND;
        timeline.spend(Stage::Fetch, begun..begun + SECOND / 2, 1.0);
        timeline.spend(Stage::Fetch, begun + SECOND / 2..begun + 3 * SECOND + SECOND / 4, 0.5);
        assert_eq!(fetched(&timeline), [0.75, 0.5, 0.5, 0.125]);
        timeline.deliver(32, begun + 2 * SECOND);
        assert_eq!((timeline.buckets[2].rows, timeline.buckets[2].batches), (32, 1));
    }

    #[test]
    fn buckets_are_merged_in_pairs_when_all_are_full_and_nothing_is_lost() {
        let mut timeline = Timeline::default();
        let end = (BUCKETS as u64) * SECOND;
        for second in 0..BUCKETS as u64 {
            timeline.spend(Stage::Fetch, second * SECOND..(second + 1) * SECOND, 1.0);
            timeline.deliver(1, second * SECOND);
        }
        assert_eq!((timeline.buckets.len(), timeline.width), (BUCKETS, SECOND));
        timeline.spend(Stage::Fetch, end..end + SECOND, 1.0);
        assert_eq!((timeline.buckets.len(), timeline.width), (BUCKETS / 2 + 1, 2 * SECOND));
        let found = fetched(&timeline);
        assert!(found[..BUCKETS / 2].iter().all(|seconds| *seconds == 2.0), "{found:?}");
        assert_eq!(found[BUCKETS / 2], 1.0);
        assert_eq!(timeline.buckets.iter().map(|bucket| bucket.rows).sum::<u64>(), BUCKETS as u64);
    }

    #[test]
    fn a_span_longer_than_all_buckets_is_spread_over_wider_ones() {
        let mut timeline = Timeline::default();
        let length = 5_000 * SECOND;
        timeline.spend(Stage::Fetch, 0..length, 1.0);
        assert!(timeline.buckets.len() <= BUCKETS);
        assert_eq!(timeline.width, 16 * SECOND);
        assert_eq!(fetched(&timeline).iter().sum::<f64>(), 5_000.0);
    }
}
