//! The allocator of the program and of the wheel, which declare it as theirs. The library leaves the choice
//! to its users.
//!
//! Row groups and batches are large, short-lived and made by many threads: the system's allocator maps their
//! pages, has them cleared and unmaps them once for each.

mod kept;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_long;

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

/// Blocks of so many bytes are the system's, which takes them back at once: kept for the next one, and lying
/// between others, a few of them would take as much memory as all that a loader may have.
const LARGE: usize = 64 << 20;

/// The type that a binary declares as its `#[global_allocator]`: mimalloc, except for large blocks.
#[derive(Debug)]
pub struct Allocator;
/// The value of it.
pub const ALLOCATOR: Allocator = Allocator;

// SAFETY: each block is of the allocator that its size says, and is given back to it, as its layout has the
// size.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on; so below.
        let block =
            unsafe { if layout.size() < LARGE { MiMalloc.alloc(layout) } else { System.alloc(layout) } };
        counted(block, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = unsafe {
            if layout.size() < LARGE { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) }
        };
        counted(block, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe {
            if layout.size() < LARGE {
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
            match (layout.size() < LARGE, size < LARGE) {
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

/// Counts a block, unless there was no memory for it.
fn counted(block: *mut u8, bytes: usize) -> *mut u8 {
    if !block.is_null() {
        kept::allocated(bytes);
    }
    block
}

/// `mi_option_purge_delay` of mimalloc 3, which the crate does not name: the milliseconds after which free
/// memory is returned to the system.
const PURGE_DELAY: mi_option_t = 15;
/// The default of mimalloc, in milliseconds.
const DEFAULT: c_long = 1_000;
/// Batches, windows and changes of epochs take less; memory of a dropped loader is returned after it. Where a
/// loader would take more than it may, free memory is returned before ([`kept`]).
const PATIENCE: c_long = 10_000;

/// Keeps free memory for a while, since the next batch takes as much. `MIMALLOC_PURGE_DELAY` overrides it.
#[allow(unsafe_code)]
pub fn settle() {
    // SAFETY: both take any option's number, and one that is not known is refused; they are called before
    // other threads are started that could change options.
    unsafe {
        if mi_option_get(PURGE_DELAY) == DEFAULT {
            mi_option_set(PURGE_DELAY, PATIENCE);
        }
    }
}
