//! Limits how many row groups are fetched at once while the shuffle window is filled: few at first, and more
//! as long as this makes fetching faster.
//!
//! Row groups that are fetched at the same time share the network link and slow each other down, but the
//! first ones are needed before the others. If the bandwidth limits fetching, a few row groups at once are
//! enough to fill the link. If the latency does, fetching more at once is faster. Like TCP at the beginning
//! of a connection (RFC 5681, *slow start*), the limit is small at first, and measurements decide whether it
//! is raised.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// If the first batch needs `n` parts (runs of rows of a row group), `n / BESIDE_FIRST_DIVISOR` others may be
/// fetched before these parts have arrived. After that, the limit on parts that are fetched at once begins at
/// `1 + n / BESIDE_FIRST_DIVISOR`, but not below [`MIN_AT_ONCE`].
const BESIDE_FIRST_DIVISOR: usize = 3;

/// The least limit on parts that are fetched at once. It applies after the parts of the first batch have
/// arrived and, while all parts requested so far take at most [`MAX_FREE_BYTES`], also before.
const MIN_AT_ONCE: usize = 3;

/// Each trial raises the limit by the limit divided by this number, rounded up.
const GROWTH_DIVISOR: usize = 2;

/// After a trial that gained nothing, this number of measurements pass before the next trial. The trial is
/// repeated because some requests are late by chance.
const ROUNDS_OF_REST: u32 = 3;

/// A trial with a higher limit succeeds if the rate of arriving parts grows by at least this factor.
const MIN_RATE_GAIN: f64 = 1.1;

/// The limit no longer applies when the number of requested parts exceeds this factor times the number that
/// the first batch needs. By then the window is nearly full, or holds enough parts, so the next one is not
/// urgent.
const WHILE_FILLING: usize = 16;

/// Parts that take this number of bytes together may be fetched at once whatever the limit is, because they
/// do not occupy a link for long.
const MAX_FREE_BYTES: u64 = 8 << 20;

/// Counts the parts of one epoch that have arrived, and limits how many more may be requested. One task asks
/// for permission, and several report arrivals.
pub(super) struct SlowStart(watch::Sender<SlowStartState>);

#[derive(Debug, Default)]
struct SlowStartState {
    fetched: usize,
    /// The bytes of all parts that have arrived, without parts whose rows were in a cache.
    bytes: u64,
    /// The bytes of all parts that have been requested.
    asked: u64,
    /// The number of requested parts that the first batch needs.
    of_first: usize,
    /// The limit on parts that are fetched at once, after the parts of the first batch have arrived.
    at_once: usize,
    /// If the current limit is a trial, the previous limit, and the rate of arriving parts with it, in parts
    /// per second.
    before: Option<(usize, f64)>,
    /// The number of measurements to pass before the next trial.
    rest: u32,
    /// When the current measurement began, and how many parts had arrived by then.
    round: Option<(Instant, usize)>,
}

impl SlowStart {
    pub(super) fn new() -> Self {
        SlowStart(watch::Sender::new(SlowStartState::default()))
    }

    /// Waits until the part with the number `begun`, counted from 1, may be requested. It has `bytes` bytes.
    /// `is_of_first` tells whether the first batch needs it.
    pub(super) async fn may_begin(&self, begun: usize, bytes: u64, is_of_first: bool) {
        if is_of_first {
            self.0.send_modify(|state| *state = state.with_one_more_of_first());
        }
        // Waiting cannot fail: the channel is open as long as its sender, a field of this value, exists.
        drop(self.0.subscribe().wait_for(|state| state.admits(begun, bytes)).await);
        self.0.send_modify(|state| state.asked = state.asked.saturating_add(bytes));
    }

    /// Records that `parts` parts with `bytes` bytes in total have arrived.
    pub(super) fn add_fetched(&self, parts: usize, bytes: u64) {
        self.0.send_modify(|state| state.fetched(parts, bytes, Instant::now()));
    }
}

impl SlowStartState {
    /// Returns the state with one more part that the first batch needs. The measurements are reset: they
    /// begin only after the last part of the first batch has arrived.
    fn with_one_more_of_first(&self) -> SlowStartState {
        let of_first = self.of_first + 1;
        let (fetched, bytes, asked) = (self.fetched, self.bytes, self.asked);
        let at_once = MIN_AT_ONCE.max(1 + of_first / BESIDE_FIRST_DIVISOR);
        SlowStartState { fetched, bytes, asked, of_first, at_once, ..SlowStartState::default() }
    }

