//! The row cache (decoded rows on a local disk) as one loader uses it, with its selection of columns and
//! rows.
//!
//! An entry holds all selected rows of a row group, so that it serves every lane, rank and order. The file of
//! a row group is identified by its address, size, version and footer. Entries may keep cells in another
//! [form](CacheForm) than the stored one, such as pixels. If there is no entry in the wanted form, one is
//! made from an entry with stored cells.

mod gate;

use std::cell::Cell;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_arrow::array::RecordBatch;
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::source::Store;

use self::gate::{Gate, Pass};
use super::budget::Permit;
use crate::batch::ValueNumbers;
use crate::cache::{CLAIM_PATIENCE, Claim, DiskCache, Entry, Guard, Key};
use crate::column::CacheForm;
use crate::shard::Part;

/// Rows may be used while they still wait to be written to the cache. The memory of such rows is limited to
/// the memory for row groups, divided by this number. If the disk is slower than the epoch, fewer rows are
/// then cached, but the epoch does not wait.
const BEHIND_DIVISOR: u64 = 4;

/// A disk that takes this long to write a piece of an entry is too slow: an epoch that needs the memory of
/// the rows would wait too long for it.
const LATE_WRITE: Duration = Duration::from_millis(200);

/// The time for which nothing is written to a disk that was too slow.
const REST_TIME: Duration = Duration::from_secs(60);

/// The time for which closing a loader waits for its writes. A disk that hangs must not keep a program from
/// ending.
const LAST_WRITES_TIME: Duration = Duration::from_secs(1);

/// The cache of rows on local disk, as one loader uses it.
#[derive(Clone)]
pub(crate) struct RowCache {
    cache: DiskCache,
    /// A description of the filter and of the denied rows, which is a part of the cache key.
    content: Arc<str>,
    /// The form in which cells are cached; `None` for the stored form.
    form: Option<Arc<CacheForm>>,
    /// The number of selected rows of each row group.
    counts: Arc<[u32]>,
    behind: Arc<WriteBehind>,
    gate: Arc<Gate>,
    /// The opened folder of the cache. It is locked until the loader is closed, so that other processes see
    /// that the cache is in use.
    held: Arc<Mutex<Option<File>>>,
}

/// Limits the rows that are used while they still wait to be written to the cache, or are being written.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    /// The bytes of these rows now.
    bytes: AtomicU64,
    most: u64,
    /// The number of times that an epoch needed the memory of these rows and asked for it.
    asked: AtomicU64,
    /// Until this time, no rows are used while they wait to be written, because the disk was too slow.
    resting: Mutex<Option<Instant>>,
}

/// The right and the duty to cache the rows of a row group that is being fetched.
pub(crate) struct CacheWriter {
    guard: Guard,
    behind: Arc<WriteBehind>,
    /// Counts this writer as a thread that may write, until it is dropped. As the last field, it is dropped
    /// after the guard, which removes unfinished files.
    pass: Pass,
}

impl RowCache {
    /// A cache of the rows that `filter` selects, without those that `denied` describes. `memory` is the
    /// loader's memory for row groups.
    pub(crate) fn new(
        cache: DiskCache,
        filter: Option<&str>,
        denied: Option<&str>,
        counts: Arc<[u32]>,
        memory: u64,
    ) -> Self {
        let behind = Arc::new(WriteBehind::new(memory / BEHIND_DIVISOR));
        let mut content = filter.map_or(String::new(), |filter| format!(" where {filter}"));
        content.extend(denied.map(|denied| format!(" without {denied}")));
        let held = Arc::new(Mutex::new(cache.hold()));
        RowCache { cache, content: content.into(), form: None, counts, behind, gate: Arc::default(), held }
    }

    /// The same cache for a loader with `memory` bytes of memory for row groups.
    pub(crate) fn within(&self, memory: u64) -> Self {
        RowCache { behind: Arc::new(WriteBehind::new(memory / BEHIND_DIVISOR)), ..self.clone() }
    }

