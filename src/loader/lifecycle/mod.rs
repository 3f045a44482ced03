//! The state machine of a loader's epochs: it says which events move an epoch from one state to the next, and
//! which actions the loader must then carry out.
//!
//! ```text
//!           StepReached            Begin            Assembled            HandedOver
//! (nothing) ───────────► Prepared ───────► Begun ─────────────► Draining ────────────► Done
//!                            │               │                     │
//!                            └───────────────┴──────────┬──────────┘
//!                                                       ▼
//!                               Abandoned(Left | Superseded | Restored | Warmed | Closed | Failed)
//! ```
//!
//! Three arrows skip a state: an epoch that was not prepared goes directly to `Begun`; one whose batches are
//! all assembled before it begins goes from `Prepared` to `Draining`; and if the consumer has the last batch
//! before assembly reports it, the epoch goes from `Begun` to `Done`. An epoch is abandoned only once, and
//! keeps its first reason.
//!
//! [`Lifecycle`] holds the epochs of one loader: at most one that is under way, and at most one that is
//! prepared to follow it, because all epochs share one memory budget. A `Lifecycle` has no clock, thread or
//! channel: [`pipe`](super::pipe) keeps it under a lock, passes it the events, and carries out its actions,
//! in order and before the next event. Its guarantees are tested on random sequences of events.
//!
//! The prepared epoch must not slow down the epoch under way. Each kind of its work therefore waits for an
//! event, upon which an action allows the work. `current` is the epoch under way:
//!
//! | work of the prepared epoch | event | action |
//! |---|---|---|
//! | starting its tasks | [`Event::StepReached`] of `current` | [`Action::Prepare`] |
//! | fetching for its first batches | [`Event::Fetched`] of `current` | [`Action::StartFetching`] |
//! | fetching for its other batches | [`Event::Begin`] | [`Action::FetchAll`] |
//! | making its second batch | [`Event::Assembled`] of `current`, or `Begin` | [`Action::Admit`] or `Open` |
//!
//! If the consumer took the last batch of an epoch and then begins the epoch that is prepared, it takes over
//! the prepared work. In all other cases the prepared work is stopped. After an epoch that was left early it
//! is unknown which epoch comes next.

#[cfg(test)]
mod tests;

/// Identifies one start of an epoch: if a loader starts the same epoch twice, each start has its own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EpochId(u64);

/// The state of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No consumer waits for the epoch yet: the row groups of its first batches are fetched, and its first
    /// batch is made.
    Prepared,
    /// The epoch is under way: its consumer takes batches while more are made.
    Begun,
    /// The epoch is under way, and all of its batches are assembled and on their way to the consumer, so
    /// nothing more is fetched.
    Draining,
    /// The epoch's consumer has all of its batches.
    Done,
    /// The epoch ended early.
    Abandoned(Reason),
}

/// Why an epoch ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The consumer dropped the epoch.
    Left,
    /// Another epoch was begun.
    Superseded,
    /// The loader was set to a saved position.
    Restored,
    /// The loader's cache was warmed, which means filled in advance.
    Warmed,
    /// The loader was closed.
    Closed,
    /// The epoch could not be completed. Its consumer still gets the batches before the failure, and then the
    /// error.
    Failed,
}

/// An event in the life of the epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event<K> {
    /// The consumer begins the epoch of this key.
    Begin {
        /// The key of the epoch.
        key: K,
        /// The key of the epoch to prepare after this one, if there is one.
        following: Option<K>,
    },
    /// The epoch under way has reached the step at which the following one is prepared.
    StepReached(EpochId),
    /// The fetching of the epoch has ended: everything arrived, or the rest is not wanted.
    Fetched(EpochId),
    /// All batches of the epoch are assembled, and are on their way to the consumer.
    Assembled(EpochId),
    /// A batch of the epoch cannot be made.
    Failed(EpochId),
    /// The work of the epoch could not be started.
    NotStarted(EpochId),
    /// The consumer has the last batch of the epoch.
    HandedOver(EpochId),
    /// The consumer dropped the epoch, before or after its last batch.
    Left(EpochId),
    /// The loader is set to a saved position.
    Restored,
    /// The loader's cache is warmed.
    Warmed,
    /// The loader is closed: no epoch begins after this.
    Close,
}

