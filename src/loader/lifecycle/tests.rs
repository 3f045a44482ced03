//! Tests the lifecycle of epochs: each rule in a test of its own, and all rules together on random sequences
//! of events. For the random tests, `Model` simulates the fetching, the assembly, the permits and the
//! consumers of a loader, which act in any order.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

type Key = u32;

/// The number of row groups by which fetching may be ahead of assembly, as if the memory held no more.
const WINDOW: u32 = 3;

/// The number of row groups that are fetched for a prepared epoch before it begins.
const HEAD_START: u32 = 2;

/// The parameters of a random case.
#[derive(Clone, Debug)]
struct Setup {
    permits: u32,
    /// For each epoch: the number of its batches, the number of row groups that are fetched but have no row
    /// in a batch, and the step at which the following epoch is prepared.
    plans: Vec<(u32, u32, u32)>,
    /// The number of epochs in the run.
    epochs: u32,
    /// For each start of an epoch, in order, the batch at which the epoch fails; `None` if it does not fail.
    failures: Vec<Option<u32>>,
    /// For each start of an epoch, in order, whether the work of the epoch cannot be started.
    not_started: Vec<bool>,
}

/// A move of the model: a step of the simulated background work, or an action of a user.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// The epoch at this index of `works` fetches a row group, or reports that its fetching has ended.
    Fetch(usize),
    /// The epoch at this index of `works` assembles a batch, or reports that its assembly has ended.
    Assemble(usize),
    /// The consumer of the epoch at this index of `works` takes the next item of its queue.
    Take(usize),
    /// The consumer of the epoch at this index of `works` drops the epoch.
    Leave(usize),
    Begin(Key),
    Restore,
    Warm,
    Close,
}

/// How far the assembly of an epoch may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AssemblyLevel {
    FirstBatch,
    Admitted,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AssemblyModel {
    Works,
    /// The assembly has sent its last batch, and will report that it is done.
    Reports,
    WaitsForBegin,
    Over,
}

/// An item in a queue of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueItem {
    Batch { number: u32, permit: bool },
    Failure,
}

/// The simulated background tasks of one epoch that was started, and the state of its consumer.
#[derive(Debug)]
struct EpochTasks {
    id: EpochId,
    key: Key,
    permits: usize,
    may_fetch: bool,
    may_fetch_all: bool,
    fetched: u32,
    is_fetch_cancelled: bool,
    is_fetch_over: bool,
    level: AssemblyLevel,
    assembly: AssemblyModel,
    made: u32,
    fails_at: Option<u32>,
    step_reported: bool,
    is_stopped: bool,
    /// The queue of batches; `None` once its receiver is gone.
    queue: Option<VecDeque<QueueItem>>,
    /// Whether a consumer has the queue.
    is_claimed: bool,
    taken: u32,
    state: Option<State>,
}

struct Model {
    setup: Setup,
    life: Lifecycle<Key>,
    works: Vec<EpochTasks>,
    /// The free permits of each semaphore that has been used.
    semaphores: Vec<u32>,
    semaphore: Option<usize>,
    is_closed: bool,
    last: Option<Key>,
}

impl Model {
    fn new(setup: Setup) -> Self {
        Model {
            setup,
            life: Lifecycle::default(),
            works: Vec::new(),
            semaphores: Vec::new(),
            semaphore: None,
            is_closed: false,
            last: None,
        }
    }

    fn plan(&self, key: Key) -> (u32, u32, u32) {
        self.setup.plans[key as usize % self.setup.plans.len()]
    }

    fn work(&mut self, id: EpochId) -> Option<&mut EpochTasks> {
        self.works.iter_mut().find(|work| work.id == id)
    }

    fn feed(&mut self, event: Event<Key>) {
        let mut actions = VecDeque::from(self.life.handle(event));
        while let Some(action) = actions.pop_front() {
            if let Action::Prepare(id, key) = action {
                assert!(!self.is_closed, "{id:?} is prepared after the end");
                let number = id.0 as usize;
                if self.setup.not_started.get(number).is_some_and(|not| *not) {
                    actions.extend(self.life.handle(Event::NotStarted(id)));
                } else {
                    self.prepare(id, key);
                }
            } else {
                self.carry_out(action);
            }
        }
        self.check_states();
    }

