//! Limits how many row groups may be on their way at once while a window fills: few at first, and more as
//! long as that is faster.
//!
//! Row groups on their way share the link, so each one slows down all others, and the first ones are needed
//! soonest. If the bandwidth is the limit, as many as fill the link are enough. If the latency is the limit,
//! more at once are faster. Like TCP at the beginning of a connection (RFC 5681, *slow start*), this begins
//! with few and measures.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// If the first batch needs `n` parts, `n / BESIDE_FIRST_DIVISOR` others may be on their way before it has
/// arrived. After it has arrived, the limit on parts at once begins at one more than that number.
const BESIDE_FIRST_DIVISOR: usize = 3;

/// At least this number of parts may be on their way at once after the first batch has arrived, and before it
/// if all parts asked for so far have at most [`MAX_FREE_BYTES`] together.
const MIN_AT_ONCE: usize = 3;

/// A trial allows a limit of `parts` to rise by `parts / GROWTH_DIVISOR`, rounded up.
const GROWTH_DIVISOR: usize = 2;

/// The number of rounds of measuring between a trial that gained nothing and the next one, because some
/// requests are late by chance.
const ROUNDS_OF_REST: u32 = 3;

/// The gain in speed that more parts at once must bring to be kept, as a factor.
const MIN_RATE_GAIN: f64 = 1.1;

/// When this many times as many parts as the first batch needs have been asked for, there is no limit any
/// more: the window is about full, or holds enough that the next part is not needed at once.
const WHILE_FILLING: usize = 16;

/// Parts that together have this number of bytes may be on their way in any case, because they do not occupy
/// a link for long.
const MAX_FREE_BYTES: u64 = 8 << 20;

/// Counts the parts of one epoch that were fetched, and limits how many more may be on their way. One task
/// asks, several report.
pub(super) struct SlowStart(watch::Sender<SlowStartState>);

#[derive(Debug, Default)]
struct SlowStartState {
    fetched: usize,
    /// The bytes that were fetched for the parts; 0 for parts whose rows were in a cache.
    bytes: u64,
    /// The bytes of all parts that were asked for.
    asked: u64,
    /// The number of parts asked for that the first batch needs.
    of_first: usize,
    /// How many parts may be on their way at once after those of the first batch have arrived.
    at_once: usize,
    /// If the present limit is a trial, the limit before it, and the rate in parts a second that it gave.
    before: Option<(usize, f64)>,
    /// The number of rounds until the next trial.
    rest: u32,
    /// The time when the present round of measuring began, and the number of parts fetched by then.
    round: Option<(Instant, usize)>,
}

impl SlowStart {
    pub(super) fn new() -> Self {
        SlowStart(watch::Sender::new(SlowStartState::default()))
    }

    /// Waits until the `begun`-th part, which has `bytes` bytes, may be asked for. `is_of_first` says that
    /// the first batch needs it.
    pub(super) async fn may_begin(&self, begun: usize, bytes: u64, is_of_first: bool) {
        if is_of_first {
            self.0.send_modify(|state| *state = state.with_one_more_of_first());
        }
        // The sender is a field of this value, so the channel is not closed.
        drop(self.0.subscribe().wait_for(|state| state.admits(begun, bytes)).await);
        self.0.send_modify(|state| state.asked = state.asked.saturating_add(bytes));
    }

    /// Counts parts that have been fetched, and their bytes.
    pub(super) fn add_fetched(&self, parts: usize, bytes: u64) {
        self.0.send_modify(|state| state.fetched(parts, bytes, Instant::now()));
    }
}

impl SlowStartState {
    /// The state with one more part that the first batch needs. Measuring begins after the last such part.
    fn with_one_more_of_first(&self) -> SlowStartState {
        let of_first = self.of_first + 1;
        let (fetched, bytes, asked) = (self.fetched, self.bytes, self.asked);
        let at_once = MIN_AT_ONCE.max(1 + of_first / BESIDE_FIRST_DIVISOR);
        SlowStartState { fetched, bytes, asked, of_first, at_once, ..SlowStartState::default() }
    }

    /// Whether the `begun`-th part, which has `bytes` bytes, may be asked for.
    fn admits(&self, begun: usize, bytes: u64) -> bool {
        let at_once = match self.fetched < self.of_first {
            // On a narrow link, the first batch would otherwise take several times as long.
            true if self.asked.saturating_add(bytes) > MAX_FREE_BYTES => 0,
            true => MIN_AT_ONCE,
            false => self.at_once,
        };
        begun <= self.of_first + self.of_first / BESIDE_FIRST_DIVISOR
            || begun <= self.fetched + at_once.max(self.of_little())
            || begun > WHILE_FILLING * self.of_first
    }

    /// The number of parts of average size that have [`MAX_FREE_BYTES`] together.
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

    /// Fetches parts of `bytes` bytes as they are admitted, from a store whose rate, in parts a second,
    /// depends on how many are on their way. Returns the largest number on their way after those of the first
    /// batch had arrived, and the limit at the end.
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
