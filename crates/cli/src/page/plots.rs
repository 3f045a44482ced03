//! Plots that pages of benchmarks and of training runs share.

use super::axis::Axis;
use super::svg::Plot;
use crate::units::{count, seconds};

/// The 99.9th percentile is mentioned only if at least this many calls were measured.
const MIN_CALLS_FOR_P999: u64 = 1_000;
/// The ratio between the upper ends of neighbouring bins of the histogram: ten bins span a factor of ten.
const BIN: f64 = 1.258_925_411_794_167_3;
/// The least distance between two labels, as a share of the axis; closer ones would overlap.
const MIN_LABEL_SHARE: f64 = 0.125;

/// One bin of a histogram: the calls of `next()` that took about equally long.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// The upper end of the bin, in milliseconds.
    pub(crate) up_to_ms: f64,
    pub(crate) calls: u64,
}

/// The durations of all calls of `next()`: a histogram, and percentiles in milliseconds.
pub(crate) struct Latencies {
    pub(crate) bins: Vec<Calls>,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latencies {
    fn calls(&self) -> u64 {
        self.bins.iter().map(|bin| bin.calls).sum()
    }

    /// The points of the cumulative line: the upper end of each bin, and the share of calls that took no
    /// longer than that.
    fn cumulative(&self) -> Vec<(f64, f64)> {
        let calls = self.calls() as f64;
        let begin = self.bins.first().map(|first| (first.up_to_ms / BIN, 0.0));
        let mut no_longer = 0;
        begin
            .into_iter()
            .chain(self.bins.iter().map(|bin| {
                no_longer += bin.calls;
                (bin.up_to_ms, no_longer as f64 / calls)
            }))
            .collect()
    }
}

/// Plots how long `next()` took: bars for the share of calls by duration, and a line for the cumulative
/// share. If there is an earlier run, a second line shows its cumulative share.
pub(crate) fn latencies(now: &Latencies, before: Option<&Latencies>) -> Option<String> {
    let both = || now.bins.iter().chain(before.iter().flat_map(|before| &before.bins));
    let (first, last) = (now.bins.first()?, now.bins.last()?);
    let least = both().map(|bin| bin.up_to_ms).fold(first.up_to_ms, f64::min);
    let most = both().map(|bin| bin.up_to_ms).fold(last.up_to_ms, f64::max);
    let calls = now.calls();
    let rare = match calls {
        MIN_CALLS_FOR_P999.. => format!("one in a thousand more than {}, ", millis(now.p999)),
        _ => String::new(),
    };
    let mut summary = format!(
        "Bars: share of {} calls by how long they took. Line: share that took no longer. Half took {} or less, \
         {rare}the longest {}.",
        count(calls),
        millis(now.p50),
        millis(now.max)
    );
    if let Some(before) = before {
        summary += &format!(" Before: half took {}, the longest {}.", millis(before.p50), millis(before.max));
    }
    let x = Axis::log(least / BIN, most, "time that next() took, log scale", millis_round);
    let y = Axis::up_to(1.0, "share of calls", |share| format!("{:.0} %", share * 100.0));
    let mut plot = Plot::new("latency", "Latency of next()", summary, x, y);
    for bin in now.bins.iter().filter(|bin| bin.calls > 0) {
        let tip = format!("{} calls of up to {}", count(bin.calls), millis(bin.up_to_ms));
        let share = bin.calls as f64 / calls as f64;
        plot.bar("first", (bin.up_to_ms / BIN, bin.up_to_ms), share, &tip);
    }
    if let Some(before) = before.filter(|before| before.calls() > 0) {
        plot.line("before", before.cumulative());
        plot.legend([("second", "this run"), ("before", "before")]);
    }
    plot.line("second", now.cumulative());
    // A percentile has no label if the label would overlap that of the percentile before it.
    let mut labelled = f64::NEG_INFINITY;
    for (name, ms) in [("p50", now.p50), ("p99", now.p99), ("p99.9", now.p999)] {
        if ms > 0.0 && plot.place(ms) - labelled > MIN_LABEL_SHARE {
            labelled = plot.place(ms);
            plot.rule(ms, name);
        }
    }
    Some(plot.finish())
}

/// For each stage, the seconds that it worked and the seconds that training loops waited for it, each summed
/// over all threads and ranks.
pub(crate) struct StageTimes {
    /// The duration of the run.
    pub(crate) seconds: f64,
    pub(crate) worked: Vec<(&'static str, f64)>,
    pub(crate) waited: Vec<(&'static str, f64)>,
}

/// Plots how long each stage worked and how long training loops waited for it, as bars. A thin bar below each
/// one shows the time in an earlier run.
pub(crate) fn stages(now: &StageTimes, before: Option<&StageTimes>) -> String {
    let times = |work: &StageTimes| {
        let all = work.worked.iter().chain(&work.waited).map(|(_, seconds)| *seconds);
        all.fold(work.seconds, f64::max)
    };
    let most = before.map_or(0.0, times).max(times(now));
    let x =
        Axis::linear(most, "seconds, all threads and ranks together", |time| format!("{} s", plain(time)));
    let lines = now.worked.len() + now.waited.len() + 1;
    let mut y = Axis::up_to(lines as f64, "", |_| String::new());
    y.ticks.clear();
    let summary = format!(
        "Above: how long the stages worked, in seconds and as how many were at work at once on average over {}. \
         Below: how long the training loops waited, by the stage that held them up.",
        seconds(now.seconds)
    );
    let mut plot = Plot::new("stages", "Work and waiting by stage", summary, x, y).with_lying_bars(lines);
    if before.is_some() {
        plot.legend([("first", "this run"), ("first earlier", "before")]);
    }
    let mut top = lines as f64;
    let of = |times: Option<&Vec<(&'static str, f64)>>, stage: &str| {
        times?.iter().find(|(name, _)| *name == stage).map(|(_, time)| *time)
    };
    for (name, time) in &now.worked {
        let label = format!("{} · {:.2} at once", seconds(*time), time / now.seconds);
        plot.lying_bar("first", (top - 1.0, top), *time, name, &label);
        if let Some(time) = of(before.map(|before| &before.worked), name) {
            plot.lying_rule("first earlier", (top - 1.0, top), time, &format!("before: {}", seconds(time)));
        }
        top -= 1.0;
    }
    top -= 1.0;
    for (name, time) in &now.waited {
        plot.lying_bar("second", (top - 1.0, top), *time, name, &format!("{} waited", seconds(*time)));
        if let Some(time) = of(before.map(|before| &before.waited), name) {
            plot.lying_rule("second earlier", (top - 1.0, top), time, &format!("before: {}", seconds(time)));
        }
        top -= 1.0;
    }
    plot.finish()
}

pub(crate) fn rate(rows_per_second: f64) -> String {
    count(rows_per_second.round() as u64)
}

pub(crate) fn rows_axis(most: f64) -> Axis {
    Axis::linear(most, "rows a second", short)
}

/// Formats a number to write beside an axis, such as "800", "20k" and "1.5M".
fn short(value: f64) -> String {
    match value {
        v if v < 1e4 => count(v.round() as u64),
        v if v < 1e6 => format!("{}k", plain(v / 1e3)),
        v => format!("{}M", plain(v / 1e6)),
    }
}

/// The points of a step curve that starts at x = 0 and holds each value for `width`.
pub(crate) fn stairs(values: &[f64], width: f64) -> Vec<(f64, f64)> {
    values
        .iter()
        .enumerate()
        .flat_map(|(at, value)| [(at as f64 * width, *value), ((at + 1) as f64 * width, *value)])
        .collect()
}

fn plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn millis(ms: f64) -> String {
    seconds(ms / 1e3)
}

/// Formats a time in milliseconds that is a power of ten, such as "10 µs".
fn millis_round(ms: f64) -> String {
    match ms {
        ms if ms < 0.999e-3 => format!("{:.0} ns", ms * 1e6),
        ms if ms < 0.999 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 999.0 => format!("{ms:.0} ms"),
        ms => format!("{:.0} s", ms / 1e3),
    }
}
