//! The row cache: rows on a local disk, after Parquet decoding and before image decoding. It uses `std::fs`
//! only.
//!
//! From the second epoch on, rows come from the cache, without a request to a store and without decoding
//! Parquet. Entries are mapped, so single rows can be read as well as whole row groups. The loader decides
//! what is kept and when; this module does not know sources or plans.
//!
//! ```text
//! get ─ index ──────────────► Entry         opened before: the map is still there
//!       └ folder ─ format ──► Entry         first time: length, checksum and key are compared, then it is mapped
//! claim ─ writer ─► Guard ─ put ─ format ─ space ─ rename
//!                                          └ ledger: bytes of all processes ≤ max_bytes
//! ```
//!
//! | file | job |
//! |---|---|
//! | [`key`] | the key of an entry |
//! | [`format`] | an entry as bytes, and the proof that it is whole |
//! | [`folder`] | paths, permissions, links |
//! | [`writer`] | one writer at a time, across threads and processes; the files that dead processes leave behind |
//! | [`space`], [`ledger`] | how much may be kept, and which entries are evicted |
//! | [`health`] | switches the cache off when the disk fails, and on again when it works |
//! | [`disk`] | the speed of the disk |
//! | [`tier`] | the forms in which the cache stores images |
//! | [`seal`] | whether an entry is still the one that was verified |
//! | [`last_use`] | when an entry was used last |
//! | [`note`] | what was measured for a data set |
//! | [`numbers`] | columns with the numbers of values that repeat |
//! | [`map`] | the bytes of an entry, mapped or read into memory |
//! | [`guard`] | handles mapped pages that vanish; the only file that calls functions of C |
//!
//! Invariants:
//!
//! - **It is only a cache.** A damaged, truncated, misplaced, foreign or missing entry is a miss; if the disk
//!   is full, fails or vanishes, [`CacheStats`] gives the reason. A lookup or a write is never an error, and
//!   never waits for a dead process.
//! - **Never a wrong row.** Rows are handed out after their checksum and their whole key were compared, once
//!   for each process and entry. An entry is written under another name and renamed, and from then on the
//!   cache only ever unlinks it. If another program changes a file whose rows are in use, [`seal`] detects
//!   it, and [`guard`] survives it. There is no fsync: the checksum detects entries that a power cut tore.
//! - **Never above its limit.** See [`space`] for the limit and for the rule of eviction.
//! - **Private.** The folder belongs to one user, nobody else may write to it, and links are not followed.

#[cfg_attr(not(target_os = "linux"), path = "disk_unmeasured.rs")]
mod disk;
mod entry;
mod folder;
mod format;
mod guard;
mod health;
mod index;
mod key;
mod last_use;
mod ledger;
mod map;
mod note;
mod numbers;
mod pause;
mod points;
mod seal;
mod space;
mod stats;
#[cfg(test)]
mod tests;
mod tier;
mod upkeep;
mod writer;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_arrow::array::RecordBatch;
use forebay_arrow::error::ArrowError;

use folder::Folder;
use forebay_base::panics::caught;
use forebay_base::{Error, Result};
use format::{Encoded, Integrity};
use health::{Half, Health, Mode};
use index::Index;
use ledger::{Ledger, Totals};
use seal::{Seal, Stamp};
use space::{Declined, Space};
use stats::{Counters, count, took};
use writer::Writer;

use crate::batch::{ValueNumbers, value_numbers};
pub use entry::Entry;
pub(crate) use folder::is_local;
pub use health::Off;
pub use key::Key;
pub use stats::{CacheStats, DeclinedStats, PastStats};
pub use tier::Tier;
pub use upkeep::{Cleared, Report};

/// How long to wait for another thread or process that fetches the same rows: as long as a slow store may
/// need for a row group.
pub(crate) const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

/// A folder of cached rows with a limit in bytes, shared by the processes of a machine. Cheap to clone.
///
/// From the second epoch on, rows come from the cache, without a request to a store and without decoding
/// Parquet. The folder can be deleted at any time, and a damaged entry or a full disk is a miss, not an
/// error.
///
/// ```no_run
/// use forebay::{Dataset, DiskCache};
///
/// let cache = DiskCache::open("/nvme/forebay", 500_000_000_000)?;
/// let loader = Dataset::open("s3://acme/train/")?.loader().cache(cache.clone()).build()?;
/// println!("{}", cache.stats());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct DiskCache(Arc<CacheInner>);

