//! Returns the memory that the allocator keeps as soon as it would make the process exceed what its loaders
//! may take.
//!
//! Free memory is kept because the next batch takes as much. But blocks of other sizes do not fit where those
//! before them were, and so the process takes more and more beside what is in use. How much that is cannot be
//! known from the blocks: the system is asked each time that some more were allocated. What the rest of the
//! process takes, such as a model, is what remains right after all that was free has been returned.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use libmimalloc_sys::mi_collect;

use crate::promise::promised;

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

/// Holes between the blocks of loaders take up to `memory / HOLES`, and some more, which cannot be told from
/// what the rest of the process takes.
const HOLES: i64 = 4;
const SMALL_HOLES: i64 = 32 << 20;

/// Bytes of the counted blocks that are in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// Bytes of all counted blocks that were ever allocated.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
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

    /// Notes what the process takes once free memory was returned.
    fn returned(&mut self, promised: i64, taken: i64, in_use: i64) {
        let beside = taken - in_use;
        let holes = if self.promised > 0 { promised / HOLES + SMALL_HOLES } else { 0 };
        let others = self.others.clamp(beside - holes, beside);
        *self = Books { promised, others, beside };
    }
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

/// Counts a block that was given back.
pub(super) fn freed(bytes: usize) {
    if bytes >= COUNTED {
        IN_USE.fetch_sub(bytes as u64, Relaxed);
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
    let filled = |taken: i64| taken + block as i64;
    if taken().is_some_and(|taken| books.is_due(promised, filled(taken), in_use())) {
        // SAFETY: it may be called at any time, by any thread; it returns what is free in the whole process.
        #[allow(unsafe_code)]
        unsafe {
            mi_collect(true);
        }
        if let Some(taken) = taken() {
            books.returned(promised, taken, in_use());
        }
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
    const PAGE: i64 = 4096;
    let mut text = [0; 128];
    let length = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut pages = std::str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
    let mut next = || pages.next()?.parse::<i64>().ok();
    let (resident, of_files) = (next()?, next()?);
    Some((resident - of_files) * PAGE)
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
    fn a_model_that_is_loaded_meanwhile_is_not_theirs() {
        let mut books = books(64, 50, 10);
        assert!(is_due(&mut books, 64, 2_048, 20));
        books.returned(64 * MIB, 2_048 * MIB, 20 * MIB);
        assert!(!is_due(&mut books, 64, 2_075, 47), "nothing is free");
        assert!(!is_due(&mut books, 64, 2_058, 20), "1,980 MiB are not theirs: the model, but for holes");
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
