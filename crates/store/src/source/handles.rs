//! Limits how many local files are kept open, and how many sockets are used, in all data sets together.
//!
//! Both limits are a share of the number of files that the process may have open (`ulimit -n`). The rest of
//! this number is left to threads, to the program's own files and so on.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Result};
use rustix::process::{Resource, getrlimit};

/// The most files that one data set keeps open. More would hardly save work, and would take file handles from
/// the rest of the process.
const MAX_FILES_OF_ONE: usize = 64;

/// The number of files that may be kept open is the process's limit on open files, divided by this number.
const FILES_DIVISOR: usize = 4;

/// The number of requests to object stores at a time is the process's limit on open files, divided by this
/// number.
const SOCKETS_DIVISOR: usize = 2;

/// How many file handles a run needs beside the files that it keeps open: for reads in progress, and for some
/// of its caches.
const SPARE_HANDLES: usize = 8;

/// How often opening a file is tried if the process has no file handle left.
const MAX_OPEN_TRIES: usize = 20;
/// How long a thread waits for a file handle before it tries again. Reads close their files within
/// milliseconds.
const WAIT: Duration = Duration::from_millis(50);

/// The number of files that are kept open at present, in all data sets.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// The number of data sets that are being read.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// The number of object stores that are connected.
static STORES: AtomicUsize = AtomicUsize::new(0);

/// Where threads wait if no file handle is left.
static WAITING: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// The permission to keep one more file open.
#[derive(Debug)]
pub(super) struct KeptHandle(());

impl KeptHandle {
    /// Takes a permission; `None` if the process already keeps open all the files that it may keep open.
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

/// Counts a data set or a store among those that share the process's file handles, until it is dropped.
#[derive(Debug)]
pub(super) struct Sharer(&'static AtomicUsize);

impl Sharer {
    /// Registers a data set that is being read. It gets a share of the files that may be kept open.
    pub(super) fn of_files() -> Self {
        Sharer::among(&READERS)
    }

    /// Registers a connected store. It gets a share of the sockets.
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

/// The number of files that each data set may keep open while it is being read.
pub(super) fn share() -> usize {
    (most_kept() / READERS.load(Ordering::Relaxed).max(1)).clamp(1, MAX_FILES_OF_ONE)
}

/// The number of requests that each store may have in progress, given the process's limit on open files.
pub(super) fn sockets() -> usize {
    limit().map_or(usize::MAX, |limit| sockets_of(limit, STORES.load(Ordering::Relaxed)))
}

fn sockets_of(limit: usize, stores: usize) -> usize {
    (limit / SOCKETS_DIVISOR / stores.max(1)).max(1)
}

/// Opens a file. If the process has no file handle left, calls `give_back`, which closes files that are only
/// kept open, then waits for other reads to finish, and tries again.
///
/// # Errors
/// Fails with the errors of the system. If no file handle becomes free, the error names the limit.
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

/// Wakes the threads that wait for a file handle, because a file was closed.
pub(super) fn closed() {
    WAITING.1.notify_all();
}

/// Checks that the process can open as many files as a run needs beside those that it keeps open.
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

/// The number of files that may be kept open in the whole process.
fn most_kept() -> usize {
    limit().map_or(usize::MAX, |limit| limit / FILES_DIVISOR).max(1)
}

/// How many files and sockets this process may have open; `None` if there is no limit.
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