struct CacheInner {
    space: Arc<Space>,
    index: Index,
    health: Health,
    counters: Arc<Counters>,
}

/// Says who fetches the rows of a key that was [claimed](DiskCache::claim).
#[derive(Debug)]
pub enum Claim {
    /// The rows are cached, so nobody needs to fetch them.
    Ready(Entry),
    /// The caller fetches the rows, and others wait for it until the guard is dropped.
    Mine(Guard),
    /// The caller fetches the rows without the cache: it is full or off, or another process took too long to
    /// fetch them.
    Alone,
}

/// The two ways of reading the rows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// From the mapped file, if the folder allows mapping.
    Mapped,
    /// From a copy in private memory.
    Copied,
}

/// The right to put one entry into the cache. Other threads and processes wait for the entry; if the guard is
/// dropped without putting it, one of them gets the right.
pub struct Guard {
    cache: DiskCache,
    key: Key,
    writer: Writer,
}

/// The speed of reading a file from the disk itself, without the page cache, in bytes per second. `None` if
/// it is too small to measure, or the file system has no direct reads.
pub(crate) fn file_rate(path: &Path) -> Option<f64> {
    disk::rate(path).ok().flatten()
}

impl DiskCache {
    /// Opens the cache in `folder` with a limit of `max_bytes` bytes, and creates the folder if it does not
    /// exist. A leading `~` is the user's home folder.
    ///
    /// All processes of a machine may open the same folder. Each has its own limit, which bounds what that
    /// process adds. A tenth of the disk, and at least 1 GiB, is left free whatever the limit. If the folder
    /// holds more than the limit, and no loader has it open, the least recently used entries are removed.
    ///
    /// A folder that cannot be written to is not an error: [`stats`](Self::stats) gives the reason why
    /// nothing is kept.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0, for an empty path or a URL, and for a folder that is a symbolic link,
    /// belongs to another user, can be written to by others, or holds anything but a cache; `Io` if the
    /// folder cannot be created or read.
    pub fn open(folder: impl AsRef<Path>, max_bytes: u64) -> Result<DiskCache> {
        if max_bytes == 0 {
            return Err(
                Error::invalid("the cache has max_bytes 0").hint("give it room, or leave the cache out")
            );
        }
        let cache = DiskCache::new(
            Space::new(Folder::open(&forebay_base::paths::local(folder)?)?, max_bytes),
            Health::new(),
        );
        cache.prepare();
        cache.remove_orphans();
        cache.0.space.recount();
        Ok(cache)
    }

    fn new(space: Space, health: Health) -> DiskCache {
        let (space, counters) = (Arc::new(space), Arc::default());
        DiskCache(Arc::new(CacheInner { space, index: Index::default(), health, counters }))
    }

