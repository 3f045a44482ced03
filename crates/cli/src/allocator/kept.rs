//! Returns free memory that the allocator keeps, as soon as the process would otherwise exceed what its
//! loaders may take.
//!
//! Free memory is kept because the next batch needs about as much. But blocks of other sizes do not fit into
//! the gaps that earlier blocks left, so the process takes more and more memory beside the blocks in use. How
//! much cannot be computed from the blocks, so the system is asked after every few megabytes of allocations.
//! The memory of the rest of the process, such as a model, is what remains right after all free memory was
//! returned.
//!
//! The allocator can return only pages in which no block is in use. Each thread has such pages, of up to 4
//! MiB, for each size of blocks, and most of them have a block in use. So a process that takes all the memory
//! it may returns the memory of each block as it is freed, while the address range stays with the allocator.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use forebay_base::promise::promised;
use libmimalloc_sys::mi_collect;

/// The least size of a block that is counted, in bytes. Smaller blocks are a small part of what a loader
/// takes, and are allocated too often to count.
const MIN_COUNTED_BYTES: usize = 64 << 10;

/// How many bytes are allocated before the system is asked again. It answers within microseconds, and only a
/// few of these bytes can be filled in that time.
const ASK_AFTER_BYTES: u64 = 4 << 20;

/// How many bytes the loaders of a process may take beyond their memory before free memory is returned. It is
/// less than the documented bound, because the interpreter and its libraries take a part of that.
const MAX_BYTES_BEYOND: i64 = 16 << 20;

/// How many bytes of free memory must be kept before it is returned again, since memory that was returned may
/// have to be cleared again.
const MIN_RETURNED_BYTES: i64 = 8 << 20;

/// Each block is returned as it is freed once the loaders take this many bytes beyond their memory and
/// `SHORT_MIN_RETURNED_BYTES` bytes more are free. Returning blocks takes time, even where the documented
/// bound would hold without it; the higher the number, the later it begins.
const SHORT_BYTES_BEYOND: i64 = 44 << 20;
const SHORT_MIN_RETURNED_BYTES: i64 = MIN_RETURNED_BYTES / 2;

/// Holes between the blocks of loaders take up to `memory / HOLES_DIVISOR + SMALL_HOLES_BYTES` bytes, which
/// cannot be told from what the rest of the process takes.
const HOLES_DIVISOR: i64 = 4;
const SMALL_HOLES_BYTES: i64 = 120 << 20;

/// The bytes of the counted blocks that are in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// The bytes of all counted blocks that were ever allocated.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
/// Whether the memory of each block is returned as it is freed.
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static BOOKS: Mutex<Books> = Mutex::new(Books { promised: 0, others: 0, beside: 0 });

/// The amounts of memory of the process that are known, in bytes.
#[derive(Debug)]
struct Books {
    /// The memory that the loaders were promised when free memory was last returned.
    promised: i64,
    /// The memory of the rest of the process.
    others: i64,
    /// The least memory of the process beside the counted blocks since free memory was last returned, in
    /// bytes.
    beside: i64,
}

impl Books {
    /// Whether free memory should be returned in a process that takes `taken` bytes, `in_use` of them for
    /// counted blocks. Both include a block that was just allocated and will be filled.
    fn is_due(&mut self, promised: i64, taken: i64, in_use: i64) -> bool {
        let beside = taken - in_use;
        self.beside = self.beside.min(beside);
        let is_over =
            taken >= self.others + promised + MAX_BYTES_BEYOND && beside >= self.beside + MIN_RETURNED_BYTES;
        promised != self.promised || is_over
    }

    /// Whether each block should be returned as it is freed, because the process takes all the memory that it
    /// may.
    fn is_short(&self, promised: i64, taken: i64, in_use: i64) -> bool {
        let beside = taken - in_use;
        let has_holes =
            beside >= self.others + holes(promised) / 2 || beside >= self.beside + SHORT_MIN_RETURNED_BYTES;
        has_holes && taken >= self.others + promised + SHORT_BYTES_BEYOND
    }

