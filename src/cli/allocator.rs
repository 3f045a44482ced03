//! The allocator of the program and of the wheel, which declare it as theirs. The library leaves the choice to its users.
//!
//! Row groups and batches are large, short-lived and made by many threads: the system's allocator maps their pages, has
//! them cleared and unmaps them once for each.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

/// The type that a binary declares as its `#[global_allocator]`.
pub type Allocator = MiMalloc;
/// The value of it.
pub const ALLOCATOR: Allocator = MiMalloc;

/// `mi_option_purge_delay` of mimalloc 3, which the crate does not name: the milliseconds after which free memory is
/// returned to the system.
const PURGE_DELAY: mi_option_t = 15;
/// The default of mimalloc, in milliseconds.
const DEFAULT: c_long = 1_000;
/// Batches, windows and changes of epochs take less; memory of a dropped loader is returned after it.
const PATIENCE: c_long = 10_000;

/// Keeps free memory for a while, since the next batch takes as much. `MIMALLOC_PURGE_DELAY` overrides it.
#[allow(unsafe_code)]
pub fn settle() {
    // SAFETY: both take any option's number, and one that is not known is refused; they are called before other threads
    // are started that could change options.
    unsafe {
        if mi_option_get(PURGE_DELAY) == DEFAULT {
            mi_option_set(PURGE_DELAY, PATIENCE);
        }
    }
}
