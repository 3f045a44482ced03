//! The memory that all loaders of this process may take together, which an allocator should keep to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most bytes that one promise adds: more than any machine has, yet so few that the sum does not
/// overflow.
const MAX_BYTES: u64 = 1 << 50;

static PROMISED: AtomicU64 = AtomicU64::new(0);

/// The memory of one loader, which counts until the value is dropped.
#[derive(Debug)]
pub struct Promise {
    bytes: u64,
}

impl Promise {
    /// Adds `bytes` to the memory that loaders may take.
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
