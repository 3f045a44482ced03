//! Adds up the memory budgets of all loaders in this process, for an allocator that keeps within the sum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most bytes that one promise adds: more than any machine has, yet so few that the sum does not
/// overflow.
const MAX_BYTES: u64 = 1 << 50;

static PROMISED: AtomicU64 = AtomicU64::new(0);

/// The memory budget of one loader. It counts in [`promised`] until this value is dropped.
#[derive(Debug)]
pub struct Promise {
    bytes: u64,
}

impl Promise {
    /// Adds `bytes` to the memory that the loaders of this process may take.
    pub fn new(bytes: u64) -> Self {
        let bytes = bytes.min(MAX_BYTES);
        PROMISED.fetch_add(bytes, Relaxed);
        Promise { bytes }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.bytes, Relaxed);
    }
}

/// The memory that all loaders of this process may take, in bytes; 0 if there are no loaders.
pub fn promised() -> u64 {
    PROMISED.load(Relaxed)
}
