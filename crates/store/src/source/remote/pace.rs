//! Chooses the number of concurrent requests, and the time after which a request is late, from measurements.
//!
//! By Little's law, `R` requests per second that take `W` seconds each keep `R * W` of them in flight. If the
//! network link is the limit, more requests in flight only make `W` longer. So the number is raised while the
//! rate grows with it, and goes back to the smallest number that gave this rate. From time to time another
//! number is tried. If the store asks for fewer requests, the number is lowered immediately.
//!
//! A request is late if its first byte takes more than twice the time within which 19 of 20 requests get
//! theirs, or if its response then stops or arrives much more slowly than expected. A late request is sent a
//! second time ("hedged": Dean and Barroso, *The Tail at Scale*, 2013). At most one second request is allowed
//! for every 20 requests, so that a store that is slow as a whole does not get twice the requests. Without
//! the factor of two, requests that are only a little slow would use up this allowance, and leave nothing for
//! those that hang.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::source::handles;
use crate::source::traffic::Traffic;

/// The number of concurrent requests to begin with.
const INITIAL_SLOTS: usize = 16;
/// The smallest number of concurrent requests.
const MIN_SLOTS: usize = 4;
pub(super) const MAX_SLOTS: usize = 64;

/// The shortest duration of a round, in which the rate is measured. A round also finishes at least as many
/// requests as may run concurrently.
const MIN_ROUND: Duration = Duration::from_millis(250);

/// A larger number of concurrent requests is kept if it raises the rate by more than this factor.
const MIN_RATE_GAIN: f64 = 1.08;
/// A smaller number of concurrent requests is kept if it reaches at least this share of the former rate.
const MIN_RATE_SHARE: f64 = 0.97;

/// After a number of concurrent requests is chosen, it is kept for this many rounds before another is tried.
const ROUNDS_OF_REST: u32 = 12;

/// After a store asked for fewer requests, the number of concurrent requests is not raised for this long.
const PAUSE_AFTER_THROTTLE: Duration = Duration::from_secs(3);

/// The number of recent requests whose time to the first byte is remembered.
const WAITS_KEPT: usize = 256;
/// The fewest measured times to the first byte that suffice to decide when a request is late.
const MIN_WAITS: usize = 16;

/// The share of requests that count as on time: those with the shortest times to the first byte.
const ON_TIME_SHARE: f64 = 0.95;

/// A request is late after this multiple of the longest time to the first byte that counts as on time.
const LATE_TIMES: u32 = 2;

/// The time after which a request is late, until enough times to the first byte are measured.
const INITIAL_LATE_AFTER: Duration = Duration::from_secs(1);

/// The shortest time after which a request can be late.
const MIN_LATE_AFTER: Duration = Duration::from_millis(15);

/// Each finished request adds this much to the allowance for second requests.
const HEDGES_PER_REQUEST: f64 = 0.05;
/// The largest allowance for second requests that can be saved up, and the allowance at the beginning.
const MAX_HEDGES_SAVED: f64 = 8.0;

/// The allowance at the beginning for second requests that repeat a slow response.
///
/// It is zero, because on a full link every response is slow, and a second request may transfer all bytes of
/// the response again. Eight ranks that each read little data would then read much of it twice. A second
/// request for a silent response transfers hardly anything twice.
const INITIAL_SLOW_HEDGES: f64 = 0.0;

/// The reason why a request is late, and so is sent a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// No byte of the response has arrived for too long.
    Silent,
    /// The response arrives much more slowly than expected.
    Slow,
}

/// The measurements of one store and the limits that follow from them, shared by all readers of the store.
#[derive(Debug)]
pub(super) struct Pace {
    slots: Arc<Semaphore>,
    most: usize,
    _sharer: handles::Sharer,
    state: Mutex<PaceState>,
    traffic: Arc<Traffic>,
}

#[derive(Debug)]
struct PaceState {
    /// The number of requests that may run at once.
    limit: usize,
    /// The number of slots (permissions for requests) to remove when they are returned, because the limit was
    /// lowered while they were in use.
    surplus: usize,
    climb: Climb,
    round: Round,
    no_more_before: Option<Instant>,
    /// The latest times to the first byte, in a ring buffer.
    waits: Vec<Duration>,
    /// The number of times to the first byte that were recorded so far, including overwritten ones.
    waited: usize,
    late_after: Duration,
    /// The seconds from the first to the last byte, added up over requests. Like `bytes` and `requests`, this
    /// is a sum in which older requests count less.
    seconds: f64,
    bytes: f64,
    requests: f64,
    /// The allowance for second requests: how many may be sent now.
    hedges: f64,
    /// The allowance for second requests that repeat a slow response.
    slow_hedges: f64,
}

