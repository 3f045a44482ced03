//! How many row groups may be on their way at once while a window fills: few, and more as long as that brings more.
//!
//! Those that are on their way share the link, so that each waits for all beside it, and while few have come the next one is
//! needed soon. Where the link is the limit, as many as fill it are enough. Where the distance is, more at once bring more. As TCP does
//! at the beginning of a connection (RFC 5681, *slow start*), we begin with few and measure.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Beside the parts that the first batch needs, as many others as `parts / BESIDE_FIRST` are on their way before it has come, and
/// one more than that at once after it, at first.
const BESIDE_FIRST: usize = 3;

/// The fewest parts at once once the first batch has come, and before if they have [`LITTLE`] together.
const FEWEST: usize = 3;

/// A trial has as many more parts at once as `parts / GROWTH`, rounded up.
const GROWTH: usize = 2;

/// Rounds of measuring between a trial that brought nothing and the next one: some requests are late by chance.
const ROUNDS_OF_REST: u32 = 3;

/// More parts at once must bring them this much faster to be kept.
const MIN_RATE_GAIN: f64 = 1.1;

/// After this many times the parts of the first batch there is no limit: the window is full, or so many have come that the next one
/// is not needed at once.
const WHILE_FILLING: usize = 16;

/// So many bytes may be on their way in any case: what they take of a link is soon over.
const LITTLE: u64 = 8 << 20;

/// The parts of one epoch that were fetched, and how many more may be on their way. One asks, several report.
pub(super) struct SlowStart(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    fetched: usize,
    /// Bytes that were fetched for them; none where their rows were in a cache.
    bytes: u64,
    /// Bytes of all parts that were asked for.
    asked: u64,
    /// Parts that the first batch needs, of those that were asked for.
    of_first: usize,
    /// How many may be on their way once those of the first batch have come.
    at_once: usize,
    /// The number before this one, and how fast parts came with it (parts a second), if this one is a trial.
    before: Option<(usize, f64)>,
    /// Rounds until the next trial.
    rest: u32,
    /// When the present round of measuring began, and with how many parts fetched.
    round: Option<(Instant, usize)>,
}

impl SlowStart {
    pub(super) fn new() -> Self {
        SlowStart(watch::Sender::new(State::default()))
    }

    /// Waits until the `begun`-th part, of so many bytes, may be asked for; the first batch needs those that
    /// are `is_of_first`.
    pub(super) async fn may_begin(&self, begun: usize, bytes: u64, is_of_first: bool) {
        if is_of_first {
            self.0.send_modify(|state| *state = state.with_one_more_of_first());
        }
        // The sender is our own: it is not closed.
        drop(self.0.subscribe().wait_for(|state| state.admits(begun, bytes)).await);
        self.0.send_modify(|state| state.asked = state.asked.saturating_add(bytes));
    }

    /// Counts parts that have been fetched, and their bytes.
    pub(super) fn add_fetched(&self, parts: usize, bytes: u64) {
        self.0.send_modify(|state| state.fetched(parts, bytes, Instant::now()));
    }
}

impl State {
    /// The state with one part more that the first batch needs; measuring begins after the last of them.
    fn with_one_more_of_first(&self) -> State {
        let of_first = self.of_first + 1;
        let (fetched, bytes, asked) = (self.fetched, self.bytes, self.asked);
        let at_once = FEWEST.max(1 + of_first / BESIDE_FIRST);
        State { fetched, bytes, asked, of_first, at_once, ..State::default() }
    }

    /// Whether the `begun`-th part, of so many bytes, may be asked for.
    fn admits(&self, begun: usize, bytes: u64) -> bool {
        let at_once = match self.fetched < self.of_first {
            // On a narrow link the first batch would take as many times as long.
            true if self.asked.saturating_add(bytes) > LITTLE => 0,
            true => FEWEST,
            false => self.at_once,
        };
        begun <= self.of_first + self.of_first / BESIDE_FIRST
            || begun <= self.fetched + at_once.max(self.of_little())
            || begun > WHILE_FILLING * self.of_first
    }

    /// How many parts have few bytes together.
    fn of_little(&self) -> usize {
        (LITTLE * self.fetched as u64 / self.bytes.max(1)) as usize
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
                self.at_once += self.at_once.div_ceil(GROWTH);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches parts of `bytes` as they are admitted, from a store whose rate, in parts a second, follows from how many are on their
    /// way. Returns how many were at most after those of the first batch had come, and the limit at the end.
    fn at_once(of_first: usize, parts: usize, bytes: u64, rate: impl Fn(usize) -> f64) -> (usize, usize) {
        let mut state = (0..of_first).fold(State::default(), |state, _| state.with_one_more_of_first());
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
        let (most, end) = at_once(12, 150, LITTLE, |under_way| under_way.min(2) as f64);
        assert!(end == 5 || end == 8, "{end}");
        assert!(most <= 9, "{most}");
    }

    #[test]
    fn a_large_first_part_has_the_link_to_itself() {
        let state = State::default().with_one_more_of_first();
        let after_first = |bytes: u64, state: &State| {
            let mut asked =
                State { asked: bytes, of_first: state.of_first, at_once: state.at_once, ..State::default() };
            (2..10)
                .take_while(|begun| {
                    let may = asked.admits(*begun, bytes);
                    asked.asked += bytes;
                    may
                })
                .count()
        };
        assert_eq!(after_first(LITTLE, &state), 0);
        assert_eq!(after_first(LITTLE / 40, &state), 2, "small ones are soon over");
        let mut came = State { asked: LITTLE, ..state };
        came.fetched(1, LITTLE, Instant::now());
        assert!(came.admits(4, LITTLE) && !came.admits(5, LITTLE));
    }

    #[test]
    fn a_long_way_gets_many() {
        let (_, end) = at_once(4, 64, LITTLE, |under_way| under_way as f64);
        assert!(end > 12, "{end}");
        let (_, end) = at_once(1, 16, LITTLE, |under_way| under_way as f64);
        assert!(end >= 4, "{end}");
    }

    #[test]
    fn small_parts_and_cached_ones_are_not_held_back() {
        let (most, _) = at_once(12, 150, LITTLE / 40, |_| 1.0);
        assert!((38..=41).contains(&most), "{most}");
        let (most, _) = at_once(12, 150, 0, |_| 1.0);
        assert!(most > 130, "{most}");
    }

    #[test]
    fn a_full_window_is_not_held_back() {
        let (most, _) = at_once(4, 1_000, LITTLE, |_| 1.0);
        assert!(most > 500, "{most}");
    }
}
