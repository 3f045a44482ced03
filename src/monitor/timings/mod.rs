//! Measures what each stage is doing now, and how long it has worked and waited so far.
//!
//! Every change of an activity is recorded. Before that, the time since the last change is
//! [added](Timings::settle) to the activities that were going on. So nothing is sampled, and all times are
//! exact, however short. The code does arithmetic only, and never reads the clock: times are passed in, as
//! nanoseconds since the loader was built.

mod consumer;
mod epoch;
#[cfg(test)]
mod tests;
mod timeline;

use std::ops::Range;

use super::histogram::Histogram;
use super::stage::Stage;
pub(super) use consumer::Look;
use epoch::Owner;
pub(crate) use epoch::Phase;
pub(super) use epoch::{Assembly, EpochTimings, Front};
pub(crate) use timeline::{TimeStretch, Timeline};

pub(crate) const STAGES: usize = Stage::ALL.len();

/// The output of a stage, and the time that it worked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// The number of tasks of the stage that run now.
    pub(super) running: u32,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// The time that the stage worked, in nanoseconds. For stages of the pool and for transforms, the times
    /// of all threads are added up. For other stages, time counts once, however many tasks run.
    pub(crate) nanos: u64,
}

/// The time that a stage was idle while an epoch was under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    /// The time in which the stage had nothing to do, in nanoseconds.
    pub(crate) starved: u64,
    /// The time in which the stage had no space for its results, in nanoseconds.
    pub(crate) blocked: u64,
}

/// The batch that the consumer got last: its `epoch`, and the time `at` when it arrived. The time from then
/// until the consumer's next request counts as the consumer's own work.
#[derive(Clone, Copy, Debug)]
struct Had {
    epoch: u64,
    at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Timings {
    settled: u64,
    /// The number of threads in the pool.
    pub(crate) threads: u32,
    pub(crate) work: [Work; STAGES],
    pub(crate) fetch: Idle,
    pub(crate) shuffle: Idle,
    pub(crate) pool: Idle,
    pub(crate) transform: Idle,
    /// The number of row groups that were fetched and wait for their turn to be decoded.
    fetched: u32,
    /// The number of row groups that have memory, but from which no batches are made yet.
    pub(crate) under_way: u64,
    pub(super) epochs: Vec<EpochTimings>,
    /// The epoch whose batches the consumer takes.
    pub(super) current: Option<u64>,
    /// Whether the current epoch still has batches to deliver.
    pub(super) active: bool,
    /// The nanoseconds during which an epoch was under way.
    pub(crate) active_nanos: u64,
    /// The number of ready batches, summed over every nanosecond of the epochs. Divided by `active_nanos`, it
    /// is the average number.
    pub(crate) ready_nanos: u128,
    /// The value of `under_way`, summed over every nanosecond of the epochs. Divided by `active_nanos`, it is
    /// the average value.
    pub(crate) under_way_nanos: u128,
    waiting: bool,
    /// `asked` is the time when the consumer began to wait. `so_far` is how long it had waited for the same
    /// batch before.
    asked: u64,
    so_far: u64,
    had: Option<Had>,
    /// The nanoseconds that the consumer waited, by the stage that held it up. At [`Stage::Consumer`]: the
    /// nanoseconds that it spent on its own work.
    pub(crate) waits: [f64; STAGES],
    /// The same times as in `waits`, split by when they were spent.
    pub(crate) timeline: Timeline,
    /// The value of `waits` when the consumer got its first batch; `None` before.
    pub(crate) start: Option<[f64; STAGES]>,
    pub(crate) first: u64,
    pub(crate) next: Histogram,
}

impl Timings {
    pub(super) fn new(threads: u32) -> Self {
        Timings { threads, ..Timings::default() }
    }

    /// Adds the time from the last call until `now` to the activities that were going on.
    pub(super) fn settle(&mut self, now: u64) {
        let nanos = now.saturating_sub(self.settled);
        if nanos == 0 {
            return;
        }
        let since = std::mem::replace(&mut self.settled, now);
        for stage in Stage::POOL {
            let work = &mut self.work[stage as usize];
            work.nanos += nanos * u64::from(work.running);
        }
        // Like the threads of the pool, all workers of a transform count, so their times are added up.
        let transform = &mut self.work[Stage::Transform as usize];
        transform.nanos += nanos * u64::from(transform.running);
        for stage in [Stage::Fetch, Stage::Memory, Stage::Cache, Stage::HandOver, Stage::Device] {
            let work = &mut self.work[stage as usize];
            work.nanos += if work.running > 0 { nanos } else { 0 };
        }
        if self.active {
            self.settle_idle(nanos);
        }
        if self.waiting {
            self.charge(since..now);
        }
    }

