//! Runs ranks against the simulated accelerator, and records all times.

use std::ops::Range;
use std::time::{Duration, Instant};

use forebay::Loader;
use forebay::stats::CacheStats;
use forebay::stats::Waits;
use forebay_base::Result;
use forebay_store::source::TrafficStats;

use super::accelerator::Accelerator;
use super::decoded::DecodedImages;
use super::meeting::Meeting;
use super::pressure::Pressure;
use super::tally::Lap;
use super::undecoded::{self, Undecoded};
use crate::machine::{self, Clock};

/// The settings of a run.
pub(super) struct DriveSettings<'a> {
    pub(super) accelerator: Accelerator,
    pub(super) epochs: Range<u64>,
    /// The number of steps to stop after.
    pub(super) steps: Option<u64>,
    /// The time to stop after.
    pub(super) at_most: Option<Duration>,
    /// The threads that keep processors busy beside the run.
    pub(super) pressure: &'a Pressure,
    /// The columns whose images are counted.
    pub(super) decoded: DecodedImages,
}

/// The record of one rank.
#[derive(Default)]
pub(super) struct RankRun {
    /// The times of each step of the rank, in seconds since the start of the run.
    pub(super) laps: Vec<Lap>,
    /// How long the rank had waited when its first batch arrived. The report leaves it out, because the start
    /// of a run is not typical.
    pub(super) first_wait: Waits,
    /// The decoded images that the rank received.
    pub(super) images: u64,
    /// The columns of the rank's first batch that hold encoded images.
    pub(super) undecoded: Vec<Undecoded>,
    /// The counters at the beginning of the run and at the end of each epoch; the last epoch may be cut
    /// short.
    pub(super) marks: Vec<Mark>,
}

/// The readings of all counters (processor time, traffic, cache) at one moment.
#[derive(Clone, Default)]
pub(super) struct Mark {
    /// The processor time of the process and of the machine.
    pub(super) clock: Option<Clock>,
    /// The processor time of this rank's training loop, whose short steps wait by spinning.
    pub(super) training: f64,
    /// The processor time of the threads of [`Pressure`].
    pub(super) pressure: f64,
    pub(super) traffic: TrafficStats,
    pub(super) cache: Option<CacheStats>,
}

impl Mark {
    fn now(loader: &Loader, pressure: &Pressure) -> Self {
        let stats = loader.stats();
        Mark {
            clock: Clock::now(),
            training: machine::thread_seconds().unwrap_or(0.0),
            pressure: pressure.seconds(),
            traffic: stats.traffic,
            cache: stats.cache,
        }
    }
}

/// Runs each rank on its own thread, and records times in seconds since `origin`. Calls `on_step` after each
/// step of rank 0.
pub(super) fn drive(
    loaders: &[Loader],
    course: &DriveSettings<'_>,
    origin: Instant,
    mut on_step: impl FnMut(&Lap) + Send,
) -> Result<Vec<RankRun>> {
    let meeting = Meeting::new(loaders.len());
    let Some((first, others)) = loaders.split_first() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|loader| scope.spawn(|| rank(loader, course, origin, &meeting, |_| ())))
            .collect();
        let mut ranks = vec![rank(first, course, origin, &meeting, &mut on_step)];
        for other in others {
            ranks.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        ranks.into_iter().collect()
    })
}

/// Runs one rank. When it ends, for any reason, the others end too.
fn rank(
    loader: &Loader,
    course: &DriveSettings<'_>,
    origin: Instant,
    meeting: &Meeting,
    mut on_step: impl FnMut(&Lap),
) -> Result<RankRun> {
    /// Ends the run for all ranks when it is dropped, even by a panic.
    struct Leave<'a>(&'a Meeting);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let _leave = Leave(meeting);
    let mut run = RankRun { marks: vec![Mark::now(loader, course.pressure)], ..RankRun::default() };
    let clock = RunClock { origin, started: Instant::now() };
    for number in course.epochs.clone() {
        let over = epoch(number, loader, course, clock, meeting, &mut run, &mut on_step)?;
        run.marks.push(Mark::now(loader, course.pressure));
        if over {
            break;
        }
    }
    Ok(run)
}

/// Runs `loaders` for `time` without an accelerator.
pub(super) fn unthrottled(loaders: &[Loader], time: Duration, pressure: &Pressure) -> Result<Vec<RankRun>> {
    let course = DriveSettings {
        accelerator: Accelerator::new(Duration::ZERO),
        epochs: 0..u64::MAX,
        steps: None,
        at_most: Some(time),
        pressure,
        decoded: DecodedImages::default(),
    };
    drive(loaders, &course, Instant::now(), |_| ())
}

/// The instants from which a run counts its times.
#[derive(Clone, Copy)]
struct RunClock {
    /// The instant since which times are recorded.
    origin: Instant,
    /// The instant from which the time limit of the run counts.
    started: Instant,
}

/// Runs one epoch and returns whether the run is over.
fn epoch(
    number: u64,
    loader: &Loader,
    course: &DriveSettings<'_>,
    RunClock { origin, started }: RunClock,
    meeting: &Meeting,
    run: &mut RankRun,
    on_step: &mut impl FnMut(&Lap),
) -> Result<bool> {
    let since = |instant: Instant| instant.duration_since(origin).as_secs_f64();
    // Beginning an epoch is part of the wait for its first batch.
    let mut asked = Instant::now();
    let epoch = loader.epoch(number);
    let mut first = true;
    for batch in epoch {
        let batch = std::hint::black_box(batch?);
        let got = Instant::now();
        if run.laps.is_empty() {
            run.first_wait = loader.stats().waits;
            run.undecoded = undecoded::images(&batch);
        }
        if !meeting.meet() {
            return Ok(true);
        }
        let (began, step) = (Instant::now(), course.accelerator.length(run.laps.len() as u64));
        Accelerator::train(began, step);
        let (rows, ended) = (batch.num_rows() as u64, Instant::now());
        run.images += course.decoded.images(&batch);
        drop(batch);
        let lap = Lap {
            asked: since(asked),
            got: since(got),
            began: since(began),
            ended: since(ended),
            step: step.as_secs_f64(),
            rows,
            first,
        };
        run.laps.push(lap);
        on_step(&lap);
        let full = course.steps.is_some_and(|most| run.laps.len() as u64 >= most);
        let late = course.at_most.is_some_and(|most| started.elapsed() >= most);
        if full || late {
            return Ok(true);
        }
        first = false;
        asked = Instant::now();
    }
    Ok(false)
}
