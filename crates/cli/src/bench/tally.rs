//! Computes the figures of a benchmark run (waits, utilisation, rates) from the recorded times of its steps.
//! All of it is arithmetic on seconds since the run began.

use serde::{Deserialize, Serialize};

/// The length of the windows over which utilisation is computed, in seconds.
const WINDOW_SECONDS: f64 = 1.0;

/// The times of one step of one rank: it requests a batch, receives it, waits for the other ranks and then
/// computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lap {
    /// When the batch was requested.
    pub(super) asked: f64,
    /// When the batch arrived.
    pub(super) got: f64,
    /// When all ranks had their batches, and the step began.
    pub(super) began: f64,
    /// When the step was over.
    pub(super) ended: f64,
    /// The intended length of the step.
    pub(super) step: f64,
    /// The number of rows in the batch.
    pub(super) rows: u64,
    /// Whether the step is the first of its epoch.
    pub(super) first: bool,
}

/// How long `next()` took, in milliseconds, without the first call of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Waits {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    #[serde(rename = "p99.9")]
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// How busy the accelerator of one rank was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Utilisation {
    /// The sum of the intended times of the steps, divided by the elapsed time. The elapsed time excludes the
    /// wait for the first batch and the time that the simulation itself adds.
    pub(super) mean: f64,
    /// The time by which steps were longer than intended, as a share of the elapsed time. Steps are too long
    /// if all processors are busy and a thread wakes late, which would delay a real training loop as well.
    pub(super) late: f64,
    /// The standard deviation of the busy shares of one-second windows, divided by their mean; `None` if the
    /// run has fewer than two windows.
    pub(super) variation: Option<f64>,
    /// The busy share of the worst one-second window.
    pub(super) worst_second: Option<f64>,
    /// The busy share of each whole second from the first batch on.
    pub(super) by_second: Vec<f64>,
}

/// A bin of the histogram: the number of calls of `next()` whose durations are about equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bin {
    /// The longest duration that this bin counts; it counts no call that fits into an earlier bin.
    pub(super) up_to_ms: f64,
    pub(super) calls: u64,
}

/// The number of bins between a duration and ten times that duration. The upper limit of each bin is 1.26
/// times that of the one before, which is finer than the variation of latencies between runs.
const BINS_A_DECADE: f64 = 10.0;
/// The upper limit of the first bin, in milliseconds: about the time that `next()` takes if a batch is ready.
const FIRST_BIN_MS: f64 = 1e-3;

/// The percentiles of the durations of `next()`, without the first call of each run.
pub(super) fn waits<'a>(ranks: impl IntoIterator<Item = &'a [Lap]>) -> Waits {
    let times = sorted_waits(ranks);
    let at = |share| percentile(&times, share);
    Waits { p50: at(0.50), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: at(1.0) }
}

/// The durations of all calls of `next()` except the first of each run, in milliseconds, sorted.
fn sorted_waits<'a>(ranks: impl IntoIterator<Item = &'a [Lap]>) -> Vec<f64> {
    const MILLIS: f64 = 1e3;
    let laps = ranks.into_iter().flat_map(|laps| laps.iter().skip(1));
    let mut times: Vec<f64> = laps.map(|lap| (lap.got - lap.asked) * MILLIS).collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// Returns a histogram of the durations of `next()`, without the first call of each run. It goes from the
/// first bin that is not empty to the last.
pub(super) fn histogram<'a>(ranks: impl IntoIterator<Item = &'a [Lap]>) -> Vec<Bin> {
    let edge = |bin: i32| FIRST_BIN_MS * 10f64.powf(f64::from(bin) / BINS_A_DECADE);
    let of = |ms: f64| ((ms / FIRST_BIN_MS).log10() * BINS_A_DECADE).ceil().max(0.0) as i32;
    let times = sorted_waits(ranks);
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let mut bins: Vec<Bin> =
        (of(*first)..=of(*last)).map(|bin| Bin { up_to_ms: edge(bin), calls: 0 }).collect();
    for time in &times {
        bins[(of(*time) - of(*first)) as usize].calls += 1;
    }
    bins
}

/// The number of rows that all ranks got in each whole second, from the first batch of any rank on.
pub(super) fn rows_by_second(ranks: &[&[Lap]]) -> Vec<u64> {
    let laps = || ranks.iter().copied().flatten();
    let start = laps().map(|lap| lap.got).fold(f64::INFINITY, f64::min);
    let end = laps().map(|lap| lap.ended).fold(0.0, f64::max);
    let mut rows = vec![0; ((end - start).max(0.0) / WINDOW_SECONDS) as usize];
    for lap in laps() {
        if let Some(second) = rows.get_mut(((lap.got - start) / WINDOW_SECONDS) as usize) {
            *second += lap.rows;
        }
    }
    rows
}

