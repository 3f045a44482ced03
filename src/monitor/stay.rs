//! A row group on its way, in the books: each phase that it is in lasts until the next one, or until it is dropped.

use super::ledger::Phase;
use super::stage::Stage;
use super::trace::Track;
use super::watch::{Watch, places};

/// A phase that a row group is in.
#[derive(Debug)]
pub(crate) struct Stay {
    pub(super) watch: Watch,
    pub(super) number: u64,
    pub(super) group: u32,
    pub(super) phase: Phase,
    pub(super) since: u64,
    /// Its place on the timeline, where one is made.
    pub(super) place: Option<u32>,
}

impl Stay {
    /// The row group goes on to another phase.
    pub(crate) fn go_on(&mut self, phase: Phase) {
        let id = self.watch.id();
        let now = self.watch.enter(|ledger, now| {
            ledger.settle(now);
            ledger.leaves(self.phase);
            ledger.enters(id, self.number, phase);
            if self.phase == Phase::Memory && phase != Phase::Memory {
                ledger.under_way += 1;
            }
            now
        });
        self.note(now);
        (self.phase, self.since) = (phase, now);
    }

    /// One row group of so many bytes came from a stage.
    pub(crate) fn count(&self, stage: Stage, bytes: u64) {
        self.watch.count(stage, 1, bytes);
    }

    fn note(&self, now: u64) {
        let name = match self.phase {
            Phase::Memory => "wait for memory",
            Phase::Cache => "look up in the cache",
            Phase::Store => "fetch",
            Phase::Writing => "write to the cache",
            Phase::Fetched | Phase::Pool | Phase::Ready => return,
        };
        if let Some(place) = self.place {
            let about = Some(("row_group", u64::from(self.group)));
            self.watch.monitor().span(name, Track::Fetch(place), (self.since, now), about);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.go_on(Phase::Ready);
        if let (Some(tracing), Some(place)) = (&self.watch.monitor().trace, self.place) {
            places(&tracing.fetches).give_back(place);
        }
    }
}
