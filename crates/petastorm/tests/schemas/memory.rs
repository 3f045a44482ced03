//! A global allocator that counts, for each thread, the bytes in use and their maximum.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which also counts the bytes that each thread has in use.
pub(crate) struct Counting;

// SAFETY: every call is passed on to the system's allocator, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(0, layout.size());
        // SAFETY: the caller guarantees that the layout is valid.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        changed(layout.size(), 0);
        // SAFETY: the block came from the system's allocator, with the layout that the caller gives.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The new block is counted first, because both may exist while the bytes are copied.
        changed(0, size);
        changed(layout.size(), 0);
        // SAFETY: the block came from the system's allocator, with the layout that the caller gives.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `of`. Returns its result, and the most bytes that this thread had in use at any time meanwhile,
/// beyond those in use before.
pub(crate) fn most_bytes<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    MOST.set(before);
    let given = of();
    (given, MOST.get().saturating_sub(before))
}

fn changed(freed: usize, taken: usize) {
    let now = NOW.get().wrapping_add(taken).wrapping_sub(freed);
    NOW.set(now);
    // A thread that frees blocks of other threads has a negative count, which wraps to a huge number.
    if now > MOST.get() && now < usize::MAX / 2 {
        MOST.set(now);
    }
}
