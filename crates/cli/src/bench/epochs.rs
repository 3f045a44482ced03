//! The run epoch by epoch: the first epoch is cold, the others profit from caches and memory.
//!
//! The loader fetches the next epoch before the present one ends, so a part of an epoch's cost is counted
//! with the epoch before. Over all epochs, nothing is missing and nothing is counted twice.

use serde::Serialize;

use super::drive::{Mark, RankRun};
use super::tally;
use crate::machine::Clock;

/// One epoch of all ranks together.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BenchEpoch {
    pub(super) epoch: u64,
    pub(super) rows: u64,
    pub(super) seconds: f64,
    pub(super) rows_per_second: f64,
    /// The processor time of the loader alone, without the simulated training loops and the threads of
    /// `--pressure`.
    pub(super) cpu_seconds_per_1000_rows: Option<f64>,
    pub(super) requests: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_needed: u64,
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
}

/// The epochs of a run, in order.
pub(super) fn epochs(ranks: &[RankRun]) -> Vec<BenchEpoch> {
    let laps: Vec<_> = ranks.iter().map(|run| run.laps.as_slice()).collect();
    let spans = tally::epochs(&laps).into_iter().enumerate();
    spans
        .map(|(number, span)| {
            let marks =
                |run: &RankRun| Some((run.marks.get(number)?.clone(), run.marks.get(number + 1)?.clone()));
            let traffic = ranks
                .first()
                .and_then(marks)
                .map(|(before, after)| after.traffic.since(&before.traffic))
                .unwrap_or_default();
            let cached = |of: fn(&Mark) -> u64| -> u64 {
                ranks.iter().filter_map(marks).map(|(before, after)| of(&after) - of(&before)).sum()
            };
            BenchEpoch {
                epoch: number as u64,
                rows: span.rows,
                seconds: span.seconds,
                rows_per_second: span.rows as f64 / span.seconds,
                cpu_seconds_per_1000_rows: cpu_seconds(ranks, number, number + 1)
                    .map(|seconds| per_thousand(seconds, span.rows)),
                requests: traffic.requests,
                bytes_read: traffic.bytes_read,
                bytes_needed: traffic.bytes_needed,
                cache_hits: cached(|mark| mark.cache.as_ref().map_or(0, |cache| cache.hits)),
                cache_misses: cached(|mark| mark.cache.as_ref().map_or(0, |cache| cache.misses)),
            }
        })
        .collect()
}

/// The processor time of the loader between two marks: that of the process without the training loops and the
/// threads of `--pressure`.
pub(super) fn cpu_seconds(ranks: &[RankRun], from: usize, to: usize) -> Option<f64> {
    let first = ranks.first()?;
    let (before, after) = (first.marks.get(from)?, first.marks.get(to)?);
    let spent = Clock::between(before.clock?, after.clock?).own;
    let training: f64 = ranks
        .iter()
        .filter_map(|run| Some(run.marks.get(to)?.training - run.marks.get(from)?.training))
        .sum();
    Some((spent - training - (after.pressure - before.pressure)).max(0.0))
}

/// The seconds that 1,000 rows take, if `rows` rows take `seconds`.
pub(super) fn per_thousand(seconds: f64, rows: u64) -> f64 {
    seconds / (rows as f64 / 1e3).max(f64::MIN_POSITIVE)
}

/// The rate of the first epoch, and the median rate of the others.
pub(super) fn cold_and_warm(epochs: &[BenchEpoch]) -> (Option<f64>, Option<f64>) {
    let Some((first, others)) = epochs.split_first() else { return (None, None) };
    let mut rates: Vec<f64> = others.iter().map(|epoch| epoch.rows_per_second).collect();
    rates.sort_unstable_by(f64::total_cmp);
    (Some(first.rows_per_second), rates.get(rates.len() / 2).copied())
}

#[cfg(test)]
mod tests {
    use forebay_store::source::TrafficStats;

    use super::super::tally::Lap;
    use super::*;

    /// Two epochs with two steps of a second and one row each; the second epoch sends no requests.
    fn run(training: f64) -> RankRun {
        let lap = |at: f64, first| Lap {
            asked: at,
            got: at,
            began: at,
            ended: at + 1.0,
            step: 1.0,
            rows: 1,
            first,
        };
        let mark = |own: f64, training, pressure, requests| {
            let mut traffic = TrafficStats::default();
            traffic.requests = requests;
            traffic.bytes_read = 10 * requests;
            Mark { clock: Some(Clock { own, all: own }), training, pressure, traffic, cache: None }
        };
        RankRun {
            laps: vec![lap(0.0, true), lap(1.0, false), lap(2.0, true), lap(3.0, false)],
            marks: vec![
                mark(5.0, 0.0, 1.0, 2),
                mark(8.0, training, 1.5, 7),
                mark(10.0, 2.0 * training, 2.0, 7),
            ],
            ..RankRun::default()
        }
    }

    #[test]
    fn an_epoch_has_the_costs_between_its_marks() {
        let found = epochs(&[run(0.5), run(0.25)]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].rows, found[0].requests, found[0].bytes_read), (4, 5, 50));
        assert_eq!((found[1].rows, found[1].requests), (4, 0));
        // The process took 3 s for 4 rows: training loops took 0.75 s of it, the threads of `--pressure` 0.5.
        let cpu = found[0].cpu_seconds_per_1000_rows.unwrap();
        assert!((cpu - 1.75 / 4.0 * 1e3).abs() < 1e-6, "{cpu}");
        assert!((found[0].rows_per_second - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_epoch_is_cold_and_the_median_of_the_others_warm() {
        let epoch = |rate| BenchEpoch { rows_per_second: rate, ..epochs(&[run(0.0)])[0].clone() };
        let rates = |all: &[f64]| cold_and_warm(&all.iter().map(|rate| epoch(*rate)).collect::<Vec<_>>());
        assert_eq!(rates(&[]), (None, None));
        assert_eq!(rates(&[5.0]), (Some(5.0), None));
        assert_eq!(rates(&[5.0, 9.0, 30.0, 10.0]), (Some(5.0), Some(10.0)));
    }
}
