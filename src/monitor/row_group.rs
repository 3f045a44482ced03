//! Times the phases of a row group. Each phase lasts until the next one begins or the row group's watch is
//! dropped.

use super::stage::Stage;
use super::timings::{Phase, Timings};
use super::trace::Track;
use super::watch::{Watch, places};

/// Times one row group of an epoch, which is in one phase at a time.
#[derive(Debug)]
pub(crate) struct RowGroupWatch {
    pub(super) watch: Watch,
    pub(super) number: u64,
    pub(super) group: u32,
    pub(super) phase: Phase,
    pub(super) since: u64,
    /// The number of the row group's track in the trace, if a trace is recorded.
    pub(super) place: Option<u32>,
}

impl RowGroupWatch {
    /// Records that the row group enters another phase.
    pub(crate) fn go_on(&mut self, phase: Phase) {
        RowGroupWatch::all_go_on([self], phase);
    }

    /// Records that several row groups of one epoch enter another phase, and takes the lock only once.
    pub(crate) fn all_go_on<'a>(watches: impl IntoIterator<Item = &'a mut Self>, phase: Phase) {
        let mut watches = watches.into_iter().peekable();
        let Some(watch) = watches.peek().map(|first| first.watch.clone()) else { return };
        watch.enter(|timings, now| {
            timings.settle(now);
            watches.for_each(|each| each.enter(phase, timings, now));
        });
    }

    fn enter(&mut self, phase: Phase, timings: &mut Timings, now: u64) {
        timings.leaves(self.phase);
        timings.enters(self.watch.id(), self.number, phase);
        if self.phase == Phase::Memory && phase != Phase::Memory {
            timings.under_way += 1;
        }
        self.note(now);
        (self.phase, self.since) = (phase, now);
    }

    /// Counts row groups and their bytes as output of a stage.
    pub(crate) fn count(&self, stage: Stage, row_groups: u64, bytes: u64) {
        self.watch.count(stage, row_groups, bytes);
    }

    fn note(&self, now: u64) {
        let name = match self.phase {
            Phase::Memory => "wait for memory",
            Phase::Cache => "look up in the cache",
            Phase::Fetch => "fetch",
            Phase::Writing => "write to the cache",
            Phase::Fetched | Phase::Pool | Phase::Ready => return,
        };
        if let Some(place) = self.place {
            let about = Some(("row_group", u64::from(self.group)));
            self.watch.monitor().span(name, Track::Fetch(place), self.since, now, about);
        }
    }
}

impl Drop for RowGroupWatch {
    fn drop(&mut self) {
        if self.phase != Phase::Ready {
            self.go_on(Phase::Ready);
        }
        if let (Some(tracing), Some(place)) = (&self.watch.monitor().trace, self.place) {
            places(&tracing.fetches).give_back(place);
        }
    }
}

impl Watch {
    /// Begins to time the next row group of the plan. Its first phase is to wait for memory.
    pub(crate) fn asks_for(&self, group: u32) -> RowGroupWatch {
        let (monitor, id) = (self.monitor(), self.id());
        let (number, since) = monitor.enter(|timings, now| {
            timings.settle(now);
            let number = timings.epoch(id).map_or(0, |epoch| {
                epoch.parts.push_back(Phase::Memory);
                epoch.first + epoch.parts.len() as u64 - 1
            });
            timings.enters(id, number, Phase::Memory);
            (number, now)
        });
        let place = monitor.trace.as_ref().map(|tracing| places(&tracing.fetches).take());
        RowGroupWatch { watch: self.clone(), number, group, phase: Phase::Memory, since, place }
    }
}