    /// Updates the books after free memory was returned.
    fn returned(&mut self, promised: i64, taken: i64, in_use: i64) {
        let beside = taken - in_use;
        let holes = if self.promised > 0 { holes(promised) } else { 0 };
        let others = self.others.clamp(beside - holes, beside);
        *self = Books { promised, others, beside };
    }
}

/// The largest number of bytes that holes between the blocks of loaders take.
fn holes(promised: i64) -> i64 {
    promised / HOLES_DIVISOR + SMALL_HOLES_BYTES
}

/// Counts a block that was allocated, and returns free memory if necessary.
pub(super) fn allocated(bytes: usize) {
    if bytes < MIN_COUNTED_BYTES {
        return;
    }
    let bytes = bytes as u64;
    IN_USE.fetch_add(bytes, Relaxed);
    let before = ALLOCATED.fetch_add(bytes, Relaxed);
    if before / ASK_AFTER_BYTES != (before + bytes) / ASK_AFTER_BYTES {
        look(bytes);
    }
}

/// Counts a block that is freed.
pub(super) fn freed(bytes: usize) {
    if bytes >= MIN_COUNTED_BYTES {
        IN_USE.fetch_sub(bytes as u64, Relaxed);
    }
}

/// Returns the memory of a block that is about to be freed, if necessary.
///
/// # Safety
/// The block is one of this allocator's, it has `bytes` bytes, and nobody uses its content any more.
#[allow(unsafe_code)]
pub(super) unsafe fn about_to_free(block: *mut u8, bytes: usize) {
    if bytes >= MIN_COUNTED_BYTES && IS_SHORT.load(Relaxed) {
        // SAFETY: the caller's promise is passed on.
        unsafe { return_pages(block, bytes) }
    }
}

/// Looks at the memory of the process during the allocation of a block. The function itself allocates nothing
/// that is counted.
#[cold]
fn look(block: u64) {
    let promised = promised() as i64;
    let Some(mut books) = books() else { return };
    if promised == 0 && books.promised == 0 {
        return;
    }
    let in_use = || IN_USE.load(Relaxed) as i64;
    let Some(filled) = taken().map(|taken| taken + block as i64) else { return };
    if books.is_due(promised, filled, in_use()) {
        // SAFETY: any thread may call it at any time; it returns the free memory of the whole process.
        #[allow(unsafe_code)]
        unsafe {
            mi_collect(true);
        }
        if let Some(taken) = taken() {
            books.returned(promised, taken, in_use());
        }
        IS_SHORT.store(false, Relaxed);
    } else {
        IS_SHORT.store(books.is_short(promised, filled, in_use()), Relaxed);
    }
}

/// Returns the pages of the system that are within the block. They exist again, cleared, as soon as they are
/// written to.
///
/// # Safety
/// Nobody uses the content of the block any more.
#[allow(unsafe_code)]
unsafe fn return_pages(block: *mut u8, bytes: usize) {
    let page = page();
    let before = block.addr().next_multiple_of(page) - block.addr();
    let within = bytes.saturating_sub(before) / page * page;
    if within > 0 {
        // SAFETY: only whole pages within the block lose their content. If the system refuses, they stay as
        // they are.
        unsafe { libc::madvise(block.add(before).cast(), within, libc::MADV_DONTNEED) };
    }
}

/// Locks the books, unless another thread is returning memory: returning would be useless if other threads
/// took more meanwhile. The wait is limited, because the other thread does not exist in a process that was
/// forked meanwhile.
#[allow(clippy::disallowed_methods, reason = "an allocation has nothing else to wait on")]
fn books() -> Option<MutexGuard<'static, Books>> {
    const TURNS: u32 = 2_000;
    const TURN: Duration = Duration::from_micros(200);
    for _ in 0..TURNS {
        if let Ok(books) = BOOKS.try_lock() {
            return Some(books);
        }
        thread::sleep(TURN);
    }
    None
}

/// The memory of the process in bytes, without pages of files. The file is opened each time, because a forked
/// process has another one.
fn taken() -> Option<i64> {
    let mut text = [0; 128];
    let length = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut pages = std::str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
    let mut next = || pages.next()?.parse::<i64>().ok();
    let (resident, of_files) = (next()?, next()?);
    Some((resident - of_files) * page() as i64)
}