    fn settle_idle(&mut self, nanos: u64) {
        let running = |stage: Stage| self.work[stage as usize].running;
        let busy: u32 = Stage::POOL.into_iter().map(running).sum();
        let fetching = running(Stage::Fetch) + running(Stage::Cache) > 0;
        let transforming = running(Stage::Transform) > 0;
        let held_up = running(Stage::Memory) + self.fetched > 0;
        let Some(epoch) = self.epochs.iter().find(|epoch| Some(epoch.id) == self.current) else { return };
        let idle = nanos * u64::from(self.threads.saturating_sub(busy));
        match epoch.assembly {
            Assembly::Working => {
                self.work[Stage::Shuffle as usize].nanos += nanos;
                self.pool.starved += idle;
            }
            Assembly::Starved => {
                self.shuffle.starved += nanos;
                self.pool.starved += idle;
            }
            Assembly::Blocked => {
                self.shuffle.blocked += nanos;
                self.pool.blocked += idle;
            }
            Assembly::Over => self.pool.blocked += idle,
        }
        match (fetching, held_up) {
            (true, _) => {}
            (false, true) => self.fetch.blocked += nanos,
            (false, false) => self.fetch.starved += nanos,
        }
        match epoch.front {
            _ if transforming => {}
            Front::Waiting => self.transform.starved += nanos,
            Front::At(_) => {}
            Front::Full => self.transform.blocked += nanos,
        }
        self.active_nanos += nanos;
        self.ready_nanos += u128::from(nanos) * u128::from(epoch.ready);
        self.under_way_nanos += u128::from(nanos) * u128::from(self.under_way);
    }

    /// Charges a span of time in which the consumer waited to the stage that held it up.
    fn charge(&mut self, span: Range<u64>) {
        let epoch = self.epochs.iter().find(|epoch| Some(epoch.id) == self.current);
        match epoch.map_or(Owner::One(Stage::Shuffle), EpochTimings::owner) {
            Owner::One(stage) => self.spend(stage, span, 1.0),
            Owner::Pool(otherwise) => {
                let running = |stage: Stage| f64::from(self.work[stage as usize].running);
                let all: f64 = Stage::POOL.into_iter().map(running).sum();
                if all == 0.0 {
                    self.spend(otherwise, span, 1.0);
                    return;
                }
                for (stage, share) in Stage::POOL.map(|stage| (stage, running(stage) / all)) {
                    self.spend(stage, span.clone(), share);
                }
            }
        }
    }

    /// Adds a share of a span of time to the time that the consumer waited for a stage, or worked itself.
    fn spend(&mut self, stage: Stage, span: Range<u64>, share: f64) {
        if share > 0.0 {
            self.waits[stage as usize] += (span.end - span.start) as f64 * share;
            self.timeline.spend(stage, span, share);
        }
    }

    pub(super) fn epoch(&mut self, id: u64) -> Option<&mut EpochTimings> {
        self.epochs.iter_mut().find(|epoch| epoch.id == id)
    }

    pub(super) fn begins(&mut self, stage: Stage) {
        self.work[stage as usize].running += 1;
    }

    pub(super) fn ends(&mut self, stage: Stage) {
        let work = &mut self.work[stage as usize];
        work.running = work.running.saturating_sub(1);
    }

    /// Records that a thread or process begins to work for a stage outside the loader, such as a worker of a
    /// transform.
    pub(super) fn begins_at(&mut self, stage: Stage, now: u64) {
        self.settle(now);
        self.begins(stage);
    }

    /// Records that a thread or process has ended its work for a stage outside the loader.
    pub(super) fn ends_at(&mut self, stage: Stage, now: u64) {
        self.settle(now);
        self.ends(stage);
    }

    /// Records that a row group enters a phase. The stage of the phase counts as working until the row group
    /// leaves the phase.
    pub(super) fn enters(&mut self, epoch: u64, number: u64, phase: Phase) {
        if let Some(part) = self.epoch(epoch).and_then(|epoch| epoch.part(number)) {
            *part = phase;
        }
        match phase {
            Phase::Fetched => self.fetched += 1,
            _ => phase.stage().into_iter().for_each(|stage| self.begins(stage)),
        }
    }

    pub(super) fn leaves(&mut self, phase: Phase) {
        match phase {
            Phase::Fetched => self.fetched = self.fetched.saturating_sub(1),
            _ => phase.stage().into_iter().for_each(|stage| self.ends(stage)),
        }
    }

    /// Records that the thread that takes batches from the loader for the consumer changes its activity.
    /// Returns the stage that it worked for until now, and when that work began.
    pub(super) fn turns(&mut self, epoch: u64, now: u64, front: Front) -> Option<(Stage, u64)> {
        self.settle(now);
        let epoch = self.epoch(epoch)?;
        let before = std::mem::replace(&mut epoch.front, front);
        let since = std::mem::replace(&mut epoch.turned, now);
        if let Front::At(stage) = front {
            self.begins(stage);
        }
        match before {
            Front::At(stage) => {
                self.ends(stage);
                Some((stage, since))
            }
            Front::Waiting | Front::Full => None,
        }
    }

    /// Records that a batch is taken from the loader.
    pub(super) fn takes(&mut self, epoch: u64, now: u64) {
        self.settle(now);
        if let Some(epoch) = self.epoch(epoch) {
            epoch.ready = epoch.ready.saturating_sub(1);
            epoch.making = false;
        }
    }

    /// Removes an epoch, and ends the activities that were recorded for it.
    pub(super) fn forget(&mut self, id: u64, now: u64) {
        self.nears(id, now, None);
        self.turns(id, now, Front::Waiting);
        if let Some(at) = self.epochs.iter().position(|epoch| epoch.id == id) {
            let gone = self.epochs.swap_remove(at);
            let waiting = gone.parts.iter().filter(|phase| **phase == Phase::Memory).count();
            self.under_way = self.under_way.saturating_sub((gone.parts.len() - waiting) as u64);
        }
        if self.current == Some(id) {
            (self.current, self.active) = (None, false);
        }
    }

    /// The number of batches of the current epoch that were made and not yet taken.
    pub(crate) fn ready(&self) -> u64 {
        self.epochs.iter().find(|epoch| Some(epoch.id) == self.current).map_or(0, |epoch| epoch.ready)
    }
}
