//! The books: what every part of the pipe is doing now, and what it came to so far.
//!
//! Every change of what goes on is an entry. Before it is made, the time since the last one is [settled](Ledger::settle)
//! under what was going on until then: so all times are exact, however short, and nothing is sampled. Arithmetic only;
//! times are nanoseconds since the loader was built.

use std::collections::VecDeque;

use super::histogram::Histogram;
use super::stage::Stage;

/// How many stages there are.
pub(crate) const STAGES: usize = Stage::ALL.len();

/// What a stage does and did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Tasks of it that run now.
    pub(super) running: u32,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Time that it worked: summed over the pool's threads, and for all else time during which it did.
    pub(crate) nanos: u64,
}

/// Time that a stage did not work though an epoch was under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    /// There was nothing to do.
    pub(crate) starved: u64,
    /// There was no room for what would have been done.
    pub(crate) blocked: u64,
}

/// What the thread that assembles batches does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assembly {
    Working,
    /// It waits for a row group.
    Starved,
    /// It waits for room in the consumer's queue.
    Blocked,
}

/// How far a row group got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for memory.
    Memory,
    /// It is looked up in the cache.
    Cache,
    /// It is read from the store.
    Store,
    /// It waits for a place among those that are decoded.
    Fetched,
    /// It waits for the pool, or is worked on there.
    Pool,
    /// It is written to the cache, to be used from there.
    Writing,
    /// Its rows are here.
    Ready,
}

impl Phase {
    /// Whom its time counts for.
    fn stage(self) -> Option<Stage> {
        match self {
            Phase::Memory => Some(Stage::Memory),
            Phase::Cache | Phase::Writing => Some(Stage::Cache),
            Phase::Store => Some(Stage::Store),
            Phase::Fetched | Phase::Pool | Phase::Ready => None,
        }
    }
}

/// What lies between the pipe and who consumes, a transform for example, and does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// It waits for the pipe, or there is nothing.
    Waiting,
    /// It works.
    At(Stage),
    /// It waits for the consumer.
    Full,
}

/// What goes on for one epoch.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) id: u64,
    /// Whether what takes batches from the pipe is another thread than the consumer's.
    pub(super) apart: bool,
    pub(super) front: Front,
    /// What the consumer's own thread works on before it has a batch, and since when.
    near: Option<Stage>,
    neared: u64,
    pub(super) assembly: Assembly,
    /// Whether the batch that is waited for is being made; if not, its rows are not even at hand.
    pub(super) making: bool,
    /// Row groups on their way, in plan order.
    pub(super) parts: VecDeque<Phase>,
    /// The number of the first of them.
    pub(super) first: u64,
    /// Batches that were made and not taken, and that the consumer got.
    pub(super) ready: u64,
    pub(super) taken: u64,
    /// Since when `front` is what it is.
    pub(super) turned: u64,
}

/// Whose a wait is.
enum Owner {
    One(Stage),
    /// Whatever the pool works on; this, if it works on nothing.
    Pool(Stage),
}

impl Road {
    pub(super) fn new(id: u64) -> Self {
        Road {
            id,
            apart: false,
            front: Front::Waiting,
            near: None,
            neared: 0,
            assembly: Assembly::Working,
            making: false,
            parts: VecDeque::new(),
            first: 0,
            ready: 0,
            taken: 0,
            turned: 0,
        }
    }

    pub(super) fn part(&mut self, number: u64) -> Option<&mut Phase> {
        self.parts.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// What holds up the next batch.
    fn owner(&self) -> Owner {
        if let Some(stage) = self.near {
            return Owner::One(stage);
        }
        match (self.front, self.assembly) {
            (Front::At(stage), _) => Owner::One(stage),
            (Front::Full, _) => Owner::One(Stage::HandOver),
            (Front::Waiting, _) if self.making => Owner::Pool(Stage::Gather),
            (Front::Waiting, Assembly::Working) => Owner::One(Stage::Shuffle),
            (Front::Waiting, Assembly::Blocked) => Owner::Pool(Stage::Gather),
            (Front::Waiting, Assembly::Starved) => match self.parts.front() {
                Some(Phase::Fetched) => Owner::Pool(Stage::Store),
                Some(phase) => phase.stage().map_or(Owner::Pool(Stage::Parquet), Owner::One),
                // The plan of an epoch is being made.
                None => Owner::One(Stage::Shuffle),
            },
        }
    }
}

/// Work on a batch that somebody looks at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// It holds up nobody that is known.
    Aside,
    /// It holds up the consumer, who was waiting before or not, and for what its own thread did.
    Near { before: Option<Stage>, waiting: bool },
}

