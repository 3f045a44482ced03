//! The allocator of the program and of the wheel, which both declare it as their global allocator. The
//! library leaves the choice to its users.
//!
//! Row groups and batches are large and short-lived, and many threads make them. The system's allocator would
//! map, clear and unmap their pages each time.

mod kept;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_long;

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

/// Blocks of at least this many bytes come from the system, which takes them back as soon as they are freed.
/// If mimalloc kept them between other blocks, a few of them would take as much memory as a loader may have
/// in all.
const MIN_SYSTEM_BLOCK_BYTES: usize = 64 << 20;

/// The type that a binary declares as its `#[global_allocator]`: mimalloc, except for large blocks.
#[derive(Debug)]
pub struct Allocator;
/// The value to declare as the global allocator.
pub const ALLOCATOR: Allocator = Allocator;

// SAFETY: the size in the layout decides which allocator is used, and a block is freed with the layout that
// it was allocated with.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on, here and below.
        let block = unsafe {
            if layout.size() < MIN_SYSTEM_BLOCK_BYTES { MiMalloc.alloc(layout) } else { System.alloc(layout) }
        };
        counted(block, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = unsafe {
            if layout.size() < MIN_SYSTEM_BLOCK_BYTES {
                MiMalloc.alloc_zeroed(layout)
            } else {
                System.alloc_zeroed(layout)
            }
        };
        counted(block, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe {
            if layout.size() < MIN_SYSTEM_BLOCK_BYTES {
                kept::about_to_free(block, layout.size());
                MiMalloc.dealloc(block, layout)
            } else {
                System.dealloc(block, layout)
            }
        }
        kept::freed(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let moved = unsafe {
            match (layout.size() < MIN_SYSTEM_BLOCK_BYTES, size < MIN_SYSTEM_BLOCK_BYTES) {
                (true, true) => MiMalloc.realloc(block, layout, size),
                (false, false) => System.realloc(block, layout, size),
                _ => {
                    let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(block, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    return moved;
                }
            }
        };
        if !moved.is_null() {
            kept::freed(layout.size());
        }
        counted(moved, size)
    }
}

/// Counts a block, unless the allocation failed.
fn counted(block: *mut u8, bytes: usize) -> *mut u8 {
    if !block.is_null() {
        kept::allocated(bytes);
    }
    block
}

/// The number of mimalloc 3's option `mi_option_purge_delay`, which the crate does not export. The option is
/// the time in milliseconds after which free memory is returned to the system.
const PURGE_DELAY_OPTION: mi_option_t = 15;
/// The default delay of mimalloc, in milliseconds.
const DEFAULT_PURGE_DELAY_MS: c_long = 1_000;
/// The milliseconds after which this program returns free memory. The delay is longer than a batch, a window
/// or a change of epochs takes, so memory that a running loader needs again is kept, and that of a dropped
/// loader is returned. If a loader would otherwise exceed its memory, [`kept`] returns free memory earlier.
const PURGE_DELAY_MS: c_long = 10_000;

/// Makes mimalloc keep free memory for a while, since the next batch takes as much. The environment variable
/// `MIMALLOC_PURGE_DELAY` overrides the delay.
#[allow(unsafe_code)]
pub fn settle() {
    // SAFETY: both functions take the number of any option and refuse unknown ones; they are called before
    // other threads start, which could change options.
    unsafe {
        if mi_option_get(PURGE_DELAY_OPTION) == DEFAULT_PURGE_DELAY_MS {
            mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS);
        }
    }
}
