//! Records the activity of one epoch: of its row groups, of the assembly of its batches, and of their
//! consumer.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Monitor;
use super::stage::Stage;
use super::timings::{Assembly, EpochTimings, Front, Look, Timings};
use super::trace::{TraceTracks, Track};

/// Records one epoch. Clones share one record; when the last clone is dropped, the epoch is removed from the
/// timings.
#[derive(Clone, Debug)]
pub(crate) struct Watch(Arc<WatchInner>);

#[derive(Debug)]
struct WatchInner {
    monitor: Arc<Monitor>,
    id: u64,
    /// The number of the epoch's tracks in the trace, if a trace is recorded; otherwise 0.
    place: u32,
}

impl Watch {
    pub(crate) fn new(monitor: &Arc<Monitor>) -> Self {
        let id = monitor.epochs.fetch_add(1, Relaxed);
        monitor.enter(|timings, _| timings.epochs.push(EpochTimings::new(id)));
        let place = monitor.trace.as_ref().map_or(0, |tracing| places(&tracing.assemblies).take());
        Watch(Arc::new(WatchInner { monitor: monitor.clone(), id, place }))
    }

    /// A watch for reads that do not belong to a loader. Its record is never used.
    pub(crate) fn unread() -> Self {
        Watch::new(&Monitor::new(0, None))
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn monitor(&self) -> &Monitor {
        &self.0.monitor
    }

    pub(super) fn enter<T>(&self, entry: impl FnOnce(&mut Timings, u64) -> T) -> T {
        self.0.monitor.enter(entry)
    }

    fn change(&self, change: impl FnOnce(&mut EpochTimings)) {
        self.enter(|timings, now| {
            timings.settle(now);
            timings.epoch(self.0.id).map(change);
        });
    }

    // These methods record changes of the epoch as a whole.

    /// Records that the consumer takes the batches of this epoch from now on.
    pub(crate) fn begins(&self) {
        self.enter(|timings, now| {
            timings.settle(now);
            (timings.current, timings.active) = (Some(self.0.id), true);
        });
    }

    /// Records that the epoch is over: all batches were taken, or the others are not wanted.
    pub(crate) fn ends(&self) {
        self.enter(|timings, now| {
            timings.settle(now);
            timings.active &= timings.current != Some(self.0.id);
        });
    }

    // These methods record changes of the row groups of the epoch.

    /// Records that batches can be made from the next `row_groups` row groups of the plan: they are in the
    /// window.
    pub(crate) fn admits(&self, row_groups: usize) {
        self.enter(|timings, now| {
            timings.settle(now);
            let Some(epoch) = timings.epoch(self.0.id) else { return };
            epoch.parts.drain(..row_groups.min(epoch.parts.len()));
            epoch.first += row_groups as u64;
            timings.under_way = timings.under_way.saturating_sub(row_groups as u64);
        });
    }

    // These methods record changes of the assembly of batches.

    /// Records that the assembly of batches waits for a row group, until the returned value is dropped.
    pub(crate) fn starved(&self) -> Waiting<'_> {
        self.assembly_waits(Assembly::Starved, "wait for a row group")
    }

