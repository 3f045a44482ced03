//! Measures the rate of one loader that runs at full speed for some time.

use std::time::{Duration, Instant};

use forebay::Loader;
use forebay_base::{Error, Result};

use super::model::Rate;

/// How many intervals a measurement is cut into; their spread gives its error.
const INTERVALS: usize = 12;
/// The share of the run, from its beginning, that the measurement leaves out while queues fill and threads
/// start.
const RAMP_SHARE: f64 = 0.2;

/// The result of a run.
pub(super) struct Trial {
    pub(super) rate: Rate,
    pub(super) batches: u64,
    /// The size of all batches, in bytes.
    pub(super) bytes: u64,
    /// How long one row took to be decoded from Parquet on one thread, in seconds.
    pub(super) parquet: f64,
}

/// The number of rows or bytes that had arrived by a time, given in seconds since the trial began.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) amount: u64,
}

/// Runs epochs for `time`, and longer if a second batch has not arrived by then. If `again_after` is given,
/// each epoch is left after that many batches and the same epoch begins again, so that its rows are read
/// repeatedly; if the epoch has no more batches than that, the next epoch follows instead.
pub(super) fn run(loader: &Loader, time: Duration, again_after: Option<u64>) -> Result<Trial> {
    let before = loader.stats();
    let mut marks = vec![Mark::default()];
    let (mut batches, mut bytes, mut number) = (0, 0, 0);
    let again_after = again_after.filter(|after| *after < loader.len());
    let started = Instant::now();
    while started.elapsed() < time || marks.len() < 2 {
        let mut epoch = loader.epoch(number);
        // The shuffle window is filled during the wait for the first batch, so the rate is measured after it.
        let Some(first) = epoch.next().transpose()? else { break };
        batches += 1;
        bytes += first.get_array_memory_size() as u64;
        let (began, pass) = (Instant::now(), marks[marks.len() - 1]);
        let mut rows = 0;
        let most = again_after.unwrap_or(u64::MAX).saturating_sub(1);
        for batch in epoch.take(usize::try_from(most).unwrap_or(usize::MAX)) {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            batches += 1;
            bytes += batch.get_array_memory_size() as u64;
            marks.push(Mark { at: pass.at + began.elapsed().as_secs_f64(), amount: pass.amount + rows });
            if started.elapsed() >= time {
                break;
            }
        }
        if rows == 0 && started.elapsed() >= time {
            break;
        }
        number += u64::from(again_after.is_none());
    }
    if marks.len() < 2 {
        return Err(Error::invalid("no rate can be measured in an epoch of one batch")
            .hint("use a smaller `batch_size`, or more rows"));
    }
    let stats = loader.stats();
    let decoded = (stats.stages.parquet.items - before.stages.parquet.items).max(1) as f64;
    Ok(Trial {
        rate: Rate::from_intervals(&intervals(&marks)),
        batches,
        bytes,
        parquet: (stats.stages.parquet.working - before.stages.parquet.working) / decoded,
    })
}

/// Cuts the measured time into intervals of equal length, and returns the rate in each of them (per second).
pub(super) fn intervals(marks: &[Mark]) -> Vec<f64> {
    let end = marks.last().map_or(0.0, |mark| mark.at);
    let begin = RAMP_SHARE * end;
    let length = (end - begin) / INTERVALS as f64;
    let amount_at = |time: f64| {
        let after = marks.partition_point(|mark| mark.at < time).clamp(1, marks.len() - 1);
        let (a, b) = (marks[after - 1], marks[after]);
        let share = ((time - a.at) / (b.at - a.at).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        a.amount as f64 + share * (b.amount - a.amount) as f64
    };
    if marks.len() < 2 || length <= 0.0 {
        return Vec::new();
    }
    let edge = |number: usize| amount_at(begin + number as f64 * length);
    (0..INTERVALS).map(|number| (edge(number + 1) - edge(number)) / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_stream_has_the_same_rate_in_all_intervals() {
        let marks: Vec<Mark> =
            (0..=50).map(|n| Mark { at: f64::from(n) * 0.1, amount: 32 * n as u64 }).collect();
        let rates = intervals(&marks);
        assert_eq!(rates.len(), INTERVALS);
        assert!(rates.iter().all(|rate| (rate - 320.0).abs() < 1e-6), "{rates:?}");
        assert!(intervals(&marks[..1]).is_empty());
    }
}
