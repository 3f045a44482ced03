//! Counts the requests and bytes between a data set and its stores.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The counters of a data set, to which its stores add.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(super) requests: Count,
    pub(super) received: Count,
    pub(super) wanted: Count,
    pub(super) retries: Count,
    pub(super) hedges: Count,
    pub(super) hedges_won: Count,
    pub(super) throttled: Count,
    pub(super) stalls: Count,
    pub(super) slots: Count,
    /// The median time from a request to its first byte, in microseconds.
    pub(super) first_byte: Count,
    pub(super) request: Count,
}

/// A counter that several threads can change.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counts the bytes that were read ahead for an epoch. The number is `None` once the epoch has begun.
#[derive(Debug)]
pub(super) struct Ahead(Mutex<Option<u64>>);

impl Default for Ahead {
    fn default() -> Self {
        Ahead(Mutex::new(Some(0)))
    }
}

impl Ahead {
    /// Whether the epoch has not begun yet. If so, `bytes` are added, to be counted as needed when it begins.
    pub(super) fn waits(&self, bytes: u64) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &mut *waiting {
            *before += bytes;
        }
        waiting.is_some()
    }

    /// Reports that the epoch begins. Returns the number of bytes that were read ahead for it.
    pub(super) fn begin(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(0)
    }
}

/// Requests and bytes since the data set was opened, footers included.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficStats {
    /// The number of reads: requests for byte ranges, or positioned reads of local files.
    pub requests: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// The received bytes that were needed. The rest are gaps between columns, second requests, failed
    /// requests, or bytes for an epoch that has not begun.
    pub bytes_needed: u64,
    /// Requests that were retried after a failure.
    pub retries: u64,
    /// Second requests that were sent because the first one was late (hedged requests).
    pub hedges: u64,
    /// Second requests that were answered first.
    pub hedges_won: u64,
    /// Responses that asked for fewer requests.
    pub throttled: u64,
    /// Requests that were abandoned because no byte arrived for too long.
    pub stalls: u64,
    /// The present limit on concurrent requests; 0 for local files.
    pub concurrency: u64,
    /// Microseconds from a request to its first byte: the median of recent requests; 0 for local files.
    pub first_byte_us: u64,
    /// Microseconds from a request to its last byte: the mean of recent requests; 0 for local files.
    pub request_us: u64,
}

impl Traffic {
    pub(crate) fn read(&self) -> TrafficStats {
        TrafficStats {
            requests: self.requests.get(),
            bytes_read: self.received.get(),
            bytes_needed: self.wanted.get(),
            retries: self.retries.get(),
            hedges: self.hedges.get(),
            hedges_won: self.hedges_won.get(),
            throttled: self.throttled.get(),
            stalls: self.stalls.get(),
            concurrency: self.slots.get(),
            first_byte_us: self.first_byte.get(),
            request_us: self.request.get(),
        }
    }
}

impl TrafficStats {
    /// The traffic of both together: counts and concurrency are added, and the larger times are taken.
    pub fn and(&self, other: &TrafficStats) -> TrafficStats {
        TrafficStats {
            requests: self.requests + other.requests,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_needed: self.bytes_needed + other.bytes_needed,
            retries: self.retries + other.retries,
            hedges: self.hedges + other.hedges,
            hedges_won: self.hedges_won + other.hedges_won,
            throttled: self.throttled + other.throttled,
            stalls: self.stalls + other.stalls,
            concurrency: self.concurrency + other.concurrency,
            first_byte_us: self.first_byte_us.max(other.first_byte_us),
            request_us: self.request_us.max(other.request_us),
        }
    }

    /// The traffic since `earlier`: counts are subtracted; concurrency and times are the present ones.
    #[must_use]
    pub fn since(&self, earlier: &TrafficStats) -> TrafficStats {
        TrafficStats {
            requests: self.requests - earlier.requests,
            bytes_read: self.bytes_read - earlier.bytes_read,
            // Saturating, because bytes that are read ahead count as needed only when their epoch begins, so
            // the number can lag behind.
            bytes_needed: self.bytes_needed.saturating_sub(earlier.bytes_needed),
            retries: self.retries - earlier.retries,
            hedges: self.hedges - earlier.hedges,
            hedges_won: self.hedges_won - earlier.hedges_won,
            throttled: self.throttled - earlier.throttled,
            stalls: self.stalls - earlier.stalls,
            concurrency: self.concurrency,
            first_byte_us: self.first_byte_us,
            request_us: self.request_us,
        }
    }

    /// Requests per 10^9 bytes received.
    pub fn requests_per_gigabyte(&self) -> f64 {
        self.requests as f64 / (self.bytes_read as f64 / 1e9).max(f64::MIN_POSITIVE)
    }

    /// Bytes received for each byte needed: 1 is ideal.
    pub fn amplification(&self) -> f64 {
        match self.bytes_needed {
            0 => 1.0,
            needed => self.bytes_read as f64 / needed as f64,
        }
    }
}

impl fmt::Display for TrafficStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "{} requests ({:.0} per GB), {:.1} MB read of {:.1} needed",
            self.requests,
            self.requests_per_gigabyte(),
            megabytes(self.bytes_read),
            megabytes(self.bytes_needed)
        )?;
        if self.concurrency > 0 {
            write!(f, ", {} at once", self.concurrency)?;
        }
        if self.first_byte_us > 0 {
            let first = self.first_byte_us as f64 / 1e3;
            let decimals = match first {
                ..1.0 => 3,
                ..10.0 => 1,
                _ => 0,
            };
            write!(f, ", first byte after {first:.decimals$} ms")?;
        }
        let TrafficStats { retries, hedges, hedges_won, throttled, stalls, .. } = self;
        if retries + hedges > 0 {
            write!(f, "; {retries} retried, {hedges} hedged ({hedges_won} answered first)")?;
        }
        if throttled + stalls > 0 {
            write!(f, ", {throttled} throttled, {stalls} stalled")?;
        }
        Ok(())
    }
}
