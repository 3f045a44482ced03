//! The plots of a training run.

use forebay::stats::{Bucket, Stage};

use super::summary::{Summary, together};
use crate::page::{Axis, Calls, Latencies, Plot, StageTimes, rate, rows_axis, stairs};
use crate::units::{percent, seconds};

/// The most ranks that have a line of their own; with more, only the worst rank is drawn.
const MAX_LINES: usize = 8;
/// The fewest buckets (equal spans of time) that make a curve.
const MIN_CURVE_BUCKETS: usize = 2;
/// The most stages that have an area of their own; the others share one.
const MAX_AREAS: usize = 5;
/// The least share of the waits that a stage needs for an area of its own.
const MIN_AREA_SHARE: f64 = 0.01;
/// Waits are drawn only if they take at least this share of the run's time.
const MIN_WAITED_SHARE: f64 = 0.001;

/// A run over time, in buckets (equal spans of time) of `width` seconds.
pub(super) struct RunCourse {
    ranks: Vec<Vec<Bucket>>,
    /// The sums of the ranks' buckets, in order of time.
    all: Vec<Bucket>,
    width: f64,
    unit: Unit,
}

/// The unit of the time axis.
struct Unit {
    name: &'static str,
    seconds: f64,
}

impl RunCourse {
    /// Divides a run into buckets; `None` if the run is too short for a curve.
    pub(super) fn from_summary(summary: &Summary) -> Option<Self> {
        let (ranks, width) = summary.timelines();
        let buckets = ranks.iter().map(Vec::len).max().unwrap_or(0);
        let at = |bucket: usize| {
            let ranks: Vec<Bucket> = ranks.iter().filter_map(|rank| rank.get(bucket).copied()).collect();
            together(&ranks)
        };
        let all: Vec<Bucket> = (0..buckets).map(at).collect();
        let unit = match buckets as f64 * width {
            time if time < 300.0 => Unit { name: "seconds", seconds: 1.0 },
            time if time < 4.0 * 3600.0 => Unit { name: "minutes", seconds: 60.0 },
            _ => Unit { name: "hours", seconds: 3600.0 },
        };
        (buckets >= MIN_CURVE_BUCKETS).then_some(RunCourse { ranks, all, width, unit })
    }

    /// The width of a bucket in words, such as "second" or "4 seconds".
    fn stretch(&self) -> String {
        if self.width == 1.0 { "second".to_owned() } else { format!("{} seconds", self.width) }
    }

    /// The width of a bucket in units of the time axis.
    fn step(&self) -> f64 {
        self.width / self.unit.seconds
    }

    fn axis(&self) -> Axis {
        let title = format!("{} since the first request", self.unit.name);
        Axis::up_to(self.all.len() as f64 * self.step(), title, |time| {
            format!("{}", (time * 1e6).round() / 1e6)
        })
    }

    /// Plots, for each bucket, the share of its time in which the training loop did not wait for a batch.
    /// With several ranks, the main line shows the rank that waited longest in the bucket.
    pub(super) fn utilisation(&self) -> String {
        let busy = |rank: &[Bucket]| rank.iter().map(Bucket::busy).collect::<Vec<_>>();
        let ranks: Vec<Vec<Option<f64>>> = self.ranks.iter().map(|rank| busy(rank)).collect();
        let worst: Vec<Option<f64>> = (0..self.all.len())
            .map(|bucket| {
                ranks.iter().filter_map(|rank| rank.get(bucket).copied().flatten()).reduce(f64::min)
            })
            .collect();
        let least = worst.iter().flatten().copied().fold(1.0, f64::min);
        let several = if ranks.len() > 1 { ", on the rank that fared worst in it" } else { "" };
        let summary = format!(
            "Share of each {} in which the training loop had its batch and did not wait{several}. The least is {}. \
             Time between epochs is left out.",
            self.stretch(),
            percent(least)
        );
        let y = Axis::up_to(1.0, "time with its batch", |share| format!("{:.0} %", share * 100.0));
        let mut plot = Plot::new("utilisation", "Utilisation over time", summary, self.axis(), y);
        if (2..=MAX_LINES).contains(&ranks.len()) {
            ranks.iter().for_each(|rank| self.lines(&mut plot, "faint", rank));
            plot.legend([("first", "worst rank"), ("faint", "each rank")]);
        }
        self.lines(&mut plot, "first", &worst);
        plot.finish()
    }