    fn prepare(&mut self, id: EpochId, key: Key) {
        let all = self.setup.permits;
        let semaphores = &mut self.semaphores;
        let permits = *self.semaphore.get_or_insert_with(|| {
            semaphores.push(all);
            semaphores.len() - 1
        });
        let fails_at = self.setup.failures.get(id.0 as usize).copied().flatten();
        self.works.push(EpochTasks {
            id,
            key,
            permits,
            may_fetch: false,
            may_fetch_all: false,
            fetched: 0,
            is_fetch_cancelled: false,
            is_fetch_over: false,
            level: AssemblyLevel::FirstBatch,
            assembly: AssemblyModel::Works,
            made: 0,
            fails_at,
            step_reported: false,
            is_stopped: false,
            queue: Some(VecDeque::new()),
            is_claimed: false,
            taken: 0,
            state: None,
        });
    }

    fn carry_out(&mut self, action: Action<Key>) {
        match action {
            Action::Prepare(..) | Action::MaintainCache => {}
            Action::StartFetching(id) => {
                for other in self.works.iter().filter(|other| other.id != id) {
                    let fetches = other.may_fetch && !other.is_fetch_over;
                    assert!(!fetches || other.is_fetch_cancelled, "{id:?} fetches beside {:?}", other.id);
                }
                self.work(id).into_iter().for_each(|work| work.may_fetch = true);
            }
            Action::FetchAll(id) => self.work(id).into_iter().for_each(|work| work.may_fetch_all = true),
            Action::Admit(id) => {
                for other in self.works.iter().filter(|other| other.id != id) {
                    let makes = other.assembly == AssemblyModel::Works && !other.is_stopped;
                    assert!(!makes, "{id:?} makes batches beside {:?}", other.id);
                }
                self.work(id)
                    .into_iter()
                    .for_each(|work| work.level = work.level.max(AssemblyLevel::Admitted));
            }
            Action::Open(id) => {
                for other in self.works.iter().filter(|other| other.id != id && other.is_claimed) {
                    let under_way = !other.is_stopped && other.taken < self.plan(other.key).0;
                    assert!(!under_way, "{id:?} begins beside {:?}", other.id);
                }
                self.work(id).into_iter().for_each(|work| work.level = AssemblyLevel::Open);
            }
            Action::CancelFetching(id) => {
                self.work(id).into_iter().for_each(|work| work.is_fetch_cancelled = true);
            }
            Action::Stop(id) => self.work(id).into_iter().for_each(|work| {
                work.is_stopped = true;
                work.is_fetch_cancelled = true;
            }),
            Action::Forget(id) => {
                if self.work(id).is_some_and(|work| !work.is_claimed) {
                    self.drop_queue(id);
                }
            }
            Action::ReplacePermits => self.semaphore = None,
        }
    }

    fn drop_queue(&mut self, id: EpochId) {
        let Some(work) = self.work(id) else { return };
        let (queue, permits) = (work.queue.take(), work.permits);
        let held =
            queue.into_iter().flatten().filter(|item| matches!(item, QueueItem::Batch { permit: true, .. }));
        self.semaphores[permits] += held.count() as u32;
    }

    /// Checks that epochs go from one state to another only along the arrows of the diagram in the
    /// documentation of `lifecycle`.
    fn check_states(&mut self) {
        for work in &mut self.works {
            let (before, now) = (work.state, self.life.state(work.id));
            work.state = now;
            use State::{Abandoned, Begun, Done, Draining, Prepared};
            let is_legal = before == now
                || match (before, now) {
                    (None, Some(Prepared | Begun)) => true,
                    (Some(Prepared), Some(Begun | Draining | Abandoned(_)) | None) => true,
                    (Some(Begun), Some(Draining | Done | Abandoned(_))) => true,
                    (Some(Draining), Some(Done | Abandoned(_))) => true,
                    // The consumer dropped the epoch, so one event abandoned and forgot it.
                    (Some(Begun | Draining), None) => !work.is_claimed,
                    (Some(Done), None) => true,
                    (Some(Abandoned(_)), None) => !work.is_claimed,
                    _ => false,
                };
            assert!(is_legal, "{:?} goes from {before:?} to {now:?}", work.id);
        }
    }

