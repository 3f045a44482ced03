//! Measures how much memory a thread has at a time.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a count of the bytes of each thread.
pub(crate) struct Counting;

// SAFETY: the system's allocator does all the work; the counters are numbers and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(0, layout.size());
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        changed(layout.size(), 0);
        // SAFETY: the block is one of the system's, and the layout is the caller's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The old and the new block may exist at the same time.
        changed(0, size);
        changed(layout.size(), 0);
        // SAFETY: the block is one of the system's, and the layout is the caller's.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `of`. Returns its result, and the most bytes that this thread allocated at a time meanwhile, without
/// those from before.
pub(crate) fn most_bytes<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    MOST.set(before);
    let given = of();
    (given, MOST.get().saturating_sub(before))
}

fn changed(freed: usize, taken: usize) {
    let now = NOW.get().wrapping_add(taken).wrapping_sub(freed);
    NOW.set(now);
    // A block that another thread allocated may be freed here, which would make the count negative.
    if now > MOST.get() && now < usize::MAX / 2 {
        MOST.set(now);
    }
}
