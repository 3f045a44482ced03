//! Chooses the number of concurrent requests, and the time after which a request is late, from measurements.
//!
//! By Little's law, a rate of `R` requests a second that take `W` seconds each keeps `R * W` of them in
//! flight. If the link is the limit, more in flight only make `W` longer. So the number grows while the rate
//! grows with it, returns to the smallest number that gave this rate, and is varied from time to time. A
//! store that asks for fewer requests gets fewer at once.
//!
//! A request is late when its first byte takes twice as long as that of 19 in 20 requests. It is then sent a
//! second time ("hedged": Dean and Barroso, *The Tail at Scale*, 2013), at most once for every 20 requests,
//! so that a store that is slow as a whole does not get twice the requests. The factor of two is there
//! because requests that are merely slower than most would otherwise use up that allowance, and leave none
//! for those that hang.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::source::handles;
use crate::source::traffic::Traffic;

/// The initial number of requests at once.
const INITIAL_SLOTS: usize = 16;
/// The least number of requests at once.
const MIN_SLOTS: usize = 4;
pub(super) const MAX_SLOTS: usize = 64;

/// The least duration of a round of measuring. A round also has at least as many requests as may run at once.
const MIN_ROUND: Duration = Duration::from_millis(250);

/// The factor by which more requests at once must raise the rate to be kept.
const MIN_RATE_GAIN: f64 = 1.08;
/// The share of the rate that fewer requests at once must reach to be kept.
const MIN_RATE_SHARE: f64 = 0.97;

/// The number of rounds between two trials of another number of requests at once.
const ROUNDS_OF_REST: u32 = 12;

/// How long no requests are added after a store asked for fewer.
const PAUSE_AFTER_THROTTLE: Duration = Duration::from_secs(3);

/// The number of waits for first bytes that are remembered.
const WAITS_KEPT: usize = 256;
/// The number of waits that are needed to call a request late.
const MIN_WAITS: usize = 16;

/// The share of requests, by the time of their first byte, that are on time.
const ON_TIME_SHARE: f64 = 0.95;

/// A request is late after this multiple of the time within which requests are on time.
const LATE_TIMES: u32 = 2;

/// How long a request may take before it is late, until enough is measured.
const INITIAL_LATE_AFTER: Duration = Duration::from_secs(1);

/// The least time after which a request is called late.
const MIN_LATE_AFTER: Duration = Duration::from_millis(15);

/// The number of second requests that are allowed for each request.
const HEDGES_PER_REQUEST: f64 = 0.05;
/// The number of second requests that may be saved up, which is also the initial number.
const MAX_HEDGES_SAVED: f64 = 8.0;

/// The initial allowance for second requests in addition to slow bodies: none. A second request in addition
/// to a silent one costs hardly any bytes, but one in addition to a slow body costs up to all of its bytes;
/// and on a full link every body is slow. Eight ranks that each read little would request much of it twice.
const INITIAL_SLOW_HEDGES: f64 = 0.0;

/// The reason for a second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// No bytes arrive.
    Silent,
    /// Few bytes arrive.
    Slow,
}

/// The measurements of one store, shared by all that read from it.
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
    /// The number of slots that are removed when they are returned.
    surplus: usize,
    climb: Climb,
    round: Round,
    no_more_before: Option<Instant>,
    /// The latest waits for first bytes, in a ring.
    waits: Vec<Duration>,
    /// The number of waits that were ever recorded.
    waited: usize,
    late_after: Duration,
    /// The number of seconds between first and last bytes in which `bytes` arrived for `requests`; older
    /// requests count less.
    seconds: f64,
    bytes: f64,
    requests: f64,
    /// The number of second requests that may be sent.
    hedges: f64,
    /// The number of second requests that may be sent in addition to slow bodies.
    slow_hedges: f64,
}

/// The phase of the search for the best number of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Climb {
    /// The number of requests at once grows from `from`; `rate` is the best rate so far.
    Up { rate: f64, from: usize },
    /// The number rests for some rounds, with an average rate.
    Rest { rounds: u32, rate: f64 },
    /// A smaller number than `from` is tried; `from` gave `rate`.
    Down { rate: f64, from: usize },
}

#[derive(Debug)]
struct Round {
    began: Instant,
    bytes: u64,
    finished: usize,
    /// Whether a request had to wait for a slot. If not, the number was not the limit.
    contended: bool,
}

impl Round {
    fn new(now: Instant) -> Self {
        Round { began: now, bytes: 0, finished: 0, contended: false }
    }
}

/// Permission for one request.
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
    /// A pace of at most `most` requests at once, and of no more than the process has sockets for.
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

    /// The most requests at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    fn state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for permission to send a request; first come, first served.
    pub(super) async fn slot(&self) -> RequestPermit<'_> {
        if self.slots.available_permits() == 0 {
            self.state().round.contended = true;
        }
        // The semaphore is never closed.
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

    /// Reports that a request for `bytes` is done, `took` after its first byte.
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
                // Stores that were connected since have taken a share of the sockets.
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

    /// The time after which a request is late if no byte of its response has come.
    pub(super) fn late_after(&self) -> Duration {
        self.state().late_after
    }

    /// The expected time of the body of a request for `bytes`.
    pub(super) fn expected(&self, bytes: u64) -> Duration {
        let state = self.state();
        let seconds = state.seconds / state.bytes.max(1.0) * bytes as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Takes permission to send a second request in addition to one that is late in this way, if any
    /// permission is left.
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

/// The next number of requests at once, after a round in which `limit` was the limit and gave `rate`.
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
        // Fewer requests cost too much, so more may even be faster.
        Climb::Down { rate: before, from } => {
            ((from + from.div_ceil(2)).min(most), Climb::Up { rate: before, from })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search against a store whose rate is a function of the number of requests.
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
        // The remaining gain is too small to be noticed.
        assert!(settled(|limit| limit as f64) as f64 > MAX_SLOTS as f64 / MIN_RATE_GAIN);
    }

    fn pace() -> Pace {
        Pace::new(MAX_SLOTS, Arc::default())
    }

    #[test]
    fn a_store_that_complains_is_asked_less_at_once_but_not_for_each_complaint() {
        // A pause of the machine between the two would make two complaints of them.
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
