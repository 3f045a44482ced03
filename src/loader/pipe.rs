//! The pipe: runs the epoch that is under way, and prepares the next.
//!
//! ```text
//! scout ─► fetch (async, 1 thread) ─► read (pool) ─► assemble (1 thread) ─► collate (pool) ─► Epoch (yours)
//!          permits, requests          Parquet        walk, who needs what   gather, decode   in order
//! ```
//!
//! The scout lists the row groups to fetch, and the assembly lists the rows of each batch. Both walk over the
//! same plan, so row groups arrive in the order in which they are needed. The tasks of the pool finish in any
//! order, but each sends its result through a channel of its own, and these channels are read in the order of
//! the plan. If either end is dropped (a dropped epoch, a failed request), everything in between ends.
//!
//! When a quarter of an epoch's steps are on their way (three quarters, if lists of rows take much of the
//! memory), the next epoch is prepared. As soon as no more row groups of the present epoch have to be
//! fetched, the row groups for the first batches of the next one are fetched into the free part of the
//! budget, and its first batch is made. As soon as the present epoch has no more batches to make, those of
//! the next one take its permits.
//!
//! [`Lifecycle`], a plain value, decides when each of these happens. [`Engine`] has the lock, the threads and
//! the channels: it passes the events to the lifecycle, and carries out the actions that it gets back.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_base::promise::Promise;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::source::Reading;
use rayon::ThreadPool;
use tokio::runtime::Handle;

use super::admission::Admission;
use super::arrivals::{Arrivals, Supply};
use super::assembly::{Assembly, BatchMaker, Report};
use super::hand_over::{HandOver, PendingBatch};
use super::lifecycle::{Action, EpochId, Event, Lifecycle, Reason, State};
use super::prefetch::{Prefetch, PrefetchControl, PrefetchKey, Scout};
use super::queue;
use super::row_groups::Source;
use super::semaphore::BatchSemaphore;
use super::staying::StayingParts;
use super::threads::{self, IoRuntime, Process};
use super::withheld::OfPass;
use crate::monitor::Watch;
use crate::reader::row_cache::RowCache;
use crate::shard::{Deals, Walk};

/// The threads of a loader, and their present work.
pub(crate) struct Engine {
    this: Weak<Engine>,
    /// The process that started the threads.
    process: Process,
    /// The resources; `None` once the loader was closed.
    means: Mutex<Option<Means>>,
    driven: Mutex<Driven>,
    row_cache: Option<RowCache>,
}

/// The resources that a loader holds until it is closed.
pub(crate) struct Means {
    /// The threads that wait for storage.
    pub(crate) io: Arc<IoRuntime>,
    /// The threads that decode.
    pub(crate) pool: Arc<ThreadPool>,
    /// Keeps the files of the data set open for further reads, as long as this exists.
    pub(crate) _reading: Reading,
    /// Counts the memory budget of the loader among those of this process, as long as this exists.
    pub(crate) _promise: Promise,
}

/// An engine that is closed when its last owner drops it; the owner waits until that is done. The tasks of an
/// epoch do not own the engine when they report to it. If they did, the engine could be closed on a thread
/// that nobody waits for.
pub(crate) struct OpenEngine(Arc<Engine>);

/// The epochs of a loader, and the handles through which the actions of the lifecycle are carried out.
#[derive(Default)]
struct Driven {
    life: Lifecycle<PrefetchKey>,
    /// The handles on the epochs that `life` holds, which are at most two.
    epochs: Vec<Handles>,
    /// The plans and the source with which the epoch under way was started and the next one will be started.
    work: Option<Work>,
    /// The permits for the batches of the epoch under way and of the one that is prepared.
    permits: Option<BatchSemaphore>,
}

