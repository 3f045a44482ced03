//! The limit of the cache, the disk space that stays free, and eviction.
//!
//! **The rule.** An entry is evicted only to make space for another, and only if it was last used before this
//! process's previous epoch began; the least recently used entry goes first. Nothing is evicted until two
//! epochs have begun. So entries that epochs still use are never traded for each other. If a data set is
//! twice as large as the limit, one half of it stays and is hit in every epoch; plain least-recently-used
//! eviction would drop each entry just before its turn. The price is that, on a full disk, another data set
//! is kept only from its second epoch on.
//!
//! All processes share the time of last use: see [`last_use`](super::last_use).
//!
//! **A limit below the present size.** If no loader has a cache open, none of its entries are in use, and
//! opening it evicts the least recently used entries until the rest is within the limit. Otherwise all
//! entries stay, and only the rule above holds: a process with too low a limit, given by mistake, must not
//! empty the cache of a running training.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::folder::{self, Folder, ScannedFile, footprint};
use super::ledger::{Ledger, Total};
use super::pause::Pause;
use super::points::{self, Point};

/// The size of the disk divided by this number is left free, if that is more than [`MIN_FREE_DISK_BYTES`].
const FREE_DISK_DIVISOR: u64 = 10;
/// The bytes of the disk that are left free at least.
const MIN_FREE_DISK_BYTES: u64 = 1 << 30;
/// While the cache is full, its files are counted again after this time, because other processes may have
/// removed some. Counting 20,000 entries takes 50 ms.
const COUNT_EVERY: Duration = Duration::from_secs(30);

/// How far the kernel's clock for the times of files may be behind: it goes in steps of 1 to 10 ms.
pub(super) const CLOCK_STEP: Duration = Duration::from_millis(20);

/// The reason why rows are not kept.
pub(super) enum Declined {
    /// The cache is full, and none of its entries may be evicted.
    Full,
    /// The entry is larger than the limit.
    TooLarge,
    /// Another thread or process is writing the entry, or holds the lock of the ledger.
    Busy,
    /// A column has a type that cannot be written.
    Unwritable,
    /// Something that does not belong to the cache is in the place of the entry or of its subfolder.
    Blocked,
    /// The memory of the rows was needed for other things before they were written.
    Behind,
    /// The disk failed.
    Fault(io::Error),
}

impl From<io::Error> for Declined {
    fn from(error: io::Error) -> Self {
        Declined::Fault(error)
    }
}

/// The folder of a cache with its limits.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) folder: Folder,
    pub(super) pause: Pause,
    limit: u64,
    /// How many bytes of a disk of a given size to leave free. `None` in tests that fill a disk, where free
    /// space is not checked.
    pub(super) keep_free: Option<fn(u64) -> u64>,
    pub(super) evictions: AtomicU64,
    state: Mutex<SpaceState>,
}

#[derive(Debug, Default)]
struct SpaceState {
    /// When the present epoch began, and when the previous one did.
    epoch: Option<SystemTime>,
    previous: Option<SystemTime>,
    /// Entries that may be evicted, the least recently used first.
    candidates: VecDeque<ScannedFile>,
    counted: Option<Instant>,
    full_since: Option<Instant>,
}

/// The size and the free space of the disk that holds a folder, in bytes, as `df` counts them: without the
/// blocks reserved for root.
struct Disk {
    size: u64,
    free: u64,
}

impl Disk {
    fn measure(folder: &Folder) -> io::Result<Disk> {
        let disk = rustix::fs::statvfs(folder.root())?;
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        Ok(Disk { size: (used + disk.f_bavail) * disk.f_frsize, free: disk.f_bavail * disk.f_frsize })
    }
}

pub(super) fn keep_free(disk: u64) -> u64 {
    (disk / FREE_DISK_DIVISOR).max(MIN_FREE_DISK_BYTES)
}

impl Space {
    pub(super) fn new(folder: Folder, limit: u64) -> Space {
        let (evictions, state) = (AtomicU64::new(0), Mutex::default());
        let (pause, keep_free) = (Pause::default(), Some(keep_free as fn(u64) -> u64));
        Space { folder, pause, limit, keep_free, evictions, state }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// How many bytes the files can grow to if they take `total` now.
    pub(super) fn capacity(&self, total: Total) -> u64 {
        let disk = self.keep_free.zip(Disk::measure(&self.folder).ok());
        let free = disk.map_or(u64::MAX, |(keep_free, disk)| disk.free.saturating_sub(keep_free(disk.size)));
        self.limit.min(total.bytes.saturating_add(free))
    }

    fn state(&self) -> MutexGuard<'_, SpaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch_begins(&self) {
        let mut state = self.state();
        state.previous = state.epoch.replace(SystemTime::now() - CLOCK_STEP);
        state.counted = None;
        state.full_since = None;
    }