    /// Returns the moves that the background work and the consumers can make now, without an action of a
    /// user.
    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (at, work) in self.works.iter().enumerate() {
            let (batches, unwanted, _) = self.plan(work.key);
            let limit = match (work.may_fetch, work.may_fetch_all) {
                (false, _) => 0,
                (true, true) => batches + unwanted,
                (true, false) => (batches + unwanted).min(HEAD_START),
            };
            let room = work.fetched < limit.min(work.made + WINDOW);
            let ends = work.is_fetch_cancelled || work.fetched == batches + unwanted;
            if !work.is_fetch_over && (room || ends) {
                moves.push(Move::Fetch(at));
            }
            let can = match work.assembly {
                AssemblyModel::Works if work.is_stopped => true,
                AssemblyModel::Works => {
                    let is_here = work.fetched > work.made || work.fails_at == Some(work.made);
                    let is_free = work.made == 0
                        || (work.level >= AssemblyLevel::Admitted && self.semaphores[work.permits] > 0);
                    is_here && is_free
                }
                AssemblyModel::Reports => true,
                AssemblyModel::WaitsForBegin => work.level == AssemblyLevel::Open || work.is_stopped,
                AssemblyModel::Over => false,
            };
            if can {
                moves.push(Move::Assemble(at));
            }
            let has_some = work.queue.as_ref().is_some_and(|queue| !queue.is_empty());
            let is_cut = !matches!(work.assembly, AssemblyModel::Works) && work.taken < batches;
            if work.is_claimed && work.taken < batches && (has_some || is_cut) {
                moves.push(Move::Take(at));
            }
        }
        moves
    }

    fn make(&mut self, made: Move) {
        match made {
            Move::Fetch(at) => {
                let (batches, unwanted, _) = self.plan(self.works[at].key);
                let work = &mut self.works[at];
                if work.is_fetch_cancelled || work.fetched == batches + unwanted {
                    work.is_fetch_over = true;
                    let id = work.id;
                    self.feed(Event::Fetched(id));
                } else {
                    work.fetched += 1;
                }
            }
            Move::Assemble(at) => self.assemble(at),
            Move::Take(at) => self.take(at),
            Move::Leave(at) => {
                self.works[at].is_claimed = false;
                let id = self.works[at].id;
                self.drop_queue(id);
                self.feed(Event::Left(id));
            }
            Move::Begin(key) => self.begin(key),
            Move::Restore => self.feed(Event::Restored),
            Move::Warm => self.feed(Event::Warmed),
            Move::Close => {
                self.is_closed = true;
                self.feed(Event::Close);
            }
        }
    }

    fn assemble(&mut self, at: usize) {
        let (batches, _, next_at) = self.plan(self.works[at].key);
        let work = &mut self.works[at];
        let id = work.id;
        match work.assembly {
            AssemblyModel::Works if work.is_stopped || work.queue.is_none() => {
                work.assembly = AssemblyModel::Over
            }
            AssemblyModel::Works => {
                if !work.step_reported && work.made >= next_at && work.level == AssemblyLevel::Open {
                    work.step_reported = true;
                    self.feed(Event::StepReached(id));
                }
                let work = &mut self.works[at];
                let Some(queue) = &mut work.queue else { return };
                let permit = work.made > 0;
                self.semaphores[work.permits] -= u32::from(permit);
                if work.fails_at == Some(work.made) {
                    self.semaphores[work.permits] += u32::from(permit);
                    queue.push_back(QueueItem::Failure);
                    work.assembly = AssemblyModel::Over;
                    self.feed(Event::Failed(id));
                    let work = &self.works[at];
                    assert!(
                        work.is_fetch_cancelled || work.is_fetch_over,
                        "{id:?} failed, and goes on fetching"
                    );
                    return;
                }
                queue.push_back(QueueItem::Batch { number: work.made, permit });
                work.made += 1;
                if work.made == batches {
                    work.assembly = AssemblyModel::Reports;
                }
            }
            AssemblyModel::Reports => {
                work.assembly = AssemblyModel::WaitsForBegin;
                self.feed(Event::Assembled(id));
            }
            AssemblyModel::WaitsForBegin => {
                let is_stopped = work.is_stopped;
                work.assembly = AssemblyModel::Over;
                if !is_stopped {
                    self.feed(Event::StepReached(id));
                }
            }
            AssemblyModel::Over => {}
        }
    }

    fn take(&mut self, at: usize) {
        let (batches, ..) = self.plan(self.works[at].key);
        let work = &mut self.works[at];
        let id = work.id;
        match work.queue.as_mut().and_then(VecDeque::pop_front) {
            Some(QueueItem::Batch { number, permit }) => {
                assert_eq!(number, work.taken, "{id:?} lost a batch");
                work.taken += 1;
                self.semaphores[work.permits] += u32::from(permit);
                if self.works[at].taken == batches {
                    self.feed(Event::HandedOver(id));
                }
            }
            Some(QueueItem::Failure) => {
                self.feed(Event::Failed(id));
                let is_known = matches!(self.life.state(id), Some(State::Abandoned(_)));
                assert!(is_known, "{id:?} failed, and is {:?}", self.life.state(id));
                self.make(Move::Leave(at));
            }
            None => {
                let is_known = matches!(self.life.state(id), Some(State::Abandoned(_)));
                assert!(is_known, "{id:?} ended early without a reason");
                self.make(Move::Leave(at));
            }
        }
    }

    fn begin(&mut self, key: Key) {
        let next = key + 1;
        let following = (next < self.setup.epochs).then_some(next);
        let current = self.life.current();
        let is_done = current.is_some_and(|id| self.life.state(id) == Some(State::Done));
        let is_prepared = |work: &EpochTasks| work.key == key && work.state == Some(State::Prepared);
        let prepared = self.works.iter().find(|work| is_prepared(work)).map(|work| work.id);
        let before = self.works.len();
        self.feed(Event::Begin { key, following });
        if self.is_closed {
            assert_eq!((self.works.len(), self.life.current()), (before, None), "an epoch after the end");
            return;
        }
        if let (true, Some(prepared)) = (is_done, prepared) {
            assert_eq!(self.life.current(), Some(prepared), "what was prepared is used");
        }
        if let Some(id) = self.life.current() {
            let work = self.work(id).unwrap();
            assert_eq!((work.key, work.is_claimed), (key, false));
            work.is_claimed = true;
        }
        self.last = Some(key);
    }

    /// Makes the moves of the background work until none is left. Of the consumers, only that of the epoch
    /// under way takes batches.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let current = self.life.current();
            let goes_on = |it: &Move| !matches!(it, Move::Take(at) if Some(self.works[*at].id) != current);
            let Some(next) = self.moves().into_iter().find(goes_on) else { return };
            self.make(next);
        }
        panic!("it never comes to rest");
    }

    /// Checks that the consumer of the epoch under way has all of its batches, and that the next epoch is
    /// prepared.
    fn check_rest(&self) {
        let Some(done) = self.works.iter().find(|work| Some(work.id) == self.life.current()) else { return };
        let waits = done.is_claimed && done.taken < self.plan(done.key).0;
        assert!(!waits, "{:?} waits for ever: {done:?}", done.id);
        let following = done.key + 1;
        let missing = |number: usize| self.setup.not_started.get(number).is_some_and(|not| *not);
        let is_due = following < self.setup.epochs && !(0..16).any(missing);
        if done.state == Some(State::Done) && is_due {
            let next =
                self.works.iter().find(|work| work.key == following && work.state == Some(State::Prepared));
            let has_failed = |work: &EpochTasks| work.key == following && work.fails_at.is_some();
            let most = self.plan(following).0.min(HEAD_START);
            let is_ahead = next.is_some_and(|next| next.made >= most) || self.works.iter().any(has_failed);
            assert!(is_ahead, "too little was prepared after {:?}", done.id);
        }
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    let plan = (1u32..6, 0u32..6, 0u32..5);
    let failure = prop_oneof![6 => Just(None), 1 => (0u32..4).prop_map(Some)];
    let not_started = prop_oneof![12 => Just(false), 1 => Just(true)];
    (
        1u32..4,
        prop::collection::vec(plan, 1..5),
        1u32..6,
        prop_oneof![Just(Vec::new()), prop::collection::vec(failure, 12)],
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(not_started, 12)],
    )
        .prop_map(|(permits, plans, epochs, failures, not_started)| Setup {
            permits,
            plans,
            epochs,
            failures,
            not_started,
        })
}