/// Returns a percentile: at least the share `share` (from 0 to 1) of the values in `sorted` are equal to it
/// or smaller. It is 0 if `sorted` is empty.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// Computes how busy the accelerator of one rank was. The simulation itself adds `floor` seconds to each
/// step, and these seconds do not count as waiting.
pub(super) fn utilisation(laps: &[Lap], floor: f64) -> Option<Utilisation> {
    let (first, last) = (laps.first()?, laps.last()?);
    let wall = last.ended - first.began - floor * laps.len() as f64;
    let mean = (laps.iter().map(|lap| lap.step).sum::<f64>() / wall).min(1.0);
    let windows = windows(laps, first.began, last.ended);
    let enough = windows.len() >= 2;
    let late = laps.iter().map(|lap| (lap.ended - lap.began - lap.step - floor).max(0.0)).sum::<f64>() / wall;
    Some(Utilisation {
        mean,
        late,
        variation: enough.then(|| variation(&windows)),
        worst_second: enough.then(|| windows.iter().copied().fold(1.0, f64::min)),
        by_second: windows,
    })
}

/// The share of each whole window (one second) between `start` and `end` in which the accelerator was busy.
fn windows(laps: &[Lap], start: f64, end: f64) -> Vec<f64> {
    let mut busy = vec![0.0; ((end - start) / WINDOW_SECONDS) as usize];
    for lap in laps {
        let (from, to) = (lap.began - start, lap.began - start + lap.step);
        for window in (from / WINDOW_SECONDS) as usize..=(to / WINDOW_SECONDS) as usize {
            let Some(share) = busy.get_mut(window) else { break };
            let (opens, closes) = (window as f64 * WINDOW_SECONDS, (window + 1) as f64 * WINDOW_SECONDS);
            *share += (to.min(closes) - from.max(opens)).max(0.0) / WINDOW_SECONDS;
        }
    }
    busy
}

fn variation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean.max(f64::MIN_POSITIVE)
}

/// The longest wait for the first batch of any epoch but the first, in seconds.
pub(super) fn epoch_gap<'a>(ranks: impl IntoIterator<Item = &'a [Lap]>) -> Option<f64> {
    let later = ranks.into_iter().flat_map(|laps| laps.iter().skip(1).filter(|lap| lap.first));
    later.map(|lap| lap.got - lap.asked).max_by(f64::total_cmp)
}

/// The rows that all ranks got in one epoch, and the time from its first request to its last step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EpochSpan {
    pub(super) rows: u64,
    pub(super) seconds: f64,
}

