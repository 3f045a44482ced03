//! Limits the memory that decoding takes, before a pixel is decoded.
//!
//! A header of a few bytes decides how much a decoder allocates: a PNG of 6 MB may become 2 GB. So each
//! decoder computes from the header how much memory an image takes at most, and takes that much from a
//! workspace that all threads of a loader share. An image that needs more than the whole workspace is
//! refused. A thread waits if too little is free, but not for long: the threads that hold the memory are
//! decoding, and wait for nothing.
//!
//! Each thread also has some memory of its own. An image that fits into it, as nearly all images do, takes
//! nothing from the shared workspace.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, ErrorKind, Result};

/// A loader's memory budget divided by this number is the memory that images may take while they are decoded.
const MEMORY_DIVISOR: u64 = 4;

/// The smallest workspace in bytes: enough for a photograph of 12 megapixels, decoded as a whole.
const MIN_BYTES: u64 = 48 << 20;

/// The memory that the threads have of their own, beside the workspace, is in total the workspace divided by
/// this number.
const OWN_DIVISOR: u64 = 4;

/// The most bytes that a thread has of its own. A 12-megapixel photograph, decoded as a whole, takes 36 MB,
/// and the thread should keep these pages for the next row; but it should not keep the half gigabyte of a
/// 178-megapixel one.
const MAX_OWN_BYTES: u64 = 64 << 20;

/// The number of bytes for each allowed pixel, if there is no loader with a memory budget. It is enough for
/// two copies of 16-bit RGBA.
const BYTES_PER_PIXEL: u64 = 16;

/// The memory that images may take while they are decoded.
#[derive(Debug)]
pub struct Workspace {
    /// The number of bytes that all threads share.
    bytes: u64,
    /// The number of bytes that each thread has of its own, beside the shared ones.
    own: u64,
    /// The loader's memory budget in bytes, of which the workspace is a part; `None` without a loader.
    memory: Option<u64>,
    free: Mutex<u64>,
    returned: Condvar,
    /// A lock that a waiting thread holds. Others queue behind it, so that small images cannot overtake a
    /// large one for ever.
    turn: Mutex<()>,
}

/// Bytes taken from a workspace, which returns them when it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Taken<'a> {
    workspace: &'a Workspace,
    bytes: u64,
}

/// The number of bytes that each of `threads` threads has of its own, beside a shared workspace of `bytes`.
fn own_bytes(bytes: u64, threads: usize) -> u64 {
    (bytes / OWN_DIVISOR / threads.max(1) as u64).min(MAX_OWN_BYTES)
}

impl Workspace {
    /// The workspace of a loader with a budget of `memory` bytes and this many decoding threads.
    pub fn of_loader(memory: u64, threads: usize) -> Self {
        let bytes = (memory / MEMORY_DIVISOR).max(MIN_BYTES);
        Workspace::new(bytes, own_bytes(bytes, threads), Some(memory))
    }

    /// The workspace of a caller that decodes one image of at most `max_pixels`.
    pub(super) fn of_one(max_pixels: u64) -> Self {
        Workspace::of_images(max_pixels, 1)
    }

    /// The workspace of a caller without a memory budget, for images of at most `max_pixels` on this many
    /// threads. It is only as large as one such image needs, so the largest images are decoded one at a time.
    pub(super) fn of_images(max_pixels: u64, threads: usize) -> Self {
        let bytes = max_pixels.saturating_mul(BYTES_PER_PIXEL).max(MIN_BYTES);
        Workspace::new(bytes, own_bytes(bytes, threads), None)
    }

    fn new(bytes: u64, own: u64, memory: Option<u64>) -> Self {
        Workspace {
            bytes,
            own,
            memory,
            free: Mutex::new(bytes),
            returned: Condvar::new(),
            turn: Mutex::new(()),
        }
    }