/// The handles that control the work of an epoch.
struct Handles {
    id: EpochId,
    admission: Arc<Admission>,
    /// The control of the fetching; `None` if the rows of the epoch are in memory, so that nothing is
    /// fetched.
    prefetch: Option<PrefetchControl>,
    /// The receiver of the batches and the record of waits, until the consumer begins the epoch and takes
    /// both.
    unclaimed: Option<(queue::Receiver<PendingBatch>, Watch)>,
}

/// A function that makes a walk, an iterator over the planned steps of an epoch, on the thread that uses it.
pub(crate) type MakeWalk = Box<dyn FnOnce() -> Walk + Send>;

/// The plan of one epoch, from which its work is started.
pub(crate) struct Planned {
    pub(crate) key: PrefetchKey,
    /// For each part (rows of one row group), the order in which its rows are delivered.
    pub(crate) deals: Arc<Deals>,
    /// The rows of the pass that are denied from a certain step on, and thus not delivered.
    pub(crate) withheld: OfPass,
    /// A function that makes a walk which lists the row groups to fetch for each step, but not the rows.
    pub(crate) scout: Scout,
    pub(crate) walk: MakeWalk,
    /// The step at which the epoch after this one is prepared.
    pub(crate) next_at: u64,
}

/// The plans, the source and the memory with which the work of epochs is started.
pub(crate) struct Work {
    /// The plan of the epoch to begin and, if another epoch will follow it, the plan of that epoch. Each plan
    /// is taken out when its epoch is started.
    pub(crate) plans: Vec<Planned>,
    pub(crate) source: Source,
    /// The bytes of memory for batches.
    pub(crate) batches: u64,
}

/// The consumer's end of the pipe. Dropping it ends the work of its epoch.
pub(crate) struct BatchReceiver {
    pub(crate) batches: queue::Receiver<PendingBatch>,
    pub(crate) watch: Watch,
    id: EpochId,
    engine: Arc<OpenEngine>,
}