/// An action that the loader must carry out. It has no effect on an epoch that could not be started or that
/// was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action<K> {
    /// Start the work of an epoch. It fetches nothing before [`StartFetching`](Action::StartFetching), and
    /// makes no more than its first batch before [`Admit`](Action::Admit) or [`Open`](Action::Open).
    Prepare(EpochId, K),
    /// Let the epoch fetch the row groups of its first batches.
    StartFetching(EpochId),
    /// Let the epoch make batches beyond its first one, as many as there are permits, because the epoch
    /// before it has no more batches to make.
    Admit(EpochId),
    /// Let the whole epoch be fetched.
    FetchAll(EpochId),
    /// Let the epoch make all of its batches: its consumer has begun it.
    Open(EpochId),
    /// Fetch no further row groups of the epoch. Row groups in use may still be fetched once more, if they
    /// are found to be damaged.
    CancelFetching(EpochId),
    /// Stop the epoch's fetching, its assembly and the batches that are being made.
    Stop(EpochId),
    /// Drop the handles that control the epoch. The batches that its consumer holds stay valid.
    Forget(EpochId),
    /// Let the cache remove the half-written files of processes that were killed, and note its hits and
    /// misses.
    MaintainCache,
    /// Replace the permits for batches by new ones, because batches of an abandoned epoch may hold the old
    /// ones for ever.
    ReplacePermits,
}

/// The epochs of one loader. `K` is the type of an epoch's key: the work of a prepared epoch is used only if
/// the consumer begins an equal key.
#[derive(Debug)]
pub(super) struct Lifecycle<K> {
    /// The epoch under way. If its consumer took all batches, it stays here until the next epoch begins.
    current: Option<CurrentEpoch<K>>,
    /// The epoch that is prepared to follow it.
    next: Option<CurrentEpoch<K>>,
    /// Abandoned epochs whose consumers still exist.
    abandoned: Vec<(EpochId, Reason)>,
    is_closed: bool,
    started: u64,
}

#[derive(Debug)]
struct CurrentEpoch<K> {
    id: EpochId,
    key: K,
    state: State,
    /// The key of the epoch to prepare after this one; `None` if there is none, or once it is prepared.
    following: Option<K>,
    step_reached: bool,
    is_fetched: bool,
    is_assembled: bool,
    /// The epoch whose fetching must end before anything of this epoch is fetched.
    fetches_after: Option<EpochId>,
}

impl<K> CurrentEpoch<K> {
    fn abandon(&mut self, reason: Reason) -> Reason {
        match self.state {
            State::Abandoned(first) => first,
            _ => {
                self.state = State::Abandoned(reason);
                reason
            }
        }
    }
}

impl<K> Default for Lifecycle<K> {
    fn default() -> Self {
        Lifecycle { current: None, next: None, abandoned: Vec::new(), is_closed: false, started: 0 }
    }
}

impl<K: Clone + PartialEq> Lifecycle<K> {
    /// Handles an event. The caller must carry out the actions in the returned order.
    pub(super) fn handle(&mut self, event: Event<K>) -> Vec<Action<K>> {
        let mut actions = Vec::new();
        let out = &mut actions;
        match event {
            Event::Begin { key, following } => self.begin(key, following, out),
            Event::StepReached(id) => self.step_reached(id, out),
            Event::Fetched(id) => self.fetched(id, out),
            Event::Assembled(id) => self.assembled(id, out),
            Event::Failed(id) => self.failed(id, out),
            Event::NotStarted(id) => self.not_started(id, out),
            Event::HandedOver(id) => self.handed_over(id),
            Event::Left(id) => self.left(id, out),
            Event::Restored => self.end(Reason::Restored, out),
            Event::Warmed => self.end(Reason::Warmed, out),
            Event::Close => {
                self.is_closed = true;
                self.end(Reason::Closed, out);
            }
        }
        actions
    }

    /// Whether no further epoch can be begun.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the epoch under way, or the last one if its consumer took all batches and no other was begun.
    pub(super) fn current(&self) -> Option<EpochId> {
        self.current.as_ref().map(|epoch| epoch.id)
    }

    /// Returns the state of an epoch, or `None` if the epoch was forgotten, for example because another one
    /// was begun after it was done, or because its consumer dropped it early.
    pub(super) fn state(&self, id: EpochId) -> Option<State> {
        let held = [&self.current, &self.next].into_iter().flatten().find(|epoch| epoch.id == id);
        let abandoned = || self.abandoned.iter().find(|(abandoned, _)| *abandoned == id);
        held.map(|epoch| epoch.state).or_else(|| abandoned().map(|(_, reason)| State::Abandoned(*reason)))
    }

