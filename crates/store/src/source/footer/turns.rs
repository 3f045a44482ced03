//! Turns of those who read footers of one store.

use tokio::sync::{Mutex, Semaphore};

use super::limits::{FOOTER_BYTES_AT_ONCE, FOOTERS_AT_ONCE};

/// Who reads footers now.
pub(in crate::source) struct FooterTurns {
    /// Bytes of large footers that may be read.
    pub(super) large: Semaphore,
    /// Files share them by their number, so that two parts of one file do not read its footer twice.
    pub(super) files: [Mutex<()>; FOOTERS_AT_ONCE],
}

impl Default for FooterTurns {
    fn default() -> Self {
        FooterTurns { large: Semaphore::new(FOOTER_BYTES_AT_ONCE as usize), files: Default::default() }
    }
}
