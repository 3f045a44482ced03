//! The results of a simulated accelerator: how busy it was, and how much more the loader could deliver.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::drive::RankRun;
use super::tally::{self, Utilisation};
use crate::units::{percent, seconds};

/// The report mentions late wake-ups of the simulation's threads if they cost more than this share of the
/// elapsed time.
const MIN_NOTED_SHARE: f64 = 0.002;

/// The results of the simulated accelerator.
#[derive(Serialize)]
pub(super) struct Simulated {
    /// The mean time of a step of the simulated accelerator, in milliseconds.
    pub(super) step_ms: f64,
    /// The largest random deviation of a step's time from the mean, as a share of the mean.
    pub(super) jitter: f32,
    /// The time that the simulation itself adds to each step, in milliseconds; utilisation is computed
    /// without it.
    floor_ms: f64,
    pub(super) utilisation_min: f64,
    /// The loader's rate without an accelerator, divided by the rate that the accelerator demands.
    pub(super) margin: Option<f64>,
    pub(super) ranks: Vec<Utilisation>,
}

impl Simulated {
    /// Computes the utilisation of each rank. A step lasts `step` on average, and the simulation itself adds
    /// `floor` to it.
    pub(super) fn new(ranks: &[RankRun], step: Duration, jitter: f32, floor: Duration) -> Self {
        let (step, floor) = (step.as_secs_f64(), floor.as_secs_f64());
        let ranks: Vec<Utilisation> =
            ranks.iter().filter_map(|run| tally::utilisation(&run.laps, floor)).collect();
        Simulated {
            step_ms: step * 1e3,
            jitter,
            floor_ms: floor * 1e3,
            utilisation_min: ranks.iter().map(|rank| rank.mean).fold(1.0, f64::min),
            margin: None,
            ranks,
        }
    }

    /// Sets the margin: the slowest rank's rate without a simulated accelerator, divided by the rate that the
    /// accelerator demands. `free` holds the runs without one.
    pub(super) fn set_margin(&mut self, free: &[RankRun]) {
        // The wait for the first batch is left out, because it is part of the start and says nothing of the
        // steady rate.
        let steps_per_second = free.iter().filter_map(|RankRun { laps, .. }| {
            let (first, last) = (laps.first()?, laps.last()?);
            let time = last.ended - first.ended;
            (time > 0.0).then(|| (laps.len() - 1) as f64 / time)
        });
        let slowest = steps_per_second.fold(f64::INFINITY, f64::min);
        self.margin = slowest.is_finite().then_some(slowest * self.step_ms / 1e3);
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "accelerator     busy {}", percent(self.utilisation_min))?;
        if self.ranks.len() > 1 {
            write!(f, " on the worst rank")?;
        }
        write!(f, " with steps of {}", seconds(self.step_ms / 1e3))?;
        if self.jitter > 0.0 {
            write!(f, " ± {}", percent(f64::from(self.jitter)))?;
        }
        let worst = self.ranks.iter().filter_map(|rank| rank.worst_second).reduce(f64::min);
        let variation = self.ranks.iter().filter_map(|rank| rank.variation).reduce(f64::max);
        if let (Some(worst), Some(variation)) = (worst, variation) {
            write!(f, ", worst second {}, variation {variation:.3}", percent(worst))?;
        }
        let late = self.ranks.iter().map(|rank| rank.late).fold(0.0, f64::max);
        if late > MIN_NOTED_SHARE {
            write!(f, ", {} lost to late wake-ups", percent(late))?;
        }
        match self.margin {
            Some(margin) => write!(f, ", margin {margin:.2}"),
            None => write!(f, ", too short a run for a margin"),
        }
    }
}