    /// Draws one value for each bucket as a step curve, with a gap where a value is missing.
    fn lines(&self, plot: &mut Plot, class: &str, values: &[Option<f64>]) {
        let mut from = 0;
        for stretch in values.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let known: Vec<f64> = stretch.iter().flatten().copied().collect();
            let begin = from as f64 * self.step();
            if !known.is_empty() {
                let points = stairs(&known, self.step()).into_iter();
                plot.line(class, points.map(|(at, value)| (begin + at, value)));
            }
            from += stretch.len();
        }
    }

    /// Plots the share of the time in each bucket that the training loops spent waiting, with one area for
    /// each stage that they waited for. Returns `None` if they hardly waited.
    pub(super) fn waits(&self) -> Option<String> {
        let total = together(&self.all);
        let time = total.waits.total() + total.consumer;
        if total.waits.total() < MIN_WAITED_SHARE * time {
            return None;
        }
        let least = MIN_AREA_SHARE * total.waits.total();
        let mut longest: Vec<Stage> =
            Stage::ALL.into_iter().filter(|stage| total.waits.for_stage(*stage) >= least).collect();
        longest.sort_by(|one, other| total.waits.for_stage(*other).total_cmp(&total.waits.for_stage(*one)));
        longest.truncate(MAX_AREAS);
        // The areas are stacked in the order of the stages, from fetching at the bottom to the training loop.
        let drawn: Vec<Stage> = Stage::ALL.into_iter().filter(|stage| longest.contains(stage)).collect();
        let share = |of: &dyn Fn(&Bucket) -> f64| -> Vec<f64> {
            let one = |bucket: &Bucket| {
                let time = bucket.waits.total() + bucket.consumer;
                if time > 0.0 { of(bucket) / time } else { 0.0 }
            };
            self.all.iter().map(one).collect()
        };
        let most = share(&|bucket| bucket.waits.total()).into_iter().fold(0.0, f64::max);
        let said = longest
            .iter()
            .map(|stage| format!("{} {}", stage.name(), seconds(total.waits.for_stage(*stage))));
        let summary = format!(
            "Share of each {} that the training loops waited, by the stage that held them up. In all: {}.",
            self.stretch(),
            said.collect::<Vec<_>>().join(", ")
        );
        let y =
            Axis::linear(most.min(1.0), "time waited", |share| format!("{} %", (share * 1e4).round() / 1e2));
        let mut plot = Plot::new("waits", "Waits by stage over time", summary, self.axis(), y);
        let mut lower = vec![0.0; self.all.len()];
        let mut draw = |plot: &mut Plot, class: &str, name: &str, values: Vec<f64>| {
            let upper: Vec<f64> = lower.iter().zip(values).map(|(below, value)| below + value).collect();
            plot.area(class, &stairs(&lower, self.step()), &stairs(&upper, self.step()), name);
            plot.legend([(class, name)]);
            lower = upper;
        };
        for (place, stage) in drawn.iter().enumerate() {
            draw(
                &mut plot,
                &format!("stage-{place}"),
                stage.name(),
                share(&|bucket| bucket.waits.for_stage(*stage)),
            );
        }
        let others = |bucket: &Bucket| {
            let others = Stage::ALL.into_iter().filter(|stage| !drawn.contains(stage));
            others.map(|stage| bucket.waits.for_stage(stage)).sum()
        };
        if others(&total) >= least {
            draw(&mut plot, "others", "others", share(&others));
        }
        Some(plot.finish())
    }

    /// Plots the rows per second that all training loops got together; `None` if the run is too short.
    pub(super) fn rates(&self) -> Option<String> {
        // The last bucket is left out, because it had not ended when the report was made.
        let whole = &self.all[..self.all.len() - 1];
        let rates: Vec<f64> = whole.iter().map(|bucket| bucket.rows as f64 / self.width).collect();
        if rates.len() < MIN_CURVE_BUCKETS {
            return None;
        }
        let (least, most) =
            (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
        let summary = format!(
            "Rows a second that all ranks got, over each {}: between {} and {}.",
            self.stretch(),
            rate(least),
            rate(most)
        );
        let mut plot = Plot::new("rate", "Throughput over time", summary, self.axis(), rows_axis(most));
        plot.line("first", stairs(&rates, self.step()));
        Some(plot.finish())
    }
}

/// The durations of `next()` on all ranks, in milliseconds.
pub(super) fn calls(summary: &Summary) -> Latencies {
    const MILLIS: f64 = 1e3;
    let bins = summary.next_histogram.iter();
    let next = summary.next;
    Latencies {
        bins: bins.map(|bin| Calls { up_to_ms: bin.up_to * MILLIS, calls: bin.calls }).collect(),
        p50: next.p50 * MILLIS,
        p99: next.p99 * MILLIS,
        p999: next.p999 * MILLIS,
        max: next.max * MILLIS,
    }
}

/// How long each stage worked and how long training loops waited for it; times of 0 are left out.
pub(super) fn work(summary: &Summary) -> StageTimes {
    let stages = summary.stages.named().into_iter().filter(|(name, _)| *name != "list");
    let waits = Stage::ALL.into_iter().map(|stage| (stage.name(), summary.waited.for_stage(stage)));
    StageTimes {
        seconds: summary.seconds.max(f64::MIN_POSITIVE),
        worked: stages.map(|(name, stage)| (name, stage.working)).filter(|(_, time)| *time > 0.0).collect(),
        waited: waits.filter(|(_, time)| *time > 0.0).collect(),
    }
}