impl BatchReceiver {
    /// Fails in a forked child process, which has none of the loader's threads.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.engine.check_process()
    }

    /// The reason why the epoch ended early, if it did.
    pub(crate) fn abandoned(&self) -> Option<Reason> {
        match self.engine.driven().life.state(self.id) {
            Some(State::Abandoned(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Reports that the consumer took all batches. Row groups that were fetched for the next epoch are then
    /// kept when this is dropped.
    pub(crate) fn finished(&self) {
        self.engine.handle(Event::HandedOver(self.id));
        self.watch.ends();
    }

    /// Reports that a batch could not be made, which ends the epoch.
    pub(crate) fn failed(&self) {
        self.engine.handle(Event::Failed(self.id));
    }
}

impl Drop for BatchReceiver {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            self.engine.handle(Event::Left(self.id));
            self.watch.ends();
        }
    }
}

impl Engine {
    pub(crate) fn start(means: Means, row_cache: Option<RowCache>) -> Arc<OpenEngine> {
        let driven = Mutex::default();
        let process = means.io.process();
        let means = Mutex::new(Some(means));
        Arc::new(OpenEngine(Arc::new_cyclic(|this| Engine {
            this: this.clone(),
            process,
            means,
            driven,
            row_cache,
        })))
    }

    /// Fails in a forked child process, which has none of the loader's threads.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.process.check()
    }

    /// The threads that wait for storage, and those that decode.
    pub(crate) fn threads(&self) -> Result<(Handle, Arc<ThreadPool>)> {
        self.check_process()?;
        let means = self.means.lock().unwrap_or_else(PoisonError::into_inner);
        let Means { io, pool, .. } = means.as_ref().ok_or_else(Error::closed)?;
        Ok((io.handle()?.clone(), pool.clone()))
    }

    /// Returns the threads that wait for storage, on which the caller can run a future to its end.
    pub(crate) fn io(&self) -> Result<Arc<IoRuntime>> {
        self.check_process()?;
        let means = self.means.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(means.as_ref().ok_or_else(Error::closed)?.io.clone())
    }

    /// Fails once the loader was closed, and in a forked child.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.check_process()?;
        self.driven().check_open()
    }

    /// Ends the epoch that is under way, because the loader is set to a saved position.
    pub(crate) fn restored(&self) {
        self.handle(Event::Restored);
    }

    /// Ends the epoch that is under way, because the loader's cache is warmed (filled in advance).
    pub(crate) fn warmed(&self) {
        self.handle(Event::Warmed);
    }

    /// Ends the epoch that is under way and all writing to the cache, and closes the files of the loader. No
    /// epoch begins afterwards. The decoding threads end as soon as their present work is done. The threads
    /// that wait for storage belong to the data set, and end once it is dropped too.
    pub(crate) fn close(&self) {
        // In a forked child there are no writers to wait for, and the threads and locks are the parent's.
        if self.check_process().is_err() {
            return;
        }
        self.handle(Event::Close);
        if let Some(row_cache) = &self.row_cache {
            row_cache.close();
        }
        let work = self.driven().work.take();
        let means = self.means.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropping these values may end threads and free much memory, so it happens after the locks are
        // released.
        drop((work, means));
    }

    fn driven(&self) -> MutexGuard<'_, Driven> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an event to the lifecycle, and carries out the actions. In a forked child this does nothing,
    /// since a thread of the parent may hold the lock.
    fn handle(&self, event: Event<PrefetchKey>) {
        if self.check_process().is_ok() {
            // An error means that the next epoch could not be prepared. It is ignored here, because it occurs
            // again, and is returned, when the consumer begins that epoch.
            let _ = self.apply(&mut self.driven(), event);
        }
    }

    /// Passes an event to the lifecycle, and carries out the actions.
    fn apply(&self, driven: &mut Driven, event: Event<PrefetchKey>) -> Result<()> {
        let mut started = Ok(());
        let mut actions = VecDeque::from(driven.life.handle(event));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Prepare(id, key) => {
                    let report = self.report(id);
                    if let Err(error) = driven.prepare(id, &key, report) {
                        started = Err(error);
                        actions.extend(driven.life.handle(Event::NotStarted(id)));
                    }
                }
                action => driven.carry_out(action),
            }
        }
        started
    }

    /// Returns the function with which the tasks of an epoch report events. It does not keep the engine
    /// alive.
    fn report(&self, id: EpochId) -> Report {
        let engine = self.this.clone();
        Arc::new(move |event| {
            if let Some(engine) = engine.upgrade() {
                engine.handle(event(id));
            }
        })
    }
}

impl OpenEngine {
    /// Begins an epoch, and ends the one that is under way. `work` is called only if the loader is open.
    pub(crate) fn begin(self: &Arc<Self>, work: impl FnOnce() -> Result<Work>) -> Result<BatchReceiver> {
        self.check_process()?;
        let mut driven = self.driven();
        driven.check_open()?;
        let work = work()?;
        let mut keys = work.plans.iter().map(|planned| planned.key.clone());
        let (key, following) = (keys.next(), keys.next());
        let key = key.ok_or_else(|| Error::new(ErrorKind::Internal, "an epoch without a plan"))?;
        driven.work = Some(work);
        self.apply(&mut driven, Event::Begin { key, following })?;
        let begun = driven.life.current().and_then(|id| Some((id, driven.epoch(id)?.unclaimed.take()?)));
        let (id, (batches, watch)) =
            begun.ok_or_else(|| Error::new(ErrorKind::Internal, "the epoch did not begin"))?;
        watch.begins();
        Ok(BatchReceiver { batches, watch, id, engine: self.clone() })
    }
}

impl Deref for OpenEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for OpenEngine {
    fn drop(&mut self) {
        self.close();
    }
}