/// When the consumer had something, so that the time until it asks again is its own.
#[derive(Clone, Copy, Debug)]
struct Had {
    road: u64,
    at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    settled: u64,
    /// Threads of the pool.
    pub(crate) threads: u32,
    pub(crate) work: [Work; STAGES],
    pub(crate) fetch: Idle,
    pub(crate) shuffle: Idle,
    pub(crate) pool: Idle,
    pub(crate) transform: Idle,
    /// Row groups that were fetched and wait for their place.
    fetched: u32,
    /// Row groups on their way, but for those that wait for memory.
    pub(crate) under_way: u64,
    pub(super) roads: Vec<Road>,
    /// The epoch that the consumer takes batches of.
    pub(super) current: Option<u64>,
    /// Whether there are batches of it to come.
    pub(super) active: bool,
    /// Time that epochs were under way, and over it the sums of what was ready and on its way.
    pub(crate) active_nanos: u64,
    pub(crate) ready_nanos: u128,
    pub(crate) under_way_nanos: u128,
    /// Whether the consumer waits now.
    waiting: bool,
    /// When it began to, and what it had waited for the same batch before.
    asked: u64,
    so_far: u64,
    had: Option<Had>,
    /// Time that the consumer waited, by what held it up; at [`Stage::Consumer`] its own time.
    pub(crate) waits: [f64; STAGES],
    /// Of it, what it waited for the first batch.
    pub(crate) start: Option<[f64; STAGES]>,
    pub(crate) first: u64,
    pub(crate) next: Histogram,
}

impl Ledger {
    /// The books of a loader with so many threads in its pool.
    pub(super) fn new(threads: u32) -> Self {
        Ledger { threads, ..Ledger::default() }
    }

    /// Books the time until `now` under what goes on.
    pub(super) fn settle(&mut self, now: u64) {
        let nanos = now.saturating_sub(self.settled);
        if nanos == 0 {
            return;
        }
        self.settled = now;
        for stage in Stage::POOL {
            let work = &mut self.work[stage as usize];
            work.nanos += nanos * u64::from(work.running);
        }
        for stage in
            [Stage::Store, Stage::Memory, Stage::Cache, Stage::HandOver, Stage::Transform, Stage::Device]
        {
            let work = &mut self.work[stage as usize];
            work.nanos += if work.running > 0 { nanos } else { 0 };
        }
        if self.active {
            self.settle_idle(nanos);
        }
        if self.waiting {
            self.charge(nanos as f64);
        }
    }

    fn settle_idle(&mut self, nanos: u64) {
        let running = |stage: Stage| self.work[stage as usize].running;
        let busy: u32 = Stage::POOL.into_iter().map(running).sum();
        let fetching = running(Stage::Store) + running(Stage::Cache) > 0;
        let held_up = running(Stage::Memory) + self.fetched > 0;
        let Some(road) = self.roads.iter().find(|road| Some(road.id) == self.current) else { return };
        let idle = nanos * u64::from(self.threads.saturating_sub(busy));
        match road.assembly {
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
        }
        match (fetching, held_up) {
            (true, _) => {}
            (false, true) => self.fetch.blocked += nanos,
            (false, false) => self.fetch.starved += nanos,
        }
        match road.front {
            Front::Waiting => self.transform.starved += nanos,
            Front::At(_) => {}
            Front::Full => self.transform.blocked += nanos,
        }
        self.active_nanos += nanos;
        self.ready_nanos += u128::from(nanos) * u128::from(road.ready);
        self.under_way_nanos += u128::from(nanos) * u128::from(self.under_way);
    }

    /// Books a wait of the consumer under what holds it up.
    fn charge(&mut self, nanos: f64) {
        let road = self.roads.iter().find(|road| Some(road.id) == self.current);
        match road.map_or(Owner::One(Stage::Shuffle), Road::owner) {
            Owner::One(stage) => self.waits[stage as usize] += nanos,
            Owner::Pool(otherwise) => {
                let running = |stage: Stage| f64::from(self.work[stage as usize].running);
                let all: f64 = Stage::POOL.into_iter().map(running).sum();
                if all == 0.0 {
                    self.waits[otherwise as usize] += nanos;
                    return;
                }
                for stage in Stage::POOL {
                    self.waits[stage as usize] += nanos * running(stage) / all;
                }
            }
        }
    }

    pub(super) fn road(&mut self, id: u64) -> Option<&mut Road> {
        self.roads.iter_mut().find(|road| road.id == id)
    }

    pub(super) fn begins(&mut self, stage: Stage) {
        self.work[stage as usize].running += 1;
    }

    pub(super) fn ends(&mut self, stage: Stage) {
        let work = &mut self.work[stage as usize];
        work.running = work.running.saturating_sub(1);
    }