/// The phase of the search for the best number of concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Climb {
    /// A larger number than `from` is being tried; `rate` is the best rate so far.
    Up { rate: f64, from: usize },
    /// The number is kept for some rounds; `rate` is the average rate during them.
    Rest { rounds: u32, rate: f64 },
    /// A smaller number than `from` is being tried; `rate` is the rate that `from` gave.
    Down { rate: f64, from: usize },
}

#[derive(Debug)]
struct Round {
    began: Instant,
    bytes: u64,
    finished: usize,
    /// Whether a request had to wait for a slot in this round. If none had to, the rate says nothing about
    /// the number of slots.
    contended: bool,
}

impl Round {
    fn new(now: Instant) -> Self {
        Round { began: now, bytes: 0, finished: 0, contended: false }
    }
}

/// Permission to have one request in flight. It is returned when it is dropped.
pub(super) struct RequestPermit<'a> {
    pace: &'a Pace,
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.pace.state();
        match state.surplus {
            0 => self.pace.slots.add_permits(1),
            _ => state.surplus -= 1,
        }
    }
}

impl Pace {
    /// Begins measurements, with a limit of at most `most` concurrent requests, and no more than this store's
    /// share of the sockets of the process.
    pub(super) fn new(most: usize, traffic: Arc<Traffic>) -> Self {
        let sharer = handles::Sharer::of_sockets();
        let most = most.max(1);
        let limit = INITIAL_SLOTS.min(most).min(handles::sockets());
        traffic.slots.set(limit as u64);
        let state = PaceState {
            limit,
            surplus: 0,
            climb: Climb::Up { rate: 0.0, from: limit },
            round: Round::new(Instant::now()),
            no_more_before: None,
            waits: Vec::new(),
            waited: 0,
            late_after: INITIAL_LATE_AFTER,
            seconds: 0.0,
            bytes: 0.0,
            requests: 0.0,
            hedges: MAX_HEDGES_SAVED,
            slow_hedges: INITIAL_SLOW_HEDGES,
        };
        let slots = Arc::new(Semaphore::new(limit));
        Pace { slots, most, _sharer: sharer, state: Mutex::new(state), traffic }
    }

