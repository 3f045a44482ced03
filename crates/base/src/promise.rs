//! The memory that the loaders of this process may take, all together: what an allocator should keep to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More than any machine has, so that no sum overflows.
const MOST: u64 = 1 << 50;

static PROMISED: AtomicU64 = AtomicU64::new(0);

/// The memory of one loader, until it is dropped.
#[derive(Debug)]
pub struct Promise {
    bytes: u64,
}

impl Promise {
    /// Promises `bytes`.
    pub fn new(bytes: u64) -> Self {
        let bytes = bytes.min(MOST);
        PROMISED.fetch_add(bytes, Relaxed);
        Promise { bytes }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.bytes, Relaxed);
    }
}

/// The memory of all loaders of this process; 0 where there are none.
pub fn promised() -> u64 {
    PROMISED.load(Relaxed)
}
