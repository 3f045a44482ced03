//! Maps of files whose pages may vanish: instead of killing the process with SIGBUS, a page that cannot be
//! read becomes zeros and its map is marked as broken.
//!
//! A page of a mapped file is gone when another program truncates the file, or when the disk fails under it;
//! a thread that touches it then gets SIGBUS. The handler in this file looks the address up among the guarded
//! maps. If one of them holds it, the handler replaces that whole map by zero pages, marks the map as broken
//! and lets the reader continue; rows that were read from a broken map are never delivered. Any other SIGBUS
//! goes to the previous handler.
//!
//! The handler only reads atomics and calls `mmap` and `sigaction`, which a signal handler may do.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::{Mmap, MmapOptions};

/// How many maps can be guarded: twice as many as the index of open entries keeps. Linux allows a process
/// 65,530 maps in all.
const SLOTS: usize = 1 << 15;

/// A place for one map in the table of guarded maps; the place may be empty.
struct GuardSlot {
    pages: AtomicU64,
    broken: AtomicBool,
}

static MAPS: [GuardSlot; SLOTS] =
    [const { GuardSlot { pages: AtomicU64::new(MapPages::NONE.0), broken: AtomicBool::new(false) } }; SLOTS];

/// The slots that are free again, and how many slots were ever taken.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// A copy of the number of slots that were ever taken, which the handler can read without a lock.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The previous handler of SIGBUS; null if there was none. It is never freed, since the handler may be
/// reading it.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// The pages of a map in one word, so that the handler, which cannot wait for a lock, never sees the
/// beginning of one map with the length of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MapPages(u64);

/// A guarded map of the beginning of a file.
pub(super) struct Guarded {
    map: Mmap,
    slot: usize,
}

impl Guarded {
    /// Maps the first `length` bytes of `file`. `None` if all slots are taken, or if the address of the map
    /// does not fit into a slot.
    pub(super) fn new(file: &File, length: usize) -> io::Result<Option<Guarded>> {
        take_over()?;
        let Some(slot) = take_slot() else { return Ok(None) };
        // SAFETY: bytes of a map must not change under a reference to them, and other programs may write to
        // the file: this cannot be guaranteed, only made harmless. Memory safety depends on lengths, offsets
        // and views, and these are either read from private memory or checked again at each use. Values that
        // were read from a map are delivered only if the file is found unchanged afterwards. Pages that
        // vanish are replaced by the handler.
        let map = match unsafe { MmapOptions::new().len(length).map(file) } {
            Ok(map) => map,
            Err(error) => {
                free().0.push(slot);
                return Err(error);
            }
        };
        let Some(pages) = MapPages::covering(map.as_ptr() as usize, map.len()) else {
            free().0.push(slot);
            return Ok(None);
        };
        MAPS[slot].broken.store(false, Relaxed);
        MAPS[slot].pages.store(pages.0, Release);
        Ok(Some(Guarded { map, slot }))
    }

    /// Whether pages of the map could not be read and were replaced by zeros.
    pub(super) fn is_broken(&self) -> bool {
        MAPS[self.slot].broken.load(Acquire)
    }
}

impl AsRef<[u8]> for Guarded {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        MAPS[self.slot].pages.store(MapPages::NONE.0, Release);
        free().0.push(self.slot);
    }
}

impl MapPages {
    const NONE: MapPages = MapPages(0);

    /// How many bits hold the number of pages. The other bits hold the number of the first page; they suffice
    /// for addresses below 2^48, where Linux puts maps unless a program asks for a higher address.
    const COUNT_BITS: u32 = 28;

    /// The pages of `length` bytes from `start` on, which is the beginning of a page. `None` if the numbers
    /// are too large.
    fn covering(start: usize, length: usize) -> Option<MapPages> {
        let (first, count) = ((start / PAGE_BYTES) as u64, length.div_ceil(PAGE_BYTES) as u64);
        let fits = count >> Self::COUNT_BITS == 0 && first >> (u64::BITS - Self::COUNT_BITS) == 0;
        fits.then_some(MapPages(first << Self::COUNT_BITS | count))
    }

    /// The addresses of the pages.
    fn range(self) -> Range<usize> {
        let start = (self.0 >> Self::COUNT_BITS) as usize * PAGE_BYTES;
        let count = self.0 & ((1 << Self::COUNT_BITS) - 1);
        start..start + count as usize * PAGE_BYTES
    }
}

fn free() -> MutexGuard<'static, (Vec<usize>, usize)> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_slot() -> Option<usize> {
    let mut free = free();
    if let Some(slot) = free.0.pop() {
        return Some(slot);
    }
    let slot = (free.1 < SLOTS).then_some(free.1)?;
    free.1 += 1;
    TAKEN.store(free.1, Release);
    Some(slot)
}