    fn begin(&mut self, key: K, following: Option<K>, out: &mut Vec<Action<K>>) {
        if self.is_closed {
            return;
        }
        match self.current.take_if(|epoch| epoch.state == State::Done) {
            Some(done) => {
                // The consumer has all batches, so row groups that are still to be fetched are not needed.
                // The end of assembly, which also cancels the fetching, may not have been reported yet.
                if !done.is_fetched {
                    out.push(Action::CancelFetching(done.id));
                }
                out.push(Action::Forget(done.id));
            }
            None => self.end(Reason::Superseded, out),
        }
        let prepared = self.next.take_if(|next| next.key == key);
        self.stop_next(out);
        let mut epoch = prepared.unwrap_or_else(|| self.prepare(key, None, out));
        epoch.following = following;
        epoch.state = match epoch.state {
            State::Prepared if epoch.is_assembled => State::Draining,
            State::Prepared => State::Begun,
            // A prepared epoch that failed stays abandoned, because its consumer must get the error.
            state => state,
        };
        out.extend([Action::FetchAll(epoch.id), Action::Open(epoch.id)]);
        self.current = Some(epoch);
    }

    fn prepare(
        &mut self,
        key: K,
        fetches_after: Option<EpochId>,
        out: &mut Vec<Action<K>>,
    ) -> CurrentEpoch<K> {
        let id = EpochId(self.started);
        self.started += 1;
        out.push(Action::Prepare(id, key.clone()));
        if fetches_after.is_none() {
            out.push(Action::StartFetching(id));
        }
        CurrentEpoch {
            id,
            key,
            state: State::Prepared,
            following: None,
            step_reached: false,
            is_fetched: false,
            is_assembled: false,
            fetches_after,
        }
    }

    fn step_reached(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        let is_new = |epoch: &&mut CurrentEpoch<K>| {
            epoch.id == id && !epoch.step_reached && !matches!(epoch.state, State::Abandoned(_))
        };
        let Some(current) = self.current.as_mut().filter(is_new) else { return };
        current.step_reached = true;
        out.push(Action::MaintainCache);
        let fetches_after = (!current.is_fetched).then_some(id);
        let is_assembled = current.is_assembled;
        if let Some(key) = current.following.take() {
            let next = self.prepare(key, fetches_after, out);
            if is_assembled {
                out.push(Action::Admit(next.id));
            }
            self.next = Some(next);
        }
    }

    fn fetched(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        for epoch in [&mut self.current, &mut self.next].into_iter().flatten() {
            epoch.is_fetched |= epoch.id == id;
            if epoch.fetches_after.take_if(|before| *before == id).is_some() {
                out.push(Action::StartFetching(epoch.id));
            }
        }
    }

    fn assembled(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        let Some(epoch) = self.held(id) else { return };
        epoch.is_assembled = true;
        if epoch.state == State::Begun {
            epoch.state = State::Draining;
        }
        if !epoch.is_fetched {
            // The row groups that were not fetched yet have no row for this rank.
            out.push(Action::CancelFetching(id));
        }
        if let Some(next) = self.next.as_ref().filter(|next| next.id != id) {
            out.push(Action::Admit(next.id));
        }
    }

    fn failed(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        let Some(epoch) = self.held(id).filter(|epoch| epoch.state != State::Done) else { return };
        epoch.abandon(Reason::Failed);
        if !epoch.is_fetched {
            out.push(Action::CancelFetching(id));
        }
        if self.current() == Some(id) {
            self.stop_next(out);
        }
    }

    fn not_started(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        self.next.take_if(|next| next.id == id);
        if self.current.take_if(|current| current.id == id).is_some() {
            out.push(Action::ReplacePermits);
        }
    }

    fn handed_over(&mut self, id: EpochId) {
        if let Some(current) = self.current.as_mut().filter(|current| current.id == id)
            && matches!(current.state, State::Begun | State::Draining)
        {
            current.state = State::Done;
        }
    }

    fn left(&mut self, id: EpochId, out: &mut Vec<Action<K>>) {
        if self.current.as_ref().is_some_and(|current| current.id == id && current.state != State::Done) {
            self.end(Reason::Left, out);
        }
        self.abandoned.retain(|(abandoned, _)| *abandoned != id);
    }

    /// Ends the epoch under way, and the epoch that is prepared after it.
    fn end(&mut self, reason: Reason, out: &mut Vec<Action<K>>) {
        let Some(mut epoch) = self.current.take() else { return };
        if epoch.state != State::Done {
            let reason = epoch.abandon(reason);
            self.abandoned.push((epoch.id, reason));
        }
        out.extend([Action::Stop(epoch.id), Action::Forget(epoch.id)]);
        self.stop_next(out);
        out.push(Action::ReplacePermits);
    }

    fn stop_next(&mut self, out: &mut Vec<Action<K>>) {
        if let Some(next) = self.next.take() {
            out.extend([Action::Stop(next.id), Action::Forget(next.id)]);
        }
    }

    fn held(&mut self, id: EpochId) -> Option<&mut CurrentEpoch<K>> {
        [&mut self.current, &mut self.next].into_iter().flatten().find(|epoch| epoch.id == id)
    }
}