    /// A row group enters a phase, and is counted among those in it until it leaves it.
    pub(super) fn enters(&mut self, road: u64, number: u64, phase: Phase) {
        if let Some(part) = self.road(road).and_then(|road| road.part(number)) {
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

    /// What lies before the consumer does something else; what it did before, and since when.
    pub(super) fn turns(&mut self, road: u64, now: u64, front: Front) -> Option<(Stage, u64)> {
        self.settle(now);
        let road = self.road(road)?;
        let before = std::mem::replace(&mut road.front, front);
        let since = std::mem::replace(&mut road.turned, now);
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

    /// A batch leaves the pipe.
    pub(super) fn takes(&mut self, road: u64, now: u64) {
        self.settle(now);
        if let Some(road) = self.road(road) {
            road.ready = road.ready.saturating_sub(1);
            road.making = false;
        }
    }

    /// The consumer asks for a batch; the time since it got the last one of this epoch was its own.
    pub(super) fn asks(&mut self, road: u64, now: u64) {
        self.settle(now);
        if self.waiting {
            return;
        }
        self.own_time(road, now);
        (self.waiting, self.asked) = (true, now);
    }

    /// It stops waiting, for now, without a batch.
    pub(super) fn pauses(&mut self, road: u64, now: u64) {
        self.settle(now);
        if std::mem::take(&mut self.waiting) {
            self.so_far += now.saturating_sub(self.asked);
            self.had = Some(Had { road, at: now });
        }
    }

    /// It has a batch. Returns how long it waited, and how many batches of the epoch it had before.
    pub(super) fn has(&mut self, road: u64, now: u64) -> Option<(u64, u64)> {
        self.settle(now);
        if !std::mem::take(&mut self.waiting) {
            return None;
        }
        let waited = std::mem::take(&mut self.so_far) + now.saturating_sub(self.asked);
        match self.start {
            Some(_) => self.next.record(waited),
            None => {
                self.first = waited;
                self.start = Some(self.waits);
            }
        }
        self.had = Some(Had { road, at: now });
        let road = self.road(road)?;
        road.taken += 1;
        Some((waited, road.taken - 1))
    }

    /// There is no batch for it, and will be none.
    pub(super) fn gets_nothing(&mut self, now: u64) {
        self.settle(now);
        (self.waiting, self.so_far, self.had) = (false, 0, None);
    }

    /// The consumer's own thread works for a stage on its way to a batch; what it did before, and since when.
    pub(super) fn nears(&mut self, road: u64, now: u64, near: Option<Stage>) -> Option<(Stage, u64)> {
        self.settle(now);
        let road = self.road(road)?;
        let before = std::mem::replace(&mut road.near, near);
        let since = std::mem::replace(&mut road.neared, now);
        near.into_iter().for_each(|stage| self.begins(stage));
        before.into_iter().for_each(|stage| self.ends(stage));
        before.map(|stage| (stage, since))
    }

    /// Somebody looks at a batch, so that a stage works on it. The consumer waits meanwhile, if it is who looks.
    pub(super) fn looks(&mut self, road: u64, now: u64, stage: Stage) -> Look {
        self.settle(now);
        let had = self.had.is_some_and(|had| had.road == road);
        let waiting = self.waiting;
        match self.road(road) {
            Some(found) if !found.apart && (waiting || had) => {
                let before = found.near;
                self.nears(road, now, Some(stage));
                if !waiting {
                    self.own_time(road, now);
                    self.waiting = true;
                }
                Look::Near { before, waiting }
            }
            _ => {
                self.begins(stage);
                Look::Aside
            }
        }
    }

    /// It was looked at.
    pub(super) fn looked(&mut self, road: u64, now: u64, stage: Stage, look: Look) {
        self.settle(now);
        match look {
            Look::Aside => self.ends(stage),
            Look::Near { before, waiting } => {
                self.nears(road, now, before);
                if !waiting {
                    self.waiting = false;
                    self.had = Some(Had { road, at: now });
                }
            }
        }
    }

    fn own_time(&mut self, road: u64, now: u64) {
        if let Some(had) = self.had.take_if(|had| had.road == road) {
            self.waits[Stage::Consumer as usize] += now.saturating_sub(had.at) as f64;
        }
    }

    /// Forgets an epoch.
    pub(super) fn forget(&mut self, id: u64, now: u64) {
        self.nears(id, now, None);
        self.turns(id, now, Front::Waiting);
        if let Some(at) = self.roads.iter().position(|road| road.id == id) {
            let gone = self.roads.swap_remove(at);
            let waiting = gone.parts.iter().filter(|phase| **phase == Phase::Memory).count();
            self.under_way = self.under_way.saturating_sub((gone.parts.len() - waiting) as u64);
        }
        if self.current == Some(id) {
            (self.current, self.active) = (None, false);
        }
    }

    /// Batches that were made and not taken, of the epoch under way.
    pub(crate) fn ready(&self) -> u64 {
        self.roads.iter().find(|road| Some(road.id) == self.current).map_or(0, |road| road.ready)
    }
}