    /// The number of bytes of a loader's `memory` budget that row groups and batches must leave to decoding.
    /// The minimum workspace is not part of the budget: it counts as memory that the process needs in
    /// addition.
    pub fn set_aside(memory: u64) -> u64 {
        (memory / MEMORY_DIVISOR).saturating_sub(MIN_BYTES)
    }

    /// The number of bytes of buffers that a thread may keep from one image to the next.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    /// Fails if `bytes` is more than the whole workspace. `what` names the image in the error.
    pub(super) fn check(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<()> {
        if bytes > self.bytes { Err(self.refused(bytes, &what())) } else { Ok(()) }
    }

    /// Takes `bytes` from the workspace, and waits until they are free. Returns `None` if the thread's own
    /// memory is enough. `what` names the image in an error.
    ///
    /// # Errors
    /// Fails if `bytes` is more than the whole workspace.
    pub(super) fn take(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<Option<Taken<'_>>> {
        self.check(bytes, what)?;
        if bytes <= self.own {
            return Ok(None);
        }
        let _turn = lock(&self.turn);
        let mut free = lock(&self.free);
        while *free < bytes {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Ok(Some(Taken { workspace: self, bytes }))
    }

    fn refused(&self, bytes: u64, what: &str) -> Error {
        let (needed, limit) = (mib(bytes), mib(self.bytes));
        match self.memory {
            Some(memory) => {
                let of = mib(memory);
                let enough = mib(bytes.saturating_mul(MEMORY_DIVISOR));
                Error::new(
                    ErrorKind::TooLarge,
                    format!("decoding {what} takes {needed}, over the {limit} that images may take of a memory of {of}"),
                )
                .hint(format!("raise `memory` to {enough}, or store a smaller image"))
            }
            None => Error::new(
                ErrorKind::TooLarge,
                format!("decoding {what} takes {needed}, over the limit of {limit}"),
            )
            .hint("raise max_pixels if such images are expected"),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.workspace.free) += self.bytes;
        self.workspace.returned.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a number of bytes as MiB, rounded up, so that a user who copies it into an option gives enough.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn what() -> String {
        "a PNG".into()
    }

    #[test]
    fn a_quarter_of_the_memory_is_for_images_and_never_less_than_one_photograph_takes() {
        for (memory, bytes) in [(64 * MIB, 48 * MIB), (192 * MIB, 48 * MIB), (4096 * MIB, 1024 * MIB)] {
            assert_eq!(Workspace::of_loader(memory, 2).bytes, bytes);
            assert_eq!(Workspace::set_aside(memory), bytes - 48 * MIB);
        }
    }

    #[test]
    fn what_is_more_than_the_whole_is_refused_with_both_numbers_and_the_next_move() {
        let error = Workspace::of_loader(64 * MIB, 1).take(100 * MIB, what).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(
            error.to_string(),
            "decoding a PNG takes 100 MiB, over the 48 MiB that images may take of a memory of 64 MiB \
             (raise memory to 400 MiB, or store a smaller image)"
        );
        assert!(Workspace::of_loader(400 * MIB, 1).take(100 * MIB, what).is_ok());
    }

    #[test]
    fn a_small_image_asks_nobody() {
        let workspace = Workspace::of_loader(64 * MIB, 4);
        let _all = workspace.take(48 * MIB, what).unwrap();
        assert!(workspace.take(3 * MIB, what).unwrap().is_none());
    }

    #[test]
    fn threads_never_hold_more_than_there_is_and_all_of_them_get_on() {
        let workspace = Workspace::of_loader(64 * MIB, 8);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (workspace, held, most) = (&workspace, &held, &most);
                scope.spawn(move || {
                    for turn in 0..50 {
                        let bytes = (2 + (thread * 7 + turn * 5) % 47) * MIB;
                        let taken = workspace.take(bytes, what).unwrap().unwrap();
                        most.fetch_max(held.fetch_add(bytes, SeqCst) + bytes, SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(bytes, SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 48 * MIB);
        assert_eq!(*lock(&workspace.free), 48 * MIB);
    }
}
