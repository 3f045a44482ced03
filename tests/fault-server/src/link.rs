//! A link that is slower than loopback: the time to the first byte of each answer, and a rate.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{draw, held};

/// The link between the server and its clients. The default adds no delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// The time between a request and the first byte of its answer, drawn for each request.
    pub first_byte: Option<Latency>,
    /// The rate of bodies in bytes per second, over all connections together.
    pub rate: Option<u64>,
    /// The rate of bodies in bytes per second, for one connection.
    pub rate_per_connection: Option<u64>,
}

/// A distribution of waiting times.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    median: Duration,
    p99: Duration,
}

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874;
/// The stream of random draws for latencies; the streams of rules have small numbers.
const STREAM: u64 = u64::MAX;

impl Latency {
    /// A log-normal distribution, like that of the first bytes of object stores: half of all waits are below
    /// `median`, and one in a hundred is above `p99`.
    pub fn log_normal(median: Duration, p99: Duration) -> Latency {
        Latency { median, p99: p99.max(median) }
    }

    /// The same wait for every request.
    pub fn constant(wait: Duration) -> Latency {
        Latency::log_normal(wait, wait)
    }

    pub(crate) fn draw(&self, seed: u64, request: u64) -> Duration {
        if self.median.is_zero() {
            return Duration::ZERO;
        }
        let sigma = (self.p99.as_secs_f64() / self.median.as_secs_f64()).ln() / NORMAL_P99;
        self.median.mul_f64((sigma * draw::normal(seed, STREAM, request)).exp())
    }
}

/// Gives senders the right to send bytes at a steady rate, in the order in which they ask.
pub(crate) struct Pace {
    rate: u64,
    /// The time at which all bytes granted so far will have been sent.
    free_at: Mutex<Instant>,
}

/// How far a sender may lag behind and catch up: timers are late by milliseconds, and by more on a busy
/// machine. It is also how much an idle link lets through at once.
const SLACK: Duration = Duration::from_millis(20);
/// The time that sending one slice takes. It is short, so that a slow link sends steadily and not in bursts.
const SLICE: Duration = Duration::from_millis(10);
const SMALLEST_SLICE: u64 = 64;
pub(crate) const LARGEST_SLICE: u64 = 64 << 10;

impl Pace {
    /// A rate of `rate` bytes per second, and at least one.
    pub(crate) fn new(rate: u64) -> Pace {
        Pace { rate: rate.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// How many bytes to ask for at a time.
    pub(crate) fn slice(&self) -> u64 {
        (self.rate * SLICE.as_millis() as u64 / 1_000).clamp(SMALLEST_SLICE, LARGEST_SLICE)
    }

    /// Waits until `bytes` more bytes may be sent.
    pub(crate) async fn take(&self, bytes: u64) {
        let start = {
            let now = Instant::now();
            let mut free_at = held(&self.free_at);
            let start = (*free_at).max(now.checked_sub(SLACK).unwrap_or(now));
            *free_at = start + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            start
        };
        sleep_until(start).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_waits_are_below_the_median_and_one_in_a_hundred_above_p99() {
        let latency = Latency::log_normal(Duration::from_millis(30), Duration::from_millis(300));
        let waits: Vec<Duration> = (0..20_000).map(|request| latency.draw(7, request)).collect();
        let share = |limit| waits.iter().filter(|wait| wait.as_millis() > limit).count() as f64 / 20_000.0;
        assert!((share(30) - 0.5).abs() < 0.03, "{}", share(30));
        assert!((share(300) - 0.01).abs() < 0.003, "{}", share(300));
    }

    #[test]
    fn a_constant_wait_is_constant() {
        let latency = Latency::constant(Duration::from_millis(40));
        assert!((0..100).all(|request| latency.draw(7, request) == Duration::from_millis(40)));
    }
}
