//! The parts of a report that are plotted. They are read from the JSON of the report, so that the present run
//! and an earlier one, which is read from a file, are plotted alike.

use forebay::stats::{self, Stage, Stages};
use serde::Deserialize;
use serde_json::Value;

use super::sweep::Point;
use super::tally::{Bin, Utilisation, Waits};
use crate::page::{Calls, Latencies, StageTimes};

/// The parts of a report of `bench` that are plotted.
#[derive(Deserialize)]
pub(super) struct Drawn {
    seconds: f64,
    pub(super) rows_by_second: Vec<u64>,
    pub(super) cold_rows_per_second: Option<f64>,
    pub(super) warm_rows_per_second: Option<f64>,
    next_ms: Waits,
    next_histogram: Vec<Bin>,
    pub(super) accelerator: Option<Busy>,
    waited: stats::Waits,
    stages: Stages,
    pub(super) by_epoch: Vec<EpochRate>,
    pub(super) thread_sweep: Vec<Point>,
}

/// How busy the simulated accelerators were.
#[derive(Deserialize)]
pub(super) struct Busy {
    pub(super) ranks: Vec<Utilisation>,
}

#[derive(Deserialize)]
pub(super) struct EpochRate {
    pub(super) rows_per_second: f64,
}

impl Drawn {
    /// Reads the parts of a report that are plotted.
    pub(super) fn read(report: &Value) -> serde_json::Result<Self> {
        Drawn::deserialize(report)
    }

    pub(super) fn latencies(&self) -> Latencies {
        let bins = self.next_histogram.iter();
        let Waits { p50, p99, p999, max, .. } = self.next_ms;
        let bins = bins.map(|bin| Calls { up_to_ms: bin.up_to_ms, calls: bin.calls }).collect();
        Latencies { bins, p50, p99, p999, max }
    }

    pub(super) fn work(&self) -> StageTimes {
        let always = [Stage::Fetch, Stage::Parquet, Stage::Gather, Stage::Decode];
        let waits = Stage::ALL.into_iter().map(|stage| (stage, self.waited.for_stage(stage)));
        let waits = waits.filter(|(stage, seconds)| *seconds > 0.0 || always.contains(stage));
        let stages = &self.stages;
        StageTimes {
            seconds: self.seconds,
            worked: vec![
                ("fetch", stages.fetch.working),
                ("parquet", stages.parquet.working),
                ("gather", stages.gather.working),
                ("decode", stages.decode.working),
                ("keep", stages.keep.working),
            ],
            waited: waits.map(|(stage, seconds)| (stage.name(), seconds)).collect(),
        }
    }

    pub(super) fn rates(&self) -> Vec<f64> {
        self.rows_by_second.iter().map(|rows| *rows as f64).collect()
    }
}

impl Busy {
    /// For each second of the run, the busy share of the rank that was the least busy in that second.
    pub(super) fn by_second(&self) -> Vec<f64> {
        let seconds = self.ranks.iter().map(|rank| rank.by_second.len()).min().unwrap_or(0);
        let worst = |second: usize| self.ranks.iter().map(|rank| rank.by_second[second]).fold(1.0, f64::min);
        (0..seconds).map(worst).collect()
    }
}
