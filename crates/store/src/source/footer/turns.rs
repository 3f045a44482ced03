//! Limits how many tasks read footers of one store at a time.

use tokio::sync::{Mutex, Semaphore};

use super::limits::{FOOTER_BYTES_AT_ONCE, FOOTERS_AT_ONCE};

/// Semaphores and locks for the tasks that read footers of one store.
pub(in crate::source) struct FooterTurns {
    /// The permits for reading and parsing large footers. There is one permit for each byte.
    pub(super) large: Semaphore,
    /// Locks for footers that are read only when a row group needs them. Two tasks that need the same file's
    /// footer take the same lock (the file's index modulo the number of locks), so it is read once.
    pub(super) files: [Mutex<()>; FOOTERS_AT_ONCE],
}

impl Default for FooterTurns {
    fn default() -> Self {
        FooterTurns { large: Semaphore::new(FOOTER_BYTES_AT_ONCE as usize), files: Default::default() }
    }
}
