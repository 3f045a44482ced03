//! Limits how many files of the local disk stay open, and how many sockets, to a share of what the process
//! may have, for all data sets together.
//!
//! The limit is the present one of the process (`ulimit -n`). The rest is left to other users, such as
//! threads and the program's own files.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Result};
use rustix::process::{Resource, getrlimit};

/// The most files that one data set keeps open. Keeping more would save few opens, and take handles from the
/// rest of the process.
const MAX_FILES_OF_ONE: usize = 64;

/// The process's limit divided by this number is how many files may stay open.
const FILES_DIVISOR: usize = 4;

/// The process's limit divided by this number is how many requests to object stores may run.
const SOCKETS_DIVISOR: usize = 2;

/// The number of handles that a run takes in addition to files that stay open: for reads that are under way,
/// and a few of its caches.
const SPARE_HANDLES: usize = 8;

/// How often opening a file is tried again if the process has no handle left.
const MAX_OPEN_TRIES: usize = 20;
/// How long each try waits for a handle: a read returns its own within milliseconds.
const WAIT: Duration = Duration::from_millis(50);

/// The number of files that are kept open.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// The number of data sets that are read from.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// The number of connected object stores.
static STORES: AtomicUsize = AtomicUsize::new(0);

/// The queue of threads for which no handle is left.
static WAITING: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// A place among the files that the process keeps open.
#[derive(Debug)]
pub(super) struct KeptHandle(());

impl KeptHandle {
    /// A place, if one is free.
    pub(super) fn take() -> Option<Self> {
        let most = most_kept();
        let more = |kept: usize| (kept < most).then_some(kept + 1);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| KeptHandle(()))
    }
}

impl Drop for KeptHandle {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A user of the process's handles, which is registered.
#[derive(Debug)]
pub(super) struct Sharer(&'static AtomicUsize);

impl Sharer {
    /// Registers a data set that is read from: it has a share of the files that stay open.
    pub(super) fn of_files() -> Self {
        Sharer::among(&READERS)
    }

    /// Registers a connected store: it has a share of the sockets.
    pub(super) fn of_sockets() -> Self {
        Sharer::among(&STORES)
    }

    fn among(sharers: &'static AtomicUsize) -> Self {
        sharers.fetch_add(1, Ordering::Relaxed);
        Sharer(sharers)
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of files that each data set that is read from may keep open.
pub(super) fn share() -> usize {
    (most_kept() / READERS.load(Ordering::Relaxed).max(1)).clamp(1, MAX_FILES_OF_ONE)
}

/// The number of requests that each store may have under way, by the process's limit.
pub(super) fn sockets() -> usize {
    limit().map_or(usize::MAX, |limit| sockets_of(limit, STORES.load(Ordering::Relaxed)))
}

fn sockets_of(limit: usize, stores: usize) -> usize {
    (limit / SOCKETS_DIVISOR / stores.max(1)).max(1)
}

/// Opens a file. If the process has no handle left, `give_back` closes files that can be closed, and then
/// this waits for other reads to end.
///
/// # Errors
/// Fails with the errors of the system. If no handle becomes free, the error names the limit.
pub(super) fn open(path: &Path, give_back: impl Fn()) -> Result<File> {
    for attempt in 0..MAX_OPEN_TRIES {
        match File::open(path) {
            Err(error) if is_out_of_handles(&error) => {
                if attempt > 0 {
                    let waiting = WAITING.0.lock().unwrap_or_else(PoisonError::into_inner);
                    drop(WAITING.1.wait_timeout(waiting, WAIT));
                }
                give_back();
            }
            opened => return opened.map_err(|error| error.into_error()),
        }
    }
    Err(none_left())
}

/// Reports that a file was closed.
pub(super) fn closed() {
    WAITING.1.notify_all();
}

/// Checks that the process can open the handles that a run takes in addition to files that stay open.
///
/// # Errors
/// `Io` if it cannot.
pub fn check() -> Result<()> {
    let opened: io::Result<Vec<File>> = (0..SPARE_HANDLES).map(|_| File::open("/dev/null")).collect();
    match opened {
        Err(error) if is_out_of_handles(&error) => Err(none_left()),
        _ => Ok(()),
    }
}

/// The most files that stay open in the whole process.
fn most_kept() -> usize {
    limit().map_or(usize::MAX, |limit| limit / FILES_DIVISOR).max(1)
}

/// The number of files and sockets that this process may have open.
fn limit() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

fn is_out_of_handles(error: &io::Error) -> bool {
    let of_process_or_machine = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    of_process_or_machine.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn none_left() -> Error {
    let most = limit().map_or_else(String::new, |limit| format!(": it may have {limit}"));
    Error::new(ErrorKind::Io, format!("this process cannot open more files{most}")).hint(
        "allow it more with `ulimit -n`, or close some; each data set takes a few beside those that it reads",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_share_the_sockets_of_a_process() {
        assert_eq!(sockets_of(1024, 1), 512);
        assert_eq!(sockets_of(1024, 16), 32);
        assert_eq!(sockets_of(1024, 0), 512, "before the first is counted");
        assert_eq!(sockets_of(64, 100), 1, "each store can be read from");
    }
}
