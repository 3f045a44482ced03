//! Returns the memory that the allocator keeps as soon as it would make the process exceed what its loaders
//! may take.
//!
//! Free memory is kept because the next batch takes as much. But blocks of other sizes do not fit where those
//! before them were, and so the process takes more and more beside what is in use. How much that is cannot be
//! known from the blocks: the system is asked each time that some more were allocated. What the rest of the
//! process takes, such as a model, is what remains right after all that was free has been returned.
//!
//! The allocator returns only what no page of its own has a part in. Each thread has such pages, of up to
//! 4 MiB, for each size of blocks, and most of them have a block in use. So a process that takes all that it
//! may returns each block as it is freed, while its place stays with the allocator.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use forebay_base::promise::promised;
use libmimalloc_sys::mi_collect;

/// Blocks of at least this many bytes are counted. Smaller ones are a small part of what a loader takes, and
/// are allocated too often for that.
const COUNTED: usize = 64 << 10;

/// The system is asked after this many bytes were allocated: it answers in microseconds, in which few of them
/// can be filled.
const ASK_AFTER: u64 = 4 << 20;

/// What the loaders of a process may take beyond their memory before free memory is returned: less than what
/// is stated, of which the interpreter and its libraries take a part.
const BEYOND: i64 = 16 << 20;

/// Free memory is returned again only once this much more of it is kept, since all that is returned may have
/// to be cleared again.
const STEP: i64 = 8 << 20;

/// Each block is returned as it is freed once the loaders take this much beyond their memory and a step more
/// is free. That takes time, also where what is stated would hold anyway: the more, the earlier it begins.
const SHORT_BEYOND: i64 = 44 << 20;
const SHORT_STEP: i64 = STEP / 2;

/// Holes between the blocks of loaders take up to `memory / HOLES`, and some more, which cannot be told from
/// what the rest of the process takes.
const HOLES: i64 = 4;
const SMALL_HOLES: i64 = 120 << 20;

/// Bytes of the counted blocks that are in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// Bytes of all counted blocks that were ever allocated.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
/// Whether the memory of a block is returned as it is freed.
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static BOOKS: Mutex<Books> = Mutex::new(Books { promised: 0, others: 0, beside: 0 });

/// What is known of the memory of the process, in bytes.
#[derive(Debug)]
struct Books {
    /// The memory of the loaders when free memory was last returned.
    promised: i64,
    /// What the rest of the process takes.
    others: i64,
    /// What the process took beside the counted blocks then, or less since.
    beside: i64,
}

impl Books {
    /// Whether free memory is to be returned in a process that takes `taken` bytes, `in_use` of them for
    /// counted blocks. A block that was just allocated and will be filled is among both.
    fn is_due(&mut self, promised: i64, taken: i64, in_use: i64) -> bool {
        let beside = taken - in_use;
        self.beside = self.beside.min(beside);
        let is_over = taken >= self.others + promised + BEYOND && beside >= self.beside + STEP;
        promised != self.promised || is_over
    }

    /// Whether each block is to be returned as it is freed in such a process: it takes all that it may.
    fn is_short(&self, promised: i64, taken: i64, in_use: i64) -> bool {
        let beside = taken - in_use;
        let has_holes = beside >= self.others + holes(promised) / 2 || beside >= self.beside + SHORT_STEP;
        has_holes && taken >= self.others + promised + SHORT_BEYOND
    }

    /// Notes what the process takes once free memory was returned.
    fn returned(&mut self, promised: i64, taken: i64, in_use: i64) {
        let beside = taken - in_use;
        let holes = if self.promised > 0 { holes(promised) } else { 0 };
        let others = self.others.clamp(beside - holes, beside);
        *self = Books { promised, others, beside };
    }
}

/// The most that holes between the blocks of loaders take.
fn holes(promised: i64) -> i64 {
    promised / HOLES + SMALL_HOLES
}

/// Counts a block that was allocated, and returns free memory if that is due.
pub(super) fn allocated(bytes: usize) {
    if bytes < COUNTED {
        return;
    }
    let bytes = bytes as u64;
    IN_USE.fetch_add(bytes, Relaxed);
    let before = ALLOCATED.fetch_add(bytes, Relaxed);
    if before / ASK_AFTER != (before + bytes) / ASK_AFTER {
        look(bytes);
    }
}

/// Counts a block that is freed.
pub(super) fn freed(bytes: usize) {
    if bytes >= COUNTED {
        IN_USE.fetch_sub(bytes as u64, Relaxed);
    }
}

/// Returns the memory of a block that is about to be freed, if that is due.
///
/// # Safety
/// It is a block of the allocator, of so many bytes, and nobody uses what is in it any more.
#[allow(unsafe_code)]
pub(super) unsafe fn about_to_free(block: *mut u8, bytes: usize) {
    if bytes >= COUNTED && IS_SHORT.load(Relaxed) {
        // SAFETY: the caller's promise is passed on.
        unsafe { return_pages(block, bytes) }
    }
}

/// Looks at the memory of the process after a block was allocated, within its allocation: what this does
/// allocates nothing that is counted.
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
        // SAFETY: it may be called at any time, by any thread; it returns what is free in the whole process.
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

/// Returns the pages of the system that lie within the block. They are there again, cleared, once they are
/// written to.
///
/// # Safety
/// Nobody uses what is in these bytes any more.
#[allow(unsafe_code)]
unsafe fn return_pages(block: *mut u8, bytes: usize) {
    let page = page();
    let before = block.addr().next_multiple_of(page) - block.addr();
    let within = bytes.saturating_sub(before) / page * page;
    if within > 0 {
        // SAFETY: whole pages within the block lose their contents. Where the system refuses, they stay.
        unsafe { libc::madvise(block.add(before).cast(), within, libc::MADV_DONTNEED) };
    }
}

/// The books, once no other thread returns memory: it would be in vain if all others took more meanwhile. Not
/// for ever, because a process that was forked meanwhile has no such thread.
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

/// The memory of the process, but for pages of files. The file is opened each time, because a forked process
/// has another one.
fn taken() -> Option<i64> {
    let mut text = [0; 128];
    let length = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut pages = std::str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
    let mut next = || pages.next()?.parse::<i64>().ok();
    let (resident, of_files) = (next()?, next()?);
    Some((resident - of_files) * page() as i64)
}

/// The bytes of a page of the system.
#[allow(unsafe_code)]
fn page() -> usize {
    // SAFETY: it may be asked at any time.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // It is always known.
    usize::try_from(page).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    /// Books after the first loader came, with a memory of `promised` MiB, to a process that takes `taken`
    /// MiB, `in_use` of them in counted blocks.
    fn books(promised: i64, taken: i64, in_use: i64) -> Books {
        let mut books = Books { promised: 0, others: 0, beside: 0 };
        assert!(books.is_due(promised * MIB, taken * MIB, in_use * MIB), "another loader is there");
        books.returned(promised * MIB, taken * MIB, in_use * MIB);
        books
    }

    /// Whether memory is returned in such a process, in MiB.
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
        // SAFETY: these bytes lie within the block, and what is in them is not used any more.
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