    /// The largest number of concurrent requests that can be chosen.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    fn state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for permission to send a request. Callers get it in the order in which they ask.
    pub(super) async fn slot(&self) -> RequestPermit<'_> {
        if self.slots.available_permits() == 0 {
            self.state().round.contended = true;
        }
        // Acquiring cannot fail, because the semaphore is never closed.
        if let Ok(permit) = self.slots.acquire().await {
            permit.forget();
        }
        RequestPermit { pace: self }
    }

    /// Reports that a request's first byte came `after` it was sent.
    pub(super) fn first_byte(&self, after: Duration) {
        let mut state = self.state();
        let at = state.waited % WAITS_KEPT;
        match state.waits.get_mut(at) {
            Some(wait) => *wait = after,
            None => state.waits.push(after),
        }
        state.waited += 1;
        if state.waited > MIN_WAITS && !state.waited.is_multiple_of(MIN_WAITS) {
            return;
        }
        let mut waits = state.waits.clone();
        if state.waited >= MIN_WAITS {
            let rank = (waits.len() as f64 * ON_TIME_SHARE) as usize;
            let (_, on_time, _) = waits.select_nth_unstable(rank.min(state.waits.len() - 1));
            state.late_after = (*on_time * LATE_TIMES).max(MIN_LATE_AFTER);
        }
        let middle = waits.len() / 2;
        let (_, median, _) = waits.select_nth_unstable(middle);
        self.traffic.first_byte.set(median.as_micros() as u64);
    }

    /// Reports that a request for `bytes` bytes is complete. `took` is the time since its first byte.
    pub(super) fn finished(&self, bytes: u64, took: Duration) {
        const MEMORY: f64 = 0.9;
        let mut state = self.state();
        let now = Instant::now();
        state.hedges = (state.hedges + HEDGES_PER_REQUEST).min(MAX_HEDGES_SAVED);
        state.slow_hedges = (state.slow_hedges + HEDGES_PER_REQUEST).min(MAX_HEDGES_SAVED);
        state.seconds = state.seconds * MEMORY + took.as_secs_f64();
        state.bytes = state.bytes * MEMORY + bytes as f64;
        state.requests = state.requests * MEMORY + 1.0;
        let body = Duration::from_secs_f64(state.seconds / state.requests);
        self.traffic.request.set(self.traffic.first_byte.get() + body.as_micros() as u64);
        state.round.bytes += bytes;
        state.round.finished += 1;
        let elapsed = now.saturating_duration_since(state.round.began);
        if elapsed >= MIN_ROUND && state.round.finished >= state.limit {
            let rate = state.round.bytes as f64 / elapsed.as_secs_f64();
            let contended = state.round.contended;
            state.round = Round::new(now);
            let most = self.most.min(handles::sockets());
            if state.limit > most {
                // Other stores were connected meanwhile, so this store's share of the sockets is smaller.
                self.set(&mut state, most);
            } else if contended && state.no_more_before.is_none_or(|time| now >= time) {
                let (limit, climb) = next(state.climb, state.limit, rate, most);
                state.climb = climb;
                self.set(&mut state, limit);
            }
        }
    }

    /// Reports that the store asked for fewer requests.
    pub(super) fn throttled(&self) {
        let mut state = self.state();
        let now = Instant::now();
        if state.no_more_before.is_some_and(|time| now + PAUSE_AFTER_THROTTLE - time < MIN_ROUND) {
            return; // Requests that were under way together are one complaint.
        }
        state.no_more_before = Some(now + PAUSE_AFTER_THROTTLE);
        let limit = (state.limit * 3 / 4).max(MIN_SLOTS.min(self.most));
        state.climb = Climb::Rest { rounds: 0, rate: 0.0 };
        state.round = Round::new(now);
        self.set(&mut state, limit);
    }

    fn set(&self, state: &mut PaceState, limit: usize) {
        if limit > state.limit {
            let more = limit - state.limit;
            let kept = more.min(state.surplus);
            state.surplus -= kept;
            self.slots.add_permits(more - kept);
        } else {
            let fewer = state.limit - limit;
            state.surplus += fewer - self.slots.forget_permits(fewer);
        }
        state.limit = limit;
        self.traffic.slots.set(limit as u64);
    }

    /// The time after which a request is late if no byte of its response has arrived.
    pub(super) fn late_after(&self) -> Duration {
        self.state().late_after
    }

    /// The expected time from the first to the last byte of a response of `bytes` bytes.
    pub(super) fn expected(&self, bytes: u64) -> Duration {
        let state = self.state();
        let seconds = state.seconds / state.bytes.max(1.0) * bytes as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Returns whether a second request may be sent for one that is late for the reason `why`. If so, it is
    /// taken from the allowance.
    pub(super) fn may_hedge(&self, why: Late) -> bool {
        let mut state = self.state();
        let may = state.hedges >= 1.0 && (why == Late::Silent || state.slow_hedges >= 1.0);
        if may {
            state.hedges -= 1.0;
            state.slow_hedges -= f64::from(u8::from(why == Late::Slow));
        }
        may
    }
}

