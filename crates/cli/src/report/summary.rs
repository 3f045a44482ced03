//! The figures of a training run over all its ranks.

use forebay::Stats;
use forebay::stats::{Bucket, NextBin, Stage, Stages, Timeline, Verdict, Waits};
use serde::Serialize;

use super::RankReport;

/// The most ranks whose timelines are in the JSON of a page. More would make the page slow, and each rank's
/// own report has its timeline anyway.
const MAX_RANKS_IN_FULL: usize = 8;
/// The largest share of a run that the wait for the first batch may take before the run counts as short.
const MAX_START_SHARE: f64 = 0.25;
/// Two bins are the same if the ratio of their upper ends is below this number, since rounding may differ.
const SAME_BIN: f64 = 1.01;

/// A training run.
#[derive(Serialize)]
pub(super) struct Summary {
    version: String,
    pub(super) locations: Vec<String>,
    pub(super) world: u32,
    /// The number of ranks that are in the report.
    pub(super) reported: u64,
    batch_size: u64,
    rows: u64,
    batches: u64,
    /// The longest time that a rank spent within epochs.
    pub(super) seconds: f64,
    rows_per_second: f64,
    /// The share of the time in which a training loop did not wait for a batch: the smallest of all ranks.
    busy_min: Option<f64>,
    first_batch: f64,
    /// The times of `next()`. Each number is the largest among all ranks.
    pub(super) next: NextTimes,
    pub(super) next_histogram: Vec<NextBin>,
    pub(super) too_short: bool,
    pub(super) verdict: Verdict,
    pub(super) waited: Waits,
    pub(super) stages: Stages,
    /// The largest resident memory of a rank's process.
    peak_rss_bytes: Option<u64>,
    /// The memory budgets of all ranks, added up.
    budget_bytes: u64,
    requests: u64,
    bytes_read: u64,
    cache_hits: u64,
    cache_misses: u64,
    skipped_rows: u64,
    padded_rows: u64,
    pub(super) ranks: Vec<Rank>,
}

/// Percentiles of the time that `next()` took, in seconds.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct NextTimes {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// One rank of a training run.
#[derive(Serialize)]
pub(super) struct Rank {
    pub(super) rank: u32,
    rows: u64,
    /// The share of the time in which this rank's training loop did not wait for a batch. The wait for the
    /// first batch is left out.
    busy: f64,
    stats: Stats,
}

impl Summary {
    pub(super) fn new(reports: Vec<RankReport>) -> Self {
        let stats: Vec<Stats> = reports.iter().map(|report| report.stats.clone()).collect();
        let sum = |of: fn(&Stats) -> u64| stats.iter().map(of).sum::<u64>();
        let most = |of: fn(&Stats) -> f64| stats.iter().map(of).fold(0.0, f64::max);
        let time = |stats: &Stats| stats.waits.total() + stats.consumer;
        let rate = |stats: &Stats| rows(stats) as f64 / time(stats).max(f64::MIN_POSITIVE);
        let (mut waited, mut stages) = (Waits::default(), Stages::default());
        for rank in &stats {
            waited.add(&rank.waits);
            stages.add(&rank.stages);
        }
        let seconds = most(|stats| stats.waits.total() + stats.consumer);
        let start = most(|stats| stats.next.first);
        let first = reports.first();
        let reported = reports.len() as u64;
        let ranks: Vec<Rank> =
            reports.iter().zip(&stats).map(|(report, stats)| Rank::new(report.rank, stats.clone())).collect();
        Summary {
            version: first.map(|report| report.version.clone()).unwrap_or_default(),
            locations: first.map(|report| report.locations.clone()).unwrap_or_default(),
            world: first.map_or(0, |report| report.world),
            reported,
            batch_size: first.map_or(0, |report| report.batch_size),
            rows: sum(rows),
            batches: sum(|stats| stats.timeline.buckets.iter().map(|bucket| bucket.batches).sum()),
            seconds,
            rows_per_second: stats.iter().map(rate).sum(),
            busy_min: ranks.iter().map(|rank| rank.busy).reduce(f64::min),
            first_batch: start,
            next: NextTimes {
                p50: most(|stats| stats.next.p50),
                p99: most(|stats| stats.next.p99),
                p999: most(|stats| stats.next.p999),
                max: most(|stats| stats.next.max),
            },
            next_histogram: histogram(&stats),
            too_short: start > MAX_START_SHARE * seconds,
            verdict: Stats::verdict_of(&stats),
            waited,
            stages,
            peak_rss_bytes: reports.iter().filter_map(|report| report.peak_rss_bytes).max(),
            budget_bytes: sum(|stats| stats.memory.budget),
            requests: sum(|stats| stats.traffic.requests),
            bytes_read: sum(|stats| stats.traffic.bytes_read),
            cache_hits: sum(|stats| stats.cache.as_ref().map_or(0, |cache| cache.hits)),
            cache_misses: sum(|stats| stats.cache.as_ref().map_or(0, |cache| cache.misses)),
            skipped_rows: sum(|stats| stats.skipped_rows),
            padded_rows: sum(|stats| stats.padded_rows),
            ranks,
        }
    }

