//! The plots of a report.

use forebay::stats::Stage;

use super::super::report::BenchReport;
use super::super::tally::Waits;
use super::axis::Axis;
use super::svg::Plot;
use crate::units::{count, percent, seconds};

/// The most ranks that are drawn one by one. Of more ranks only the worst is drawn, because the lines would
/// tangle.
const MAX_LINES: usize = 8;
/// The fewest calls for which the 99.9th percentile is known.
const MIN_CALLS_FOR_P999: u64 = 1_000;
/// The fewest whole seconds that make a curve.
const FEWEST_SECONDS: usize = 2;

/// Utilisation second by second, or the rate if there is no accelerator.
pub(super) fn over_time(report: &BenchReport) -> Option<String> {
    match &report.accelerator {
        Some(simulated) => {
            let worst = simulated.by_second();
            if worst.len() < FEWEST_SECONDS {
                return None;
            }
            let ranks = simulated.ranks.len();
            let least = worst.iter().copied().fold(1.0, f64::min);
            let summary = format!(
                "Busy share of each second on the rank that fared worst in it; the worst second of {} has {}.",
                count(worst.len() as u64),
                percent(least)
            );
            let x = Axis::up_to(worst.len() as f64, "seconds since the first batch", plain);
            let y = Axis::up_to(1.0, "accelerator busy", |share| format!("{:.0} %", share * 100.0));
            let mut plot = Plot::new("utilisation", "Utilisation over time", summary, x, y);
            if (2..=MAX_LINES).contains(&ranks) {
                for rank in &simulated.ranks {
                    plot.line("faint", stairs(&rank.by_second));
                }
            }
            plot.line("first", stairs(&worst));
            Some(plot.finish())
        }
        None => {
            let rates: Vec<f64> = report.rows_by_second.iter().map(|rows| *rows as f64).collect();
            if rates.len() < FEWEST_SECONDS {
                return None;
            }
            let (least, most) = (rates.iter().copied().fold(f64::INFINITY, f64::min), max(&rates));
            let summary =
                format!("Rows handed over in each second: between {} and {}.", rate(least), rate(most));
            let x = Axis::up_to(rates.len() as f64, "seconds since the first batch", plain);
            let mut plot = Plot::new("rate", "Throughput over time", summary, x, rows_axis(most));
            plot.line("first", stairs(&rates));
            Some(plot.finish())
        }
    }
}

/// How long `next()` took: the share of calls by duration, and the cumulative share.
pub(super) fn latencies(report: &BenchReport) -> Option<String> {
    let bins = &report.next_histogram;
    let calls: u64 = bins.iter().map(|bin| bin.calls).sum();
    let (first, last) = (bins.first()?, bins.last()?);
    let Waits { p50, p99, p999, max, .. } = report.next_ms;
    let rare = match calls {
        MIN_CALLS_FOR_P999.. => format!("one in a thousand more than {}, ", millis(p999)),
        _ => String::new(),
    };
    let summary = format!(
        "Bars: share of {} calls by how long they took. Line: share that took no longer. Half took {} or less, \
         {rare}the longest {}.",
        count(calls),
        millis(p50),
        millis(max)
    );
    // Ten bins make a power of ten.
    let below = |ms: f64| ms / 10f64.powf(0.1);
    let x = Axis::log(below(first.up_to_ms), last.up_to_ms, "time that next() took, log scale", millis_round);
    let y = Axis::up_to(1.0, "share of calls", |share| format!("{:.0} %", share * 100.0));
    let mut plot = Plot::new("latency", "Latency of next()", summary, x, y);
    let (mut no_longer, mut line) = (0, vec![(below(first.up_to_ms), 0.0)]);
    for bin in bins {
        no_longer += bin.calls;
        line.push((bin.up_to_ms, no_longer as f64 / calls as f64));
        if bin.calls > 0 {
            let tip = format!("{} calls of up to {}", count(bin.calls), millis(bin.up_to_ms));
            let share = bin.calls as f64 / calls as f64;
            plot.bar("first", (below(bin.up_to_ms), bin.up_to_ms), share, &tip);
        }
    }
    plot.line("second", line);
    // A label that would overlap the one before is left to the sentence below the plot.
    let mut labelled = f64::NEG_INFINITY;
    for (name, ms) in [("p50", p50), ("p99", p99), ("p99.9", p999)] {
        if ms > 0.0 && ms.log10() - labelled > (last.up_to_ms / first.up_to_ms).log10().max(1.0) / 10.0 {
            labelled = ms.log10();
            plot.rule(ms, name);
        }
    }
    Some(plot.finish())
}