impl Driven {
    fn check_open(&self) -> Result<()> {
        match self.life.is_closed() {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }

    fn epoch(&mut self, id: EpochId) -> Option<&mut Handles> {
        self.epochs.iter_mut().find(|epoch| epoch.id == id)
    }

    fn carry_out(&mut self, action: Action<PrefetchKey>) {
        let on =
            |epoch: Option<&mut Handles>, act: fn(&Handles)| epoch.into_iter().for_each(|epoch| act(epoch));
        let prefetch = |epoch: Option<&mut Handles>, act: fn(&PrefetchControl)| {
            epoch.and_then(|epoch| epoch.prefetch.as_ref()).into_iter().for_each(act);
        };
        match action {
            Action::Prepare(..) => {}
            Action::StartFetching(id) => prefetch(self.epoch(id), PrefetchControl::start),
            Action::FetchAll(id) => prefetch(self.epoch(id), PrefetchControl::fetch_all),
            Action::CancelFetching(id) => prefetch(self.epoch(id), PrefetchControl::cancel_fetching),
            Action::Admit(id) => on(self.epoch(id), |epoch| epoch.admission.admit()),
            Action::Open(id) => on(self.epoch(id), |epoch| epoch.admission.open()),
            Action::Stop(id) => on(self.epoch(id), |epoch| {
                epoch.admission.stop();
                epoch.prefetch.iter().for_each(PrefetchControl::cancel);
            }),
            Action::Forget(id) => self.epochs.retain(|epoch| epoch.id != id),
            Action::MaintainCache => {
                let Some(Work { source, .. }) = &self.work else { return };
                if let Some(row_cache) = &source.fetcher.reads.row_cache {
                    let row_cache = row_cache.clone();
                    source.runtime.spawn_blocking(move || row_cache.maintain());
                }
            }
            Action::ReplacePermits => self.permits = None,
        }
    }

    /// Starts the tasks of an epoch. Its prefetch control and its admission limit how much they may do.
    fn prepare(&mut self, id: EpochId, key: &PrefetchKey, report: Report) -> Result<()> {
        let unplanned = || Error::new(ErrorKind::Internal, "an epoch that was not planned");
        let Work { plans, source, batches } = self.work.as_mut().ok_or_else(unplanned)?;
        let planned = plans.iter().position(|planned| planned.key == *key).ok_or_else(unplanned)?;
        let Planned { key, deals, withheld, scout, walk, next_at } = plans.swap_remove(planned);
        let permits = self.permits.get_or_insert_with(|| BatchSemaphore::new(source.ahead, *batches)).clone();

        let watch = Watch::new(&source.monitor);
        let admission = Arc::<Admission>::default();
        let ended = report.clone();
        let samples = source.selected.of_epoch(key.epoch);
        let row_memory = source.fetcher.reads.row_memory.clone();
        let (supply, control) = match row_memory.and_then(|memory| Some((memory.all()?, memory))) {
            Some((rows, memory)) => {
                deals.leave_plain();
                (Supply::Memory(StayingParts::new(rows, memory, samples, deals, scout)), None)
            }
            None => {
                let ended = move || ended(Event::Fetched);
                let Prefetch { arriving, gauge, control } =
                    Prefetch::start(source, samples, Some(deals), scout, ended, watch.clone());
                (Supply::Fetched(arriving, gauge), Some(control))
            }
        };
        let is_fetched = control.is_none().then(|| report.clone());
        let maker = BatchMaker::new(source, watch.clone(), key.epoch, withheld, admission.clone());
        let budget = source.fetcher.budget.clone();
        let arrivals = Arrivals::new(supply, budget, admission.clone(), watch.clone());
        let (hand_over, batches) = HandOver::new(permits, admission.clone(), watch.clone());
        let assembly = Assembly::new(maker, arrivals, hand_over, next_at, report);
        let started = threads::assembling(move || {
            if let Some(report) = is_fetched {
                report(Event::Fetched);
            }
            assembly.run(walk());
        });
        if started.is_err() {
            control.iter().for_each(PrefetchControl::cancel);
        }
        started?;
        self.epochs.push(Handles { id, admission, prefetch: control, unclaimed: Some((batches, watch)) });
        Ok(())
    }
}