    /// Whether the loader was fast enough: the training loops hardly waited, or have not begun.
    pub(super) fn is_fed(&self) -> bool {
        self.verdict.stage == Stage::Consumer
    }

    /// Removes the timeline of each rank if there are many ranks.
    pub(super) fn shorten(&mut self) {
        if self.ranks.len() > MAX_RANKS_IN_FULL {
            self.ranks.iter_mut().for_each(|rank| rank.stats.timeline = Timeline::default());
        }
    }

    /// The timelines of all ranks with buckets of the same width, and that width in seconds.
    pub(super) fn timelines(&self) -> (Vec<Vec<Bucket>>, f64) {
        let width = self.ranks.iter().map(|rank| rank.stats.timeline.bucket_seconds).fold(1.0, f64::max);
        // A timeline widens its buckets by doubling, so each width is a whole multiple of the smaller ones.
        let widened = |timeline: &Timeline| {
            let each = (width / timeline.bucket_seconds.max(f64::MIN_POSITIVE)).round().max(1.0) as usize;
            timeline.buckets.chunks(each).map(together).collect()
        };
        (self.ranks.iter().map(|rank| widened(&rank.stats.timeline)).collect(), width)
    }
}

impl Rank {
    fn new(rank: u32, stats: Stats) -> Self {
        Rank { rank, rows: rows(&stats), busy: 1.0 - stats.verdict().waiting, stats }
    }
}

/// Adds the buckets up.
pub(super) fn together(buckets: &[Bucket]) -> Bucket {
    buckets.iter().fold(Bucket::default(), |mut sum, bucket| {
        sum.waits.add(&bucket.waits);
        sum.consumer += bucket.consumer;
        sum.rows += bucket.rows;
        sum.batches += bucket.batches;
        sum
    })
}

fn rows(stats: &Stats) -> u64 {
    stats.timeline.buckets.iter().map(|bucket| bucket.rows).sum()
}

/// Merges the ranks' histograms of the durations of `next()`: equal bins are added up.
fn histogram(ranks: &[Stats]) -> Vec<NextBin> {
    let mut all: Vec<NextBin> = ranks.iter().flat_map(|stats| stats.next_histogram.iter().copied()).collect();
    all.sort_by(|one, other| one.up_to.total_cmp(&other.up_to));
    let mut bins: Vec<NextBin> = Vec::new();
    for bin in all {
        match bins.last_mut() {
            Some(last) if bin.up_to < last.up_to * SAME_BIN => last.calls += bin.calls,
            _ => bins.push(bin),
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of a rank that waited for storage. `waited` holds the share of each bucket that it waited.
    fn report(rank: u32, width: f64, waited: &[f64]) -> RankReport {
        let mut stats = Stats::default();
        stats.timeline.bucket_seconds = width;
        for share in waited {
            let mut bucket = Bucket::default();
            (bucket.waits.fetch, bucket.consumer) = (share * width, (1.0 - share) * width);
            (bucket.rows, bucket.batches) = (10, 1);
            stats.waits.add(&bucket.waits);
            stats.consumer += bucket.consumer;
            stats.next.count += 1;
            stats.timeline.buckets.push(bucket);
        }
        RankReport {
            version: "1".to_owned(),
            locations: vec!["data".to_owned()],
            rank,
            world: 2,
            batch_size: 10,
            unoptimised: None,
            peak_rss_bytes: Some(u64::from(rank) + 1),
            stats,
        }
    }

    #[test]
    fn ranks_whose_buckets_differ_in_width_are_drawn_with_the_wider_ones() {
        let summary = Summary::new(vec![report(0, 1.0, &[0.0, 1.0, 0.5]), report(1, 2.0, &[0.25])]);
        let (ranks, width) = summary.timelines();
        assert_eq!((width, ranks.iter().map(Vec::len).collect::<Vec<_>>()), (2.0, vec![2, 1]));
        let busy = |rank: usize| ranks[rank].iter().map(|bucket| bucket.busy().unwrap()).collect::<Vec<_>>();
        assert_eq!((busy(0), busy(1)), (vec![0.5, 0.5], vec![0.75]));
        assert_eq!(ranks[0][0].rows, 20);
    }

    #[test]
    fn figures_are_sums_over_ranks_or_those_of_the_worst() {
        let summary = Summary::new(vec![report(0, 1.0, &[0.0, 1.0]), report(1, 1.0, &[0.25, 0.25])]);
        assert_eq!((summary.rows, summary.batches, summary.seconds), (40, 4, 2.0));
        assert_eq!((summary.rows_per_second, summary.busy_min), (20.0, Some(0.5)));
        assert_eq!((summary.waited.fetch, summary.peak_rss_bytes), (1.5, Some(2)));
        assert_eq!(summary.verdict.stage, Stage::Fetch);
        assert!(!summary.is_fed());
    }
}