/// Installs our handler of SIGBUS, unless it is the present one. This is done for each map, because
/// frameworks install handlers of their own when they are loaded.
fn take_over() -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: `sigaction` is plain data for which zeros are valid; both calls get pointers to live values.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut current) != 0 {
            return Err(io::Error::last_os_error());
        }
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        if current.sa_sigaction == handler as libc::sighandler_t {
            return Ok(());
        }
        BEFORE.store(Box::into_raw(Box::new(current)), Release);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as libc::sighandler_t;
        // If the thread has a signal stack, the handler runs on that stack. The previous handler, to which
        // ours may pass the signal, may need it to handle a stack overflow.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut ours.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, because SA_SIGINFO asks for it.
    let (address, by_kernel) = unsafe { ((*info).si_addr() as usize, (*info).si_code > 0) };
    if by_kernel && replace_map_at(address) {
        return;
    }
    // The fault is not in a guarded map, so the previous handler takes over: a fault recurs as soon as this
    // function returns, and a signal that a process sent is sent again.
    let before = BEFORE.swap(ptr::null_mut(), AcqRel);
    // SAFETY: `before` is null or was leaked by `take_over`; zeros mean the default action, which ends the
    // process.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let before = if before.is_null() { &raw const default } else { before.cast_const() };
        libc::sigaction(signal, before, ptr::null_mut());
        if !by_kernel {
            libc::raise(signal);
        }
    }
}

/// Replaces the guarded map that holds `address` by zero pages. Returns whether there is one and it was
/// replaced.
fn replace_map_at(address: usize) -> bool {
    for slot in &MAPS[..TAKEN.load(Acquire)] {
        let range = MapPages(slot.pages.load(Acquire)).range();
        if range.contains(&address) {
            slot.broken.store(true, Release);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            // SAFETY: the range is exactly the pages of one guarded map. It was read in one load, so it
            // belongs to one map that existed at that moment: a slot is emptied before its map is unmapped.
            // The range holds the address at which this thread is reading, and memory that a thread reads is
            // not unmapped meanwhile. So this map is the one being read, it stays until this function
            // returns, and its slot is not reused.
            let zeros = unsafe {
                libc::mmap(range.start as *mut libc::c_void, range.len(), libc::PROT_READ, flags, -1, 0)
            };
            return zeros != libc::MAP_FAILED;
        }
    }
    false
}

/// The smallest page size, in bytes. Where pages are larger, a fault past the last small page of a map is not
/// handled.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_map_whose_file_is_cut_reads_as_zeros_and_says_so() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 3 * PAGE_BYTES]).unwrap();
        let (cut, whole) = (
            Guarded::new(&file, 3 * PAGE_BYTES).unwrap().unwrap(),
            Guarded::new(&file, PAGE_BYTES).unwrap().unwrap(),
        );
        assert!(cut.as_ref().iter().all(|byte| *byte == 7));
        file.set_len(PAGE_BYTES as u64).unwrap();
        assert!(!cut.is_broken(), "nobody looked yet");
        assert_eq!(std::hint::black_box(cut.as_ref())[2 * PAGE_BYTES], 0);
        assert!(cut.is_broken());
        assert!(whole.as_ref().iter().all(|byte| *byte == 7), "another map is as it was");
        assert!(!whole.is_broken());
        drop(cut);
        let again = Guarded::new(&file, PAGE_BYTES).unwrap().unwrap();
        assert!(!again.is_broken(), "a slot that is used again begins anew");
    }

    #[test]
    fn the_pages_of_a_map_are_one_word() {
        let high = (1 << 48) - PAGE_BYTES;
        for (start, length, end) in [
            (PAGE_BYTES, 1, 2 * PAGE_BYTES),
            (16 * PAGE_BYTES, 3 * PAGE_BYTES, 19 * PAGE_BYTES),
            (high, PAGE_BYTES, 1 << 48),
        ] {
            assert_eq!(MapPages::covering(start, length).unwrap().range(), start..end);
        }
        assert!(MapPages::NONE.range().is_empty());
        assert_eq!(MapPages::covering(1 << 48, PAGE_BYTES), None, "too high");
        assert_eq!(MapPages::covering(PAGE_BYTES, 1 << 40), None, "too long");
    }

    #[test]
    fn a_slot_that_is_used_anew_never_shows_one_map_with_the_length_of_another() {
        let (long, short) = (
            MapPages::covering(PAGE_BYTES, 64 * PAGE_BYTES).unwrap(),
            MapPages::covering(128 * PAGE_BYTES, PAGE_BYTES).unwrap(),
        );
        let (slot, are_over) = (AtomicU64::new(MapPages::NONE.0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    for pages in [long, MapPages::NONE, short, MapPages::NONE] {
                        slot.store(pages.0, Release);
                    }
                }
                are_over.store(true, Release);
            });
            while !are_over.load(Acquire) {
                let seen = MapPages(slot.load(Acquire)).range();
                let known = [long, short, MapPages::NONE].map(MapPages::range);
                assert!(known.contains(&seen), "{seen:?}");
            }
        });
    }
}
