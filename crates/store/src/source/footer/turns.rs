//! Limits how many tasks read footers of one store at a time.

use tokio::sync::{Mutex, Semaphore};

use super::limits::{FOOTER_BYTES_AT_ONCE, FOOTERS_AT_ONCE};

/// The limits for tasks that read footers.
pub(in crate::source) struct FooterTurns {
    /// The permits to read and parse large footers, one for each byte.
    pub(super) large: Semaphore,
    /// The locks under which footers are read later, by the files' indices modulo their number, so that two
    /// parts of one file do not read its footer twice.
    pub(super) files: [Mutex<()>; FOOTERS_AT_ONCE],
}

impl Default for FooterTurns {
    fn default() -> Self {
        FooterTurns { large: Semaphore::new(FOOTER_BYTES_AT_ONCE as usize), files: Default::default() }
    }
}
