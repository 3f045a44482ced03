//! The plots that only the page of `bench` has.

use super::super::drawn::Drawn;
use crate::page::{Axis, Plot, rate, rows_axis, stairs};
use crate::units::{count, percent};

/// The largest number of ranks that have a line each. With more ranks the lines would tangle, so the plot
/// shows only the least busy rank of each second.
const MAX_LINES: usize = 8;
/// The smallest number of whole seconds for which a curve over time is plotted.
const MIN_CURVE_SECONDS: usize = 2;
/// The legend of a plot with two runs: the style of each line, and its label.
const LEGEND: [(&str, &str); 2] = [("first", "this run"), ("before", "before")];

/// Plots the utilisation in each second, or the rate if there is no accelerator. An earlier run is drawn in
/// the same plot.
pub(super) fn over_time(report: &Drawn, before: Option<&Drawn>) -> Option<String> {
    match &report.accelerator {
        Some(simulated) => {
            let worst = simulated.by_second();
            if worst.len() < MIN_CURVE_SECONDS {
                return None;
            }
            let before = before.and_then(|before| Some(before.accelerator.as_ref()?.by_second()));
            let ranks = simulated.ranks.len();
            let least = worst.iter().copied().fold(1.0, f64::min);
            let summary = format!(
                "Busy share of each second on the rank that fared worst in it; the worst second of {} has {}.",
                count(worst.len() as u64),
                percent(least)
            );
            let x = seconds_axis(&worst, before.as_deref());
            let y = Axis::up_to(1.0, "accelerator busy", |share| format!("{:.0} %", share * 100.0));
            let mut plot = Plot::new("utilisation", "Utilisation over time", summary, x, y);
            if (2..=MAX_LINES).contains(&ranks) {
                for rank in &simulated.ranks {
                    plot.line("faint", stairs(&rank.by_second, 1.0));
                }
            }
            Some(finish(plot, &worst, before.as_deref()))
        }
        None => {
            let rates = report.rates();
            if rates.len() < MIN_CURVE_SECONDS {
                return None;
            }
            let before = before.map(Drawn::rates);
            let (least, most) = (rates.iter().copied().fold(f64::INFINITY, f64::min), max(&rates));
            let summary =
                format!("Rows handed over in each second: between {} and {}.", rate(least), rate(most));
            let x = seconds_axis(&rates, before.as_deref());
            let most = before.iter().flatten().fold(most, |most, rate| most.max(*rate));
            let plot = Plot::new("rate", "Throughput over time", summary, x, rows_axis(most));
            Some(finish(plot, &rates, before.as_deref()))
        }
    }
}

fn seconds_axis(now: &[f64], before: Option<&[f64]>) -> Axis {
    let longest = before.map_or(0, <[f64]>::len).max(now.len());
    Axis::up_to(longest as f64, "seconds since the first batch", plain)
}

/// Draws an earlier run, if there is one, and the present run on top of it; then finishes the plot.
fn finish(mut plot: Plot, now: &[f64], before: Option<&[f64]>) -> String {
    if let Some(before) = before {
        plot.line("before", stairs(before, 1.0));
        plot.legend(LEGEND);
    }
    plot.line("first", stairs(now, 1.0));
    plot.finish()
}

/// Plots the rate by the number of decoding threads, if it was measured.
pub(super) fn threads(report: &Drawn) -> Option<String> {
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

/// Plots the rate epoch by epoch, if there are several epochs.
pub(super) fn epochs(report: &Drawn) -> Option<String> {
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

fn max<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().copied().fold(0.0, f64::max)
}

fn plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}
