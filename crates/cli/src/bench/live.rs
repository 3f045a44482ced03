//! The progress line of a run: the rate, how busy the accelerator is, and the stage that it waits for.

use forebay::Loader;
use forebay::stats::Stage;
use forebay::stats::Waits;

use super::tally::Lap;
use crate::console::{Console, Progress};
use crate::units::{count, percent};

/// The progress line names a stage only if waits took at least this share of the time since the previous
/// line.
const MIN_NOTED_SHARE: f64 = 0.01;

/// Shows the progress of rank 0.
pub(super) struct Live<'a> {
    progress: Progress,
    loader: Option<&'a Loader>,
    so_far: SoFar,
    /// The time of the last line, and the waits until then.
    spoke: (f64, Waits),
}

/// The sums over all steps so far.
#[derive(Default)]
struct SoFar {
    began: Option<f64>,
    ended: f64,
    rows: u64,
    busy: f64,
}

impl<'a> Live<'a> {
    pub(super) fn new(console: &Console, steps: u64, loader: Option<&'a Loader>) -> Self {
        let progress = console.progress("running", "steps", steps);
        Live { progress, loader, so_far: SoFar::default(), spoke: (0.0, Waits::default()) }
    }

    /// Counts a step that is over.
    pub(super) fn step(&mut self, lap: &Lap) {
        let Live { progress, loader, so_far, spoke } = self;
        so_far.add(lap);
        progress.advance_and_tell(1, || {
            let waits = loader.map(|loader| loader.stats().waits).unwrap_or_default();
            let limit = limiting(&spoke.1, &waits, lap.ended - spoke.0);
            *spoke = (lap.ended, waits);
            so_far.line(limit)
        });
    }
}

impl SoFar {
    fn add(&mut self, lap: &Lap) {
        self.began.get_or_insert(lap.began);
        self.ended = lap.ended;
        self.rows += lap.rows;
        self.busy += lap.step;
    }

    fn line(&self, limit: Option<&str>) -> String {
        let time = (self.ended - self.began.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
        let mut line = format!("{} rows/s", count((self.rows as f64 / time) as u64));
        if self.busy > 0.0 {
            line.push_str(&format!(", busy {}", percent((self.busy / time).min(1.0))));
        }
        match limit {
            Some(stage) => line.push_str(&format!(", waits for {stage}")),
            None => line.push_str(", waits for nothing"),
        }
        line
    }
}

/// The stage with the longest wait between two readings that are `seconds` apart, if the waits were long.
fn limiting(then: &Waits, now: &Waits, seconds: f64) -> Option<&'static str> {
    let waits = now.since(then);
    let most = Stage::ALL.into_iter().max_by(|a, b| waits.for_stage(*a).total_cmp(&waits.for_stage(*b)))?;
    (waits.total() > MIN_NOTED_SHARE * seconds).then(|| most.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_that_limits_now_is_named_whatever_limited_before() {
        let mut then = Waits::default();
        then.fetch = 50.0;
        let mut now = then;
        (now.parquet, now.decode) = (0.1, 0.5);
        assert_eq!(limiting(&then, &now, 1.0), Some("decode"));
        assert_eq!(limiting(&Waits::default(), &then, 60.0), Some("fetch"));
        assert_eq!(limiting(&now, &now, 1.0), None);
    }

    #[test]
    fn a_line_says_rate_utilisation_and_limit() {
        let mut so_far = SoFar::default();
        let lap = Lap { asked: 0.0, got: 1.0, began: 1.0, ended: 3.0, step: 1.5, rows: 3_000, first: true };
        so_far.add(&lap);
        assert_eq!(so_far.line(Some("fetch")), "1,500 rows/s, busy 75.0 %, waits for fetch");
        so_far.busy = 0.0;
        assert_eq!(so_far.line(None), "1,500 rows/s, waits for nothing");
    }
}