    /// Whether the part with the number `begun`, counted from 1, may be requested. It has `bytes` bytes.
    fn admits(&self, begun: usize, bytes: u64) -> bool {
        let at_once = match self.fetched < self.of_first {
            // More parts would share the link with those of the first batch. On a slow link, that batch would
            // arrive several times later.
            true if self.asked.saturating_add(bytes) > MAX_FREE_BYTES => 0,
            true => MIN_AT_ONCE,
            false => self.at_once,
        };
        begun <= self.of_first + self.of_first / BESIDE_FIRST_DIVISOR
            || begun <= self.fetched + at_once.max(self.of_little())
            || begun > WHILE_FILLING * self.of_first
    }

    /// The number of parts of average size that take [`MAX_FREE_BYTES`] together.
    fn of_little(&self) -> usize {
        (MAX_FREE_BYTES * self.fetched as u64 / self.bytes.max(1)) as usize
    }

    fn fetched(&mut self, parts: usize, bytes: u64, now: Instant) {
        self.fetched += parts;
        self.bytes += bytes;
        if self.fetched < self.of_first {
            return;
        }
        let Some((began, from)) = self.round else {
            self.round = Some((now, self.fetched));
            return;
        };
        let came = self.fetched - from;
        if came < self.at_once {
            return;
        }
        self.round = Some((now, self.fetched));
        let took = now.saturating_duration_since(began).max(Duration::from_micros(1));
        let rate = came as f64 / took.as_secs_f64();
        match self.before {
            _ if self.rest > 0 => self.rest -= 1,
            Some((fewer, before)) if rate < MIN_RATE_GAIN * before => {
                (self.at_once, self.before, self.rest) = (fewer, None, ROUNDS_OF_REST);
            }
            _ => {
                self.before = Some((self.at_once, rate));
                self.at_once += self.at_once.div_ceil(GROWTH_DIVISOR);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates fetching parts of `bytes` bytes. `rate` gives the rate of the store, in parts per second,
    /// from the number of parts that are fetched at once. Returns the largest number of parts that were
    /// fetched at once after the first batch had arrived, and the final limit.
    fn at_once(of_first: usize, parts: usize, bytes: u64, rate: impl Fn(usize) -> f64) -> (usize, usize) {
        let mut state =
            (0..of_first).fold(SlowStartState::default(), |state, _| state.with_one_more_of_first());
        let (mut begun, mut now, mut most) = (0, Instant::now(), 0);
        while state.fetched < parts {
            while begun < parts && state.admits(begun + 1, bytes) {
                begun += 1;
                state.asked += bytes;
            }
            let under_way = begun - state.fetched;
            if state.fetched >= of_first {
                most = most.max(under_way);
            }
            now += Duration::from_secs_f64(1.0 / rate(under_way));
            state.fetched(1, bytes, now);
        }
        (most, state.at_once)
    }

    #[test]
    fn a_link_that_few_fill_gets_few() {
        let (most, end) = at_once(12, 150, MAX_FREE_BYTES, |under_way| under_way.min(2) as f64);
        assert!(end == 5 || end == 8, "{end}");
        assert!(most <= 9, "{most}");
    }

    #[test]
    fn a_large_first_part_has_the_link_to_itself() {
        let state = SlowStartState::default().with_one_more_of_first();
        let after_first = |bytes: u64, state: &SlowStartState| {
            let mut asked = SlowStartState {
                asked: bytes,
                of_first: state.of_first,
                at_once: state.at_once,
                ..SlowStartState::default()
            };
            (2..10)
                .take_while(|begun| {
                    let may = asked.admits(*begun, bytes);
                    asked.asked += bytes;
                    may
                })
                .count()
        };
        assert_eq!(after_first(MAX_FREE_BYTES, &state), 0);
        assert_eq!(after_first(MAX_FREE_BYTES / 40, &state), 2, "small ones are soon over");
        let mut came = SlowStartState { asked: MAX_FREE_BYTES, ..state };
        came.fetched(1, MAX_FREE_BYTES, Instant::now());
        assert!(came.admits(4, MAX_FREE_BYTES) && !came.admits(5, MAX_FREE_BYTES));
    }

    #[test]
    fn a_long_way_gets_many() {
        let (_, end) = at_once(4, 64, MAX_FREE_BYTES, |under_way| under_way as f64);
        assert!(end > 12, "{end}");
        let (_, end) = at_once(1, 16, MAX_FREE_BYTES, |under_way| under_way as f64);
        assert!(end >= 4, "{end}");
    }

    #[test]
    fn small_parts_and_cached_ones_are_not_held_back() {
        let (most, _) = at_once(12, 150, MAX_FREE_BYTES / 40, |_| 1.0);
        assert!((38..=41).contains(&most), "{most}");
        let (most, _) = at_once(12, 150, 0, |_| 1.0);
        assert!(most > 130, "{most}");
    }

    #[test]
    fn a_full_window_is_not_held_back() {
        let (most, _) = at_once(4, 1_000, MAX_FREE_BYTES, |_| 1.0);
        assert!(most > 500, "{most}");
    }
}