/// The size of a page of the system, in bytes.
#[allow(unsafe_code)]
fn page() -> usize {
    // SAFETY: it may be called at any time.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The system always knows this size.
    usize::try_from(page).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    /// Books of a process that takes `taken` MiB, `in_use` of them in counted blocks, when its first loader
    /// comes with a memory of `promised` MiB.
    fn books(promised: i64, taken: i64, in_use: i64) -> Books {
        let mut books = Books { promised: 0, others: 0, beside: 0 };
        assert!(books.is_due(promised * MIB, taken * MIB, in_use * MIB), "another loader is there");
        books.returned(promised * MIB, taken * MIB, in_use * MIB);
        books
    }

    /// Whether memory is returned in a process with these numbers, in MiB.
    fn is_due(books: &mut Books, promised: i64, taken: i64, in_use: i64) -> bool {
        books.is_due(promised * MIB, taken * MIB, in_use * MIB)
    }

    #[test]
    fn free_memory_is_kept_as_long_as_the_loaders_stay_within_theirs() {
        let mut books = books(64, 50, 10);
        assert!(!is_due(&mut books, 64, 40 + 64 + 15, 20), "40 MiB are not theirs");
        assert!(is_due(&mut books, 64, 40 + 64 + 16, 20));
        assert!(!is_due(&mut books, 64, 40 + 64 + 16, 79), "what is in use cannot be returned");
    }

    #[test]
    fn blocks_are_returned_as_they_are_freed_once_all_is_taken() {
        let mut books = books(64, 50, 10);
        assert!(!books.is_short(64 * MIB, 147 * MIB, 20 * MIB), "40 MiB are not theirs");
        assert!(books.is_short(64 * MIB, 148 * MIB, 20 * MIB));
        assert!(!books.is_short(64 * MIB, 148 * MIB, 105 * MIB), "what is in use cannot be returned");
        books.returned(64 * MIB, 140 * MIB, 20 * MIB);
        assert!(
            books.is_short(64 * MIB, 148 * MIB, 20 * MIB),
            "holes stay where all that is free was returned"
        );
    }

    #[test]
    fn the_pages_within_a_block_are_returned_and_no_others() {
        const BYTES: usize = 32 << 20;
        let mut block = std::hint::black_box(vec![1_u8; BYTES + 2 * page()]);
        let before = taken().unwrap();
        let odd = 5;
        // SAFETY: these bytes are within the block, and their content is not used any more.
        #[allow(unsafe_code)]
        unsafe {
            return_pages(block.as_mut_ptr().add(odd), BYTES)
        };
        let returned = before - taken().unwrap();
        assert!(returned > 16 * MIB, "{returned} of {BYTES} bytes");
        let (kept, rest) = (block.iter().take_while(|byte| **byte == 1).count(), &block[odd + BYTES..]);
        assert!((odd..odd + page()).contains(&kept), "{kept}");
        assert!(rest.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_model_that_is_loaded_meanwhile_is_not_theirs() {
        let mut books = books(64, 50, 10);
        assert!(is_due(&mut books, 64, 2_048, 20));
        books.returned(64 * MIB, 2_048 * MIB, 20 * MIB);
        assert!(!is_due(&mut books, 64, 2_075, 47), "nothing is free");
        assert!(!is_due(&mut books, 64, 2_055, 20), "less than a step is free");
        assert!(is_due(&mut books, 64, 2_060, 20));
        books.returned(64 * MIB, 90 * MIB, 20 * MIB);
        assert_eq!(books.others, 70 * MIB, "the model is gone");
    }

    #[test]
    fn holes_between_their_blocks_are_theirs() {
        let mut books = books(64, 50, 10);
        assert!(is_due(&mut books, 64, 140, 50));
        books.returned(64 * MIB, 120 * MIB, 50 * MIB);
        assert_eq!((books.others, books.beside), (40 * MIB, 70 * MIB));
        assert!(!is_due(&mut books, 64, 140, 63), "they are no less for being returned over and over");
        assert!(is_due(&mut books, 64, 140, 62));
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        let before = taken().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = taken().unwrap() - before;
        assert!(grown > 32 * MIB, "{grown} of {} bytes", block.len());
    }
}
