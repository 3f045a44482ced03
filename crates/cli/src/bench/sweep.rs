//! `--thread-sweep`: measures the loader's rate with several numbers of decoding threads, one run for each,
//! without a simulated accelerator.

use forebay_base::Result;
use serde::{Deserialize, Serialize};

use super::args::Args;
use super::drive::{RankRun, unthrottled};
use super::pressure::Pressure;
use crate::console::Console;

/// The rate that was measured with one number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    /// The number of threads of each rank.
    pub(super) threads: usize,
    /// The rate of all ranks, without the wait for the first batch; `None` if the time was too short for a
    /// second batch.
    pub(super) rows_per_second: Option<f64>,
}

/// Measures the rate with each requested number of threads, one after the other.
pub(super) fn measure(args: &Args, pressure: &Pressure, console: &Console) -> Result<Vec<Point>> {
    let mut progress = console.progress("sweeping", "runs", args.thread_sweep.len() as u64);
    let mut points = Vec::new();
    for &threads in &args.thread_sweep {
        let loaders = Args { threads: Some(threads), trace: None, ..args.clone() }.loaders(None)?;
        let ranks = unthrottled(&loaders, args.free_time(), pressure)?;
        points.push(Point { threads, rows_per_second: ranks.iter().map(rate).sum() });
        progress.advance(1);
    }
    Ok(points)
}

/// The rate of one rank in rows per second, measured from the end of its first step, because the wait for the
/// first batch belongs to the start.
fn rate(run: &RankRun) -> Option<f64> {
    let (first, others) = run.laps.split_first()?;
    let time = others.last()?.ended - first.ended;
    let rows: u64 = others.iter().map(|lap| lap.rows).sum();
    (time > 0.0).then(|| rows as f64 / time)
}

#[cfg(test)]
mod tests {
    use super::super::tally::Lap;
    use super::*;

    #[test]
    fn a_rate_leaves_the_first_batch_out() {
        let lap = |asked: f64, ended: f64, rows| Lap {
            asked,
            got: ended,
            began: ended,
            ended,
            step: 0.0,
            rows,
            first: false,
        };
        let run = |laps: &[Lap]| RankRun { laps: laps.to_vec(), ..RankRun::default() };
        let laps = [lap(0.0, 100.0, 10), lap(100.0, 101.0, 10), lap(101.0, 102.0, 20)];
        assert_eq!(rate(&run(&laps)), Some(15.0));
        assert_eq!(rate(&run(&laps[..1])), None);
        assert_eq!(rate(&run(&[])), None);
    }
}