/// Generates the random numbers from which `played` chooses moves of the background work and, less often,
/// actions of a user.
fn script() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((0u8..20, any::<u16>()), 0..120)
}

fn played(setup: Setup, script: &[(u8, u16)]) -> Model {
    let mut model = Model::new(setup);
    for &(kind, pick) in script {
        let claimed: Vec<usize> = (0..model.works.len()).filter(|at| model.works[*at].is_claimed).collect();
        let following = model.last.map_or(0, |last| last + 1);
        match kind {
            0 if !claimed.is_empty() => model.make(Move::Leave(claimed[pick as usize % claimed.len()])),
            1 => model.make(Move::Begin(u32::from(pick) % 5)),
            2 if pick % 8 == 0 => model.make(Move::Close),
            2 if pick % 4 == 0 => model.make(Move::Warm),
            2 if pick % 2 == 0 => model.make(Move::Restore),
            2 | 3 => model.make(Move::Begin(following)),
            _ => {
                let moves = model.moves();
                match moves.is_empty() {
                    true => model.make(Move::Begin(following)),
                    false => model.make(moves[pick as usize % moves.len()]),
                }
            }
        }
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_epoch_that_is_wanted_comes_to_its_end(setup in setups(), script in script()) {
        let mut model = played(setup, &script);
        model.settle();
        model.check_rest();
        // Whatever happened before, one more epoch can be completed.
        if !model.is_closed {
            model.setup.failures.clear();
            model.setup.not_started.clear();
            model.works.iter_mut().for_each(|work| work.fails_at = None);
            model.make(Move::Begin(3));
            model.settle();
            model.check_rest();
        }
        // When all consumers are gone, nothing is left: no thread, no request, no permit.
        for at in 0..model.works.len() {
            if model.works[at].is_claimed {
                model.make(Move::Leave(at));
            }
        }
        model.make(Move::Close);
        model.settle();
        for work in &model.works {
            prop_assert!(work.is_fetch_over && work.assembly == AssemblyModel::Over, "left: {work:?}");
            prop_assert!(model.life.state(work.id).is_none(), "still known: {work:?}");
        }
        prop_assert!(model.semaphores.iter().all(|free| *free == model.setup.permits), "{:?}", model.semaphores);
    }
}

const FIRST: EpochId = EpochId(0);
const SECOND: EpochId = EpochId(1);

fn begun(key: Key, following: Option<Key>) -> Lifecycle<Key> {
    let mut life = Lifecycle::default();
    life.handle(Event::Begin { key, following });
    life
}

#[test]
fn an_epoch_that_was_not_prepared_starts_at_once() {
    let mut life = Lifecycle::default();
    let actions = life.handle(Event::Begin { key: 7, following: None });
    let expected = [
        Action::Prepare(FIRST, 7),
        Action::StartFetching(FIRST),
        Action::FetchAll(FIRST),
        Action::Open(FIRST),
    ];
    assert_eq!((actions, life.state(FIRST)), (expected.to_vec(), Some(State::Begun)));
}

#[test]
fn the_next_epoch_waits_for_its_turn_in_fetching_and_in_making() {
    let mut life = begun(0, Some(1));
    assert_eq!(life.handle(Event::StepReached(FIRST)), [Action::MaintainCache, Action::Prepare(SECOND, 1)]);
    assert_eq!(life.handle(Event::StepReached(FIRST)), [], "once");
    assert_eq!(life.handle(Event::Fetched(FIRST)), [Action::StartFetching(SECOND)]);
    assert_eq!(life.handle(Event::Assembled(FIRST)), [Action::Admit(SECOND)]);
    assert_eq!(life.state(FIRST), Some(State::Draining));
    assert_eq!(life.handle(Event::HandedOver(FIRST)), []);
    assert_eq!(life.handle(Event::Left(FIRST)), [], "its consumer is done with it");
    let expected = [Action::Forget(FIRST), Action::FetchAll(SECOND), Action::Open(SECOND)];
    assert_eq!(life.handle(Event::Begin { key: 1, following: None }), expected);
}

#[test]
fn an_epoch_that_begins_early_still_waits_until_the_one_before_fetches_no_more() {
    let mut life = begun(0, Some(1));
    life.handle(Event::StepReached(FIRST));
    life.handle(Event::HandedOver(FIRST));
    let actions = life.handle(Event::Begin { key: 1, following: None });
    assert_eq!(actions[0], Action::CancelFetching(FIRST));
    assert!(!actions.contains(&Action::StartFetching(SECOND)));
    assert_eq!(life.handle(Event::Fetched(FIRST)), [Action::StartFetching(SECOND)]);
}

#[test]
fn leaving_an_epoch_stops_what_was_prepared_after_it_and_replaces_its_permits() {
    let mut life = begun(0, Some(1));
    life.handle(Event::StepReached(FIRST));
    let expected = [
        Action::Stop(FIRST),
        Action::Forget(FIRST),
        Action::Stop(SECOND),
        Action::Forget(SECOND),
        Action::ReplacePermits,
    ];
    assert_eq!(life.handle(Event::Left(FIRST)), expected);
    assert_eq!((life.state(FIRST), life.state(SECOND)), (None, None));
}

#[test]
fn another_epoch_than_the_prepared_one_is_begun_with_the_same_permits() {
    let mut life = begun(0, Some(1));
    life.handle(Event::StepReached(FIRST));
    life.handle(Event::HandedOver(FIRST));
    let actions = life.handle(Event::Begin { key: 5, following: Some(6) });
    assert!(actions.contains(&Action::Stop(SECOND)) && actions.contains(&Action::Prepare(EpochId(2), 5)));
    assert!(!actions.contains(&Action::ReplacePermits));
}

#[test]
fn the_first_reason_stays() {
    let mut life = begun(0, None);
    life.handle(Event::Failed(FIRST));
    life.handle(Event::Begin { key: 1, following: None });
    life.handle(Event::Close);
    assert_eq!(life.state(FIRST), Some(State::Abandoned(Reason::Failed)));
    assert_eq!(life.state(SECOND), Some(State::Abandoned(Reason::Closed)));
    assert_eq!(life.handle(Event::Begin { key: 2, following: None }), []);
}

#[test]
fn a_failure_stops_what_was_prepared_and_lets_what_was_made_be_taken() {
    let mut life = begun(0, Some(1));
    life.handle(Event::StepReached(FIRST));
    let expected = [Action::CancelFetching(FIRST), Action::Stop(SECOND), Action::Forget(SECOND)];
    assert_eq!(life.handle(Event::Failed(FIRST)), expected);
    assert_eq!(life.handle(Event::StepReached(FIRST)), [], "nothing is prepared after it");
}

#[test]
fn a_prepared_epoch_that_failed_is_begun_all_the_same_and_hands_over_its_failure() {
    let mut life = begun(0, Some(1));
    for event in [Event::StepReached(FIRST), Event::Failed(SECOND), Event::HandedOver(FIRST)] {
        life.handle(event);
    }
    life.handle(Event::Begin { key: 1, following: Some(2) });
    assert_eq!(life.state(SECOND), Some(State::Abandoned(Reason::Failed)));
    assert_eq!(life.handle(Event::StepReached(SECOND)), [], "nothing is prepared after it");
}
