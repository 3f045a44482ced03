//! Returns free memory that the allocator keeps, as soon as the process would otherwise exceed what its
//! loaders may take.
//!
//! Free memory is kept because the next batch needs about as much. But blocks of other sizes do not fit into
//! the gaps that earlier blocks left, so the process takes more and more memory beyond the blocks in use. The
//! sizes of the blocks do not tell how much, so the system is asked after every few megabytes of allocations.
//! Right after all free memory was returned, the memory beyond the blocks in use belongs to the rest of the
//! process, such as a model.
//!
//! The allocator can return only its own pages (up to 4 MiB) in which no block is in use. Each thread has
//! such pages for each size of block, and most of them contain a block in use. So when the process has
//! reached its limit, the memory of each block is returned as soon as the block is freed, while the allocator
//! keeps the address range.

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

/// The number of allocated bytes after which the system is asked again how much memory the process takes. It
/// is small enough that the process cannot grow by much in between.
const ASK_AFTER_BYTES: u64 = 4 << 20;

/// The number of bytes by which the loaders may exceed their memory before free memory is returned. The
/// limit in the documentation is higher, because it also covers the Python interpreter and its libraries.
const MAX_BYTES_BEYOND: i64 = 16 << 20;

/// The least number of free bytes to return at once. Returning fewer is not worth it, since the system must
/// clear returned memory before it is used again.
const MIN_RETURNED_BYTES: i64 = 8 << 20;

/// If the loaders exceed their memory by this many bytes, each freed block is returned to the system at once,
/// provided that enough memory is free (see [`Books::is_short`]). That takes time, so this number is higher
/// than [`MAX_BYTES_BEYOND`].
const SHORT_BYTES_BEYOND: i64 = 44 << 20;
const SHORT_MIN_RETURNED_BYTES: i64 = MIN_RETURNED_BYTES / 2;

/// The holes between the blocks of loaders take up to `memory / HOLES_DIVISOR + SMALL_HOLES_BYTES` bytes.
/// They cannot be distinguished from the memory of the rest of the process.
const HOLES_DIVISOR: i64 = 4;
const SMALL_HOLES_BYTES: i64 = 120 << 20;

/// The bytes of the counted blocks that are in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// The bytes of all counted blocks that were ever allocated.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
/// Whether the memory of each block is returned as it is freed.
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static BOOKS: Mutex<Books> = Mutex::new(Books { promised: 0, others: 0, beside: 0 });

/// The known amounts of memory of the process, in bytes.
#[derive(Debug)]
struct Books {
    /// The memory that the loaders were promised when free memory was last returned.
    promised: i64,
    /// The memory of the rest of the process.
    others: i64,
    /// The memory of the process without the counted blocks: its minimum since free memory was last returned.
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

/// Measures the memory of the process and returns free memory if that is due. `block` is the size of the
/// block that is being allocated. The function allocates nothing that is counted.
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

/// Returns the system's pages that are wholly within the block. A page exists again, filled with zeros, as
/// soon as it is written to.
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

/// Locks the books, and waits while another thread returns memory: if this thread allocated meanwhile, the
/// memory would be used up again at once. The wait has a limit, because a forked process inherits the lock
/// without the thread that holds it.
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

/// The memory of the process in bytes, not counting pages of mapped files. `/proc/self/statm` is opened each
/// time, because a forked process must read its own file.
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
    // SAFETY: `sysconf` may be called at any time.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The system always knows the size of a page, so the default is never used.
    usize::try_from(page).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::*;

    const MIB: i64 = 1 << 20;

    /// Lets one test at a time measure the memory of the process, which all of them share.
    fn alone() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books of a process that takes `taken` MiB, `in_use` of them in counted blocks, right after its first
    /// loader was built with a memory of `promised` MiB.
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
        let _alone = alone();
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
        let _alone = alone();
        let before = taken().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = taken().unwrap() - before;
        assert!(grown > 32 * MIB, "{grown} of {} bytes", block.len());
    }
}