    /// Whether both values are clones of one opened cache, and so share their counters.
    pub(crate) fn is_same(&self, other: &DiskCache) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The limit with which the cache was opened, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.0.space.limit()
    }

    /// Whether entries are memory-mapped, as they are on local disks, and so take no memory of this process.
    pub fn is_mapped(&self) -> bool {
        self.0.space.folder.mapped
    }

    /// How many bytes the entries can grow to: the limit, or less if the disk has less space.
    pub fn capacity(&self) -> u64 {
        self.0.space.capacity(Ledger::peek(&self.0.space.folder).unwrap_or_default().total)
    }

    /// Whether there is an entry for `key`; the entry is not verified.
    pub fn holds(&self, key: &Key) -> bool {
        self.0.space.folder.entry(key.name()).symlink_metadata().is_ok_and(|found| found.is_file())
    }

    /// The speed of reading an entry from the disk itself, without the page cache, in bytes per second.
    /// `None` if no entry is large enough to measure, or the file system has no direct reads.
    pub fn disk_rate(&self) -> Option<f64> {
        let folder = &self.0.space.folder;
        let largest = folder.scan().ok()?.entries.into_iter().max_by_key(|found| found.length)?;
        file_rate(&folder.entry(largest.name))
    }

    /// The speed of the disk of a cache that has no entries yet, in bytes per second. It is measured by
    /// writing and reading an unnamed file. `None` if the file system has no direct reads.
    pub(crate) fn empty_disk_rate(&self) -> Option<f64> {
        disk::rate_of_new(self.folder()).ok()
    }

    /// The folder as it was named when the cache was opened.
    pub fn folder(&self) -> &Path {
        self.0.space.folder.given()
    }

    /// Begins an epoch. From now on, entries that were not used in the previous epoch may be evicted.
    pub fn epoch_begins(&self) {
        self.0.space.epoch_begins();
        self.0.index.epoch_begins();
    }

    /// Shows other processes that the cache is in use, until the returned file is dropped: a process that
    /// opens the cache with a lower limit then removes nothing.
    pub(crate) fn hold(&self) -> Option<File> {
        self.0.space.folder.hold()
    }

    /// Does the maintenance that is due once in an epoch: notes hits and misses in the ledger, and removes
    /// the half-written files of killed processes.
    pub fn maintain(&self) {
        self.0.note_use(Duration::from_secs(1));
        self.remove_orphans();
    }

    /// Notes hits and misses in the ledger, unless another process holds its lock.
    pub(crate) fn note_use(&self) {
        self.0.note_use(Duration::ZERO);
    }

    /// The rows of `key`, if they are cached and sound. A damaged file is counted and removed.
    ///
    /// On a local disk the rows are mapped: check [`Entry::is_intact`] after using them.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.look_up(key, Access::Mapped)
    }

    /// The rows of `key`, like [`get`](Self::get), without counting a hit or a miss.
    pub(crate) fn get_uncounted(&self, key: &Key) -> Option<Entry> {
        self.find(key, Access::Mapped)
    }

    /// The rows of `key`, like [`get`](Self::get), in private memory, where no other process can change them.
    pub fn get_copy(&self, key: &Key) -> Option<Entry> {
        self.look_up(key, Access::Copied)
    }

    /// The rows of `key`, like [`get_copy`](Self::get_copy). Use it after a lookup of the same rows in
    /// another form was counted as a miss: only a hit is counted here.
    pub(crate) fn get_copy_instead(&self, key: &Key) -> Option<Entry> {
        let found = self.find(key, Access::Copied)?;
        count(&self.0.counters.hits);
        Some(found)
    }

    fn look_up(&self, key: &Key, access: Access) -> Option<Entry> {
        let found = self.find(key, access);
        count(if found.is_some() { &self.0.counters.hits } else { &self.0.counters.misses });
        found
    }

    /// Keeps `rows` under `key`, unless the key has rows already. Returns `false` if they are not kept;
    /// [`stats`](Self::stats) says how often and why.
    ///
    /// `rows` may be slices, and may have views into larger buffers: unused bytes are not written.
    pub fn put(&self, key: &Key, rows: &RecordBatch) -> bool {
        if !self.may_write() {
            return false;
        }
        match Writer::begin(&self.0.space, key.name()) {
            Ok(writer) => self.write(writer, key, rows, &value_numbers(rows), &|| true),
            Err(why) => self.declined("beginning an entry", why),
        }
    }

    /// Looks `key` up. If there is no entry, one thread of one process may fetch the rows. The others wait
    /// for them, for `patience` at most ([`CLAIM_PATIENCE`] is a good value), and then fetch them without the
    /// cache. If a process dies while it fetches, the others do not wait for it.
    pub fn claim(&self, key: &Key, patience: Duration) -> Claim {
        let claim = self.settle(key, patience);
        let found = matches!(claim, Claim::Ready(_));
        count(if found { &self.0.counters.hits } else { &self.0.counters.misses });
        claim
    }

    /// The hits, misses and writes of this process, and how full the cache is.
    pub fn stats(&self) -> CacheStats {
        let Totals { total, past } = Ledger::peek(&self.0.space.folder).unwrap_or_default();
        CacheStats {
            evictions: self.0.space.evictions.load(Relaxed),
            entries: total.entries,
            bytes: total.bytes,
            max_bytes: self.0.space.limit(),
            past,
            reading_off: self.0.health.off(Half::Read),
            writing_off: self.0.health.off(Half::Write),
            ..self.0.counters.read()
        }
    }

    /// A warning that the disk failed, if there is a new one; there is at most one a minute.
    pub fn take_warning(&self) -> Option<String> {
        self.0.health.take_warning()
    }

    fn settle(&self, key: &Key, patience: Duration) -> Claim {
        let start = Instant::now();
        let mut naps = self.0.space.pause.naps();
        loop {
            if let Some(entry) = self.find(key, Access::Mapped) {
                return Claim::Ready(entry);
            }
            if !self.may_write() {
                return Claim::Alone;
            }
            match Writer::begin(&self.0.space, key.name()) {
                // The previous writer may have finished the entry since the lookup.
                Ok(writer) => {
                    return match self.find(key, Access::Mapped) {
                        Some(entry) => Claim::Ready(entry),
                        None => Claim::Mine(Guard { cache: self.clone(), key: key.clone(), writer }),
                    };
                }
                Err(Declined::Busy) if start.elapsed() >= patience => {
                    count(&self.0.counters.alone);
                    return Claim::Alone;
                }
                Err(Declined::Busy) => naps.nap(),
                Err(why) => {
                    self.declined("beginning an entry", why);
                    return Claim::Alone;
                }
            }
        }
    }

    /// Looks `key` up without counting a hit or a miss.
    fn find(&self, key: &Key, access: Access) -> Option<Entry> {
        let CacheInner { space, index, health, counters } = &*self.0;
        let path = space.folder.entry(key.name());
        let access = if space.folder.mapped { access } else { Access::Copied };
        let entry = |slot: index::EntrySlot| Entry {
            batch: slot.batch,
            numbers: slot.numbers,
            bytes: slot.bytes,
            seal: slot.seal,
            counters: counters.clone(),
        };
        if access == Access::Mapped
            && let Some((slot, is_first)) = index.get(key.name())
        {
            if is_first {
                last_use::mark(&space.folder, key.name());
            }
            return Some(entry(slot));
        }
        let mode = health.mode(Half::Read);
        if mode == Mode::Off {
            return None;
        }
        let started = Instant::now();
        let loaded = self.load(key, &path, access);
        took(&counters.reading, started);
        match loaded {
            Ok(found) => {
                if mode == Mode::Retry {
                    health.works(Half::Read);
                }
                found.map(entry)
            }
            Err(error) => {
                health.failed(Half::Read, self.folder(), format!("reading an entry: {error}"));
                None
            }
        }
    }

    /// Opens and verifies an entry. Fails only if the disk does.
    fn load(&self, key: &Key, path: &Path, access: Access) -> io::Result<Option<index::EntrySlot>> {
        let file = match path.symlink_metadata() {
            Ok(found) if found.is_file() => folder::open(path),
            Ok(_) => return self.damaged(path),
            Err(error) => Err(error),
        };
        let file = match file {
            Ok(file) => file,
            // If a file is in the place of the subfolder, there is no entry either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            // The fault is in the entry's own file: if it were in a folder above it, the file's metadata
            // could not be read either.
            Err(error) if folder::is_in_the_way(&error) && path.symlink_metadata().is_ok() => {
                return self.damaged(path);
            }
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return self.damaged(path);
        }
        let slot = match access {
            Access::Mapped => self.load_mapped(key, path, &file),
            Access::Copied => load_copied(key, &file),
        };
        match slot {
            Ok(Some(slot)) => {
                last_use::mark(&self.0.space.folder, key.name());
                Ok(Some(slot))
            }
            Ok(None) => self.damaged(path),
            // The file ends before the length that its metadata gave, so it was truncated meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.damaged(path),
            Err(error) => {
                // The disk cannot read this file, so the file is removed and not read again.
                self.damaged(path)?;
                Err(error)
            }
        }
    }

    /// Maps the rows of an entry from its file; `None` if the entry is damaged.
    fn load_mapped(&self, key: &Key, path: &Path, file: &File) -> io::Result<Option<index::EntrySlot>> {
        let index = &self.0.index;
        let found = file.metadata()?;
        let mut before = Stamp::from_metadata(&found);
        if !before.is_sealed() {
            if seal::may_be_written(&found) {
                return load_copied(key, file);
            }
            seal::seal(file)?;
            before = Stamp::from_metadata(&file.metadata()?);
        }
        let body = match index.verified(key.name(), &before) {
            Some(body) => body,
            None => match format::check(file, |text| text == key.text().as_bytes())? {
                Integrity::Sound(body) => body,
                Integrity::Damaged => return Ok(None),
            },
        };
        let Some(head) = format::head(file, body.stream)? else { return Ok(None) };
        let Some((stream, map)) = map::map(file, body.stream)? else { return load_copied(key, file) };
        // The bytes that hold the schema and the offsets of buffers are copied, because they must not change
        // while they are used.
        let pieces = [map::read(file, head)?, stream.slice(head)];
        let Some((batch, numbers)) = decoded(|| format::decode(pieces, body.rows)) else { return Ok(None) };
        let seal = Seal::new(path.to_owned(), before, map);
        // The file was changed meanwhile, or another process has set its time of modification again.
        if !seal.is_intact() {
            return load_copied(key, file);
        }
        let slot = index::EntrySlot { batch, numbers, bytes: body.bytes, seal: Some(Arc::new(seal)) };
        index.remember(key.name(), before, body, &slot);
        Ok(Some(slot))
    }

    /// Counts a file at the path of an entry that is not a sound entry, and removes it if possible.
    fn damaged(&self, path: &Path) -> io::Result<Option<index::EntrySlot>> {
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {
                count(&self.0.counters.damaged);
                let _ = self.0.space.remove(path, found.len());
            }
            // Anything else at this path is removed without the ledger, which counts only files.
            Ok(_) if folder::clear(path).is_ok_and(|stays| !stays) => count(&self.0.counters.damaged),
            _ => {}
        }
        Ok(None)
    }

    /// Whether an entry can be written at present. If not, counts the reason.
    fn may_write(&self) -> bool {
        let counters = &self.0.counters;
        let on = match self.0.health.mode(Half::Write) {
            Mode::On => true,
            Mode::Off => false,
            Mode::Retry => self.prepare(),
        };
        if !on {
            count(&counters.faults);
        } else if self.0.space.is_full() {
            count(&counters.full);
            return false;
        }
        on
    }

    /// Creates the folders. If that fails, writing is switched off.
    fn prepare(&self) -> bool {
        let CacheInner { space, health, .. } = &*self.0;
        match space.folder.prepare() {
            Ok(()) => true,
            Err(error) => {
                health.failed(Half::Write, self.folder(), error.to_string());
                false
            }
        }
    }

    fn write(
        &self,
        writer: Writer,
        key: &Key,
        rows: &RecordBatch,
        numbers: &ValueNumbers,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        let started = Instant::now();
        let written = self.try_write(writer, key, rows, numbers, goes_on);
        took(&self.0.counters.writing, started);
        match written {
            Ok(bytes) => {
                if bytes > 0 {
                    count(&self.0.counters.written);
                    self.0.counters.written_bytes.fetch_add(bytes, Relaxed);
                }
                self.0.health.works(Half::Write);
                true
            }
            Err(declined) => self.declined("writing an entry", declined),
        }
    }

    /// Writes an entry that only this caller may write now. Returns the number of bytes written, which is 0
    /// if the entry exists.
    fn try_write(
        &self,
        mut writer: Writer,
        key: &Key,
        rows: &RecordBatch,
        numbers: &ValueNumbers,
        goes_on: &dyn Fn() -> bool,
    ) -> std::result::Result<u64, Declined> {
        let space = &self.0.space;
        if space.folder.entry(key.name()).symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(0);
        }
        let encoded = Encoded::new(key, rows, numbers).map_err(|_| Declined::Unwritable)?;
        space.reserve(encoded.bytes, || writer.grow(encoded.bytes))?;
        if !encoded.write(&writer.file, goes_on, || points::pass(points::Point::HalfWritten))? {
            return Err(Declined::Behind);
        }
        writer.publish()?;
        Ok(encoded.bytes)
    }

    /// Counts the reason why rows are not kept. Always returns `false`.
    fn declined(&self, doing: &str, why: Declined) -> bool {
        let counters = &self.0.counters;
        count(match &why {
            Declined::Full => &counters.full,
            Declined::TooLarge => &counters.too_large,
            Declined::Busy => &counters.busy,
            Declined::Unwritable => &counters.unwritable,
            Declined::Blocked => &counters.blocked,
            Declined::Behind => &counters.behind,
            Declined::Fault(_) => &counters.faults,
        });
        match why {
            Declined::Fault(error) => {
                self.0.health.failed(Half::Write, self.folder(), format!("{doing}: {error}"));
            }
            // The ledger could be opened and locked, so the disk works.
            Declined::Full => self.0.health.works(Half::Write),
            Declined::TooLarge
            | Declined::Busy
            | Declined::Unwritable
            | Declined::Blocked
            | Declined::Behind => {}
        }
        false
    }
}