/// How long the stages worked, and how long they were waited for.
pub(super) fn stages(report: &BenchReport) -> String {
    let stages = report.stages;
    let worked = [
        ("fetch", stages.fetch.working),
        ("parquet", stages.parquet.working),
        ("gather", stages.gather.working),
        ("decode", stages.decode.working),
        ("keep", stages.keep.working),
    ];
    let always = [Stage::Fetch, Stage::Parquet, Stage::Gather, Stage::Decode];
    let waits = Stage::ALL.into_iter().map(|stage| (stage, report.waited.of(stage)));
    let waits = waits.filter(|(stage, seconds)| *seconds > 0.0 || always.contains(stage));
    let waits: Vec<(&str, f64)> = waits.map(|(stage, seconds)| (stage.name(), seconds)).collect();
    let all = || worked.iter().chain(&waits).map(|(_, seconds)| *seconds);
    let most = all().fold(0.0, f64::max).max(report.seconds);
    let x = Axis::linear(most, "seconds, all threads and ranks together", seconds_short);
    let mut y = Axis::up_to((worked.len() + waits.len() + 1) as f64, "", |_| String::new());
    y.ticks.clear();
    let summary = format!(
        "Above: how long the stages worked, in seconds, and how many were at work at once, on average over \
         {}. Below: how long the training loops waited, by the stage that held them up.",
        seconds(report.seconds)
    );
    let mut plot = Plot::new("stages", "Work and waiting by stage", summary, x, y);
    let mut at = (worked.len() + waits.len() + 1) as f64;
    for (name, time) in worked {
        let label = format!("{} · {:.2} at once", seconds(time), time / report.seconds);
        plot.lying_bar("first", (at - 1.0, at), time, name, &label);
        at -= 1.0;
    }
    at -= 1.0;
    for (name, time) in waits {
        plot.lying_bar("second", (at - 1.0, at), time, name, &format!("{} waited", seconds(time)));
        at -= 1.0;
    }
    plot.finish()
}

/// The rate by the number of decoding threads, if it was measured.
pub(super) fn threads(report: &BenchReport) -> Option<String> {
    let measured = report.thread_sweep.iter();
    let points: Vec<(f64, f64)> =
        measured.filter_map(|point| Some((point.threads as f64, point.rows_per_second?))).collect();
    let (first, most) = (*points.first()?, max(points.iter().map(|point| &point.1)));
    let widest = max(points.iter().map(|point| &point.0));
    let said: Vec<String> =
        points.iter().map(|(threads, rows)| format!("{threads}: {} rows/s", rate(*rows))).collect();
    let summary = format!(
        "Rows a second without an accelerator by decoding threads of each rank. {}. Dashed: in proportion to the \
         first.",
        said.join(", ")
    );
    let mut x = Axis::linear(widest, "decoding threads of each rank", plain);
    x.ticks = points.iter().map(|(threads, _)| (*threads, plain(*threads))).collect();
    let mut plot = Plot::new("threads", "Throughput by threads", summary, x, rows_axis(most));
    let whole = (most / (first.1 / first.0)).min(widest);
    plot.line("dashed", [(0.0, 0.0), (whole, whole * first.1 / first.0)]);
    let mut sorted = points.clone();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    plot.line("first", sorted);
    for (threads, rows) in points {
        plot.dot("first", (threads, rows), &format!("{threads} threads: {} rows/s", rate(rows)));
    }
    Some(plot.finish())
}

/// The rate epoch by epoch, if there are several.
pub(super) fn epochs(report: &BenchReport) -> Option<String> {
    let epochs = &report.by_epoch;
    let (cold, warm) = report.cold_rows_per_second.zip(report.warm_rows_per_second)?;
    let most = max(epochs.iter().map(|epoch| &epoch.rows_per_second));
    let summary = format!(
        "Rows a second epoch by epoch: {} in the first (cold: caches are as they were found), {} in the median of the \
         others (warm).",
        rate(cold),
        rate(warm)
    );
    let mut x = Axis::up_to(epochs.len() as f64, "epoch", plain);
    // The number of an epoch is written below the middle of its bar.
    let every = epochs.len().div_ceil(12);
    x.ticks = (0..epochs.len()).step_by(every).map(|at| (at as f64 + 0.5, at.to_string())).collect();
    let mut plot = Plot::new("epochs", "Throughput by epoch", summary, x, rows_axis(most));
    for (at, epoch) in epochs.iter().enumerate() {
        let class = if at == 0 { "second" } else { "first" };
        let tip = format!("epoch {at}: {} rows/s", rate(epoch.rows_per_second));
        let margin = if epochs.len() > 40 { 0.0 } else { 0.1 };
        plot.bar(class, (at as f64 + margin, (at + 1) as f64 - margin), epoch.rows_per_second, &tip);
    }
    Some(plot.finish())
}

fn rate(rows_per_second: f64) -> String {
    count(rows_per_second.round() as u64)
}

fn rows_axis(most: f64) -> Axis {
    Axis::linear(most, "rows a second", rate)
}

/// A staircase with one level stretch for each value, the first from 0 to 1.
fn stairs(values: &[f64]) -> Vec<(f64, f64)> {
    values
        .iter()
        .enumerate()
        .flat_map(|(at, value)| [(at as f64, *value), ((at + 1) as f64, *value)])
        .collect()
}

fn max<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().copied().fold(0.0, f64::max)
}

fn plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn millis(ms: f64) -> String {
    seconds(ms / 1e3)
}

/// A power of ten as text, such as "10 µs".
fn millis_round(ms: f64) -> String {
    match ms {
        ms if ms < 0.999e-3 => format!("{:.0} ns", ms * 1e6),
        ms if ms < 0.999 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 999.0 => format!("{ms:.0} ms"),
        ms => format!("{:.0} s", ms / 1e3),
    }
}

fn seconds_short(time: f64) -> String {
    format!("{} s", plain(time))
}
