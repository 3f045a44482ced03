//! The ledger: sums of sizes and hits, in a file that every process of the machine changes under its lock.
//!
//! The ledger may count more bytes than the files have, never fewer: bytes are added before a file grows and
//! subtracted after it is removed. A process that is killed in between leaves too high a number, which the
//! next count of the folder corrects.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::folder::{self, Folder, FolderScan, footprint};
use super::pause::Pause;
use super::stats::PastStats;

/// How long to wait for other processes that change the ledger. They need microseconds, or a fraction of a
/// second to count the folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How many numbers the ledger has: bytes, entries, hits, misses and damaged files. Their xxh3-64 follows.
const NUMBERS: usize = 5;
const LEDGER_BYTES: usize = 8 * (NUMBERS + 1);

/// The sums over all files of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// The bytes on disk, including files that are being written.
    pub(super) bytes: u64,
    /// The number of entries, including those that are being written.
    pub(super) entries: u64,
}

impl Total {
    /// The sums over the files of a scan. A partial file without a length is only a lock, and is not counted.
    pub(super) fn from_scan(scan: &FolderScan) -> Total {
        let lengths =
            || scan.entries.iter().chain(&scan.partials).map(|found| found.length).filter(|&n| n > 0);
        Total { bytes: lengths().map(footprint).sum(), entries: lengths().count() as u64 }
    }
}

/// All numbers of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) total: Total,
    pub(super) past: PastStats,
}

/// The ledger, which is locked until this value is dropped.
pub(super) struct Ledger {
    file: File,
    pub(super) total: Total,
    past: PastStats,
}

impl Ledger {
    /// Locks the ledger. A new or torn ledger is filled by counting the folder. `None` if other processes
    /// held the lock for too long.
    pub(super) fn lock(folder: &Folder, pause: &Pause) -> io::Result<Option<Ledger>> {
        Ledger::lock_within(folder, pause, LOCK_PATIENCE)
    }

    /// Locks the ledger like [`lock`](Self::lock), with another limit for the wait.
    pub(super) fn lock_within(
        folder: &Folder,
        pause: &Pause,
        patience: Duration,
    ) -> io::Result<Option<Ledger>> {
        let path = folder.ledger();
        if folder::clear(&path)? {
            return Err(io::Error::other(format!("remove {}, which is not a file", path.display())));
        }
        let file = folder::create(&path, true)?;
        let start = Instant::now();
        let mut naps = pause.naps();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if start.elapsed() >= patience => return Ok(None),
                Err(TryLockError::WouldBlock) => naps.nap(),
            }
        }
        match read(&file) {
            Some(Totals { total, past }) => Ok(Some(Ledger { file, total, past })),
            None => {
                let mut ledger = Ledger { file, total: Total::default(), past: PastStats::default() };
                ledger.set(Total::from_scan(&folder.scan()?))?;
                Ok(Some(ledger))
            }
        }
    }

    /// The latest numbers of the ledger, read without waiting for the lock.
    pub(super) fn peek(folder: &Folder) -> Option<Totals> {
        folder::open(&folder.ledger()).ok().and_then(|file| read(&file))
    }

    pub(super) fn set(&mut self, total: Total) -> io::Result<()> {
        self.total = total;
        self.write()
    }

    /// Adds hits, misses and damaged files to the ledger.
    pub(super) fn note(&mut self, news: PastStats) -> io::Result<()> {
        self.past = self.past.and(news);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let Ledger { total: Total { bytes, entries }, past: PastStats { hits, misses, damaged }, .. } = *self;
        let numbers: [u64; NUMBERS] = [bytes, entries, hits, misses, damaged];
        let mut text = numbers.map(u64::to_le_bytes).concat();
        text.extend_from_slice(&xxh3_64(&text).to_le_bytes());
        self.file.write_all_at(&text, 0)
    }

    pub(super) fn add(&mut self, bytes: u64) -> io::Result<()> {
        let Total { bytes: before, entries } = self.total;
        self.set(Total { bytes: before + bytes, entries: entries + 1 })
    }

    pub(super) fn take_off(&mut self, bytes: u64) -> io::Result<()> {
        let Total { bytes: before, entries } = self.total;
        self.set(Total { bytes: before.saturating_sub(bytes), entries: entries.saturating_sub(1) })
    }
}

fn read(file: &File) -> Option<Totals> {
    let mut text = [0u8; LEDGER_BYTES];
    file.read_exact_at(&mut text, 0).ok()?;
    let (words, _) = text.as_chunks::<8>();
    let [bytes, entries, hits, misses, damaged, hash] = *words else { return None };
    let number = u64::from_le_bytes;
    (xxh3_64(&text[..8 * NUMBERS]) == number(hash)).then(|| Totals {
        total: Total { bytes: number(bytes), entries: number(entries) },
        past: PastStats { hits: number(hits), misses: number(misses), damaged: number(damaged) },
    })
}