/// Reads the rows of an entry into private memory and verifies them there, so that later changes of the file
/// do not matter. `None` if the entry is damaged.
fn load_copied(key: &Key, file: &File) -> io::Result<Option<index::EntrySlot>> {
    let Ok(length) = usize::try_from(file.metadata()?.len()) else { return Ok(None) };
    if !format::may_be_whole(file)? {
        return Ok(None);
    }
    let bytes = map::read(file, length)?;
    let Integrity::Sound(body) = format::check_bytes(&bytes, |text| text == key.text().as_bytes()) else {
        return Ok(None);
    };
    let stream = bytes.slice_with_length(0, body.stream);
    let found = decoded(|| format::decode([stream], body.rows));
    Ok(found.map(|(batch, numbers)| index::EntrySlot { batch, numbers, bytes: body.bytes, seal: None }))
}

/// The result of decoding; `None` if it fails or panics, which may happen if the bytes change meanwhile.
fn decoded<T>(decode: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Option<T> {
    caught(decode).ok()?.ok()
}

impl CacheInner {
    /// Adds the hits and misses of this process to the ledger.
    fn note_use(&self, patience: Duration) {
        let news = self.counters.news();
        if news == PastStats::default() {
            return;
        }
        let noted = Ledger::lock_within(&self.space.folder, &self.space.pause, patience)
            .is_ok_and(|ledger| ledger.is_some_and(|mut ledger| ledger.note(news).is_ok()));
        if noted {
            self.counters.noted(news);
        }
    }
}

impl Drop for CacheInner {
    fn drop(&mut self) {
        // Other processes hold the ledger for microseconds; if it is locked right now, only the statistics
        // lose these counts.
        self.note_use(Duration::ZERO);
    }
}

impl Guard {
    /// Keeps the fetched rows and lets others have them. Returns `false` if they are not kept.
    pub fn put(self, rows: &RecordBatch) -> bool {
        self.put_while(rows, &|| true)
    }

    /// Keeps the fetched rows, like [`put`](Self::put), but stops if `goes_on` returns false. `goes_on` is
    /// called before each piece of at most one megabyte.
    pub fn put_while(self, rows: &RecordBatch, goes_on: &dyn Fn() -> bool) -> bool {
        self.put_numbered(rows, &value_numbers(rows), goes_on)
    }

    /// Keeps the fetched rows, like [`put_while`](Self::put_while), with the given numbers of their values.
    pub(crate) fn put_numbered(
        self,
        rows: &RecordBatch,
        numbers: &ValueNumbers,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        self.cache.write(self.writer, &self.key, rows, numbers, goes_on)
    }

    /// Keeps the fetched rows, like [`put`](Self::put), and returns them as an entry, so that their own
    /// memory is no longer needed. `None` if they are not kept.
    pub fn exchange(self, rows: &RecordBatch) -> Option<Entry> {
        let Guard { cache, key, writer } = self;
        let is_written = cache.write(writer, &key, rows, &value_numbers(rows), &|| true);
        if is_written { cache.find(&key, Access::Mapped) } else { None }
    }

    /// Drops the claim without keeping anything, because the disk is too slow at present.
    pub fn decline_behind(self) {
        count(&self.cache.0.counters.behind);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.key).finish()
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache")
            .field("folder", &self.folder())
            .field("max_bytes", &self.0.space.limit())
            .finish_non_exhaustive()
    }
}
