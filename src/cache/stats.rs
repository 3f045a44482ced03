//! Counts hits, misses and writes of the cache, and the reasons why rows were not kept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::health::Off;

const NANOS: f64 = 1e9;

/// The counters of one process.
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
    /// Nanoseconds of opening and verifying entries.
    pub(super) reading: AtomicU64,
    /// Nanoseconds of writing entries.
    pub(super) writing: AtomicU64,
    /// The counts that were already added to the ledger, the file with the sums of all processes.
    noted: Mutex<PastStats>,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Adds the time since `started` to a counter of nanoseconds.
pub(super) fn took(counter: &AtomicU64, started: Instant) {
    counter.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
}

/// Hits, misses and writes of one process since it opened a cache, and how full the cache is.
///
/// ```no_run
/// let cache = forebay::DiskCache::open("/nvme/forebay", 500_000_000_000)?;
/// let stats = cache.stats();
/// println!("{} hits, {} of {} bytes used", stats.hits, stats.bytes, stats.max_bytes);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheStats {
    /// The number of lookups that found their rows.
    pub hits: u64,
    /// The number of lookups that did not find their rows.
    pub misses: u64,
    /// The size of the entries that were returned as rows, in bytes; single rows count by their share of the
    /// entry.
    pub read_bytes: u64,
    /// The time of opening and verifying entries, in seconds, summed over threads. Mapped rows are read when
    /// they are used, within the stage that uses them.
    pub reading: f64,
    /// The number of entries written.
    pub written: u64,
    /// The size of the entries written, in bytes.
    pub written_bytes: u64,
    /// The time of writing entries, in seconds, summed over threads.
    pub writing: f64,
    /// The number of files that were damaged, truncated or misplaced, and so were removed.
    pub damaged: u64,
    /// The number of entries that were evicted to make space.
    pub evictions: u64,
    /// The reason why nothing of a data set is kept: [`Tier::Auto`](crate::Tier::Auto) found that its rows
    /// are not slower without the cache. `None` if rows are kept.
    pub read_again: Option<String>,
    /// The number of row groups that were not kept, by reason.
    pub declined: DeclinedStats,
    /// How often a wait for another process or thread to fetch the same rows took too long.
    pub gave_up_waiting: u64,
    /// The number of entries in the folder, written by any process.
    pub entries: u64,
    /// The size of all entries in the folder, in bytes on disk.
    pub bytes: u64,
    /// The limit of the size of all entries, in bytes.
    pub max_bytes: u64,
    /// The hits and misses of all processes. Each process adds its own once in an epoch, and when it closes a
    /// loader.
    pub past: PastStats,
    /// The reason why nothing is looked up at present; `None` if the cache works.
    pub reading_off: Option<Off>,
    /// The reason why nothing is written at present; `None` if the cache works.
    pub writing_off: Option<Off>,
}

impl CacheStats {
    /// The sums over two caches. If both use the same folder, its size counts once.
    pub(crate) fn and(self, more: CacheStats, is_same_folder: bool) -> CacheStats {
        let of_folders = |one: u64, other: u64| if is_same_folder { one.max(other) } else { one + other };
        CacheStats {
            hits: self.hits + more.hits,
            misses: self.misses + more.misses,
            read_bytes: self.read_bytes + more.read_bytes,
            reading: self.reading + more.reading,
            written: self.written + more.written,
            written_bytes: self.written_bytes + more.written_bytes,
            writing: self.writing + more.writing,
            read_again: self.read_again.or(more.read_again),
            damaged: self.damaged + more.damaged,
            evictions: self.evictions + more.evictions,
            declined: self.declined.and(more.declined),
            gave_up_waiting: self.gave_up_waiting + more.gave_up_waiting,
            entries: of_folders(self.entries, more.entries),
            bytes: of_folders(self.bytes, more.bytes),
            max_bytes: of_folders(self.max_bytes, more.max_bytes),
            past: if is_same_folder { self.past } else { self.past.and(more.past) },
            reading_off: self.reading_off.or(more.reading_off),
            writing_off: self.writing_off.or(more.writing_off),
        }
    }
}