    /// Records that the assembly of batches waits for space in the queue, until the returned value is
    /// dropped.
    pub(crate) fn blocked(&self) -> Waiting<'_> {
        self.assembly_waits(Assembly::Blocked, "wait for room")
    }

    /// Records that all batches have been assembled.
    pub(crate) fn assembled(&self) {
        self.change(|epoch| epoch.assembly = Assembly::Over);
    }

    fn assembly_waits(&self, assembly: Assembly, name: &'static str) -> Waiting<'_> {
        let since = self.enter(|timings, now| {
            timings.settle(now);
            timings.epoch(self.0.id).into_iter().for_each(|epoch| epoch.assembly = assembly);
            now
        });
        Waiting { watch: self, name, since }
    }

    /// Records that `batches` more batches are ready to be taken.
    pub(crate) fn made(&self, batches: u64) {
        self.change(|epoch| epoch.ready += batches);
    }

    // These methods record changes of the consumer (the training loop), and of threads that hand it its
    // batches.

    /// Records that the consumer asks for a batch.
    pub(crate) fn asks(&self) {
        self.enter(|timings, now| timings.asks(self.0.id, now));
    }

    /// Records that the batch that the consumer waits for is being made.
    pub(crate) fn making(&self) {
        self.change(|epoch| epoch.making = true);
    }

    /// Records that the consumer stops waiting for now, without a batch.
    pub(crate) fn pauses(&self) {
        self.enter(|timings, now| timings.pauses(self.0.id, now));
    }

    /// Records that a thread other than the consumer's takes a batch from the loader, to hand it over.
    pub(crate) fn hands_over(&self) {
        self.enter(|timings, now| {
            timings.takes(self.0.id, now);
            timings.turns(self.0.id, now, Front::At(Stage::HandOver));
        });
    }

    /// Records that a batch of a source is taken, to become part of a batch of a mix.
    pub(crate) fn leaves(&self) {
        self.enter(|timings, now| timings.takes(self.0.id, now));
    }

    /// Records that the consumer takes a batch of `rows` rows from the loader.
    pub(crate) fn takes(&self, rows: u64) {
        let (had, now) = self.enter(|timings, now| {
            timings.takes(self.0.id, now);
            (timings.has(self.0.id, now, rows), now)
        });
        self.noted(had, now);
    }

    /// Records that the consumer has got a batch of `rows` rows.
    pub(crate) fn has(&self, rows: u64) {
        let (had, now) = self.enter(|timings, now| {
            if timings.epoch(self.0.id).is_some_and(|epoch| !epoch.apart) {
                timings.turns(self.0.id, now, Front::Waiting);
            }
            (timings.has(self.0.id, now, rows), now)
        });
        self.noted(had, now);
    }

    fn noted(&self, had: Option<(u64, u64)>, now: u64) {
        if let Some((waited, step)) = had {
            let since = now.saturating_sub(waited);
            self.0.monitor.span("next", Track::Consumer, since, now, Some(("batch", step)));
        }
    }

    /// Records that the consumer stops waiting, because the epoch has no more batches.
    pub(crate) fn gets_nothing(&self) {
        self.enter(|timings, now| timings.gets_nothing(now));
    }

    /// Records that the thread that takes batches from the loader works for a stage; with `None`, that it
    /// waits for the next batch.
    pub(crate) fn works(&self, stage: Option<Stage>) {
        self.turn(stage.map_or(Front::Waiting, Front::At));
    }

    /// Records that the thread that takes batches from the loader waits until the consumer takes its results.
    pub(crate) fn is_full(&self) {
        self.turn(Front::Full);
    }

    fn turn(&self, front: Front) {
        let (before, now) = self.enter(|timings, now| (timings.turns(self.0.id, now, front), now));
        if let Some((stage, since)) = before {
            self.0.monitor.span(stage.name(), Track::Front(self.0.place), since, now, None);
        }
    }

    /// Records that the consumer's own thread works for a stage before it gets a batch; with `None`, that it
    /// has stopped.
    pub(crate) fn works_near(&self, stage: Option<Stage>) {
        let (before, now) = self.enter(|timings, now| (timings.nears(self.0.id, now, stage), now));
        if let Some((stage, since)) = before {
            self.0.monitor.span(stage.name(), Track::Near, since, now, None);
        }
    }

    /// Records that a thread or process outside the loader, such as a transform worker, begins to work for a
    /// stage.
    pub(crate) fn begins_beside(&self, stage: Stage) {
        self.enter(|timings, now| timings.begins_at(stage, now));
    }

    /// Records that a thread or process outside the loader has ended its work for a stage.
    pub(crate) fn ends_beside(&self, stage: Stage) {
        self.enter(|timings, now| timings.ends_at(stage, now));
    }

    /// Records which stage outside the loader works on the batch that the consumer gets next; `None` if no
    /// stage does.
    pub(crate) fn is_at(&self, stage: Option<Stage>) {
        self.change(|epoch| epoch.next_at = stage);
    }

    /// Records that a thread other than the consumer's takes batches from the loader.
    pub(crate) fn is_apart(&self) {
        self.change(|epoch| epoch.apart = true);
    }

    /// Records that delayed work for a stage begins, because a batch is read for the first time. The work
    /// ends when the returned value is dropped.
    pub(crate) fn looks(&self, stage: Stage) -> Looking<'_> {
        let look = (!self.0.monitor.is_foreign())
            .then(|| self.enter(|timings, now| timings.looks(self.0.id, now, stage)));
        Looking { watch: self, stage, look, bytes: 0 }
    }

    /// Adds to the numbers of items and bytes that a stage produced.
    pub(crate) fn count(&self, stage: Stage, items: u64, bytes: u64) {
        if !self.0.monitor.is_foreign() {
            self.0.monitor.count(stage, items, bytes);
        }
    }
}

impl Drop for WatchInner {
    fn drop(&mut self) {
        if self.monitor.is_foreign() {
            return;
        }
        self.monitor.enter(|timings, now| timings.forget(self.id, now));
        if let Some(tracing) = &self.monitor.trace {
            places(&tracing.assemblies).give_back(self.place);
        }
    }
}

/// A recorded wait of the thread that assembles batches. The wait ends when this value is dropped.
pub(crate) struct Waiting<'a> {
    watch: &'a Watch,
    name: &'static str,
    since: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let WatchInner { monitor, id, place } = &*self.watch.0;
        let now = self.watch.enter(|timings, now| {
            timings.settle(now);
            timings.epoch(*id).into_iter().for_each(|epoch| epoch.assembly = Assembly::Working);
            now
        });
        monitor.span(self.name, Track::Assembly(*place), self.since, now, None);
    }
}

/// Recorded work that was delayed until a batch is first read. The work ends when this value is dropped.
pub(crate) struct Looking<'a> {
    watch: &'a Watch,
    stage: Stage,
    look: Option<Look>,
    bytes: u64,
}

impl Looking<'_> {
    /// Adds to the number of bytes that the work produced.
    pub(crate) fn made(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if let Some(look) = self.look {
            let Looking { watch, stage, bytes, .. } = *self;
            watch.enter(|timings, now| {
                timings.looked(watch.0.id, now, stage, look);
                timings.work[stage as usize].bytes += bytes;
            });
        }
    }
}

pub(super) fn places(places: &Mutex<TraceTracks>) -> MutexGuard<'_, TraceTracks> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}
