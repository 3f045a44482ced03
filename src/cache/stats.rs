//! What the cache did, and why it did not do more.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::health::Off;

/// Counters of one process.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) full: AtomicU64,
    pub(super) too_large: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) unwritable: AtomicU64,
    pub(super) blocked: AtomicU64,
    pub(super) behind: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) alone: AtomicU64,
    /// What the ledger knows already.
    noted: Mutex<PastStats>,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// What one process did with a cache since it opened it, and how full the cache is.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CacheStats {
    /// Look-ups that found their rows.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Bytes of entries that were handed out as rows, mapped or read; of rows taken singly, their share.
    pub read_bytes: u64,
    /// Entries written.
    pub written: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Files found damaged, cut off or misplaced, and removed.
    pub damaged: u64,
    /// Entries that were removed to make room.
    pub evictions: u64,
    /// Rows that were not kept, by reason.
    pub declined: DeclinedStats,
    /// Waits for another's fetch that took longer than allowed.
    pub gave_up_waiting: u64,
    /// Entries in the folder, of all processes.
    pub entries: u64,
    /// Bytes of them on disk.
    pub bytes: u64,
    /// The most bytes that they may be.
    pub max_bytes: u64,
    /// What all processes found and missed, up to their last epochs.
    pub past: PastStats,
    /// Why nothing is looked up at present.
    pub reading_off: Option<Off>,
    /// Why nothing is kept at present.
    pub writing_off: Option<Off>,
}

/// Of what use the cache was to all processes since its folder was made.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PastStats {
    /// Look-ups that found their rows.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Files found damaged, cut off or misplaced, and removed.
    pub damaged: u64,
}

impl PastStats {
    /// The share of look-ups that found their rows; `None` where nothing was looked up.
    pub fn hit_rate(&self) -> Option<f64> {
        let asked = self.hits + self.misses;
        (asked > 0).then(|| self.hits as f64 / asked as f64)
    }

    pub(super) fn and(self, more: PastStats) -> PastStats {
        PastStats {
            hits: self.hits + more.hits,
            misses: self.misses + more.misses,
            damaged: self.damaged + more.damaged,
        }
    }
}

/// How often rows were not kept, by reason.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeclinedStats {
    /// The cache, or the disk, is full of what epochs still use.
    pub full: u64,
    /// One entry would be larger than the cache.
    pub too_large: u64,
    /// Another thread or process was writing the same entry.
    pub busy: u64,
    /// A column of a type that cannot be written.
    pub unwritable: u64,
    /// Something that is not the cache's, such as a folder, is where the entry would be.
    pub blocked: u64,
    /// The disk was too slow for the epoch, or for the memory that the epoch has.
    pub behind: u64,
    /// The disk failed, or had failed a short while before.
    pub faults: u64,
}

/// `97.5 % of 4000 look-ups found, 812.4 MB read, 20.1 MB written, 0 evicted, 1.2 of 200.0 GB used`
impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (megabytes, gigabytes) = (|bytes: u64| bytes as f64 / 1e6, |bytes: u64| bytes as f64 / 1e9);
        let asked = self.hits + self.misses;
        write!(
            f,
            "{:.1} % of {asked} look-ups found, {:.1} MB read, {:.1} MB written, {} evicted, {:.1} of {:.1} GB used",
            self.hits as f64 / asked.max(1) as f64 * 100.0,
            megabytes(self.read_bytes),
            megabytes(self.written_bytes),
            self.evictions,
            gigabytes(self.bytes),
            gigabytes(self.max_bytes),
        )?;
        for (number, what) in [(self.damaged, "damaged"), (self.declined.all(), "not kept")] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        for (what, off) in [("nothing is read", &self.reading_off), ("nothing is kept", &self.writing_off)] {
            if let Some(off) = off {
                write!(f, "; {what}: {}", off.why)?;
            }
        }
        Ok(())
    }
}

impl DeclinedStats {
    /// Together.
    pub fn all(&self) -> u64 {
        let DeclinedStats { full, too_large, busy, unwritable, blocked, behind, faults } = self;
        full + too_large + busy + unwritable + blocked + behind + faults
    }
}

impl Counters {
    /// What the ledger does not know yet.
    pub(super) fn news(&self) -> PastStats {
        let noted = *self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |counter: &AtomicU64, noted: u64| counter.load(Relaxed).saturating_sub(noted);
        PastStats {
            hits: since(&self.hits, noted.hits),
            misses: since(&self.misses, noted.misses),
            damaged: since(&self.damaged, noted.damaged),
        }
    }

    pub(super) fn noted(&self, news: PastStats) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = noted.and(news);
    }

    pub(super) fn read(&self) -> CacheStats {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        CacheStats {
            hits: of(&self.hits),
            misses: of(&self.misses),
            read_bytes: of(&self.read_bytes),
            written: of(&self.written),
            written_bytes: of(&self.written_bytes),
            damaged: of(&self.damaged),
            declined: DeclinedStats {
                full: of(&self.full),
                too_large: of(&self.too_large),
                busy: of(&self.busy),
                unwritable: of(&self.unwritable),
                blocked: of(&self.blocked),
                behind: of(&self.behind),
                faults: of(&self.faults),
            },
            gave_up_waiting: of(&self.alone),
            ..CacheStats::default()
        }
    }
}