/// Hits and misses of all processes since the folder of the cache was created.
///
/// ```no_run
/// let cache = forebay::DiskCache::open("/nvme/forebay", 500_000_000_000)?;
/// println!("hit rate of all runs: {:?}", cache.stats().past.hit_rate());
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastStats {
    /// The number of lookups that found their rows.
    pub hits: u64,
    /// The number of lookups that did not find their rows.
    pub misses: u64,
    /// The number of files that were damaged, truncated or misplaced, and so were removed.
    pub damaged: u64,
}

impl PastStats {
    /// The share of lookups that were hits, from 0 to 1; `None` before the first lookup.
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

/// Number of row groups that were not kept, by reason.
///
/// ```no_run
/// let cache = forebay::DiskCache::open("/nvme/forebay", 500_000_000_000)?;
/// let declined = cache.stats().declined;
/// println!("{} not kept, {} of them because the cache is full", declined.all(), declined.full);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclinedStats {
    /// The cache or the disk is full of entries that epochs still use.
    pub full: u64,
    /// The entry would be larger than the cache.
    pub too_large: u64,
    /// Another thread or process was writing the same entry.
    pub busy: u64,
    /// A column has a type that cannot be written.
    pub unwritable: u64,
    /// Something that is not an entry, such as a folder, has the entry's name.
    pub blocked: u64,
    /// The disk was too slow to write the rows before the epoch ended or their memory was needed.
    pub behind: u64,
    /// The disk failed, or had failed shortly before.
    pub faults: u64,
}

/// Writes one line, such as `97.5 % of 4000 lookups hit, 812.4 MB read, 20.1 MB written, 0 evicted, 1.2 of
/// 200.0 GB used`.
impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (megabytes, gigabytes) = (|bytes: u64| bytes as f64 / 1e6, |bytes: u64| bytes as f64 / 1e9);
        let asked = self.hits + self.misses;
        write!(
            f,
            "{:.1} % of {asked} lookups hit, {:.1} MB read, {:.1} MB written, {} evicted, {:.1} of {:.1} GB used",
            self.hits as f64 / asked.max(1) as f64 * 100.0,
            megabytes(self.read_bytes),
            megabytes(self.written_bytes),
            self.evictions,
            gigabytes(self.bytes),
            gigabytes(self.max_bytes),
        )?;
        if self.damaged > 0 {
            write!(f, ", {} damaged", self.damaged)?;
        }
        if let Some(why) = self.declined.why() {
            write!(f, ", {} not kept: {why}", self.declined.all())?;
        }
        if let Some(why) = &self.read_again {
            write!(f, "; {why}")?;
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
    fn and(self, more: DeclinedStats) -> DeclinedStats {
        DeclinedStats {
            full: self.full + more.full,
            too_large: self.too_large + more.too_large,
            busy: self.busy + more.busy,
            unwritable: self.unwritable + more.unwritable,
            blocked: self.blocked + more.blocked,
            behind: self.behind + more.behind,
            faults: self.faults + more.faults,
        }
    }

    /// The sum over all reasons.
    pub fn all(&self) -> u64 {
        let DeclinedStats { full, too_large, busy, unwritable, blocked, behind, faults } = self;
        full + too_large + busy + unwritable + blocked + behind + faults
    }

    /// The most frequent reason, in words; `None` if all row groups were kept.
    pub fn why(&self) -> Option<&'static str> {
        let DeclinedStats { full, too_large, busy, unwritable, blocked, behind, faults } = *self;
        let reasons = [
            (full, "the cache is full, or the disk, of which a tenth and at least 1 GiB stays free"),
            (too_large, "larger than the cache"),
            (busy, "another process was writing the same"),
            (unwritable, "a column of a type that is not kept"),
            (blocked, "a file that is not an entry has its name"),
            (behind, "the disk was too slow"),
            (faults, "the disk failed"),
        ];
        reasons
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .max_by_key(|(number, _)| *number)
            .map(|(_, why)| why)
    }
}

impl Counters {
    /// The counts that are not yet in the ledger.
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
            reading: of(&self.reading) as f64 / NANOS,
            written: of(&self.written),
            written_bytes: of(&self.written_bytes),
            writing: of(&self.writing) as f64 / NANOS,
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