    /// Whether an entry did not fit into the cache less than [`COUNT_EVERY`] ago, in this epoch.
    pub(super) fn is_full(&self) -> bool {
        self.state().full_since.is_some_and(|since| since.elapsed() < COUNT_EVERY)
    }

    /// Counts the files in the folder again to correct the ledger, because killed processes may have reserved
    /// bytes that they did not write. If no loader has the cache open, entries are evicted until the rest is
    /// within the limit.
    pub(super) fn recount(&self) {
        if let Ok(Some(mut ledger)) = Ledger::lock(&self.folder, &self.pause) {
            let previous = self.folder.is_unused().then(SystemTime::now);
            let mut state = SpaceState { previous, ..SpaceState::default() };
            let _ = self.evict(&mut ledger, self.limit, &mut state);
        }
    }

    /// Reserves `bytes` for a partial file, and calls `grow` to make the file that long. Evicts entries if
    /// necessary.
    pub(super) fn reserve(&self, bytes: u64, grow: impl FnOnce() -> io::Result<()>) -> Result<(), Declined> {
        if footprint(bytes) > self.limit {
            return Err(Declined::TooLarge);
        }
        let Some(mut ledger) = Ledger::lock(&self.folder, &self.pause)? else { return Err(Declined::Busy) };
        let short = self.shortage(ledger.total, bytes)?;
        if short > 0 {
            let enough = ledger.total.bytes.saturating_sub(short);
            self.evict(&mut ledger, enough, &mut self.state())?;
            if self.shortage(ledger.total, bytes)? > 0 {
                self.state().full_since = Some(Instant::now());
                return Err(Declined::Full);
            }
        }
        ledger.add(footprint(bytes))?;
        grow()?;
        Ok(())
    }

    /// Removes a file of `bytes` that the ledger counts. If the ledger cannot be locked, the next count
    /// corrects it.
    pub(super) fn remove(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let ledger = Ledger::lock(&self.folder, &self.pause);
        fs::remove_file(path)?;
        if let Ok(Some(mut ledger)) = ledger {
            ledger.take_off(footprint(bytes))?;
        }
        Ok(())
    }

    /// How many bytes must be freed before a file of `bytes` fits, so that the limit holds and enough of the
    /// disk stays free.
    fn shortage(&self, total: Total, bytes: u64) -> io::Result<u64> {
        let wanted = footprint(bytes);
        let over = (total.bytes + wanted).saturating_sub(self.limit);
        let Some(keep_free) = self.keep_free else { return Ok(over) };
        let disk = Disk::measure(&self.folder)?;
        Ok(over.max((keep_free(disk.size) + wanted).saturating_sub(disk.free)))
    }

    /// Evicts entries until the cache has at most `enough` bytes, or none of the others may be evicted.
    fn evict(&self, ledger: &mut Ledger, enough: u64, state: &mut SpaceState) -> io::Result<()> {
        if state.counted.is_none_or(|counted| counted.elapsed() > COUNT_EVERY) {
            state.counted = Some(Instant::now());
            state.count(&self.folder, ledger)?;
        }
        while ledger.total.bytes > enough {
            let Some(victim) = state.candidates.pop_front() else { return Ok(()) };
            let path = self.folder.entry(victim.name);
            // The entry may have been used or removed since the count.
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_file() && self.folder.last_used(victim.name, &found) == victim.used {
                points::pass(Point::Evicting);
                match fs::remove_file(&path) {
                    // An entry that cannot be removed is not a reason to keep the others.
                    Err(error) if folder::is_in_the_way(&error) => continue,
                    removed => removed?,
                }
                points::pass(Point::Evicted);
                ledger.take_off(footprint(victim.length))?;
                self.evictions.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }
}

impl SpaceState {
    /// Corrects the ledger and lists the entries that may be evicted.
    fn count(&mut self, folder: &Folder, ledger: &mut Ledger) -> io::Result<()> {
        let scan = folder.scan()?;
        ledger.set(Total::from_scan(&scan))?;
        let mut old = scan.entries;
        old.retain(|found| self.previous.is_some_and(|previous| found.used < previous));
        old.sort_by_key(|found| found.used);
        self.candidates = old.into();
        Ok(())
    }
}
