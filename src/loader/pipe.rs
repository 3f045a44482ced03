//! The pipe: what runs while an epoch is under way.
//!
//! ```text
//! scout ─► fetch (async, 1 thread) ─► read (pool) ─► assemble (1 thread) ─► make (pool) ─► Epoch (yours)
//!          permits, requests          Parquet         walk, who needs what   gather, decode  in order
//! ```
//!
//! Scout and assembly walk over the same plan, so that parts arrive in the order in which they are needed and nothing
//! is sorted. Results of the pool travel as one-shot receivers in plan order: work finishes in any order and is handed
//! over in one. Hanging up at either end (a dropped epoch, a failed request) ends everything in between.
//!
//! Once a quarter of an epoch's steps are on their way (three quarters, where lists of rows take much of the memory) and no
//! more of its row groups are to be fetched, the next epoch is prepared: its row groups are fetched into what the budget has
//! free, as far as its first batches need them, and its first batch is made. As soon as the present one has no more
//! batches to make, the next one's take their places.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use rayon::ThreadPool;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::assembly::{Assembly, Pending, Then};
use super::prefetch::{Cancel, HeadStart, Prefetch, PrefetchKey, Scout};
use super::queue::{self, queue};
use super::row_groups::Source;
use super::semaphore::BatchSemaphore;
use super::threads::{self, Border};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Watch;
use crate::shard::Walk;
use crate::shuffle::Window;

/// The threads of a loader.
pub(crate) struct Engine {
    border: Arc<Border>,
    pool: Arc<ThreadPool>,
    under_way: Mutex<UnderWay>,
}

/// There is one epoch at most, since one budget feeds it; and what is ready already of the one after it.
#[derive(Default)]
struct UnderWay {
    epoch: Option<Arc<Switch>>,
    next: Option<Prepared>,
    /// For the batches of both. An epoch that was left may still hold places.
    permits: Option<BatchSemaphore>,
}

impl UnderWay {
    fn stop(&mut self) {
        if let Some(switch) = self.epoch.take() {
            switch.turn_off();
        }
        self.forget_next();
    }

    fn forget_next(&mut self) {
        if let Some(next) = self.next.take() {
            next.switch.turn_off();
        }
    }
}

/// An epoch that is ready to be begun.
struct Prepared {
    key: PrefetchKey,
    batches: queue::Receiver<Pending>,
    switch: Arc<Switch>,
    watch: Watch,
    /// Closed when nothing of it is fetched any more.
    fed: oneshot::Receiver<()>,
    /// Closed when it has no more batches to make.
    over: Receiver<()>,
}

/// Begins and ends the work of one epoch.
struct Switch {
    off: Arc<AtomicBool>,
    /// Whether all of it was handed over, so that what is fetched after it is wanted.
    finished: AtomicBool,
    /// Dropped to wake whoever waits for the beginning in vain.
    alive: Mutex<Option<Sender<()>>>,
    feed: Cancel,
    lead: Arc<HeadStart>,
    begun: Arc<AtomicBool>,
    /// What is done when the first steps of an epoch that was begun are on their way.
    then: Then,
    /// Dropped to wake who waits for the beginning.
    gate: Mutex<Option<Sender<()>>>,
}

impl Switch {
    fn begin(&self, then: impl FnOnce() + Send + 'static) {
        *self.then.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(then));
        self.begun.store(true, Relaxed);
        self.lead.ends();
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn turn_off(&self) {
        self.off.store(true, Relaxed);
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What is prepared after it waits for its end.
        if !self.finished.load(Relaxed) {
            self.feed.cancel();
        }
    }
}

/// Walks over an epoch, made where it is used.
pub(crate) type MakeWalk = Box<dyn FnOnce() -> Walk + Send>;

/// One epoch as a plan.
pub(crate) struct Planned {
    pub(crate) key: PrefetchKey,
    /// Walks only to see which parts enter.
    pub(crate) scout: Scout,
    pub(crate) walk: MakeWalk,
    /// The step at which the epoch after it is prepared.
    pub(crate) next_at: u64,
}

/// What an epoch needs to run.
pub(crate) struct Work {
    pub(crate) epoch: Planned,
    /// The one after it, from its beginning, if there will be one.
    pub(crate) next: Option<Planned>,
    pub(crate) source: Source,
    /// Bytes for batches.
    pub(crate) batches: u64,
}

/// The consumer's end of the pipe. Dropping it ends the work behind it.
pub(crate) struct Flow {
    pub(crate) batches: queue::Receiver<Pending>,
    pub(crate) watch: Watch,
    switch: Arc<Switch>,
    engine: Arc<Engine>,
}

impl Flow {
    /// Whether the work was ended from outside: by `close()`, or by a later epoch.
    pub(crate) fn is_closed(&self) -> bool {
        self.switch.off.load(Relaxed)
    }

    /// Whether this is a forked child, where nothing of the pipe runs.
    pub(crate) fn is_foreign(&self) -> bool {
        self.engine.is_foreign()
    }