/// The number of concurrent requests to use next, after a round in which `limit` of them gave `rate`.
fn next(climb: Climb, limit: usize, rate: f64, most: usize) -> (usize, Climb) {
    let more = (limit + limit.div_ceil(2)).min(most);
    let fewer = (limit * 3 / 4).max(MIN_SLOTS.min(most));
    match climb {
        Climb::Up { rate: best, .. } if rate > best * MIN_RATE_GAIN && more > limit => {
            (more, Climb::Up { rate, from: limit })
        }
        Climb::Up { rate: best, .. } if rate > best * MIN_RATE_GAIN => {
            (limit, Climb::Rest { rounds: 0, rate })
        }
        Climb::Up { rate: best, from } => (from, Climb::Rest { rounds: 0, rate: best }),
        Climb::Rest { rounds, rate: average } if rounds < ROUNDS_OF_REST => {
            let rate = if average == 0.0 { rate } else { (average + rate) / 2.0 };
            (limit, Climb::Rest { rounds: rounds + 1, rate })
        }
        Climb::Rest { rate, .. } if fewer < limit => (fewer, Climb::Down { rate, from: limit }),
        Climb::Rest { rate, .. } => (more, Climb::Up { rate, from: limit }),
        Climb::Down { rate: before, .. } if rate >= before * MIN_RATE_SHARE => {
            (limit, Climb::Rest { rounds: 0, rate })
        }
        // Fewer requests lowered the rate too much, so more than before are tried.
        Climb::Down { rate: before, from } => {
            ((from + from.div_ceil(2)).min(most), Climb::Up { rate: before, from })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search with a store whose rate is a function of the number of concurrent requests. Returns
    /// the number that it kept for most rounds.
    fn settled(rate: impl Fn(usize) -> f64) -> usize {
        let (mut limit, mut climb) = (INITIAL_SLOTS, Climb::Up { rate: 0.0, from: INITIAL_SLOTS });
        let mut rested = vec![0usize; MAX_SLOTS + 1];
        for round in 0..400 {
            (limit, climb) = next(climb, limit, rate(limit), MAX_SLOTS);
            if round > 100 && matches!(climb, Climb::Rest { .. }) {
                rested[limit] += 1;
            }
        }
        rested.iter().enumerate().max_by_key(|(_, rounds)| **rounds).map_or(0, |(limit, _)| limit)
    }

    #[test]
    fn a_link_that_few_requests_fill_gets_few() {
        assert!(settled(|limit| limit.min(3) as f64) <= 6);
    }

    #[test]
    fn a_long_way_gets_many() {
        let limit = settled(|limit| limit.min(40) as f64);
        assert!((38..=MAX_SLOTS).contains(&limit), "{limit}");
        // If every additional request raises the rate, the search ends near the maximum, where the gain of
        // one more step is too small.
        assert!(settled(|limit| limit as f64) as f64 > MAX_SLOTS as f64 / MIN_RATE_GAIN);
    }

    fn pace() -> Pace {
        Pace::new(MAX_SLOTS, Arc::default())
    }

    #[test]
    fn a_store_that_complains_is_asked_less_at_once_but_not_for_each_complaint() {
        // If the machine pauses between the two calls, they count as two complaints, so both are made again.
        let pace = loop {
            let (pace, began) = (pace(), Instant::now());
            pace.throttled();
            pace.throttled();
            if began.elapsed() < MIN_ROUND {
                break pace;
            }
        };
        assert_eq!(pace.state().limit, INITIAL_SLOTS * 3 / 4);
        assert_eq!(pace.slots.available_permits(), INITIAL_SLOTS * 3 / 4);
    }

    #[test]
    fn late_is_what_takes_twice_as_long_as_most() {
        let pace = pace();
        assert_eq!(pace.late_after(), INITIAL_LATE_AFTER);
        for i in 0..WAITS_KEPT as u64 {
            let wait = if i % 50 == 0 { 2_000 } else { 30 + i % 10 };
            pace.first_byte(Duration::from_millis(wait));
        }
        let late = pace.late_after();
        assert!((Duration::from_millis(30)..Duration::from_millis(100)).contains(&late), "{late:?}");
    }

    #[test]
    fn the_wait_for_a_first_byte_is_known_from_the_first_request_on() {
        let pace = pace();
        pace.first_byte(Duration::from_millis(600));
        assert_eq!(pace.traffic.first_byte.get(), 600_000);
        assert_eq!(pace.late_after(), INITIAL_LATE_AFTER, "one is not enough for that");
        for wait in [30, 40, 20, 30] {
            pace.first_byte(Duration::from_millis(wait));
        }
        assert_eq!(pace.traffic.first_byte.get(), 30_000, "the median");
    }

    #[test]
    fn hedges_are_one_in_twenty() {
        let pace = pace();
        let mut hedges = 0;
        for _ in 0..2_000 {
            hedges += u32::from(pace.may_hedge(Late::Silent));
            pace.finished(1 << 20, Duration::from_millis(1));
        }
        assert!((100..=108).contains(&hedges), "{hedges}");
    }

    #[test]
    fn bodies_that_are_slow_are_asked_for_twice_only_after_twenty_requests() {
        let pace = pace();
        assert!(pace.may_hedge(Late::Silent));
        let hedges = |requests: u32| -> u32 {
            let done = |_| pace.finished(1 << 20, Duration::from_millis(1));
            (0..requests).map(done).map(|()| u32::from(pace.may_hedge(Late::Slow))).sum()
        };
        assert_eq!(hedges(19), 0);
        assert!((49..=51).contains(&hedges(1_000)));
    }
}