    /// Stops all writing of this loader, and waits up to a second for writes that are under way.
    pub(crate) fn close(&self) {
        if !self.gate.is_closed() {
            self.gate.close(LAST_WRITES_TIME);
            self.cache.note_use();
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Does the maintenance of the cache that is due once in an epoch, unless the loader was closed.
    pub(crate) fn maintain(&self) {
        if let Some(_pass) = self.gate.enter() {
            self.cache.maintain();
        }
    }

    /// The same cache with entries in another form.
    pub(crate) fn in_form(&self, form: Option<Arc<CacheForm>>) -> Self {
        RowCache { form, ..self.clone() }
    }

    /// The form in which cells are cached; `None` for the stored form.
    pub(crate) fn form(&self) -> Option<&CacheForm> {
        self.form.as_deref()
    }

    /// Looks a row group up, and decides who fetches it if it is not cached. Waits while another thread or
    /// process fetches it, so this must not be called on the threads of an async runtime.
    pub(crate) fn turn(
        &self,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Lookup {
        let Some(pass) = self.gate.enter() else { return Lookup::Miss(None) };
        match self.cache.claim(&self.key(store, catalog, projection, group), CLAIM_PATIENCE) {
            Claim::Ready(entry) => Lookup::Hit(Kept::new(entry), None),
            Claim::Mine(guard) => self.ours(self.writer(guard, pass), store, catalog, projection, group),
            Claim::Alone => Lookup::Miss(None),
        }
    }

    /// Looks up like [`turn`](Self::turn), after another program changed a row group's entry while its rows
    /// were used. The rows are copied to private memory, where no program can change them again. This does
    /// not wait for other threads, because they may be waiting for the caller.
    pub(crate) fn turn_again(
        &self,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Lookup {
        let key = self.key(store, catalog, projection, group);
        if let Some(entry) = self.cache.get_copy(&key) {
            return Lookup::Hit(Kept::new(entry), None);
        }
        let Some(pass) = self.gate.enter() else { return Lookup::Miss(None) };
        match self.cache.claim(&key, Duration::ZERO) {
            Claim::Mine(guard) => self.ours(self.writer(guard, pass), store, catalog, projection, group),
            Claim::Ready(_) | Claim::Alone => Lookup::Miss(None),
        }
    }

    /// The rows of a row group, if they are cached at present.
    pub(crate) fn found(
        &self,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Option<Kept> {
        self.cache.get(&self.key(store, catalog, projection, group)).map(Kept::new)
    }

    /// The rows of a row group from which only the head is needed, if they are cached at present and can be
    /// mapped. Statistics do not count this lookup, but only that for the row group's own samples.
    pub(crate) fn found_beside(
        &self,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Option<Kept> {
        let entry = self.cache.get_uncounted(&self.key(store, catalog, projection, group))?;
        entry.is_mapped().then(|| Kept::new(entry))
    }

    fn writer(&self, guard: Guard, pass: Pass) -> CacheWriter {
        CacheWriter { guard, behind: self.behind.clone(), pass }
    }

    /// Decides how to get the rows of a row group that this process must cache. If the cache is to keep cells
    /// in another form, and has the row group with stored cells, that form is made from these. The stored
    /// cells are copied to memory first: another program could change a mapped byte, and the checksum of the
    /// new entry would then be one of the changed byte.
    fn ours(
        &self,
        writer: CacheWriter,
        store: &Store,
        catalog: &Catalog,
        projection: &Projection,
        group: usize,
    ) -> Lookup {
        let stored = self.form.as_ref().map(|_| self.in_form(None).key(store, catalog, projection, group));
        match stored.and_then(|key| self.cache.get_copy_instead(&key)) {
            Some(entry) => Lookup::Hit(Kept::new(entry), Some(writer)),
            None => Lookup::Miss(Some(writer)),
        }
    }

    /// The key under which the rows of a row group are cached.
    pub(crate) fn key(&self, store: &Store, catalog: &Catalog, projection: &Projection, group: usize) -> Key {
        let found = &catalog.groups[group];
        let file = &catalog.files[found.file];
        let mut version = match file.footer_hash() {
            Some(hash) => format!("{} footer:{hash:016x}", file.version.for_keys()),
            None => file.version.for_keys(),
        };
        if let Some(hash) = file.table_hash {
            version += &format!(" table:{hash:016x}");
        }
        let form = self.form.as_ref().map_or("", |form| form.key());
        let count = u64::from(self.counts[group]);
        // If all rows are selected, it does not matter how they were selected.
        let content = if count == found.rows { "" } else { &*self.content };
        let rows = format!("{count} of {}{content}{form}", found.rows);
        Key::new(&store.address(file), file.size, &version, found.index, &rows, projection.schema())
    }

    /// The limit for rows that are used while they wait to be written.
    pub(crate) fn behind(&self) -> Arc<WriteBehind> {
        self.behind.clone()
    }

    pub(crate) fn cache(&self) -> &DiskCache {
        &self.cache
    }

    /// The part that consists of all selected rows of a part's row group, because these are cached together.
    pub(crate) fn whole(&self, part: &Part) -> Part {
        Part { group: part.group, start: 0, rows: self.counts[part.group as usize] }
    }
}

/// The result of a lookup, which says who fetches a row group.
pub(crate) enum Lookup {
    /// The rows are cached. If there is a [`CacheWriter`], they are cached as stored, and the caller must
    /// also cache them in the wanted form.
    Hit(Kept, Option<CacheWriter>),
    /// The caller must fetch the rows, and must cache them if there is a [`CacheWriter`].
    Miss(Option<CacheWriter>),
}

/// All selected rows of a row group, from the cache.
pub(crate) struct Kept {
    pub(crate) rows: RecordBatch,
    /// The numbers of the rows' values.
    pub(crate) numbers: ValueNumbers,
    /// The cache entry, if the rows are mapped from its file. It can tell whether another program has changed
    /// them.
    pub(crate) mapped: Option<Entry>,
}

impl Kept {
    fn new(entry: Entry) -> Kept {
        let numbers = entry.numbers().clone();
        Kept { rows: entry.read(), numbers, mapped: entry.is_mapped().then_some(entry) }
    }
}

impl CacheWriter {
    /// Caches `rows`, and returns them as the cache has them; `None` if they could not be cached.
    pub(crate) fn exchange(self, rows: &RecordBatch) -> Option<Kept> {
        self.guard.exchange(rows).map(Kept::new)
    }

    /// Makes a task that caches rows while they are already used; `None` if too many rows wait to be written.
    /// The memory of the rows, of which the epoch uses `shared` too, is not released before the task is done.
    /// If an epoch needs that memory, the task ends early, and the rows are not cached.
    pub(crate) fn behind(
        self,
        rows: RecordBatch,
        numbers: ValueNumbers,
        shared: Option<Arc<Permit>>,
        memory: Option<Permit>,
    ) -> Option<impl FnOnce() + Send> {
        let CacheWriter { guard, behind, pass } = self;
        let bytes = rows.get_array_memory_size() as u64;
        if !behind.admit(bytes) {
            guard.decline_behind();
            return None;
        }
        let asked = behind.asked.load(Relaxed);
        Some(move || {
            let (last, slowest) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
            let is_wanted = || behind.asked.load(Relaxed) != asked || pass.is_closing();
            let goes_on = || {
                let took = last.replace(Instant::now()).elapsed();
                slowest.set(slowest.get().max(took));
                !is_wanted()
            };
            match is_wanted() {
                true => guard.decline_behind(),
                false => drop(guard.put_numbered(&rows, &numbers, &goes_on)),
            }
            goes_on();
            drop((rows, shared, memory));
            behind.done(bytes, is_wanted() && slowest.get() > LATE_WRITE);
        })
    }
}

impl WriteBehind {
    fn new(most: u64) -> WriteBehind {
        WriteBehind { bytes: AtomicU64::new(0), most, asked: AtomicU64::new(0), resting: Mutex::new(None) }
    }

    /// Reports that an epoch cannot go on without the memory of the rows that wait to be written.
    pub(crate) fn let_go(&self) {
        if self.bytes.load(Relaxed) > 0 {
            self.asked.fetch_add(1, Relaxed);
        }
    }

    /// Counts `bytes` of rows that are to be written, if the limit permits it. Returns whether it does.
    fn admit(&self, bytes: u64) -> bool {
        if self.resting().is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let before = self.bytes.fetch_add(bytes, Relaxed);
        // One row group is always admitted, because large row groups would otherwise never be cached.
        let fits = before == 0 || before + bytes <= self.most;
        if !fits {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        fits
    }

    /// Reports that a write of `bytes` has ended, with or without success. `too_late` says that the disk was
    /// so slow that an epoch had to wait for the memory.
    fn done(&self, bytes: u64, too_late: bool) {
        self.bytes.fetch_sub(bytes, Relaxed);
        if too_late {
            *self.resting() = Some(Instant::now() + REST_TIME);
        }
    }

    fn resting(&self) -> MutexGuard<'_, Option<Instant>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::batch::value_numbers;
    use crate::reader::budget::Budget;

    const ROWS: i64 = 1000;

    fn rows() -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    }

    /// The task in which `writer` caches rows whose memory has this permit.
    fn task(writer: CacheWriter, permit: Option<Arc<Permit>>) -> Option<impl FnOnce() + Send> {
        writer.behind(rows(), value_numbers(&rows()), permit, None)
    }

    /// A writer for row group `group`, for rows that are used while they wait to be written.
    fn writer(cache: &DiskCache, behind: &Arc<WriteBehind>, group: usize) -> CacheWriter {
        let key = Key::new("file", 1, "v", group, "all", &rows().schema());
        match cache.claim(&key, CLAIM_PATIENCE) {
            Claim::Mine(guard) => {
                let pass = Arc::<Gate>::default().enter().expect("it is open");
                CacheWriter { guard, behind: behind.clone(), pass }
            }
            claim => panic!("{claim:?}"),
        }
    }

    #[test]
    fn rows_that_wait_to_be_written_take_no_more_than_their_share() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1 << 30).unwrap();
        let bytes = rows().get_array_memory_size() as u64;
        let behind = Arc::new(WriteBehind::new(2 * bytes));
        let first = task(writer(&cache, &behind, 0), None).expect("there is room");
        let second = task(writer(&cache, &behind, 1), None).expect("there is room");
        assert!(task(writer(&cache, &behind, 2), None).is_none(), "a third is too much");
        assert_eq!(cache.stats().declined.behind, 1);
        first();
        task(writer(&cache, &behind, 2), None).expect("there is room again")();
        second();
        assert_eq!((cache.stats().written, behind.bytes.load(Relaxed)), (3, 0));

        let little = Arc::new(WriteBehind::new(1));
        task(writer(&cache, &little, 3), None).expect("one always may be")();
    }

    #[test]
    fn an_epoch_that_waits_gets_the_memory_of_rows_that_are_to_be_written() {
        loop {
            let folder = tempfile::tempdir().unwrap();
            let cache = DiskCache::open(folder.path(), 1 << 30).unwrap();
            let behind = Arc::new(WriteBehind::new(u64::MAX));
            let budget = Budget::new(1 << 20);
            let permit = Arc::new(budget.take(1 << 20).unwrap());
            let write = task(writer(&cache, &behind, 0), Some(permit)).unwrap();
            assert!(budget.take(1 << 20).is_none());
            behind.let_go();
            let began = Instant::now();
            write();
            let is_slow = began.elapsed() > LATE_WRITE;
            assert!(budget.take(1 << 20).is_some(), "given back");
            let stats = cache.stats();
            assert_eq!((stats.written, stats.declined.behind), (0, 1), "and counted");
            // If the machine paused during the write, the disk counts as too slow, so the test is repeated.
            if is_slow {
                continue;
            }
            // A disk that was fast enough is used again.
            task(writer(&cache, &behind, 0), None).unwrap()();
            assert_eq!(cache.stats().written, 1);
            break;
        }
    }

    #[test]
    fn a_loader_keeps_what_it_uses_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1 << 30).unwrap();
        let writer = writer(&cache, &Arc::new(WriteBehind::new(1)), 0);
        task(writer, None).expect("there is room")();
        let row_cache = RowCache::new(cache, None, None, [].into(), 1 << 20);
        let entries_within_a_byte = || DiskCache::open(folder.path(), 1).unwrap().stats().entries;
        assert_eq!(entries_within_a_byte(), 1);
        row_cache.close();
        assert_eq!(entries_within_a_byte(), 0);
    }

    #[test]
    fn a_disk_that_gave_memory_back_late_rests() {
        let behind = WriteBehind::new(u64::MAX);
        assert!(behind.admit(1));
        behind.done(1, true);
        assert!(!behind.admit(1));
        *behind.resting() = Some(Instant::now());
        assert!(behind.admit(1), "for a while");
    }
}