    /// Notes that all batches were taken: what is fetched for the next epoch is kept.
    pub(crate) fn finished(&self) {
        self.switch.finished.store(true, Relaxed);
        self.watch.ends();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        self.switch.turn_off();
        self.watch.ends();
        if !self.switch.finished.load(Relaxed) {
            let mut under_way = self.engine.under_way();
            if under_way.epoch.as_ref().is_some_and(|switch| Arc::ptr_eq(switch, &self.switch)) {
                under_way.stop();
            }
        }
    }
}

impl Engine {
    pub(crate) fn start(border: Arc<Border>, threads: usize) -> Result<Self> {
        Ok(Engine { border, pool: threads::pool(threads)?, under_way: Mutex::default() })
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.border.is_foreign()
    }

    /// The threads that wait for storage, and those that decode.
    pub(crate) fn threads(&self) -> Result<(Handle, Arc<ThreadPool>)> {
        Ok((self.border.handle()?.clone(), self.pool.clone()))
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the epoch that is under way.
    pub(crate) fn stop(&self) {
        self.under_way().stop();
    }

    /// Starts an epoch; one that is under way ends. `closed` is asked while no other epoch can be started.
    pub(crate) fn run(
        self: &Arc<Self>,
        closed: &AtomicBool,
        work: impl FnOnce() -> Result<Work>,
    ) -> Result<Flow> {
        let mut under_way = self.under_way();
        if closed.load(Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the loader was closed").hint("build another"));
        }
        let before = under_way.epoch.take();
        if let Some(before) = &before {
            before.turn_off();
        }
        if !before.is_some_and(|before| before.finished.load(Relaxed)) {
            under_way.forget_next();
            under_way.permits = None;
        }
        let Work { epoch, next, source, batches } = work()?;
        let permits =
            under_way.permits.get_or_insert_with(|| BatchSemaphore::new(source.ahead, batches)).clone();
        let prepared = match under_way.next.take() {
            Some(prepared) if prepared.key == epoch.key => prepared,
            other => {
                if let Some(unwanted) = other {
                    unwanted.switch.turn_off();
                }
                prepare(epoch, &source, (permits.clone(), never()), async {})?
            }
        };
        let Prepared { batches, switch, watch, fed, over, .. } = prepared;
        let (engine, begun) = (Arc::downgrade(self), Arc::downgrade(&switch));
        // Whether anybody wants it is for its own switch to say.
        let due = async { drop(fed.await) };
        switch.begin(move || {
            if let Some(row_cache) = &source.fetcher.row_cache {
                let cache = row_cache.cache().clone();
                source.runtime.spawn_blocking(move || cache.maintain());
            }
            if let Some(next) = next {
                Engine::follow_up(&engine, &begun, || prepare(next, &source, (permits, over), due));
            }
        });
        watch.begins();
        under_way.epoch = Some(switch.clone());
        Ok(Flow { batches, watch, switch, engine: self.clone() })
    }

    /// Prepares what comes after the epoch of `switch`, if that is still the one under way. The consumer does not do this
    /// itself: whoever starts threads may lose the processor to them.
    fn follow_up(engine: &Weak<Self>, switch: &Weak<Switch>, prepare: impl FnOnce() -> Result<Prepared>) {
        let Some((engine, switch)) = engine.upgrade().zip(switch.upgrade()) else { return };
        let mut under_way = engine.under_way();
        if under_way.epoch.as_ref().is_some_and(|epoch| Arc::ptr_eq(epoch, &switch)) {
            // What fails here fails again, where it is seen, when that epoch is begun.
            under_way.next = prepare().ok();
        }
    }
}

/// Starts an epoch's work, as far as it is done before the epoch begins; nothing of it is fetched before it is `due`, and no
/// more than its first batch is made before the one `before` it has none to make.
fn prepare(
    planned: Planned,
    source: &Source,
    (permits, before): (BatchSemaphore, Receiver<()>),
    due: impl Future<Output = ()> + Send + 'static,
) -> Result<Prepared> {
    let Planned { key, scout, walk, next_at } = planned;
    let watch = Watch::new(&source.monitor);
    let Prefetch { arriving, gauge, lead, end, enough, over: fed } =
        Prefetch::start(source, scout, due, watch.clone());
    let ((alive, stopped), (gate, opened)) = (bounded(0), bounded(0));
    let (off, begun) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let switch = Arc::new(Switch {
        off: off.clone(),
        finished: false.into(),
        alive: Mutex::new(Some(alive)),
        feed: end,
        lead,
        begun: begun.clone(),
        then: Then::default(),
        gate: Mutex::new(Some(gate)),
    });
    let ((hand_over, batches), (over, is_over)) = (queue(), bounded(0));
    let assembly = Assembly {
        pool: source.pool.clone(),
        collator: source.collator.clone(),
        watch: watch.clone(),
        number: key.epoch,
        off,
        stopped,
        begun,
        opened,
        before,
        _over: over,
        permits,
        arriving,
        arrived: 0,
        feed: enough,
        gauge,
        budget: source.fetcher.budget.clone(),
        stuck: None,
        running: Arc::default(),
        loads: Arc::default(),
        longest: 0,
        window: Window::new(),
        group: 1,
        hand_over,
        is_first: true,
        next_at,
        then: switch.then.clone(),
    };
    threads::assembling(move || assembly.run(walk()))?;
    Ok(Prepared { key, batches, switch, watch, fed, over: is_over })
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.is_foreign() {
            self.stop();
        }
    }
}