/// The epochs of a run, in order.
pub(super) fn epochs(ranks: &[&[Lap]]) -> Vec<EpochSpan> {
    let epochs: Vec<Vec<&[Lap]>> =
        ranks.iter().map(|laps| laps.chunk_by(|_, next| !next.first).collect()).collect();
    let most = epochs.iter().map(Vec::len).max().unwrap_or(0);
    let span = |number: usize| {
        let laps = || epochs.iter().filter_map(|epochs| epochs.get(number)).copied().flatten();
        let began = laps().map(|lap| lap.asked).fold(f64::INFINITY, f64::min);
        let ended = laps().map(|lap| lap.ended).fold(0.0, f64::max);
        EpochSpan { rows: laps().map(|lap| lap.rows).sum(), seconds: (ended - began).max(f64::MIN_POSITIVE) }
    };
    (0..most).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a run of steps of `step` seconds each, in which step `i` begins after a wait of `wait(i)`
    /// seconds.
    fn run(steps: usize, step: f64, wait: impl Fn(usize) -> f64) -> Vec<Lap> {
        let mut now = 0.0;
        (0..steps)
            .map(|i| {
                let (asked, got) = (now, now + wait(i));
                now = got + step;
                Lap { asked, got, began: got, ended: now, step, rows: 1, first: i == 0 }
            })
            .collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn a_device_that_never_waits_is_fully_used() {
        let laps = run(100, 0.125, |i| if i == 0 { 3.0 } else { 0.0 });
        let found = utilisation(&laps, 0.0).unwrap();
        assert!(close(found.mean, 1.0), "{found:?}");
        assert!(close(found.worst_second.unwrap(), 1.0) && close(found.variation.unwrap(), 0.0), "{found:?}");
    }

    #[test]
    fn waits_lower_utilisation_and_the_floor_is_taken_off() {
        let laps = run(1_000, 0.1, |_| 0.1);
        let found = utilisation(&laps, 0.0).unwrap();
        assert!((found.mean - 0.5).abs() < 0.001, "{found:?}");
        let forgiven = utilisation(&laps, 0.1).unwrap();
        assert!(forgiven.mean > 0.999, "{forgiven:?}");
    }

    #[test]
    fn steps_that_end_late_are_told_from_waits() {
        let mut laps = run(10, 0.1, |_| 0.0);
        laps[9].ended += 0.25;
        let found = utilisation(&laps, 0.0).unwrap();
        assert!(close(found.late, 0.2) && close(found.mean, 0.8), "{found:?}");
        assert!(close(waits([&laps[..]]).max, 0.0));
    }

    #[test]
    fn one_long_stall_shows_in_the_worst_second() {
        let laps = run(100, 0.1, |i| if i == 50 { 2.0 } else { 0.0 });
        let found = utilisation(&laps, 0.0).unwrap();
        assert!(found.mean > 0.8 && found.worst_second.unwrap() < 0.01, "{found:?}");
        assert!(found.variation.unwrap() > 0.2);
        assert!(close(waits([&laps[..]]).max, 2_000.0));
    }

    #[test]
    fn a_run_of_less_than_two_seconds_has_no_windows() {
        let found = utilisation(&run(10, 0.1, |_| 0.0), 0.0).unwrap();
        assert_eq!((found.variation, found.worst_second), (None, None));
        assert!(utilisation(&[], 0.0).is_none());
    }

    #[test]
    fn steps_of_drawn_lengths_are_counted_as_long_as_they_were_meant() {
        let mut now = 0.0;
        let laps: Vec<Lap> = (0..100)
            .map(|i| {
                let (step, asked) = (if i % 2 == 0 { 0.05 } else { 0.15 }, now);
                now += step;
                Lap { asked, got: asked, began: asked, ended: now, step, rows: 1, first: i == 0 }
            })
            .collect();
        let found = utilisation(&laps, 0.0).unwrap();
        assert!(close(found.mean, 1.0) && close(found.late, 0.0), "{found:?}");
        assert_eq!(found.by_second.len(), 10);
        assert!(found.by_second.iter().all(|busy| close(*busy, 1.0)), "{found:?}");
    }

    #[test]
    fn every_call_but_the_first_falls_into_the_bin_of_its_length() {
        let laps = run(6, 0.1, |i| [9.0, 0.0, 1e-6, 1.1e-6, 0.01, 0.02][i]);
        let bins = histogram([&laps[..]]);
        assert_eq!(bins.iter().map(|bin| bin.calls).sum::<u64>(), 5);
        let short: Vec<Bin> = bins.iter().filter(|bin| bin.up_to_ms < 0.0013).copied().collect();
        assert!(close(short[0].up_to_ms, 0.001) && short[0].calls == 2, "{bins:?}");
        assert_eq!(short[1].calls, 1, "{bins:?}");
        assert!(bins.last().is_some_and(|bin| bin.calls == 1 && (20.0..25.2).contains(&bin.up_to_ms)));
        assert!(histogram([&run(1, 0.1, |_| 0.0)[..]]).is_empty());
    }

    #[test]
    fn rows_are_counted_in_the_second_in_which_they_came() {
        let laps = run(10, 0.25, |_| 0.0);
        assert_eq!(rows_by_second(&[&laps, &laps]), [8, 8]);
        assert!(rows_by_second(&[]).is_empty());
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let times: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(
            [0.5, 0.95, 0.999, 1.0].map(|share| percentile(&times, share)),
            [500.0, 950.0, 999.0, 1_000.0]
        );
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn the_first_batch_of_a_later_epoch_is_the_gap() {
        let mut laps = run(10, 0.1, |i| if i == 5 { 0.7 } else { 0.01 });
        assert_eq!(epoch_gap([&laps[..]]), None);
        laps[5].first = true;
        assert!(close(epoch_gap([&laps[..]]).unwrap(), 0.7));
    }

    #[test]
    fn each_epoch_has_its_own_time() {
        let mut laps = run(20, 0.1, |i| if i < 10 { 0.1 } else { 0.0 });
        laps[10].first = true;
        let found = epochs(&[&laps, &laps]);
        assert_eq!(found.iter().map(|epoch| epoch.rows).collect::<Vec<_>>(), [20, 20]);
        assert!(close(found[0].seconds, 2.0) && close(found[1].seconds, 1.0), "{found:?}");
    }
}
